"""`Result`: what a policy did in one trial, epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from banister.data import Float, Int
from banister.extras import STUDY, need
from banister.simulation.metrics import Tally, estimation_error, leading_subspace, subspace_distance

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, kw_only=True)
class Result:
    """One policy's trial. Every array has one entry per epoch; `frame` is the same as a table.

    Attributes:
        policy: the policy's name.
        alpha: the share of the baseline reward that could be risked, against which violations are counted.
        rounds: rounds of each epoch.
        tallies: the epochs' sums.
        seconds: time the policy spent deciding and learning.
        estimates: its estimate of Θ after each epoch, (d, T), or None where it had none.
        truths: Θ at the end of each epoch, (d, T).
        rank: how many directions the tasks truly share.

    Examples:
        >>> import banister as bn
        >>> world = bn.Synthetic(dim=4, tasks=3, rank=1, actions=5)
        >>> result = bn.simulate(world, bn.BaselineOnly(), epochs=2, rounds=10, seed=0)
        >>> result.decisions.tolist(), result.violations.tolist()
        ([30, 30], [0, 0])
    """

    policy: str
    alpha: float
    rounds: Int
    tallies: Sequence[Tally]
    seconds: Float
    estimates: Sequence[Float | None]
    truths: Sequence[Float]
    rank: int

    def _column(self, name: str) -> Any:
        return np.array([getattr(tally, name) for tally in self.tallies])

    @property
    def decisions(self) -> Int:
        """How many decisions were asked for."""
        return self._column("decisions")  # type: ignore[no-any-return]

    @property
    def regret(self) -> Float:
        """Pseudo-regret."""
        return self._column("regret")  # type: ignore[no-any-return]

    @property
    def violations(self) -> Int:
        """Decisions whose expected reward was below the true floor `r_b − α|r_b|`."""
        return self._column("violations")  # type: ignore[no-any-return]

    @property
    def literal_violations(self) -> Int:
        """Decisions below the paper's literal floor `(1−α) r_b`; the baseline is one of them if `r_b < 0`."""
        return self._column("literal_violations")  # type: ignore[no-any-return]

    @property
    def shortfall(self) -> Float:
        """The most by which a decision fell below the true floor, in reward."""
        return self._column("shortfall")  # type: ignore[no-any-return]

    @property
    def relative_shortfall(self) -> Float:
        """The most by which a decision fell below the true floor, as a share of the floor's size."""
        return self._column("relative_shortfall")  # type: ignore[no-any-return]

    @property
    def certified(self) -> Float:
        """Share of decisions that a certificate allowed; NaN in an epoch without decisions."""
        with np.errstate(invalid="ignore"):
            return self._column("certified") / self.decisions  # type: ignore[no-any-return]

    @property
    def cumulative_violations(self) -> Int:
        """Decisions after which their task's total was below `Σ r_b − α|Σ r_b|`, since the trial began."""
        return self._column("cumulative_violations")  # type: ignore[no-any-return]

    @property
    def fleet_violations(self) -> Int:
        """Decisions after which the total of all tasks together was below its floor."""
        return self._column("fleet_violations")  # type: ignore[no-any-return]

    @property
    def tasks_below(self) -> Int:
        """Tasks whose total was below its floor at some time since the trial began."""
        return self._column("tasks_below")  # type: ignore[no-any-return]

    @property
    def tasks_below_now(self) -> Int:
        """Tasks whose total was below its floor at the end of the epoch."""
        return self._column("tasks_below_now")  # type: ignore[no-any-return]

    @property
    def possible(self) -> Float:
        """What the best actions would have earned more than the baselines."""
        return self._column("possible")  # type: ignore[no-any-return]

    @property
    def captured(self) -> Float:
        """Share of what was possible that was earned, from the start to each epoch's end; NaN if none was.

        0 is the policy in place, 1 the best actions; below 0 it earned less than the policy in place.
        """
        regret, possible = np.cumsum(self.regret), np.cumsum(self.possible)
        lost = np.divide(regret, possible, out=np.full(len(regret), np.nan), where=possible > 0)
        captured: Float = 1.0 - lost
        return captured

    @cached_property
    def error(self) -> Float:
        """Err-Θ after each epoch; NaN where there was no estimate."""
        pairs = zip(self.estimates, self.truths, strict=True)
        return np.array(
            [np.nan if guess is None else estimation_error(guess, truth) for guess, truth in pairs]
        )

    @cached_property
    def subspace_distance(self) -> Float:
        """`SD` of the leading r directions of estimate and truth after each epoch, or NaN."""
        return np.array([self._distance(*pair) for pair in zip(self.estimates, self.truths, strict=True)])

    def _distance(self, estimate: Float | None, truth: Float) -> float:
        if estimate is None or not np.isfinite(estimate).all():
            return np.nan
        return subspace_distance(leading_subspace(truth, self.rank), leading_subspace(estimate, self.rank))

    @property
    def frame(self) -> pl.DataFrame:
        """One row per epoch: policy, alpha, epoch (from 1), and every measure."""
        need(STUDY)
        import polars as pl

        epochs = len(self.tallies)
        names = [f.name for f in fields(Tally)]
        return pl.DataFrame(
            {
                "policy": [self.policy] * epochs,
                "alpha": [self.alpha] * epochs,
                "epoch": np.arange(1, epochs + 1),
                "rounds": self.rounds,
                **{name: getattr(self, name) for name in names},
                "captured": self.captured,
                "error": self.error,
                "subspace_distance": self.subspace_distance,
                "seconds": self.seconds,
            }
        )
