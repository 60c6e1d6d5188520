"""The squared loss of all tasks as a quadratic form: `theta_t -> X_t'X_t theta_t`, batched.

After one pass over the data the loss is `(yy/2 - <h, theta> + <theta, G theta>/2)/N` with `h_t = X_t'y_t`,
and its gradient is `(G theta - h)/N`, so a solver needs `apply` and `nearest` only. A task with `2 n_t >= d`
keeps its Gram matrix (d, d): a product then reads `d²` numbers instead of `n_t d` twice. Other tasks keep
their rows, padded with zeros to one of a few common counts.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, Int, TaskData

_SOME, _TINY = 10, 1e-150
_GROWTH = 1.25  # counts within a quarter of each other share a stack: at most a quarter of it is padding


class QuadraticLoss:
    """`f(theta) = Σ_t ‖y_t − X_t theta_t‖² / (2N)` with `theta` of shape (T, d), a row per task.

    Attributes:
        h: `X_t'y_t`, shape (T, d).
        yy: `Σ y²`.
        n_rows: N.
        traces: `‖X_t‖_F²`, shape (T,).

    Examples:
        >>> loss = QuadraticLoss(TaskData.from_rows([[1.0, 0.0], [0.0, 2.0]], [1, 2], [0, 0]))
        >>> loss.apply(np.array([[1.0, 1.0]])), loss.h
        (array([[1., 4.]]), array([[1., 4.]]))
    """

    def __init__(self, data: TaskData) -> None:
        self._data, self._rho = data, math.nan
        self.n_rows = data.n_rows
        self.shape = (data.n_tasks, data.dim)
        self.yy = float(np.sum(np.square(data.y), dtype=np.float64))
        self.h = np.zeros(self.shape)
        self.traces = np.zeros(data.n_tasks)
        for t, (X, y) in enumerate(data):
            self.h[t] = X.T @ y
            self.traces[t] = np.vdot(X, X)
        gram = 2 * data.counts >= data.dim
        self._grams = _gram_stack(data, np.flatnonzero(gram & (data.counts > 0)))
        self._rows = [_row_stack(data, tasks) for tasks in _alike(data.counts, ~gram)]

    def apply(self, theta: Float) -> Float:
        """`X_t'X_t theta_t` for every task, shape (T, d)."""
        out = np.zeros(self.shape)
        where, grams = self._grams
        out[where] = np.matmul(theta[where][:, None, :], grams)[:, 0]
        for tasks, X in self._rows:
            fitted = np.matmul(X, theta[tasks][:, :, None])
            out[tasks] = np.matmul(fitted.transpose(0, 2, 1), X)[:, 0]
        return out

    def nearest(self, theta: Float, rho: float) -> Float:
        """`argmin_v f(v) + rho/2 ‖v − theta‖²`, shape (T, d); quick while `rho` stays the same.

        That is `theta + (G + N rho)⁻¹ (h − G theta)`; tasks that keep their rows take the same from
        `X_t'(X_tX_t' + N rho)⁻¹ (y_t − X_t theta_t)`, which is smaller.
        """
        if rho != self._rho:
            self._rho = rho
            self._inverse_grams = _inverses(self._grams[1], self.n_rows * rho)
            self._inverse_rows = [_inverses(_outer(X), self.n_rows * rho) for _, X in self._rows]
        out = theta.copy()
        where, grams = self._grams
        uphill = self.h[where][:, None, :] - np.matmul(theta[where][:, None, :], grams)
        out[where] += np.matmul(uphill, self._inverse_grams)[:, 0]
        for (tasks, X), y, inverse in zip(self._rows, self._rewards, self._inverse_rows, strict=True):
            missing = y - np.matmul(X, theta[tasks][:, :, None])[:, :, 0]
            out[tasks] += np.matmul(np.matmul(missing[:, None, :], inverse), X)[:, 0]
        return out

    @cached_property
    def _rewards(self) -> list[Float]:
        """The rewards that go with `_rows`, padded in the same way."""
        found: list[Float] = []
        for tasks, X in self._rows:
            y = np.zeros(X.shape[:2])
            for i, t in enumerate(np.arange(self.shape[0])[tasks]):
                rewards = self._data.rows_of(int(t))[1]
                y[i, : len(rewards)] = rewards
            found.append(y)
        return found

    @property
    def mean_curvature(self) -> float:
        """The mean of the loss's curvatures that rows can make different from zero."""
        ranks = int(np.minimum(self._data.counts, self.shape[1]).sum())
        return float(self.traces.sum()) / (max(ranks, 1) * self.n_rows)

    @cached_property
    def harmonic_curvature(self) -> float:
        """The harmonic mean of those curvatures, of ten tasks at most: near the smallest ones."""
        tasks = np.flatnonzero(self._data.counts)
        some = tasks[np.linspace(0, len(tasks) - 1, min(_SOME, len(tasks))).astype(np.int64)]
        roots = [np.linalg.svd(self._data.rows_of(int(t))[0], compute_uv=False) for t in some]
        squares = np.maximum(np.concatenate(roots).astype(np.float64), _TINY) ** 2
        return float(1.0 / np.mean(1.0 / squares)) / self.n_rows

    def squared_residual(self, theta: Float, product: Float) -> float:
        """`Σ_t ‖y_t − X_t theta_t‖²`, given `product = apply(theta)`."""
        return max(0.0, self.yy + float(np.vdot(theta, product - 2.0 * self.h)))

    @cached_property
    def pooled_norm(self) -> float:
        """The largest eigenvalue of `Σ_t X_t'X_t`."""
        X = self._data.X
        return float(np.linalg.eigvalsh(X.T @ X)[-1])


def _gram_stack(data: TaskData, tasks: Int) -> tuple[NDArray[Any] | slice, Float]:
    grams = np.empty((len(tasks), data.dim, data.dim))
    for i, t in enumerate(tasks):
        X = data.rows_of(int(t))[0]
        np.matmul(X.T, X, out=grams[i])
    return (slice(None) if len(tasks) == data.n_tasks else tasks), grams


def _outer(X: Float) -> Float:
    products: Float = np.matmul(X, X.transpose(0, 2, 1))
    return products


def _inverses(stack: Float, added: float) -> Float:
    """Inverses of symmetric matrices (k, n, n) with `added` on their diagonals."""
    inverse: Float = np.linalg.inv(stack + added * np.eye(stack.shape[-1]))
    return inverse


def _alike(counts: Int, chosen: NDArray[np.bool_]) -> list[Int]:
    """Indices of the chosen tasks that have rows, split into sets of similar counts."""
    level = np.ceil(np.log(np.maximum(counts, 1)) / np.log(_GROWTH))
    level[~chosen | (counts == 0)] = -1
    return [np.flatnonzero(level == k) for k in np.unique(level[level >= 0])]


def _row_stack(data: TaskData, tasks: Int) -> tuple[NDArray[Any] | slice, Float]:
    counts = data.counts[tasks]
    if len(tasks) == data.n_tasks and counts.min() == counts.max():
        return slice(None), data.X.reshape(data.n_tasks, -1, data.dim)
    stack = np.zeros((len(tasks), counts.max(), data.dim))
    for i, t in enumerate(tasks):
        stack[i, : counts[i]] = data.rows_of(int(t))[0]
    return tasks, stack
