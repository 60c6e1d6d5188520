"""Two yardsticks: the policy in place, and the best that could be done."""

from __future__ import annotations

from typing import Self

import numpy as np

from banister.contract import Choices, Environment, Outcomes, Requests
from banister.data import Float
from banister.safety.reasons import Reason


class BaselineOnly:
    """Plays the baseline, always: never below the floor, and never better than what is in place.

    Examples:
        >>> from banister import BaselineOnly, Synthetic, simulate
        >>> env = Synthetic(dim=6, rank=1, tasks=5, actions=4, baseline_rank=2)
        >>> int(simulate(env, BaselineOnly(), epochs=1, rounds=10).violations.sum())
        0
    """

    block: int | None = None
    theta: Float | None = None

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls()

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Nothing to forget."""

    def decide(self, requests: Requests) -> Choices:
        """The baseline of each request."""
        return Choices.of_baseline(requests)

    def learn(self, outcomes: Outcomes) -> None:
        """Nothing to learn."""

    def end_epoch(self) -> None:
        """Nothing to estimate."""


class Oracle(BaselineOnly):
    """Plays the truly best action: zero regret. The one policy that is handed the truth.

    Args:
        env: the environment of the trial it will play in.

    Examples:
        >>> from banister import Oracle, Synthetic, simulate
        >>> env = Synthetic(dim=6, rank=1, tasks=5, actions=4, baseline_rank=2)
        >>> bool(abs(simulate(env, Oracle(env), epochs=1, rounds=10).regret.sum()) < 1e-12)
        True
    """

    sees_truth = True

    def __init__(self, env: Environment) -> None:
        self.env = env
        self._last_round = 0

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls(env)

    @property
    def theta(self) -> Float:  # type: ignore[override]
        """The truth as of the last request answered."""
        return self.env.theta_at(self._last_round)

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start at round 0."""
        self._last_round = 0

    def decide(self, requests: Requests) -> Choices:
        """The action with the highest expected reward."""
        self._last_round = int(requests.round.max(initial=self._last_round))
        m, n_actions, _ = requests.actions.shape
        worth = np.empty((m, n_actions))
        for k in range(n_actions):
            every = Choices.of_index(requests, np.full(m, k), Reason.GREEDY)
            worth[:, k] = self.env.expected(requests, every)
        return Choices.of_index(requests, worth.argmax(axis=1), Reason.GREEDY)
