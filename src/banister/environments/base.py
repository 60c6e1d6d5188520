"""Scoring shared by every environment whose expected reward is linear: `x'θ_t`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from banister.contract import Choices, Requests
from banister.data import Float, Int

_ROWS = 2048  # rows scored at once: their gathered parameters then stay in the processor's cache


class LinearEnvironment(ABC):
    """An environment whose expected rewards are `x'θ_t`; a subclass draws the truth and the requests.

    What the best action and the baseline are worth is computed once for each `Requests` object and kept
    here, not in the request, so that a policy cannot see it.

    Attributes:
        change_points: rounds at which the truth changes; none by default.

    Examples:
        >>> import banister as bn
        >>> class Coin(bn.LinearEnvironment):
        ...     rank, theta = 1, np.array([[0.4], [0.6]])
        ...     def reset(self, rng): ...
        ...     def requests(self, rounds, rng, start=0):
        ...         task, both = np.zeros(rounds, dtype=int), np.tile(np.eye(2), (rounds, 1, 1))
        ...         unknown, round_ = np.full(rounds, np.nan), start + np.arange(rounds)
        ...         return bn.Requests(task, both, task, unknown, 0.0, round_)
        ...     def noise(self, requests, rng):
        ...         return np.zeros(len(requests))
        >>> round(float(bn.simulate(Coin(), bn.BaselineOnly(), epochs=1, rounds=10).regret[0]), 6)
        2.0
    """

    change_points: tuple[int, ...] = ()

    def __init__(self) -> None:
        self._worth: WeakKeyDictionary[Requests, tuple[Float, Float]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what is remembered of requests, which mean nothing in another process."""
        return {name: value for name, value in self.__dict__.items() if name != "_worth"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._worth = WeakKeyDictionary()

    @property
    @abstractmethod
    def rank(self) -> int:
        """r: how many directions the tasks share."""

    @property
    @abstractmethod
    def theta(self) -> Float:
        """The truth at round 0, shape (d, T); for scoring only."""

    @abstractmethod
    def reset(self, rng: np.random.Generator) -> None:
        """Draw the truth of a new trial."""

    @abstractmethod
    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """The requests of `rounds` rounds, the first of which is round number `start`."""

    @abstractmethod
    def noise(self, requests: Requests, rng: np.random.Generator) -> Float:
        """Reward noise of each request, the same whatever is chosen, shape (m,)."""

    def theta_at(self, round: int) -> Float:  # noqa: A002
        """The truth at a round, shape (d, T)."""
        return self.theta

    @property
    def n_tasks(self) -> int:
        """T."""
        return int(self.theta.shape[1])

    def expected(self, requests: Requests, choices: Choices) -> Float:
        """The expected reward of what was chosen, shape (m,)."""
        return self._products(choices.features, requests)

    def best(self, requests: Requests) -> Float:
        """The expected reward of the best action on offer, shape (m,)."""
        return self._worth_of(requests)[0]

    def baseline(self, requests: Requests) -> Float:
        """The true expected reward of the baseline, shape (m,), however it was reported in the request."""
        return self._worth_of(requests)[1]

    def reward(self, requests: Requests, expected: Float, noise: Float) -> Float:
        """What comes back for expected rewards (m,) under that noise (m,), shape (m,)."""
        return expected + noise

    def remember(self, requests: Requests, scores: Float) -> Requests:
        """Keep what the best action and the baseline are worth, given all actions' scores (m, K)."""
        if requests.baseline.ndim == 2:
            baseline = self._products(requests.baseline, requests)
        else:
            baseline = np.take_along_axis(scores, requests.baseline[:, None], axis=1)[:, 0]
        self._worth[requests] = scores.max(axis=1), baseline
        return requests

    def _worth_of(self, requests: Requests) -> tuple[Float, Float]:
        if requests not in self._worth:
            self.remember(requests, self._scores(requests))
        return self._worth[requests]

    def _scores(self, requests: Requests) -> Float:
        scores = np.empty(requests.actions.shape[:2])
        for rows, theta in self._pieces(requests.task, requests.round):
            scores[rows] = action_scores(requests.actions[rows], theta)
        return scores

    def _products(self, features: Float, requests: Requests) -> Float:
        out = np.empty(len(requests))
        for rows, theta in self._pieces(requests.task, requests.round):
            np.einsum("ij,ij->i", features[rows], theta, out=out[rows])
        return out

    def _pieces(self, task: Int, rounds: Int) -> Iterator[tuple[slice, Float]]:
        """Slices of rows under one truth, small enough for the cache, with their parameters (rows, d)."""
        cuts = {0, len(task), *np.searchsorted(rounds, self.change_points).tolist()}
        edges = sorted(cuts | set(range(0, len(task), _ROWS)))
        for start, stop in pairwise(edges):
            by_task = self.theta_at(int(rounds[start])).T
            yield slice(start, stop), by_task[task[start:stop]]


def action_scores(actions: Float, theta: Float) -> Float:
    """`x'θ` for actions (m, K, d) under one parameter vector per row (m, d), shape (m, K)."""
    scores: Float = np.matmul(actions, theta[:, :, None])[:, :, 0]
    return scores
