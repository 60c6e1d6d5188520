"""A running, cautious guess at `‖θ_t‖` from baseline rewards, for policies that are not told a bound.

A known baseline reward is a linear equation in θ: `x_b'θ = r_b`. A ridge regression on them, one per task,
gives what they determine, `θ̂`, and in how many directions, `k = d − λ tr (G + λI)⁻¹`. What they do not
determine is judged by what they do: if θ has no preferred direction, the d − k other directions hold
`(d − k)/k` times as much; where the rewards have errors and k is small, `(d − k) E r²/‖x‖²` if that is less.
Two things may make the determined part look small, and the rest is taken larger for each:

* of K actions the baseline may be the one of middling reward, whose features lean away from θ: of K Gaussian
  actions the median's reward has at least `π / (2K + π − 2)` of the variance (0.149 for K = 10);
* few squares may come out low by chance: their sum is taken at the χ² quantile of δ over the tasks.

Both matter only while k < d: once the baselines determine θ, the guess is its norm. It is an estimate, not a
bound that the data prove.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv

from banister.contract import Requests
from banister.data import Float, Int
from banister.safety.evidence import Rows

_ENOUGH = 2  # times d rows of a task: more would hardly move the guess
_AGAIN = 2  # a guess is renewed when a task's rows have doubled
_EXACT = 1e-4  # share of the rewards' size below which no error of theirs is believed
_LEAST_SIGNAL = 0.01  # share of the rewards' mean square that is taken for θ's at least, whatever the errors
_MARGIN = 1.01  # a ridge estimate is a little short of what it estimates


class NormGuess:
    """Guesses at `‖θ_t‖` from the baseline rewards seen so far; infinite where there are none.

    Args:
        n_tasks: T.
        delta: the probability with which one of the tasks' sums of squares may come out too low.
    """

    def __init__(self, n_tasks: int, *, delta: float) -> None:
        self.n_tasks, self.delta = n_tasks, delta
        self._rows = [Rows() for _ in range(n_tasks)]
        self._counts: Int = np.zeros(n_tasks, dtype=np.int64)
        self._guessed: Int = np.zeros(n_tasks, dtype=np.int64)
        self._guess: Float = np.full(n_tasks, np.inf)
        self._share = 1.0  # of the variance that the median action keeps

    def see(self, requests: Requests, task: Int | None = None) -> None:
        """Take in requests; `task` (m,) where tasks are grouped otherwise than the requests say."""
        task = requests.task if task is None else task
        n_actions, dim = requests.actions.shape[1:]
        self._share = min(self._share, np.pi / (2 * n_actions + np.pi - 2))
        std = np.asarray(requests.baseline_reward_std)
        wanted = ~np.isnan(requests.baseline_reward) & (self._counts[task] < _ENOUGH * dim)
        rows = np.flatnonzero(wanted)
        rows = rows[np.argsort(task[rows], kind="stable")]
        features = requests.baseline_features()
        for mine in np.split(rows, np.flatnonzero(np.diff(task[rows])) + 1):
            if len(mine):
                t = int(task[mine[0]])
                self._rows[t].append(features[mine], requests.baseline_reward[mine], std[mine])
                self._counts[t] += len(mine)

    def bound(self) -> Float:
        """(T,)."""
        for t in np.flatnonzero(self._counts >= np.maximum(_AGAIN * self._guessed, 1)):
            self._guess[t], self._guessed[t] = self._renewed(*self._rows[t].columns()), self._counts[t]
        return self._guess.copy()

    def _renewed(self, X: Float, r: Float, std: Float) -> float:
        dim = X.shape[1]
        noise = np.mean(std**2) * self._low(len(r)) / len(r)  # chance may have made the errors small
        signal = max(np.mean(r**2) - noise, _LEAST_SIGNAL * np.mean(r**2))
        if not signal > 0.0:  # rewards of exactly zero tell nothing
            return float("inf")
        spread = signal / np.mean(np.sum(X**2, axis=1))  # of θ in a direction, by the rewards' mean square
        scale = np.sqrt(spread / (std**2 + _EXACT**2 * signal))  # the ridge's penalty is then 1
        size, known = _ridge(X * scale[:, None], r * scale)
        unknown = size**2 / self._low(known)
        if std.any():  # rewards with errors determine little: their mean square says more
            distinct = len(np.unique(X, axis=0))
            unknown = min(unknown, spread * distinct / self._low(distinct))
        return float(_MARGIN * np.sqrt(size**2 + (dim - known) * unknown / self._share))

    def _low(self, count: float) -> float:
        """The χ² quantile that so many squares fall below with probability δ/T."""
        low = 2.0 * gammaincinv(max(count, 1e-3) / 2.0, self.delta / self.n_tasks)
        return float(max(low, np.finfo(float).tiny))


def _ridge(X: Float, r: Float) -> tuple[float, float]:
    """`‖θ̂‖` and `k` of the ridge regression with λ = 1, through the smaller of the two Gram matrices."""
    n, dim = X.shape
    small = X @ X.T if n <= dim else X.T @ X
    inverse = np.linalg.inv(small + np.eye(len(small)))
    theta = X.T @ (inverse @ r) if n <= dim else inverse @ (X.T @ r)
    return float(np.linalg.norm(theta)), float(len(small) - np.trace(inverse))
