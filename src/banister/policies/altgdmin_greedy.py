"""Greedy on the AltGDmin estimate: the paper's policy before it became safe."""

from __future__ import annotations

import numpy as np

from banister.data import Float, TaskData
from banister.estimators.paper import PaperSolver
from banister.policies._card import Card
from banister.policies._checks import check_count
from banister.policies._greedy import GreedyLearner, rank_for
from banister.solver import Passes, Whitening, solve


class AltGDminGreedy(GreedyLearner):
    """Random exploration, `Θ = BW` by AltGDmin, greedy play; no safety.

    Source: Lin, Moothedath and Vaswani, *Fast and sample efficient multi-task representation learning in
    stochastic contextual bandits*, ICML 2024: the unconstrained ancestor of Safe-AltGDmin. Assumes linear
    rewards through a shared representation of known rank.

    What we chose, and why:

    * The default solver minimises the same objective as the source's gradient descent, reliably; a
      `PaperSolver` runs the source's iteration itself, whose step needs Gaussian rows.
    * Refits start from the last basis, as in the source, and pool all rows so far; `pool=False` uses each
      epoch's own, as the source does.

    Args:
        rank: r; None to take as many directions as stand out in the first epoch.
        solver: None for the default solver, or a `PaperSolver`.
        online, pool, labels: when to refit, and on which rows; see `banister.policies._greedy`.

    Examples:
        >>> from banister import AltGDminGreedy, Synthetic, simulate
        >>> env = Synthetic(dim=8, rank=1, tasks=10, actions=5, baseline_rank=3)
        >>> result = simulate(env, AltGDminGreedy(), epochs=2, rounds=15)
        >>> bool(result.regret[1] < 0.1 * result.regret[0])
        True
    """

    card = Card(
        source="Lin, Moothedath & Vaswani 2024",
        rank="given or estimated",
        safe="no",
        refits="end of each epoch, or every `online` rounds",
        cost="T K d; a refit is some 20 passes over the rows",
        use="nothing is at risk and tasks share a representation: it learns most from the same rows",
    )

    def __init__(
        self,
        *,
        rank: int | None = None,
        solver: PaperSolver | None = None,
        online: int | None = None,
        pool: bool = True,
        labels: bool = False,
    ) -> None:
        super().__init__(online=online, pool=pool, labels=labels)
        self.rank = None if rank is None else check_count("rank", rank)
        self.solver = solver

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        super().reset(n_tasks, rng)
        self._basis: Float | None = None

    def _estimate(self, data: TaskData) -> None:
        cold = self._basis is None
        rank = rank_for(data, self.rank, self.rng) if self._basis is None else self._basis.shape[1]
        if self.solver is not None:
            found = self.solver.solve(data, rank, self._basis)
        else:
            passes, whitening = Passes(data, rank), Whitening.of(data)
            found, _ = solve(passes, whitening, warm=self._basis, rng=self.rng, check=cold)
        self._basis, self.theta = found.B, found.B @ found.W
