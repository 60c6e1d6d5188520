"""A running, cautious guess at `‖θ_t‖` for policies that are asked one round at a time.

The reasoning, and its assumptions, are those of `banister.safety.exploration.estimate_norm_bound`, which
needs many rounds at once; here the same sums grow round by round.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv

from banister.contract import Requests
from banister.data import Float, Int

_SAMPLES = 50  # actions a dimension from which their covariance is taken
_ENOUGH = 200  # baselines a task: more would hardly move the guess


class NormGuess:
    """Bounds on `‖θ_t‖` from the baseline rewards seen so far; infinite where they say nothing.

    Args:
        n_tasks: T.
        delta: the probability with which one of the tasks' mean squares may come out too low.
    """

    def __init__(self, n_tasks: int, *, delta: float) -> None:
        self.n_tasks, self.delta = n_tasks, delta
        self._squares: Float = np.zeros(n_tasks)
        self._count: Int = np.zeros(n_tasks, dtype=np.int64)
        self._seen: set[tuple[int, float]] = set()
        self._actions = 0
        self._sum: Float | None = None
        self._moment: Float | None = None
        self._least = 0.0  # what 50 samples a dimension make of λ_min of the actions' covariance
        self._offered = 0  # K

    def see(self, requests: Requests, task: Int | None = None) -> None:
        """Take in requests; `task` (m,) where tasks are grouped otherwise than the requests say."""
        if len(requests) == 0:
            return
        self._offered = max(self._offered, requests.actions.shape[1])
        self._see_actions(requests.actions)
        self._see_baselines(requests, requests.task if task is None else task)

    def bound(self) -> Float:
        """(T,)."""
        # Of K Gaussian actions an unknown order statistic has at least this share of the variance.
        least = np.pi / (2 * self._offered + np.pi - 2) * self._least
        quantile = 2.0 * gammaincinv(np.maximum(self._count, 1) / 2.0, self.delta / self.n_tasks)
        bound = np.full(self.n_tasks, np.inf)
        known = (self._count > 0) & (least > 0)
        np.divide(self._squares, quantile * least, out=bound, where=known)
        norms: Float = np.sqrt(bound)
        return norms

    def _see_actions(self, actions: Float) -> None:
        dim = actions.shape[2]
        missing = _SAMPLES * dim - self._actions
        if missing <= 0:
            return
        X = actions.reshape(-1, dim)[:missing]
        if self._moment is None:
            self._sum, self._moment = np.zeros(dim), np.zeros((dim, dim))
        self._sum += X.sum(axis=0)
        self._moment += X.T @ X
        self._actions += len(X)
        if self._actions >= 2 * dim:
            mean = self._sum / self._actions
            covariance = (self._moment - self._actions * np.outer(mean, mean)) / (self._actions - 1)
            self._least = max(float(np.linalg.eigvalsh(covariance)[0]), 0.0)

    def _see_baselines(self, requests: Requests, task: Int) -> None:
        """A baseline met twice counts once: a fixed catalogue teaches little, and the guess stays high."""
        rows = np.flatnonzero(~np.isnan(requests.baseline_reward) & (self._count[task] < _ENOUGH))
        keys = zip(task[rows].tolist(), requests.baseline_features()[rows].sum(axis=1).tolist(), strict=True)
        new = {key: row for row, key in zip(rows.tolist(), keys, strict=True) if key not in self._seen}
        self._seen.update(new)
        first = np.fromiter(new.values(), dtype=np.int64, count=len(new))
        self._count += np.bincount(task[first], minlength=self.n_tasks)
        squares = requests.baseline_reward[first] ** 2
        self._squares += np.bincount(task[first], weights=squares, minlength=self.n_tasks)
