"""A block: one range of tasks, its rows wherever they are, and the sums over them.

Blocks are cut by the data alone (`block_bounds`) and their sums are added in order, so that a result does not
depend on how many threads, processes or machines share the blocks. A block keeps workspaces of the last point
it was asked about; asked about another one it makes them anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from banister.data import Float, Int, TaskData
from banister.solver import kernels
from banister.solver.compiling import compile_kernels, read_only
from banister.solver.information import information
from banister.solver.point import Point

_SMALL = 500_000  # numbers in X that are worth a block of their own
_BLOCKS = 64  # as many as threads or machines usually are; more sums only travel for nothing
_LARGE = 1 << 26  # numbers in a block at most: half a gigabyte is in memory at once where rows are on disk


def block_bounds(offsets: Int, dim: int) -> Int:
    """Task indices that cut the tasks into blocks with about the same number of rows; (blocks + 1,)."""
    size, n_tasks = int(offsets[-1]) * dim, len(offsets) - 1
    blocks = max(min(_BLOCKS, size // _SMALL), -(-size // _LARGE))
    if blocks < 2:
        return np.array([0, n_tasks])
    cuts = np.searchsorted(offsets, np.linspace(0, int(offsets[-1]), blocks + 1))
    cuts[0], cuts[-1] = 0, n_tasks
    return np.unique(cuts)


class Block:
    """The sums over tasks `first` … `last − 1` of a pool.

    Args:
        first, last: the tasks' range in the pool.
        start: index in the pool of the block's first row.
        rows: opens the rows: a context manager that yields a `TaskData` of these tasks alone.
    """

    def __init__(
        self, first: int, last: int, start: int, rows: Callable[[], AbstractContextManager[TaskData]]
    ) -> None:
        self.first, self.last, self._start, self._rows = first, last, start, rows
        self._at: Point | None = None
        self._W: Float = np.empty((0, 0))

    def gradient(self, point: Point) -> tuple[float, Float, Float]:
        """f, half its gradient (r, d) and Σ ω_t n_t w_t w_t' (r, r)."""
        with self._rows() as data:
            return self._fill(data, point)

    def hessian(self, point: Point, D: Float, exact: bool) -> Float:
        """The Hessian of f/2 applied to D (d, r), shape (r, d): Gauss-Newton's, or the exact one."""
        with self._rows() as data:
            if not point.same(self._at):
                self._fill(data, point)
            X, offsets = read_only(data.X, data.offsets)
            out = np.zeros(D.shape[::-1])
            kernels.hessian_product(
                X, offsets, self._weights(point), _transposed(D, data), exact, self._W, self._Z, self._Minv,
                self._V, out,
            )  # fmt: skip
            return out

    def residual_moment(self, point: Point) -> Float:
        """Σ ω_t v_t v_t'/n_t with v_t = X_t'e_t: what the residuals still know of the features, (d, d)."""
        self._be_at(point)
        scaled = self._V * np.sqrt(self._weights(point) / self._at_least_one)[:, None]
        return _gram(scaled)

    def coefficients(self, point: Point) -> Float:
        """The tasks' least-squares coefficients, (T, r): the workspace itself, which pools copy."""
        self._be_at(point)
        return self._W

    def moments(self, B: Float) -> tuple[Float, Float, Float, Float]:
        """Z_t'Z_t (T, r, r), Z_t'y_t (T, r), least-squares W (T, r), its residual sums (T,); Z_t = X_t B."""
        T, r = self.last - self.first, B.shape[1]
        gram, cross, W, rss = np.empty((T, r, r)), np.empty((T, r)), np.empty((T, r)), np.empty(T)
        with self._rows() as data:
            compile_kernels(data.X.dtype)
            X, y, offsets = read_only(data.X, data.y, data.offsets)
            kernels.moments(X, y, offsets, _transposed(B, data), gram, cross, W, rss)
        return gram, cross, W, rss

    def correlations(self, p: Float) -> tuple[Float, Float]:
        """Σ_t h_t h_t'/n_t (d, d) and Σ_t h_t (d,) with h_t = X_t'(y_t − X_t p)."""
        with self._rows() as data:
            H = task_correlations(data, p).astype(float, copy=False)
            root = np.sqrt(np.maximum(data.counts, 1.0))
        return _gram(H / root[:, None]), H.sum(axis=0)

    def second_moment(self, stride: int) -> tuple[Float, int]:
        """X'X over every `stride`-th row of the pool that is in this block, and how many those are."""
        with self._rows() as data:
            X = data.X[-self._start % stride :: stride].astype(np.float64, copy=False)
            return _gram(X), len(X)

    def energy(self, weights: Float | None) -> float:
        """Σ ω_t ‖y_t‖²."""
        with self._rows() as data:
            squares = np.square(data.y, dtype=np.float64)
            if weights is None:
                return float(squares.sum())
            return float(np.dot(np.repeat(weights[self.first : self.last], data.counts), squares))

    def extremes(self, stride: int) -> tuple[Float, Float]:
        """The least and the largest value of each feature over every `stride`-th row of the pool."""
        with self._rows() as data:
            X = data.X[-self._start % stride :: stride]
            return X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)

    def take(self, tasks: Int) -> tuple[Float, Float]:
        """Features and rewards of those of the pool's tasks (sorted) that are in this block."""
        chosen = tasks[(tasks >= self.first) & (tasks < self.last)] - self.first
        with self._rows() as data:
            rows = [slice(data.offsets[t], data.offsets[t + 1]) for t in chosen]
            X = [data.X[r] for r in rows] or [data.X[:0]]
            return np.concatenate(X), np.concatenate([data.y[r] for r in rows] or [data.y[:0]])

    def information(self, A: Float, B: Float, W: Float, precision: Float) -> tuple[Float, Float, Float]:
        """See `information`; `W` (T, r) and `precision` (T,) are of the whole pool."""
        with self._rows() as data:
            return information(data, A, B, W[self.first : self.last], precision[self.first : self.last])

    def release(self) -> None:
        """Let the workspaces go."""
        self._at = None
        self._W = self._Z = self._Minv = self._V = np.empty((0, 0))

    def _be_at(self, point: Point) -> None:
        if not point.same(self._at):
            self.gradient(point)

    def _fill(self, data: TaskData, point: Point) -> tuple[float, Float, Float]:
        compile_kernels(data.X.dtype)
        self._make_room(data, point)
        X, y, offsets = read_only(data.X, data.y, data.offsets)
        d, r = point.B.shape
        slope, spread = np.zeros((r, d)), np.zeros((r, r))
        value = kernels.value_and_gradient(
            X, y, offsets, self._weights(point), point.ridge, _transposed(point.B, data), self._W, self._Z,
            self._Minv, self._V, slope, spread,
        )  # fmt: skip
        self._at = point
        return float(value), slope, spread

    def _make_room(self, data: TaskData, point: Point) -> None:
        d, r = point.B.shape
        if self._at is not None and self._W.shape[1] == r:
            return
        T, dtype = data.n_tasks, data.X.dtype
        self._W, self._Minv = np.empty((T, r)), np.empty((T, r, r))
        self._Z, self._V = np.empty(data.n_rows * r, dtype), np.empty((T, d), dtype)
        self._ones, self._at_least_one = np.ones(T), np.maximum(data.counts, 1)

    def _weights(self, point: Point) -> Float:
        return self._ones if point.weights is None else point.weights[self.first : self.last]


def task_correlations(data: TaskData, p: Float) -> Float:
    """X_t'(y_t − X_t p) of every task, (T, d)."""
    compile_kernels(data.X.dtype)
    H = np.empty((data.n_tasks, data.dim), dtype=data.X.dtype)
    X, y, offsets = read_only(data.X, data.y, data.offsets)
    kernels.correlations(X, y, offsets, p.astype(X.dtype, copy=False), H)
    return H


def _transposed(B: Float, data: TaskData) -> Float:
    return np.ascontiguousarray(B.T, dtype=data.X.dtype)


def _gram(rows: Any) -> Float:
    """rows'rows in double precision."""
    double = rows.astype(np.float64, copy=False)
    gram: Float = double.T @ double
    return gram
