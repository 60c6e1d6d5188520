"""Statistics on result rows for the claims, each with an interval over trials.

A trial's policies shared their requests, so ratios are resampled in pairs: a resample draws trials, not
values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from banister.data import Float
from banister.report.intervals import quantiles, resamples, share_interval
from banister.report.summary import per_trial
from banister.simulation.point import Point

if TYPE_CHECKING:
    import polars as pl


class Estimate(NamedTuple):
    """A statistic, its 95 % interval, how many trials it rests on, and where it was found."""

    value: float
    low: float
    high: float
    trials: int
    where: str = ""


class Evidence:
    """Result rows, looked up by point and policy."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows
        self._found: dict[tuple[str, str], pl.DataFrame] = {
            (str(point), str(policy)): group
            for (point, policy), group in per_trial(rows).group_by("point", "policy", maintain_order=True)
        }

    def table(self, cells: Sequence[tuple[Point, str]], measure: str) -> Float | None:
        """(trials, cells) of a measure over the trials that all cells have; None if there are none."""
        columns = []
        for point, policy in cells:
            group = self._found.get((point.name, policy))
            if group is None:
                return None
            values = group[measure].cast(float).to_list()
            columns.append(dict(zip(group["trial"].to_list(), values, strict=True)))
        trials = sorted(set.intersection(*(set(column) for column in columns)))
        if not trials:
            return None
        return np.array([[column[trial] for column in columns] for trial in trials], dtype=float)

    def ratio(self, point: Point, over: str, under: str, measure: str) -> Estimate | None:
        """Mean of `over` by mean of `under` at a point, on the trials both played."""
        table = self.table([(point, over), (point, under)], measure)
        if table is None or not np.isfinite(table).all() or table[:, 1].mean() == 0:
            return None
        means = _resampled_means(table)
        where = f"{over} at {point.name}"
        return _estimate(_divide(table.mean(axis=0)), _divide(means.T), len(table), where)

    def ratios(
        self, points: Iterable[Point], over: Sequence[str], under: str, measure: str
    ) -> list[Estimate]:
        """The ratio of every policy of `over` at every point that has both."""
        found = (self.ratio(point, name, under, measure) for point in points for name in over)
        return [estimate for estimate in found if estimate is not None]

    def change(self, first: Point, last: Point, policy: str, measure: str) -> Estimate | None:
        """Mean at `last` by mean at `first`, on the trials both have."""
        table = self.table([(last, policy), (first, policy)], measure)
        if table is None:
            return None
        return _estimate(_divide(table.mean(axis=0)), _divide(_resampled_means(table).T), len(table), policy)

    def exponent(
        self, points: Sequence[Point], xs: Sequence[float], policy: str, measure: str
    ) -> Estimate | None:
        """The slope of log mean against log x: 1 is linear, 0 is flat."""
        table = self.table([(point, policy) for point in points], measure)
        if table is None or not (np.isfinite(table).all() and (table.mean(axis=0) > 0).all()):
            return None
        return _exponent(table, np.asarray(xs, dtype=float), policy)

    def growth(self, point: Point, policy: str) -> Estimate | None:
        """The slope of log cumulative regret against log epochs."""
        import polars as pl

        one = self.rows.filter((pl.col("point") == point.name) & (pl.col("policy") == policy))
        if one.is_empty():
            return None
        wide = one.sort("trial", "epoch").pivot(on="epoch", index="trial", values="regret").drop("trial")
        table = np.cumsum(wide.to_numpy(), axis=1)
        return _exponent(table, np.arange(1.0, table.shape[1] + 1), policy)

    def means(self, points: Iterable[Point], policies: Sequence[str], measure: str) -> list[Estimate]:
        """The mean of a measure for every policy at every point that has it."""
        found = []
        for point in points:
            for name in policies:
                table = self.table([(point, name)], measure)
                if table is not None:
                    mean, means = float(table.mean()), _resampled_means(table)[:, 0]
                    found.append(_estimate(mean, means, len(table), f"{name} at {point.name}"))
        return found

    def any_violation(self, points: Iterable[Point], policy: str, measure: str) -> Estimate | None:
        """The share of trials with a violation, over all points, and where they were."""
        hits, trials, places = 0, 0, []
        for point in points:
            table = self.table([(point, policy)], measure)
            if table is not None:
                bad = int((table > 0).sum())
                hits, trials = hits + bad, trials + len(table)
                if bad:
                    places.append(f"{bad}/{len(table)} at {point.name} (mean {table.mean():.3g})")
        if trials == 0:
            return None
        shown = "; ".join(places[:4]) + (f"; and {len(places) - 4} more" if len(places) > 4 else "")
        return Estimate(*share_interval(hits, trials), trials, shown)


def _resampled_means(table: Float) -> Float:
    """(RESAMPLES, columns)."""
    return np.stack([column[resamples(len(table))].mean(axis=1) for column in table.T], axis=1)


def _divide(pair: Float) -> Float:
    ratio: Float = pair[0] / pair[1]
    return ratio


def _exponent(table: Float, xs: Float, where: str) -> Estimate:
    centred = np.log(xs) - np.log(xs).mean()
    weights = centred / np.sum(centred**2)
    value = float(np.log(table.mean(axis=0)) @ weights)
    return _estimate(value, np.log(_resampled_means(table)) @ weights, len(table), where)


def _estimate(value: float | Float, statistics: Float, trials: int, where: str) -> Estimate:
    low, high = quantiles(statistics) if trials > 1 else (float("nan"), float("nan"))
    return Estimate(float(value), low, high, trials, where)
