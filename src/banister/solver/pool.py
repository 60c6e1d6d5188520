"""A pool: data that a solver sees only as sums.

The rows of a pool's tasks sit in blocks, in this process, on disk or on other machines. A solver asks for
sums at a point and gets them added up in the order of the blocks; only (d, r) matrices travel for each.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, Int, TaskData
from banister.solver.point import Point


class Sums(Protocol):
    """All that the descent asks of its data; whoever answers these can be fitted."""

    def gradient(self, point: Point) -> tuple[float, Float, Float]:
        """f, half its gradient (d, r) and Σ ω_t n_t w_t w_t' (r, r)."""

    def hessian(self, point: Point, D: Float, *, exact: bool = False) -> Float:
        """The Hessian of f/2 applied to D (d, r)."""

    def coefficients(self, point: Point) -> Float:
        """The tasks' least-squares coefficients, (T, r)."""

    def moments(self, B: Float) -> tuple[Float, Float, Float, Float]:
        """Z_t'Z_t (T, r, r), Z_t'y_t (T, r), least-squares W (T, r), its residual sums (T,); Z_t = X_t B."""


@dataclass(frozen=True)
class Trip:
    """One question to all blocks, for those who watch: what was asked, how long it took, of how many rows."""

    method: str
    seconds: float
    rows: int
    shards: int


class Pool(ABC):
    """The facts of the data, and sums over its blocks in a fixed order.

    Attributes:
        labels: the tasks' labels, (T,).
        counts: rows of each task, (T,).
        dim: d.
        dtype: of the rows.
        shards: how many workers share the blocks.
        watch: called with a `Trip` after each question, if set.
    """

    watch: Callable[[Trip], None] | None = None

    def __init__(self, labels: NDArray[Any], offsets: Int, dim: int, dtype: Any, shards: int) -> None:
        self.labels, self.offsets, self.dim, self.shards = labels, offsets, dim, shards
        self.dtype = np.dtype(dtype)

    @abstractmethod
    def _each(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        """The answer of every block, in the order of the blocks."""

    def each(self, method: str, *args: Any) -> list[Any]:
        """Ask every block; the answers come in the order of the blocks."""
        if self.watch is None:
            return self._each(method, args)
        begin = time.perf_counter()
        answers = self._each(method, args)
        self.watch(Trip(method, time.perf_counter() - begin, self.n_rows, self.shards))
        return answers

    @property
    def n_rows(self) -> int:
        """N, over all tasks."""
        return int(self.offsets[-1])

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.offsets) - 1

    @cached_property
    def counts(self) -> Int:
        """Rows of each task, (T,)."""
        return np.diff(self.offsets)

    def gradient(self, point: Point) -> tuple[float, Float, Float]:
        """f at the point, half its gradient (d, r) and Σ ω_t n_t w_t w_t' (r, r)."""
        values, slopes, spreads = zip(*self.each("gradient", point), strict=True)
        return float(sum(values)), _total(slopes).T, _total(spreads)

    def hessian(self, point: Point, D: Float, *, exact: bool = False) -> Float:
        """The Hessian of f/2 at the point applied to D (d, r): Gauss-Newton's, or the exact one."""
        return _total(self.each("hessian", point, D, exact)).T

    def residual_moment(self, point: Point) -> Float:
        """Σ ω_t v_t v_t'/n_t with v_t = X_t'e_t, (d, d)."""
        return _total(self.each("residual_moment", point))

    def coefficients(self, point: Point) -> Float:
        """The tasks' least-squares coefficients at the point, (T, r)."""
        return _joined(self.each("coefficients", point))

    def moments(self, B: Float) -> tuple[Float, Float, Float, Float]:
        """Z_t'Z_t (T, r, r), Z_t'y_t (T, r), least-squares W (T, r), its residual sums (T,); Z_t = X_t B."""
        gram, cross, W, rss = (_joined(parts) for parts in zip(*self.each("moments", B), strict=True))
        return gram, cross, W, rss

    def correlations(self, p: Float) -> tuple[Float, Float]:
        """Σ_t h_t h_t'/n_t (d, d) and Σ_t h_t (d,) with h_t = X_t'(y_t − X_t p)."""
        moments, sums = zip(*self.each("correlations", p), strict=True)
        return _total(moments), _total(sums)

    def information(self, A: Float, B: Float, W: Float, precision: Float) -> tuple[Float, Float, Float]:
        """What rows tell of the representation: S (r, r, d, d), B'G_tB (T, r, r), G_tB (T, d, r)."""
        S, gram, cross = zip(*self.each("information", A, B, W, precision), strict=True)
        return _total(S), _joined(gram), _joined(cross)

    def second_moment(self, stride: int = 1) -> Float:
        """X'X/N over every `stride`-th row, (d, d)."""
        grams, rows = zip(*self.each("second_moment", stride), strict=True)
        moment: Float = _total(grams) / max(sum(rows), 1)
        return moment

    def energy(self, weights: Float | None = None) -> float:
        """Σ ω_t ‖y_t‖²."""
        return float(sum(self.each("energy", weights)))

    def constant_columns(self) -> dict[int, float]:
        """Features that never vary, and their values; a few rows clear most before all are read."""
        if self.n_rows < 2:
            return {}
        few = self._constant(max(1, self.n_rows // 8))
        return few and self._constant(1)

    def _constant(self, stride: int) -> dict[int, float]:
        least, most = (np.array(ends) for ends in zip(*self.each("extremes", stride), strict=True))
        low, high = least.min(axis=0), most.max(axis=0)
        return {int(j): float(low[j]) for j in np.flatnonzero(low == high)}

    def take(self, tasks: Int) -> TaskData:
        """The rows of some tasks, by their sorted indices, brought here."""
        X, y = zip(*self.each("take", tasks), strict=True)
        offsets = np.concatenate([[0], np.cumsum(self.counts[tasks])])
        return TaskData(np.concatenate(X), np.concatenate(y), offsets, self.labels[tasks])

    def release(self) -> None:
        """Let workspaces go; the next question makes them anew."""
        self.each("release")

    def close(self) -> None:  # noqa: B027 (most pools hold nothing)
        """Let go of whatever the pool holds outside this process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _total(parts: Any) -> Float:
    """The sum in the order of the blocks, in an array of its own."""
    total: Float = np.array(parts[0])
    for part in parts[1:]:
        total += part
    return total


def _joined(parts: Any) -> Float:
    return np.concatenate(parts)
