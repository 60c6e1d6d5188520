"""Passes over the data: the kernels bound to one data set, its workspaces and a number of threads.

Tasks are split into ranges by the data alone and partial sums are added in order, so the result does not
depend on how many threads do the work.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from banister.data import Float, TaskData
from banister.errors import CompileNotice, SettingError
from banister.estimators import _kernels

_SMALL = 250_000  # numbers in X that are worth a range of their own
_RANGES = 8  # at most


class Passes:
    """Value, gradient and Hessian products of `f(B) = Σ_t ω_t min_w ‖y_t − X_t B w‖²`, one pass each.

    Attributes:
        W: the tasks' least-squares coefficients at the last `B` given to `gradient`, shape (T, r).
        count: passes made so far.
        threads: how many work on a pass.
    """

    def __init__(
        self, data: TaskData, rank: int, *, weights: Float | None = None, threads: int | None = None
    ) -> None:
        compile_kernels(data.X.dtype)
        self.data, self.rank, self.count, self.ridge = data, rank, 0, 0.0
        self.weights = (
            np.ones(data.n_tasks) if weights is None else np.ascontiguousarray(weights, dtype=float)
        )
        self.W = np.empty((data.n_tasks, rank))
        self._Z = np.empty(data.n_rows * rank, dtype=data.X.dtype)
        self._Minv = np.empty((data.n_tasks, rank, rank))
        self._V = np.empty((data.n_tasks, data.dim), dtype=data.X.dtype)
        self._ranges = task_ranges(data)
        self._inputs = read_only(data.X, data.y, data.offsets)
        self.threads = check_threads(threads)

    def gradient(self, B: Float) -> tuple[float, Float]:
        """f(B) and half its gradient, −Σ ω_t X_t'e_t w_t', shape (d, r); sets `W`."""
        Bt = self._transposed(B)
        X, y, offsets = self._inputs

        def work(first: int, last: int, out: Float) -> float:
            return float(
                _kernels.value_and_gradient(
                    X, y, offsets, self.weights, self.ridge, Bt, first, last, self.W, self._Z,
                    self._Minv, self._V, out,
                )
            )  # fmt: skip

        values, total = self._run(work)
        return float(sum(values)), total.T

    def hessian(self, D: Float, *, exact: bool = False) -> Float:
        """The Hessian of f/2 at the last `B` applied to D (d, r): Gauss-Newton's, or the exact one."""
        Dt = self._transposed(D)
        X, _, offsets = self._inputs

        def work(first: int, last: int, out: Float) -> None:
            _kernels.hessian_product(
                X, offsets, self.weights, Dt, exact, first, last, self.W, self._Z, self._Minv, self._V, out
            )

        return self._run(work)[1].T

    @property
    def residual_correlations(self) -> Float:
        """X_t'e_t of every task at the last `B` given to `gradient`, shape (T, d)."""
        return self._V

    def _transposed(self, B: Float) -> Float:
        return np.ascontiguousarray(B.T, dtype=self.data.X.dtype)

    def _run(self, work: Callable[[int, int, Float], Any]) -> tuple[list[Any], Float]:
        self.count += 1
        parts = np.zeros((len(self._ranges), self.rank, self.data.dim))
        results = in_threads(self.threads, lambda i: work(*self._ranges[i], parts[i]), len(self._ranges))
        return results, parts.sum(axis=0) if len(parts) > 1 else parts[0]


def correlations(data: TaskData, y: Float | None = None, *, threads: int | None = None) -> Float:
    """X_t'y_t of every task, shape (d, T), in one pass."""
    compile_kernels(data.X.dtype)
    H = np.empty((data.n_tasks, data.dim), dtype=data.X.dtype)
    rewards = data.y if y is None else np.ascontiguousarray(y, dtype=data.X.dtype)
    ranges = task_ranges(data)
    X, rewards, offsets = read_only(data.X, rewards, data.offsets)
    in_threads(
        check_threads(threads),
        lambda i: _kernels.correlations(X, rewards, offsets, *ranges[i], H),
        len(ranges),
    )
    return H.T


def task_moments(
    data: TaskData, B: Float, *, threads: int | None = None
) -> tuple[Float, Float, Float, Float]:
    """Z_t'Z_t (T, r, r), Z_t'y_t (T, r), least-squares W (T, r) and its residual sums (T,); Z_t = X_t B."""
    compile_kernels(data.X.dtype)
    T, r = data.n_tasks, B.shape[1]
    gram, cross, W, rss = np.empty((T, r, r)), np.empty((T, r)), np.empty((T, r)), np.empty(T)
    Bt = np.ascontiguousarray(B.T, dtype=data.X.dtype)
    ranges = task_ranges(data)
    X, y, offsets = read_only(data.X, data.y, data.offsets)
    in_threads(
        check_threads(threads),
        lambda i: _kernels.moments(X, y, offsets, Bt, *ranges[i], gram, cross, W, rss),
        len(ranges),
    )
    return gram, cross, W, rss


def read_only(*arrays: Any) -> tuple[Any, ...]:
    """Views that cannot be written to: data frames hand out such arrays, and one kind is compiled for all."""
    views = tuple(array.view() for array in arrays)
    for view in views:
        view.flags.writeable = False
    return views


def task_ranges(data: TaskData) -> list[tuple[int, int]]:
    """Ranges of tasks with about the same number of rows; they depend on the data alone."""
    ranges = min(_RANGES, data.X.size // _SMALL)
    if ranges < 2:
        return [(0, data.n_tasks)]
    cuts = np.searchsorted(data.offsets, np.linspace(0, data.n_rows, ranges + 1))
    cuts[0], cuts[-1] = 0, data.n_tasks
    return [(int(a), int(b)) for a, b in pairwise(cuts) if b > a]


def in_threads(threads: int, work: Callable[[int], Any], count: int) -> list[Any]:
    """[work(0), …, work(count − 1)], in up to `threads` threads."""
    if threads == 1 or count == 1:
        return [work(i) for i in range(count)]
    return list(_pool(threads, os.getpid()).map(work, range(count)))


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="banister")


def check_threads(threads: int | None) -> int:
    """`threads`, or BANISTER_THREADS, or the processor's cores."""
    value = threads if threads is not None else os.environ.get("BANISTER_THREADS", os.cpu_count() or 1)
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise SettingError(f"threads={value!r} must be a whole number of at least 1.")
    return number


@lru_cache(maxsize=2)
def compile_kernels(dtype: Any) -> None:
    """Compile (or load) the kernels once; say so if it took more than a second."""
    start = time.perf_counter()
    Bt = np.ones((1, 1), dtype)
    X, y, offsets = read_only(Bt, np.ones(1, dtype), np.array([0, 1]))
    one, W, Z, cube, out = (
        np.ones(1),
        np.ones((1, 1)),
        np.ones(1, dtype),
        np.ones((1, 1, 1)),
        np.zeros((1, 1)),
    )
    _kernels.value_and_gradient(X, y, offsets, one, 0.0, Bt, 0, 1, W, Z, cube, Bt.copy(), out)
    _kernels.hessian_product(X, offsets, one, Bt, False, 0, 1, W, Z, cube, Bt.copy(), out)
    _kernels.correlations(X, y, offsets, 0, 1, X.copy())
    _kernels.moments(X, y, offsets, Bt, 0, 1, cube, W, W.copy(), one)
    _kernels.posteriors(cube, W, W, 1.0, one, W.copy(), cube)
    seconds = time.perf_counter() - start
    # Numba counts a miss only where it compiled: loading what an earlier process kept is not worth a word.
    compiled = bool(_kernels.value_and_gradient.stats.cache_misses)
    if compiled and seconds > 1.0:
        warnings.warn(
            f"Banister compiled its kernels in {seconds:.1f} s; this happens once per installation.",
            CompileNotice,
            stacklevel=2,
        )
