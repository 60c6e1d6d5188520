"""Environments whose expected reward is a link of a linear score: `g(x'θ_t)`, as clicks and revenue are.

The linear model of the package is only nearly true here, which is what life is like. Tasks ask at random with
their own traffic; the truth may flip once, or follow seasons.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from banister.contract import Requests
from banister.data import Float, Int
from banister.environments.base import LinearEnvironment
from banister.errors import NotFittedError


class LinkedEnvironment(LinearEnvironment):
    """Scoring through a link; subclasses set `_thetas` (phases, T, d) in `reset` and draw the requests."""

    _thetas: Float | None = None

    @abstractmethod
    def link(self, scores: Float) -> Float:
        """Expected rewards of linear scores."""

    def phase(self, rounds: Int) -> Int:
        """Which of the truths holds in each round; one truth for ever unless a subclass says otherwise."""
        return np.zeros(len(rounds), dtype=np.int64)

    @property
    def theta(self) -> Float:
        """The truth at round 0, shape (d, T), before the link; for scoring only."""
        return self.theta_at(0)

    def theta_at(self, round: int) -> Float:  # noqa: A002
        """The truth at a round, shape (d, T), before the link."""
        if self._thetas is None:
            raise NotFittedError(f"This {type(self).__name__} has no truth yet; call reset(rng) to draw one.")
        theta: Float = self._thetas[self.phase(np.array([round]))[0]].T
        return theta

    def noise(self, requests: Requests, rng: np.random.Generator) -> Float:
        """A uniform number for each request, from which `reward` makes what comes back, shape (m,)."""
        return rng.random(len(requests))

    def _scores(self, requests: Requests) -> Float:
        return self.link(super()._scores(requests))

    def _products(self, features: Float, requests: Requests) -> Float:
        return self.link(super()._products(features, requests))

    def _pieces(self, task: Int, rounds: Int) -> Iterator[tuple[slice, Float]]:
        """As in the base class, cut where the truth changes."""
        phase = self.phase(rounds)
        changes = np.flatnonzero(np.diff(phase)) + 1
        for start, stop in pairwise([0, *changes.tolist(), len(task)]):
            by_task = self.theta_at(int(rounds[start])).T if stop > start else np.empty((0, 0))
            yield slice(start, stop), by_task[task[start:stop]]


def arrivals(rounds: int, start: int, traffic: Float, rng: np.random.Generator) -> tuple[Int, Int]:
    """The task and the round of each row: T rows a round, tasks drawn by their traffic (T,)."""
    n = len(traffic)
    edges = np.cumsum(traffic)
    task = np.searchsorted(edges, rng.random(rounds * n) * edges[-1], side="right")
    return task.astype(np.int64), np.repeat(np.arange(start, start + rounds), n)


def uneven_traffic(tasks: int, rng: np.random.Generator) -> Float:
    """Traffic that falls as `1/√rank` over the tasks, in random order, 1 in sum."""
    weight = rng.permutation(1.0 / np.sqrt(1.0 + np.arange(tasks)))
    share: Float = weight / weight.sum()
    return share


def sigmoid(z: Float) -> Float:
    """The logistic function."""
    value: Float = 1.0 / (1.0 + np.exp(-z))
    return value
