"""What passes between an environment (or the real world) and a policy: requests, choices, outcomes.

Rows may come from all tasks in lockstep or from any task at any time; nothing assumes equal counts. Inside,
a task is an integer; labels belong to the application.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, Int
from banister.errors import InputError, ShapeError

Bool = NDArray[np.bool_]

EXPLORE = "explore"
CERTIFIED = "certified"
GREEDY = "greedy"
BASELINE = "baseline"


@dataclass(frozen=True, eq=False)
class Requests:
    """Who asks, and what may be chosen: m rows in the order in which they happen.

    Attributes:
        task: (m,) task indices.
        actions: (m, K, d) features of the actions on offer.
        baseline: (m,) index into the actions, or (m, d) vectors, of the policy in place.
        baseline_reward: (m,) what the baseline is expected to earn; NaN where unknown.
        baseline_reward_std: (m,) standard error of that figure; 0 where it is exact.
        round: (m,) the round each row belongs to, non-decreasing; by default all rows are one round.
    """

    task: Int
    actions: Float
    baseline: NDArray[Any]
    baseline_reward: Float
    baseline_reward_std: Float | float = 0.0
    round: Int = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        m = len(self.task)
        if self.actions.ndim != 3 or len(self.actions) != m:
            raise ShapeError(f"actions must be (m, K, d) with m={m} rows; its shape is {self.actions.shape}.")
        if self.baseline.shape not in ((m,), (m, self.actions.shape[2])):
            raise ShapeError(
                f"baseline must be {m} action indices or ({m}, {self.actions.shape[2]}) vectors; "
                f"its shape is {self.baseline.shape}."
            )
        if self.baseline_reward.shape != (m,):
            raise ShapeError(f"baseline_reward must have {m} entries; its shape is {self.baseline_reward.shape}.")
        std = np.broadcast_to(np.asarray(self.baseline_reward_std, dtype=float), (m,))
        if not np.all(std >= 0):
            raise InputError("baseline_reward_std must not be negative or NaN.")
        object.__setattr__(self, "baseline_reward_std", std)
        if self.round is None:
            object.__setattr__(self, "round", np.zeros(m, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.task)

    def __getitem__(self, rows: Any) -> Self:
        std = np.asarray(self.baseline_reward_std)
        return type(self)(
            self.task[rows],
            self.actions[rows],
            self.baseline[rows],
            self.baseline_reward[rows],
            std[rows],
            self.round[rows],
        )

    @property
    def dim(self) -> int:
        """d."""
        return int(self.actions.shape[2])

    def baseline_features(self) -> Float:
        """The baseline's features, shape (m, d)."""
        if self.baseline.ndim == 2:
            return self.baseline
        return self.actions[np.arange(len(self)), self.baseline]

    def baseline_index(self) -> Int:
        """The baseline's index among the actions, −1 where it was given as a vector."""
        if self.baseline.ndim == 2:
            return np.full(len(self), -1, dtype=np.int64)
        return self.baseline.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class Choices:
    """What is played for each request, and why.

    Attributes:
        features: (m, d) what is played.
        index: (m,) the action's index, −1 for a mixture.
        certified: (m,) whether a certificate allowed it.
        lower_bound: (m,) the bound on its expected reward that was compared with the floor, NaN if none.
        floor: (m,) the least an action may be expected to earn, NaN where it is unknown.
        reason: (m,) short codes: `explore`, `certified`, `greedy`, `fallback:…`.
    """

    features: Float
    index: Int
    certified: Bool
    lower_bound: Float
    floor: Float
    reason: NDArray[Any]

    def __len__(self) -> int:
        return len(self.index)

    @classmethod
    def of_index(cls, requests: Requests, index: Int, reason: str) -> Choices:
        """Uncertified choices of listed actions, for policies without a certificate."""
        m = len(requests)
        return cls(
            requests.actions[np.arange(m), index],
            index,
            np.zeros(m, dtype=bool),
            np.full(m, np.nan),
            np.full(m, np.nan),
            np.full(m, reason, dtype=object),
        )


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What came back: any subset of what was played, in any order."""

    task: Int
    features: Float
    reward: Float

    def __len__(self) -> int:
        return len(self.task)


@runtime_checkable
class Policy(Protocol):
    """Requests in, choices out; learns from outcomes. It never sees the truth.

    `block` is how many rounds it wishes to be asked at once now (None: any number). It must answer correctly
    whatever it is asked. A policy with its own schedule refits inside `learn`; `end_epoch` marks the fixed
    epochs of the paper.
    """

    @property
    def block(self) -> int | None:
        """Rounds the policy wishes to be asked at once now; None for any number."""

    @property
    def theta(self) -> Float | None:
        """The current estimate, shape (d, T), or None before the first; for scoring only."""

    def decide(self, requests: Requests) -> Choices:
        """Choose for each request."""

    def learn(self, outcomes: Outcomes) -> None:
        """Take in what came back."""

    def end_epoch(self) -> None:
        """Mark the end of one of the paper's fixed epochs."""

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Forget everything and start a new trial over `n_tasks` tasks with this source of randomness."""


@runtime_checkable
class Environment(Protocol):
    """Requests, and the truth to score against."""

    @property
    def n_tasks(self) -> int:
        """T."""

    @property
    def theta(self) -> Float:
        """The truth, shape (d, T); for scoring only."""

    def reset(self, rng: np.random.Generator) -> None:
        """Draw the truth of a new trial."""

    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """The requests of `rounds` rounds, the first of which is round number `start`."""

    def expected(self, requests: Requests, choices: Choices) -> Float:
        """The expected reward of what was chosen, shape (m,)."""

    def best(self, requests: Requests) -> Float:
        """The expected reward of the best action on offer, shape (m,)."""

    def baseline(self, requests: Requests) -> Float:
        """The true expected reward of the baseline, shape (m,), however it was reported in the request."""

    def noise(self, requests: Requests, rng: np.random.Generator) -> Float:
        """Reward noise of each request, the same whatever is chosen, shape (m,)."""

    def reward(self, requests: Requests, choices: Choices, noise: Float) -> Float:
        """What comes back: expected reward plus noise, shape (m,)."""
