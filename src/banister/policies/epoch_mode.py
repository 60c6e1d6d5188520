"""The paper's schedule: conservative exploration in epoch 1, then the greedy action of the last estimate."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from banister.contract import Choices, Outcomes, Requests
from banister.data import Float, TaskData
from banister.safety.constraint import Constraint
from banister.safety.evidence import Rows
from banister.safety.exploration import ConservativeMixture
from banister.safety.reasons import Reason


class EpochFit(Protocol):
    """How an epoch's rows become an estimate."""

    every: int | None  # rounds between estimates; None: at the end of each epoch
    pool: bool  # whether an estimate uses all rows so far, or those since the last one

    def estimate(self, data: TaskData, rho: float) -> Float:
        """Θ̂ (d, T) of the rows; `rho` is the largest ρ played so far."""


class EpochMode:
    """Algorithm 1's way of playing (lines 3 to 12); how it estimates (lines 13 to 29) is `fit`'s.

    Safety rests on Lemma l8 (epoch 1) and on the estimate being good enough (Theorem l9); nothing is checked.
    """

    def __init__(
        self,
        constraint: Constraint,
        mixture: ConservativeMixture,
        fit: EpochFit,
        n_tasks: int,
        rng: np.random.Generator,
    ) -> None:
        self.constraint, self.mixture, self.fit = constraint, mixture, fit
        self.n_tasks, self.rng = n_tasks, rng
        self.theta: Float | None = None
        self._rho = 0.0
        self._rows, self._fresh = Rows(), 0

    @property
    def block(self) -> int | None:
        """Rounds until the next estimate; None where the trial's epochs decide."""
        if self.fit.every is None:
            return None
        return max(1, -(-(self.fit.every * self.n_tasks - self._fresh) // self.n_tasks))

    def decide(self, requests: Requests) -> Choices:
        """The mixture before the first estimate (line 6), the greedy action after it (line 10)."""
        if self.theta is None:
            self._rho = max(self._rho, self.mixture.largest_rho(requests, self.constraint))
            return self.mixture.choose(requests, self.constraint, self.rng)
        return Choices.of_index(requests, requests.scores(self.theta).argmax(axis=1), Reason.GREEDY)

    def learn(self, outcomes: Outcomes) -> None:
        """Keep the rows; estimate if it is time."""
        if len(outcomes) == 0:
            return
        reward = outcomes.reward.astype(float, copy=False)  # whole numbers may come first
        self._rows.append(outcomes.task, outcomes.features, reward)
        self._fresh += len(outcomes)
        if self.fit.every is not None and self._fresh >= self.fit.every * self.n_tasks:
            self._estimate()

    def end_epoch(self) -> None:
        """Estimate; an epoch without rewards leaves the estimate as it was."""
        if self._fresh:
            self._estimate()

    def _estimate(self) -> None:
        task, X, y = self._rows.columns()
        data = TaskData.from_codes(X, y, task.astype(np.int64), np.arange(self.n_tasks))
        self.theta = self.fit.estimate(data, self._rho)
        self._fresh = 0
        if not self.fit.pool:
            self._rows = Rows()
