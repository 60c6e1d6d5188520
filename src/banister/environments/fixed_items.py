"""`FixedItems`: every task has its own short catalogue that never changes, and clicks in return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from banister.contract import Requests
from banister.data import Float
from banister.environments.linked import LinkedEnvironment, arrivals, sigmoid, uneven_traffic
from banister.errors import SettingError


@dataclass(kw_only=True, eq=False)
class FixedItems(LinkedEnvironment):
    """K items per task, drawn once, with `features` normal features and a constant.

    A click has the probability `sigmoid(x'θ_t)`; the `θ_t` share `rank` directions and have a level of their
    own. The policy in place shows the item that is `baseline_rank`-th best for the task, always.

    Args:
        tasks, actions, features, rank: T, K, d − 1, r.
        baseline_rank: how good the item in place is: 1 the best.

    Examples:
        >>> env = FixedItems(tasks=4, actions=3, features=5, baseline_rank=2)
        >>> rng = np.random.default_rng(0)
        >>> env.reset(rng)
        >>> first, second = env.requests(50, rng), env.requests(50, rng)
        >>> np.array_equal(first.actions[first.task == 1][0], second.actions[second.task == 1][0])
        True
    """

    tasks: int = 40
    actions: int = 10
    features: int = 40
    rank: int = 3
    baseline_rank: int = 5
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__init__()
        if not 1 <= self.baseline_rank <= self.actions or not 1 <= self.rank <= min(
            self.features, self.tasks
        ):
            raise SettingError(
                f"baseline_rank={self.baseline_rank} must be from 1 to actions={self.actions}, and "
                f"rank={self.rank} from 1 to the smaller of features={self.features} and tasks={self.tasks}."
            )

    @classmethod
    def example(cls) -> Self:
        """A small instance for the contract tests."""
        return cls(tasks=6, actions=4, features=5, rank=2, baseline_rank=2)

    def reset(self, rng: np.random.Generator) -> None:
        """Draw the truth of a new trial: traffic, catalogues, parameters."""
        self._worth.clear()
        self.traffic: Float = uneven_traffic(self.tasks, rng)
        directions = np.linalg.qr(rng.standard_normal((self.features, self.rank)))[0]
        theta = 0.6 * rng.standard_normal((self.tasks, self.rank)) @ directions.T
        level = -1.7 + 0.3 * rng.standard_normal((self.tasks, 1))
        self._thetas = np.concatenate([theta, level], axis=1)[None]
        items = rng.standard_normal((self.tasks, self.actions, self.features))
        self._items: Float = np.concatenate([items, np.ones((self.tasks, self.actions, 1))], axis=2)
        scores = np.einsum("tkd,td->tk", self._items, self._thetas[0])
        self._baselines = np.argsort(-scores, axis=1)[:, self.baseline_rank - 1]

    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """The requests of `rounds` rounds, the first of which is round number `start`."""
        task, round_ = arrivals(rounds, start, self.traffic, rng)
        unknown = np.full(len(task), np.nan)
        return Requests(task, self._items[task], self._baselines[task], unknown, 0.0, round_)

    def link(self, scores: Float) -> Float:
        """Click probabilities."""
        return sigmoid(scores)

    def reward(self, requests: Requests, expected: Float, noise: Float) -> Float:
        """A click where the uniform number is below its probability."""
        return (noise < expected).astype(np.float64)
