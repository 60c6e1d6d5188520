"""Passes over a pool: what a descent of one rank asks, counted."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from banister.data import Float, TaskData
from banister.solver.local import as_pool
from banister.solver.point import Point
from banister.solver.pool import Pool


class Passes:
    """Value, gradient and Hessian products of `f(B) = Σ_t ω_t min_w ‖y_t − X_t B w‖²`, one pass each.

    Args:
        data: rows in memory, or a pool.
        rank: r.
        weights: ω, (T,); by default ones.
        threads: for rows in memory; see `LocalPool`.

    Attributes:
        count: passes made so far.
        ridge: on the coefficients, used from the next gradient on.
        spread: Σ ω_t n_t w_t w_t' at the last `B` given to `gradient`, (r, r).
    """

    def __init__(
        self,
        data: TaskData | Pool,
        rank: int,
        *,
        weights: Float | None = None,
        threads: int | None = None,
    ) -> None:
        self.pool, self.rank, self.count, self.ridge = as_pool(data, threads), rank, 0, 0.0
        self.weights = None if weights is None else np.ascontiguousarray(weights, dtype=float)
        self.spread: Float = np.zeros((rank, rank))

    def gradient(self, B: Float) -> tuple[float, Float]:
        """f(B) and half its gradient, −Σ ω_t X_t'e_t w_t', shape (d, r); `B` is the point from here on."""
        self.count += 1
        self._point = Point(B, self.ridge, self.weights)
        value, slope, self.spread = self.pool.gradient(self._point)
        return value, slope

    def hessian(self, D: Float, *, exact: bool = False, at: Float | None = None) -> Float:
        """The Hessian of f/2 at `at` (the last `B` unless given) applied to D (d, r)."""
        self.count += 1
        if at is not None and at is not self._point.B:
            self.count += 1  # the workspaces are at another point: each block goes back there first
            self._point = Point(at, self.ridge, self.weights)
        return self.pool.hessian(self._point, D, exact=exact)

    def coefficients(self, B: Float) -> Float:
        """The tasks' least-squares coefficients at `B`, (T, r)."""
        if B is not self._point.B:
            self.gradient(B)
        return self.pool.coefficients(self._point)

    @cached_property
    def energy(self) -> float:
        """Σ ω_t ‖y_t‖²."""
        return self.pool.energy(self.weights)

    def residual_moment(self) -> Float:
        """Σ ω_t v_t v_t'/n_t with v_t = X_t'e_t at the last point, (d, d)."""
        return self.pool.residual_moment(self._point)
