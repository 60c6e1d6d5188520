"""`compare`: policies on many trials of one environment, in one table with intervals, and drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from banister.contract import Environment, Policy
from banister.data import Whole, plain
from banister.errors import SettingError
from banister.report.intervals import mean_interval, share_interval
from banister.simulation.many import cores, one_thread
from banister.simulation.taking_part import check_environment, named_policies
from banister.simulation.trial import one_trial

if TYPE_CHECKING:
    import polars as pl

_SUMS = ("decisions", "regret", "violations", "certified", "seconds")


def compare(
    env: Environment,
    policies: Mapping[str, Policy] | Sequence[Policy],
    *,
    trials: Whole = 20,
    jobs: Whole = 1,
    epochs: Whole | Sequence[int] = 4,
    rounds: Whole = 50,
    seed: Whole = 0,
    alpha: float | None = None,
    delay: int = 0,
    drop: float = 0.0,
) -> Comparison:
    """Let policies play the same trials: the same truths, the same requests, the same noise.

    Args:
        env: the environment; each trial resets it.
        policies: by name, or in a list (then named after their classes); each trial resets them.
        trials: how many; intervals come from the differences between them.
        jobs: processes; 0 for one per core. The numbers do not depend on it.
        epochs, rounds, alpha, delay, drop: as of `simulate`.
        seed: of everything.

    Examples:
        >>> import banister as bn
        >>> env = bn.Synthetic(dim=8, rank=2, tasks=6, actions=4, baseline_rank=2)
        >>> found = bn.compare(env, [bn.BaselineOnly(), bn.Oracle(env)], trials=3, epochs=2, rounds=5)
        >>> found.frame["policy"].to_list(), found.frame["violations"].to_list()
        (['BaselineOnly', 'Oracle'], [0.0, 0.0])
    """
    check_environment(env)
    named, count, workers = named_policies(policies), plain(trials), plain(jobs)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise SettingError(f"trials={trials!r} must be a whole number, at least 1.")
    options = {"epochs": epochs, "rounds": rounds, "alpha": alpha, "delay": delay, "drop": drop}
    frames = _played(env, named, count, workers, plain(seed), options)
    import polars as pl

    return Comparison(pl.concat(frames), list(named))


def _played(
    env: Environment, named: dict[str, Policy], trials: int, jobs: int, seed: int, options: dict[str, Any]
) -> list[pl.DataFrame]:
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 0:
        raise SettingError(f"jobs={jobs!r} must be a number of processes, or 0 for one per core.")
    with one_thread():
        if (workers := min(jobs or cores(), trials)) == 1:
            return [_trial(env, named, number, seed, options) for number in range(trials)]
        from joblib import Parallel, delayed, parallel_config

        with parallel_config(backend="loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=workers)
            found: list[pl.DataFrame] = pool(
                delayed(_trial)(env, named, number, seed, options) for number in range(trials)
            )
        return found


def _trial(
    env: Environment, named: dict[str, Policy], number: int, seed: int, options: dict[str, Any]
) -> pl.DataFrame:
    """The rows of one trial, one per policy and epoch."""
    import polars as pl

    results = one_trial(env, named, seed=np.random.SeedSequence(seed, spawn_key=(number,)), **options)
    frame: pl.DataFrame = pl.concat([result.frame for result in results.values()])
    return frame.select(pl.lit(number, dtype=pl.Int64).alias("trial"), pl.all())


@dataclass(frozen=True, eq=False)
class Comparison:
    """What policies did over many trials.

    Attributes:
        rows: every measure, one row per trial, policy and epoch.
        policies: their names, in the order given.

    Examples:
        >>> import banister as bn
        >>> world = bn.Synthetic(dim=4, tasks=3, rank=1, actions=5)
        >>> played = bn.compare(world, [bn.BaselineOnly(), bn.Oracle(world)], trials=2, epochs=1, rounds=10)
        >>> played.frame["policy"].to_list(), played.trials.height
        (['BaselineOnly', 'Oracle'], 4)
    """

    rows: pl.DataFrame
    policies: list[str]

    @property
    def trials(self) -> pl.DataFrame:
        """Sums of each trial: one row per policy and trial."""
        import polars as pl

        certified = pl.col("certified") * pl.col("decisions")
        sums = self.rows.with_columns(certified).group_by("policy", "trial", maintain_order=True)
        table: pl.DataFrame = sums.agg(pl.col(*_SUMS).sum(), pl.col("shortfall").max())
        return table.with_columns(pl.col("certified") / pl.col("decisions"))

    @property
    def frame(self) -> pl.DataFrame:
        """One row per policy: means over trials, each with its 95 % interval (`_low`, `_high`).

        `unsafe_trials` is the share of trials with a decision below the floor; its interval says something
        even where no trial had one.
        """
        import polars as pl

        return pl.DataFrame([self._row(name) for name in self.policies])

    def _row(self, name: str) -> dict[str, Any]:
        import polars as pl

        own = self.trials.filter(pl.col("policy") == name)
        row: dict[str, Any] = {"policy": name, "trials": len(own)}
        for measure in ("regret", "violations", "certified", "seconds"):
            _put(row, measure, mean_interval(own[measure].to_numpy()))
        unsafe = int((own["violations"] > 0).sum())
        _put(row, "unsafe_trials", share_interval(unsafe, len(own)))
        row["shortfall"] = own["shortfall"].max()
        return row

    def __str__(self) -> str:
        wide = max(len("policy"), *(len(name) for name in self.policies))
        lines = [f"{'policy':<{wide}}  {'regret':>26}  {'violations':>10}  {'unsafe trials':>16}"]
        for r in self.frame.to_dicts():
            regret = f"{r['regret']:.4g} [{r['regret_low']:.4g}, {r['regret_high']:.4g}]"
            unsafe = f"{r['unsafe_trials']:.0%} [{r['unsafe_trials_low']:.0%}, {r['unsafe_trials_high']:.0%}]"
            lines.append(f"{r['policy']:<{wide}}  {regret:>26}  {r['violations']:>10.4g}  {unsafe:>16}")
        return "\n".join(lines)

    def plot(self, path: Any = None) -> Any:
        """Regret and violations over rounds, mean and 95 % band: a figure, written to `path` if given."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9.0, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, measure in zip(figure.subplots(1, 2), ("regret", "violations"), strict=True):
            for name in self.policies:
                _draw(axes, self._course(name, measure), name)
            axes.set(xlabel="rounds", ylabel=f"{measure}, summed")
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].legend(frameon=False)
        if path is not None:
            figure.savefig(path)
        return figure

    def _course(self, name: str, measure: str) -> tuple[Any, Any]:
        """Rounds (E,) so far, and the measure summed so far in each trial, (trials, E)."""
        import polars as pl

        own = self.rows.filter(pl.col("policy") == name).sort("trial", "epoch")
        count = own["trial"].n_unique()
        values = own[measure].to_numpy().reshape(count, -1).cumsum(axis=1)
        return own["rounds"].to_numpy().reshape(count, -1)[0].cumsum(), values


def _put(row: dict[str, Any], name: str, found: tuple[float, float, float]) -> None:
    row[name], row[f"{name}_low"], row[f"{name}_high"] = found


def _draw(axes: Any, course: tuple[Any, Any], name: str) -> None:
    rounds, values = course
    bands = np.array([mean_interval(column) for column in values.T])
    (line,) = axes.plot(rounds, bands[:, 0], marker="o", markersize=3, label=name)
    axes.fill_between(rounds, bands[:, 1], bands[:, 2], alpha=0.18, color=line.get_color(), linewidth=0)
