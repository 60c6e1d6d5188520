"""Explore at random, estimate, be greedy: the loop of every rival without a safety rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

import numpy as np

from banister.contract import Choices, Environment, Outcomes, Requests
from banister.data import Float, Int, TaskData
from banister.errors import SettingError
from banister.estimators.base import check_rank
from banister.estimators.rank import scan_ranks
from banister.policies._checks import check_count
from banister.policies._reset import NeedsReset
from banister.safety.evidence import Rows
from banister.safety.reasons import Reason
from banister.solver import Whitening


class GreedyLearner(NeedsReset, ABC):
    """Plays uniformly random actions until its first estimate, then the greedy action of the last one.

    A subclass says how it estimates. By default it refits at the end of each epoch on all rows so far, which
    gives every policy the same rows per task as the paper's; the first epoch is random because these methods
    have no baseline to lean on, and some of them need Gaussian rows.

    Args:
        online: refit every `online` rounds (whenever that many rewards per task have come in) instead of at
            the end of each epoch; random play then ends after the first `online` rounds.
        pool: False to estimate from the rows since the last refit alone, as the paper's Algorithm 1 does.
        labels: also learn from the baseline's expected reward where a request gives it: one more row.
    """

    def __init__(self, *, online: int | None = None, pool: bool = True, labels: bool = False) -> None:
        if online is not None:
            check_count("online", online)
            if not pool:
                raise SettingError(f"online={online} needs pool=True: a few rounds alone determine nothing.")
        self.online, self.pool, self.labels = online, pool, labels

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls()

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        self.n_tasks, self.rng = n_tasks, rng
        self.theta: Float | None = None
        self._rows = Rows()
        self._fresh = 0

    @property
    def block(self) -> int | None:
        """Rounds until the next refit, if every task is asked once a round."""
        if self.online is None:
            return None
        return max(1, -(-(self.online * self.n_tasks - self._fresh) // self.n_tasks))

    def decide(self, requests: Requests) -> Choices:
        """A random action before the first estimate, the greedy one after it."""
        if self.labels:
            self._rows.append(*label_rows(requests))
        if self.theta is None:
            picks = self.rng.integers(requests.actions.shape[1], size=len(requests))
            return Choices.of_index(requests, picks, Reason.EXPLORE)
        return Choices.of_index(requests, requests.scores(self.theta).argmax(axis=1), Reason.GREEDY)

    def learn(self, outcomes: Outcomes) -> None:
        """Keep the rows; refit if enough have come in."""
        if len(outcomes) == 0:
            return
        self._rows.append(outcomes.task, outcomes.features, outcomes.reward)
        self._fresh += len(outcomes)
        if self.online is not None and self._fresh >= self.online * self.n_tasks:
            self._refit()

    def end_epoch(self) -> None:
        """Refit; an epoch without rewards leaves everything as it was."""
        if self._fresh:
            self._refit()

    def _refit(self) -> None:
        task, X, y = self._rows.columns()
        self._estimate(TaskData.from_codes(X, y, task.astype(np.int64), np.arange(self.n_tasks)))
        self._fresh = 0
        if not self.pool:
            self._rows = Rows()

    @abstractmethod
    def _estimate(self, data: TaskData) -> None:
        """Set `theta` (d, T) from the rows; leaving it None keeps the play random."""


def label_rows(requests: Requests) -> tuple[Int, Float, Float]:
    """Tasks, features and expected rewards of the baselines whose reward is known."""
    known = ~np.isnan(requests.baseline_reward)
    reward: Float = requests.baseline_reward[known].astype(float, copy=False)
    return requests.task[known], requests.baseline_features()[known], reward


def rank_for(data: TaskData, rank: int | None, rng: np.random.Generator) -> int:
    """The rank given, checked against the data, or as many directions as stand out, at least 1."""
    if rank is not None:
        return check_rank(rank, data)
    return max(scan_ranks(data, Whitening.of(data), rng=rng).rank, 1)
