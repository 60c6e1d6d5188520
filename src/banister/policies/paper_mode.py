"""Algorithm 1: conservative exploration in epoch 1, then the greedy action of the last epoch's estimate."""

from __future__ import annotations

import numpy as np

from banister.contract import GREEDY, Choices, Outcomes, Requests
from banister.data import Float, TaskData
from banister.estimators.base import check_rank
from banister.estimators.paper import PaperSolver
from banister.estimators.rank import scan_ranks
from banister.safety.constraint import Constraint
from banister.safety.evidence import Rows
from banister.safety.exploration import ConservativeMixture
from banister.solver import Passes, Whitening, solve


class PaperMode:
    """Epoch 1 plays the conservative mixture; each epoch is estimated from its own data, warm-started.

    Safety rests on Lemma l8 (epoch 1) and on the estimate being good enough (Theorem l9); nothing is checked.
    """

    block: int | None = None

    def __init__(
        self,
        constraint: Constraint,
        mixture: ConservativeMixture,
        solver: PaperSolver | None,
        rank: int | None,
        n_tasks: int,
        rng: np.random.Generator,
    ) -> None:
        self.constraint, self.mixture, self.solver, self.rank = constraint, mixture, solver, rank
        self.n_tasks, self.rng = n_tasks, rng
        self.theta: Float | None = None
        self._basis: Float | None = None
        self._rows = Rows()

    def decide(self, requests: Requests) -> Choices:
        """The mixture before the first estimate, the greedy action after it (line "argmax x'θ̂")."""
        if self.theta is None:
            return self.mixture.choose(requests, self.constraint, self.rng)
        return Choices.of_index(requests, requests.scores(self.theta).argmax(axis=1), GREEDY)

    def learn(self, outcomes: Outcomes) -> None:
        """Keep the epoch's rows."""
        if len(outcomes):
            reward = outcomes.reward.astype(float, copy=False)  # whole numbers may come first
            self._rows.append(outcomes.task, outcomes.features, reward)

    def end_epoch(self) -> None:
        """Estimate from this epoch's rows alone; an epoch without rewards leaves the estimate as it was."""
        if self._rows.size == 0:
            return
        task, X, y = self._rows.columns()
        data = TaskData.from_codes(X, y, task.astype(np.int64), np.arange(self.n_tasks))
        self._rows = Rows()
        self._basis, self.theta = self._estimate(data)

    def _estimate(self, data: TaskData) -> tuple[Float, Float]:
        whitening = Whitening.of(data)
        if self.rank is None:
            self.rank = max(scan_ranks(data, whitening, rng=self.rng).rank, 1)
        check_rank(self.rank, data)
        if self.solver is not None:
            solution = self.solver.solve(data, self.rank, self._basis)
        else:
            # Algorithm 1 starts each epoch at the last basis; the first has the spectral starts, checked.
            solution, _ = solve(
                Passes(data, self.rank), whitening, warm=self._basis, rng=self.rng, check=self._basis is None
            )
        return solution.B, solution.B @ solution.W
