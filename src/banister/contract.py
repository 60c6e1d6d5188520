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

_ROWS = 2048  # rows scored at once: their gathered parameters then stay in the processor's cache

_ROUNDING = 1e-9  # by which a sum of probabilities may differ from 1


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

    Examples:
        >>> one = Requests(np.array([0]), np.eye(2)[None], np.array([1]), np.array([0.4]))
        >>> len(one), one.dim, one.baseline_features()
        (1, 2, array([[0., 1.]]))
    """

    task: Int
    actions: Float
    baseline: NDArray[Any]
    baseline_reward: Float
    baseline_reward_std: Float | float = 0.0
    round: Int = field(default=None)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        m = len(self.task)
        if self.task.shape != (m,):
            raise ShapeError(f"task must be one index per row; its shape is {self.task.shape}.")
        if self.actions.ndim != 3 or len(self.actions) != m:
            raise ShapeError(f"actions must be (m, K, d) with m={m} rows; its shape is {self.actions.shape}.")
        if self.baseline_reward.shape != (m,):
            raise ShapeError(
                f"baseline_reward must have {m} entries; its shape is {self.baseline_reward.shape}."
            )
        _check_baseline(self.baseline, self.actions)
        object.__setattr__(self, "baseline_reward_std", _check_std(self.baseline_reward_std, m))
        object.__setattr__(self, "round", _check_round(self.round, m))

    def __len__(self) -> int:
        return len(self.task)

    def __getitem__(self, rows: slice | NDArray[Any]) -> Self:
        """The rows named by a slice, a mask or an index array (a slice makes views, not copies)."""
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

    def scores(self, theta: Float) -> Float:
        """`x'θ_t` of every action for parameters (d, T), shape (m, K)."""
        by_task, out = np.ascontiguousarray(theta.T), np.empty(self.actions.shape[:2])
        for start in range(0, len(self), _ROWS):
            rows = slice(start, start + _ROWS)
            np.matmul(self.actions[rows], by_task[self.task[rows]][:, :, None], out=out[rows, :, None])
        return out

    def baseline_features(self) -> Float:
        """The baseline's features, shape (m, d)."""
        if self.baseline.ndim == 2:
            return self.baseline
        chosen: Float = self.actions[np.arange(len(self)), self.baseline]
        return chosen

    def baseline_index(self) -> Int:
        """The baseline's index among the actions, −1 where it was given as a vector."""
        if self.baseline.ndim == 2:
            return np.full(len(self), -1, dtype=np.int64)
        return self.baseline.astype(np.int64, copy=False)


def _check_baseline(baseline: NDArray[Any], actions: Float) -> None:
    m, n_actions, dim = actions.shape
    if baseline.shape not in ((m,), (m, dim)):
        raise ShapeError(
            f"baseline must be {m} action indices or ({m}, {dim}) vectors; its shape is {baseline.shape}."
        )
    if baseline.ndim == 2 or m == 0:
        return
    if baseline.dtype.kind not in "iu":
        raise InputError(
            f"baseline holds {baseline.dtype} values; give whole-number action indices, or (m, d) vectors."
        )
    bad = np.flatnonzero((baseline < 0) | (baseline >= n_actions))
    if len(bad):
        raise InputError(
            f"baseline names action {baseline[bad[0]]} at row {bad[0]}; there are {n_actions} actions, "
            f"numbered from 0 to {n_actions - 1}."
        )


def _check_std(value: Any, m: int) -> Float:
    std = np.asarray(value, dtype=float)
    if std.shape not in ((), (m,)):
        raise ShapeError(f"baseline_reward_std must be one number or {m} of them; its shape is {std.shape}.")
    if not np.all(std >= 0):
        raise InputError("baseline_reward_std must not be negative or NaN; give 0 where the reward is exact.")
    return np.broadcast_to(std, (m,))


def _check_round(value: Int | None, m: int) -> Int:
    if value is None:
        return np.zeros(m, dtype=np.int64)
    if value.shape != (m,):
        raise ShapeError(f"round must have {m} entries; its shape is {value.shape}.")
    if np.any(value[1:] < value[:-1]):
        raise InputError("round decreases; give the rows in the order in which they happen.")
    return value


@dataclass(frozen=True, eq=False)
class Choices:
    """What is played for each request, and why.

    Attributes:
        features: (m, d) what is played.
        index: (m,) the action's index, −1 for a mixture.
        certified: (m,) whether a certificate allowed it.
        lower_bound: (m,) the bound on its expected reward that was compared with the floor, NaN if none.
        floor: (m,) the least an action may be expected to earn, NaN where it is unknown.
        reason: (m,) why, in a short code: the policies of this package give a `safety.reasons.Reason`.
        probabilities: (m, K) with which each action could have been played, where the decision was a draw:
            then it is the draw that a trial judges, `Σ π_a r_a`. None: judged by what is played.

    Examples:
        >>> requests = Requests(np.array([0]), np.eye(2)[None], np.array([1]), np.array([0.4]))
        >>> choices = Choices.of_index(requests, np.array([0]), "greedy")
        >>> choices.features, choices.certified, choices.propensities(2)
        (array([[1., 0.]]), array([False]), array([[1., 0.]]))
    """

    features: Float
    index: Int
    certified: Bool
    lower_bound: Float
    floor: Float
    reason: NDArray[Any]
    probabilities: Float | None = None

    def __post_init__(self) -> None:
        if self.probabilities is not None:
            _check_probabilities(self.probabilities, self.index)

    def __len__(self) -> int:
        return len(self.index)

    def propensities(self, n_actions: int) -> Float:
        """The probability of each listed action, (m, K): the draw's, or 1 for what is played without one.

        A row is 0 throughout where a mixture or an unlisted baseline is played. A policy that samples and
        does not say how (Thompson's) has 1 for what it sampled: nothing to divide a reward by.
        """
        if self.probabilities is not None:
            return self.probabilities
        out = np.zeros((len(self), n_actions))
        listed = np.flatnonzero(self.index >= 0)
        out[listed, self.index[listed]] = 1.0
        return out

    @classmethod
    def of_index(cls, requests: Requests, index: Int, reason: str) -> Choices:
        """Uncertified choices of listed actions, for policies without a certificate."""
        return cls.uncertified(requests.actions[np.arange(len(requests)), index], index, reason)

    @classmethod
    def of_baseline(cls, requests: Requests, reason: str = "baseline") -> Choices:
        """The baseline of each request, given as an index or as a vector."""
        return cls.uncertified(requests.baseline_features(), requests.baseline_index(), reason)

    @classmethod
    def uncertified(cls, features: Float, index: Int, reason: str) -> Choices:
        """Choices that no certificate allowed, all for one reason."""
        m = len(index)
        unknown = np.full(m, np.nan)
        return cls(
            features, index, np.zeros(m, dtype=bool), unknown, unknown, np.full(m, reason, dtype=object)
        )


def _check_probabilities(probabilities: Float, index: Int) -> None:
    m = len(index)
    if probabilities.ndim != 2 or len(probabilities) != m:
        raise ShapeError(f"probabilities must be (m, K) with m={m} rows; its shape is {probabilities.shape}.")
    bad = np.flatnonzero(
        ~(np.abs(probabilities.sum(axis=1) - 1.0) <= _ROUNDING) | (probabilities < 0.0).any(axis=1)
    )
    if len(bad):
        raise InputError(f"probabilities of row {bad[0]} are negative or do not add up to 1.")
    never = np.flatnonzero((index < 0) | (probabilities[np.arange(m), index] <= 0.0))
    if len(never):
        raise InputError(f"row {never[0]} plays action {index[never[0]]}, which its draw gives no chance.")


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What came back: any subset of what was played, in any order.

    Attributes:
        task: (m,) task indices.
        features: (m, d) what was played.
        reward: (m,) what it earned; whole numbers become floats, so that later rewards keep their fractions.
        decision: (m,) the number of the request it answers, counted from 0 in the order of asking; by default
            the outcomes answer the latest requests, in their order.

    Examples:
        >>> Outcomes(np.array([0]), np.array([[1.0, 0.0]]), np.array([1])).reward
        array([1.])
    """

    task: Int
    features: Float
    reward: Float
    decision: Int | None = None

    def __post_init__(self) -> None:
        m = len(self.task)
        object.__setattr__(self, "features", np.asarray(self.features, dtype=float))
        object.__setattr__(self, "reward", np.asarray(self.reward, dtype=float))
        if self.features.ndim != 2 or len(self.features) != m or self.reward.shape != (m,):
            raise ShapeError(
                f"outcomes of {m} tasks need features (m, d) and m rewards; their shapes are "
                f"{self.features.shape} and {self.reward.shape}."
            )

    def __len__(self) -> int:
        return len(self.task)


@runtime_checkable
class Policy(Protocol):
    """What a policy must offer: it gets requests, returns choices and learns from outcomes.

    It never sees the truth of the environment. `block` is how many rounds it wishes to get in one call now
    (None: any number); it must answer correctly if it gets more or fewer. It must learn from any subset of
    the outcomes, also from none. A policy that decides by itself when to refit does so inside `learn`;
    `end_epoch` tells it where the paper's fixed epochs end.

    Every class of `banister.policies` with these methods is found by the contract tests, which build it with
    `example`.

    Examples:
        >>> import banister as bn
        >>> class First(bn.Policy):
        ...     def decide(self, requests):
        ...         return bn.Choices.of_index(requests, np.zeros(len(requests), dtype=int), "first")
        >>> env = bn.Synthetic(dim=8, rank=2, tasks=6, actions=4, baseline_rank=2)
        >>> bn.simulate(env, First(), epochs=1, rounds=10).decisions
        array([60])
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

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests. Only a yardstick that is handed the truth keeps `env`."""


@runtime_checkable
class Environment(Protocol):
    """What an environment must offer: it makes requests, and knows the truth to score choices against.

    Rows come round by round. What `requests` draws must not depend on how many rounds one call asks for: two
    calls for one round each give the same rows as one call for two rounds.
    """

    @property
    def n_tasks(self) -> int:
        """T."""

    @property
    def rank(self) -> int:
        """r: how many directions the tasks share."""

    @property
    def theta(self) -> Float:
        """The truth at round 0, shape (d, T); for scoring only."""

    def theta_at(self, round: int) -> Float:  # noqa: A002
        """The truth at a round, shape (d, T); another one than at round 0 if the world drifts."""

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

    def reward(self, requests: Requests, expected: Float, noise: Float) -> Float:
        """What comes back for expected rewards (m,) under that noise (m,), shape (m,)."""

    @classmethod
    def example(cls) -> Self:
        """A small instance for the contract tests."""
