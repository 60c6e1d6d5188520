"""`from_logs`: a log of the policy in place becomes an environment, so that policies can be tried on it.

A log knows what was earned by what was played, and nothing of the rest. The environment fills the rest in by
a model of the log: its requests are logged contexts, drawn at random task by task; what an action is expected
to earn is the model's estimate; what comes back is that and noise as the log shows it. It is a world that
looks like yours, not a measurement of what a policy would have earned: for that see off-policy estimates.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from banister.contract import Requests
from banister.data import Float, Int, TaskData, as_vector
from banister.environments.base import LinearEnvironment
from banister.errors import DataWarning, InputError
from banister.estimators.base import MultiTaskRegressor
from banister.estimators.ridge import TaskRidge
from banister.features.arms import Arms
from banister.features.base import Features
from banister.features.baseline import baselines
from banister.features.frames import column, read_frame
from banister.features.numeric import to_numbers


def from_logs(
    logs: Any,
    *,
    features: Features,
    task: str = "task",
    arm: str = "arm",
    reward: str = "reward",
    baseline: str | int | Callable[[Any], Any] | None = None,
    baseline_known: bool = False,
    model: MultiTaskRegressor | None = None,
) -> Replay:
    """An environment made from a log: its requests are logged contexts, its rewards a model of the log.

    Args:
        logs: see `read_frame`.
        features: `Arms` or `Items`; they learn from the log if they have not learned yet.
        task, arm, reward: names of columns.
        baseline: what the policy in place plays: an arm, an index, a function of the row, or a column. None:
            what was played.
        baseline_known: whether requests say what the baseline is expected to earn.
        model: what says what actions are worth; fitted to the log. By default each task alone, so that the
            world takes no side between policies that share and policies that do not.

    Examples:
        >>> log = {"task": ["a", "b"] * 20, "arm": ["x", "x", "y", "y"] * 10, "reward": [1.0, 2.0] * 20}
        >>> env = from_logs(log, features=Arms(["x", "y"]), baseline="x")
        >>> env.n_tasks, env.requests(3, np.random.default_rng(0)).actions.shape
        (2, (6, 2, 3))
    """
    frame = read_frame(logs)
    if not features.learned:
        features.learn(frame)
    played = features.played(frame, arm)
    rewards = as_vector(to_numbers(column(frame, reward, "reward"), 0), f"column {reward!r}")
    _note_unplayed(features, played)
    data = TaskData.from_rows(features.rows(frame, arm), rewards, column(frame, task, "task").to_list())
    fitted = (model or TaskRidge()).fit_data(data)
    usual = played if baseline is None else baselines(baseline, features, frame)
    order = np.argsort(data.index(frame[task].to_list()), kind="stable")
    theta = fitted.theta_ + np.outer(features.constant, getattr(fitted, "intercept_", np.zeros(data.n_tasks)))
    return Replay(features, frame[order], usual[order], data, theta, known=baseline_known)


def _note_unplayed(features: Features, played: Int) -> None:
    never = [name for i, name in enumerate(features.names) if not (played == i).any()]
    if never:
        warnings.warn(
            f"The log never played {', '.join(never[:5])}: what they are worth here is a guess.",
            DataWarning,
            stacklevel=3,
        )


class Replay(LinearEnvironment):
    """Requests drawn from a log, valued by a model of it; made by `from_logs`.

    Rewards that are all 0 or 1 in the log are drawn so here, with expected rewards kept within [0, 1]; others
    are the expected reward and a residual of the task's own log rows (of the fit, so a little smaller than
    the true noise where a task has few rows for its features).

    Attributes:
        labels: the tasks' labels.
        features: what made the rows.
    """

    def __init__(
        self, features: Features, frame: Any, baseline: Int, data: TaskData, theta: Float, *, known: bool
    ) -> None:
        super().__init__()
        self.features, self.labels = features, data.labels
        self._frame, self._baseline, self._known = frame, baseline, known
        self._offsets, self._counts, self._theta = data.offsets, data.counts, theta
        self._binary = bool(np.isin(data.y, (0.0, 1.0)).all())
        self._left: Float = data.y - data.fitted(theta)
        if (self._counts == 0).any():
            raise InputError("A task has no rows; every task needs at least one.")

    @classmethod
    def example(cls) -> Self:
        """A small instance for the contract tests."""
        rng = np.random.default_rng(0)
        n = 240
        log = {
            "task": [f"shop-{i % 4}" for i in range(n)],
            "arm": rng.choice(["a", "b", "c"], n),
            "age": rng.normal(size=n),
        }
        level = np.where(log["arm"] == "a", 1.0, 1.0 + 0.5 * np.asarray(log["age"]))
        arms = Arms(["a", "b", "c"], numeric=["age"])
        made = from_logs({**log, "reward": level + 0.1 * rng.normal(size=n)}, features=arms, baseline="a")
        assert isinstance(made, cls)
        return made

    @property
    def theta(self) -> Float:
        """The model's parameters, shape (d, T)."""
        return self._theta

    @property
    def rank(self) -> int:
        """How many directions the model's parameters span."""
        return max(1, int(np.linalg.matrix_rank(self._theta)))

    def reset(self, rng: np.random.Generator) -> None:
        """The truth is the log's; a new trial draws other requests from it."""
        self._worth.clear()

    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """One request of every task a round, each a row of its log drawn at random."""
        drawn = rng.random((rounds, self.n_tasks))
        rows = (self._offsets[:-1] + (drawn * self._counts).astype(np.int64)).ravel()
        task = np.tile(np.arange(self.n_tasks, dtype=np.int64), rounds)
        round_ = np.repeat(np.arange(start, start + rounds, dtype=np.int64), self.n_tasks)
        actions = self.features.tensor(self._frame[rows])
        unknown = Requests(task, actions, self._baseline[rows], np.full(len(task), np.nan), 0.0, round_)
        if not self._known:
            return unknown
        return Requests(task, actions, self._baseline[rows], self.baseline(unknown), 0.0, round_)

    def noise(self, requests: Requests, rng: np.random.Generator) -> Float:
        """A residual of the task's log (m,); for rewards of 0 and 1 a number that decides between them."""
        drawn = rng.random(len(requests))
        if self._binary:
            return drawn
        task = requests.task
        found: Float = self._left[self._offsets[task] + (drawn * self._counts[task]).astype(np.int64)]
        return found

    def reward(self, requests: Requests, expected: Float, noise: Float) -> Float:
        """What comes back for expected rewards (m,) under that noise (m,), shape (m,)."""
        return (noise < expected).astype(float) if self._binary else expected + noise

    def _scores(self, requests: Requests) -> Float:
        return self._possible(super()._scores(requests))

    def _products(self, features: Float, requests: Requests) -> Float:
        return self._possible(super()._products(features, requests))

    def _possible(self, expected: Float) -> Float:
        return np.clip(expected, 0.0, 1.0) if self._binary else expected
