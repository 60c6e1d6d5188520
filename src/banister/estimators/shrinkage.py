"""Empirical-Bayes shrinkage: the tasks' coefficients as random effects, `w_t ~ N(m, Σ)`.

After the representation is solved for, mean, covariance and noise are learned by EM over all tasks. Then a
rank that is too large costs next to nothing, tasks with few rows borrow strength from the others, and a new
task has a sensible estimate before its first row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.data import Float, TaskData


@dataclass(frozen=True)
class Moments:
    """What shrinkage needs of the data within the span of B: small per-task statistics."""

    gram: Float  # (T, r, r) B'X_t'X_tB
    cross: Float  # (T, r) B'X_t'y_t
    energy: Float  # (T,) y_t'y_t
    counts: Float  # (T,)

    @classmethod
    def of(cls, data: TaskData, B: Float) -> Moments:
        """One pass over the data."""
        r, T = B.shape[1], data.n_tasks
        gram, cross = np.zeros((T, r, r)), np.zeros((T, r))
        for t, (X, y) in enumerate(data):
            Z = (X @ B.astype(X.dtype, copy=False)).astype(float)
            gram[t], cross[t] = Z.T @ Z, Z.T @ y
        energy = np.array([float(y.astype(float) @ y) for _, y in data])
        return cls(gram, cross, energy, data.counts.astype(float))

    def residual(self, W: Float) -> Float:
        """‖y_t − X_t B w_t‖² for W (T, r), shape (T,)."""
        quadratic = np.einsum("ti,tij,tj->t", W, self.gram, W)
        return np.maximum(self.energy - 2 * np.einsum("ti,ti->t", W, self.cross) + quadratic, 0.0)


@dataclass(frozen=True)
class RandomEffects:
    """Learned population of coefficients, `w_t ~ N(mean, cov)`, noise variance, and each task's posterior."""

    mean: Float  # (r,)
    cov: Float  # (r, r)
    noise: float
    W: Float  # (T, r) posterior means
    W_cov: Float  # (T, r, r) posterior covariances

    def update(self, moments: Moments) -> tuple[Float, Float]:
        """Posterior means and covariances of tasks with these moments under the learned population."""
        return _posterior(moments, self.mean, self.cov, self.noise)


def random_effects(
    moments: Moments, *, dim: int, noise: float | None = None, steps: int = 100, tol: float = 1e-6
) -> RandomEffects:
    """EM for mean, covariance and noise (unless its variance is given).

    The noise estimate allows for the `r (d − r)` parameters of the representation, which EM alone would take
    for free; without that it shrinks too little when rows are few.
    """
    r, rows = moments.gram.shape[1], float(moments.counts.sum())
    free = max(rows - r * (dim - r), 0.1 * rows)
    W = _least_squares(moments)
    mean, cov = W.mean(axis=0), _spread(W, W.mean(axis=0), np.zeros_like(moments.gram))
    level = noise if noise is not None else float(moments.residual(W).sum()) / max(free - W.size, 0.1 * rows)
    level = max(level, _floor(moments))
    for _ in range(steps):
        W, P = _posterior(moments, mean, cov, level)
        old = level, cov
        mean = W.mean(axis=0)
        cov = _spread(W, mean, P)
        if noise is None:
            spread = np.einsum("tij,tji->t", moments.gram, P)
            level = max(float((moments.residual(W) + spread).sum()) / free, _floor(moments))
        change = np.abs(cov - old[1]).max() / max(np.abs(cov).max(), np.finfo(float).tiny)
        if change < tol and abs(level - old[0]) < tol * level:
            break
    W, P = _posterior(moments, mean, cov, level)
    return RandomEffects(mean, cov, level, W, P)


def _posterior(moments: Moments, mean: Float, cov: Float, noise: float) -> tuple[Float, Float]:
    """P_t = (M_t/σ² + Σ⁻¹)⁻¹ written as Σ (M_t Σ/σ² + I)⁻¹, which a singular Σ does not trouble."""
    inner = moments.gram @ cov / noise + np.eye(len(mean))
    P = cov @ np.linalg.inv(inner)
    P = (P + np.swapaxes(P, 1, 2)) / 2
    gap = moments.cross - moments.gram @ mean
    return mean + np.einsum("tij,tj->ti", P, gap) / noise, P


def _spread(W: Float, mean: Float, P: Float) -> Float:
    centred = W - mean
    return (centred.T @ centred + P.sum(axis=0)) / len(W)


def _least_squares(moments: Moments) -> Float:
    trace = np.trace(moments.gram, axis1=1, axis2=2)
    ridge = np.where(trace > 0, 1e-10 * trace, 1.0)[:, None, None] * np.eye(moments.gram.shape[1])
    return np.linalg.solve(moments.gram + ridge, moments.cross[..., None])[..., 0]


def _floor(moments: Moments) -> float:
    """A noise variance below this is rounding; zero would make the posterior undefined."""
    return max(1e-20 * float(moments.energy.sum() / max(moments.counts.sum(), 1)), np.finfo(float).tiny)
