"""What a certificate is made from: rewards of what was played, and the baseline rewards that were known.

A known baseline reward is a label like any other, and often a far better one than a noisy reward: the row
(x_b, r_b) with standard error s_b. Both kinds go into one fit, each weighted by its own noise. The reward of
a baseline that was played tells of the very label it came with, so the two become one row: counted twice,
one misfit would pass for two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.contract import Bool, Outcomes, Requests
from banister.data import Float, Int

_CHUNK = 8192
_SAMPLE = 2048  # offered actions remembered, for calibration


class Rows:
    """Columns of equal length that grow by appending; capacity doubles, so appending is cheap."""

    def __init__(self) -> None:
        self._columns: list[NDArray[Any]] = []
        self.size = 0

    def append(self, *columns: NDArray[Any]) -> None:
        """Add rows; the first call fixes the columns' types and widths."""
        more = len(columns[0])
        if not self._columns:
            self._columns = [np.empty((max(more, 64), *c.shape[1:]), dtype=c.dtype) for c in columns]
        needed = self.size + more
        if needed > len(self._columns[0]):
            self._columns = [_grown(c, max(needed, 2 * len(c))) for c in self._columns]
        for own, new in zip(self._columns, columns, strict=True):
            own[self.size : needed] = new
        self.size = needed

    def columns(self) -> list[NDArray[Any]]:
        """Views of the rows so far."""
        return [c[: self.size] for c in self._columns]


def _grown(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    larger = np.empty((capacity, *column.shape[1:]), dtype=column.dtype)
    larger[: len(column)] = column
    return larger


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows of one kind: what was played and earned, or baselines and their rewards.

    Attributes:
        task: (n,) task indices.
        X: (n, d).
        y: (n,) rewards or baseline rewards.
        std: (n,) how well `y` is said to be known; 0 for rewards, whose noise is estimated.
        key: (n,) equal for equal task and features.
    """

    task: Int
    X: Float
    y: Float
    std: Float
    key: Int

    def __len__(self) -> int:
        return len(self.y)

    def rows(self, which: Bool) -> Observations:
        """Those rows."""
        return Observations(self.task[which], self.X[which], self.y[which], self.std[which], self.key[which])

    def errors(self, theta: Float) -> Float:
        """y − x'θ_t for parameters (d, T), shape (n,)."""
        by_task, out = np.ascontiguousarray(theta.T), np.empty(len(self))
        for start in range(0, len(self), _CHUNK):
            rows = slice(start, start + _CHUNK)
            out[rows] = self.y[rows] - np.einsum("nd,nd->n", self.X[rows], by_task[self.task[rows]])
        return out


_ODD = np.int64(-7046029254386353131)  # 2**64 / φ, odd: spreads the bits


def row_keys(task: Int, X: Float) -> Int:
    """Integers that are equal for equal task and features, and differ otherwise but for the odd accident."""
    bits = (np.ascontiguousarray(X, dtype=float) + 0.0).view(np.int64)  # −0.0 is 0.0
    # Numbers such as 1 and 2 differ in few, high bits, which products only carry upwards: spread them first.
    bits ^= bits >> 32
    bits *= _ODD
    bits ^= bits >> 32
    mixers = np.cumprod(np.full(X.shape[1], _ODD))
    keys: Int = bits @ mixers + task * _ODD
    return keys


class Evidence:
    """All rows seen so far, in the order in which they came."""

    def __init__(self, *, labels: bool = True) -> None:
        self.use_labels = labels
        self._plays, self._labels = Rows(), Rows()
        self._offered: tuple[Int, Float] | None = None

    def see(self, requests: Requests) -> None:
        """Take in requests: known baseline rewards are labels, and some actions are kept for calibration."""
        if len(requests) == 0:
            return
        known = ~np.isnan(requests.baseline_reward)
        if self.use_labels and known.any():
            task, X = requests.task[known], requests.baseline_features()[known]
            std = np.asarray(requests.baseline_reward_std)[known]
            reward = requests.baseline_reward[known].astype(float, copy=False)
            self._labels.append(task, X, reward, std, row_keys(task, X))
        self._remember(requests)

    def learn(self, outcomes: Outcomes) -> None:
        """Take in rewards."""
        if len(outcomes):
            task, X = outcomes.task, outcomes.features
            y = outcomes.reward.astype(float, copy=False)  # whole numbers first must not round later rewards
            self._plays.append(task, X, y, np.zeros(len(y)), row_keys(task, X))

    @property
    def n_plays(self) -> int:
        """Rewards so far."""
        return self._plays.size

    def plays(self) -> Observations | None:
        """What was played and earned; None before the first reward."""
        return Observations(*self._plays.columns()) if self._plays.size else None

    def labels(self) -> Observations | None:
        """Baselines whose reward was known, each once; None if there were none.

        The same label again (a fixed catalogue) is no new knowledge.
        """
        if self._labels.size == 0:
            return None
        columns = self._labels.columns()
        whole = columns[4] * _ODD + columns[2].view(np.int64)
        first = np.sort(np.unique(whole, return_index=True)[1])
        if len(first) < self._labels.size:
            columns = [c[first] for c in columns]
        return Observations(*columns)

    def offered(self) -> tuple[Int, Float] | None:
        """A sample of recently offered actions: tasks (n,) and features (n, d)."""
        return self._offered

    def _remember(self, requests: Requests) -> None:
        m, n_actions, _ = requests.actions.shape
        rows = np.arange(0, m, max(1, -(-m // _SAMPLE)))
        # Which action of a row is kept turns with the row, so that every position is seen.
        new = requests.task[rows], requests.actions[rows, (rows + m) % n_actions]
        if self._offered is None:
            self._offered = new
            return
        task = np.concatenate([new[0], self._offered[0]])[:_SAMPLE]
        self._offered = task, np.concatenate([new[1], self._offered[1]])[:_SAMPLE]
