"""Statistics on result rows for the claims, each with an interval over trials.

A trial's policies shared their requests, so ratios are compared trial by trial. A statistic over several
points or policies needs the rows of all of them: what was not run is not left out in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from banister.data import Float
from banister.report.intervals import mean_interval, ratio_interval, share_interval, student
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
        """Mean of `over` by mean of `under` at a point, on the trials both played; None if not run."""
        table = self.table([(point, over), (point, under)], measure)
        if table is None:
            return None
        return Estimate(*ratio_interval(*table.T), len(table), f"{over} at {point.name}")

    def ratios(
        self, points: Iterable[Point], over: Sequence[str], under: str, measure: str
    ) -> list[Estimate]:
        """The ratio of every policy of `over` at every point; none at all if one of them was not run."""
        return _complete(self.ratio(point, name, under, measure) for point in points for name in over)

    def change(self, first: Point, last: Point, policy: str, measure: str) -> Estimate | None:
        """Mean at `last` by mean at `first`, on the trials both have."""
        table = self.table([(last, policy), (first, policy)], measure)
        return None if table is None else Estimate(*ratio_interval(*table.T), len(table), policy)

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
        """The mean of a measure for every policy at every point; none at all if one of them was not run."""
        return _complete(self._mean(point, name, measure) for point in points for name in policies)

    def _mean(self, point: Point, policy: str, measure: str) -> Estimate | None:
        table = self.table([(point, policy)], measure)
        where = f"{policy} at {point.name}"
        return None if table is None else Estimate(*mean_interval(table[:, 0]), len(table), where)

    def any_violation(self, points: Iterable[Point], policy: str, measure: str) -> Estimate | None:
        """The share of trials with a violation over all points, where they were, and how large; None if one
        of the points was not run."""
        hits, trials, places = 0, 0, []
        for point in points:
            table = self.table([(point, policy)], measure)
            if table is None:
                return None
            bad = int((table > 0).sum())
            hits, trials = hits + bad, trials + len(table)
            if bad:
                worst = self.table([(point, policy)], "shortfall")
                size = 0.0 if worst is None else 100.0 * float(np.nanmax(worst))
                size_of = f"up to {size:.3g} % of the floor" if measure == "violations" else "size not kept"
                places.append(f"{bad}/{len(table)} at {point.name} (mean {table.mean():.3g}, {size_of})")
        if trials == 0:
            return None
        shown = "; ".join(places[:4]) + (f"; and {len(places) - 4} more" if len(places) > 4 else "")
        return Estimate(*share_interval(hits, trials), trials, shown)


def _complete(found: Iterable[Estimate | None]) -> list[Estimate]:
    every = list(found)
    return [] if None in every else [estimate for estimate in every if estimate is not None]


def _exponent(table: Float, xs: Float, where: str) -> Estimate:
    """The slope of log mean against log x; its standard error by each trial's influence on it."""
    centred = np.log(xs) - np.log(xs).mean()
    weights = centred / np.sum(centred**2)
    means = table.mean(axis=0)
    value = float(np.log(means) @ weights)
    influence = (table / means - 1.0) @ weights
    reach = (
        student(len(table)) * float(influence.std(ddof=1)) / np.sqrt(len(table)) if len(table) > 1 else np.nan
    )
    return Estimate(value, value - reach, value + reach, len(table), where)
