"""Empirical-Bayes shrinkage: the tasks' coefficients as random effects, `w_t ~ N(m, Σ)`.

After the representation is solved for, mean, covariance and noise are learned by EM over all tasks. Then a
rank that is too large costs next to nothing, tasks with few rows borrow strength from the others, and a new
task has a sensible estimate before its first row.

The representation was chosen to fit these very data, noise included, which the random effects take for
signal. `discounted` corrects that, direction by direction, as the optimal shrinkage of singular values does
(Gavish and Donoho, 2017): a direction that stands out no further than noise would is dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, TaskData
from banister.solver import Pool, as_pool, fitted_share, kernels

_ENOUGH = 4096  # tasks from which the population is learned; more would not sharpen it


@dataclass(frozen=True)
class Moments:
    """What shrinkage needs of the data within the span of B: small per-task statistics."""

    gram: Float  # (T, r, r) B'X_t'X_tB
    cross: Float  # (T, r) B'X_t'y_t
    W: Float  # (T, r) least squares
    rss: Float  # (T,) its residual sum of squares
    free: Float  # (T,) rows, less those that an intercept took
    floor: float  # a noise variance below this is rounding

    @classmethod
    def of(cls, data: TaskData | Pool, B: Float, *, intercepts: bool = False) -> Moments:
        """One pass over the data; `intercepts` says that its rows were centred within tasks."""
        pool = as_pool(data)
        free = np.maximum(pool.counts - float(intercepts), 0.0)
        floor = max(1e-14 * pool.energy() / pool.n_rows, np.finfo(float).tiny)
        return cls(*pool.moments(B), free, floor)

    def __getitem__(self, tasks: slice | NDArray[np.bool_]) -> Moments:
        gram, cross = np.ascontiguousarray(self.gram[tasks]), np.ascontiguousarray(self.cross[tasks])
        return Moments(gram, cross, self.W[tasks], self.rss[tasks], self.free[tasks], self.floor)

    def residual(self, W: Float) -> Float:
        """‖y_t − X_t B w_t‖² for W (T, r), shape (T,): least squares is orthogonal to what it leaves."""
        away = W - self.W
        total: Float = self.rss + np.einsum("ti,tij,tj->t", away, self.gram, away)
        return total


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
    moments: Moments, *, dim: int, noise: float | None = None, steps: int = 200, tol: float = 1e-5
) -> RandomEffects:
    """EM for mean, covariance and noise (unless its variance is given).

    The noise estimate allows for the `r (d − r)` parameters of the representation, which EM alone would take
    for free; without that it shrinks too little when rows are few. Stops once mean, covariance and noise
    change by less than `tol` of the population's scale.
    """
    T, r = moments.W.shape
    share = r * (dim - r) / max(float(moments.free.sum()), 1.0)
    sample = moments[:: -(-T // _ENOUGH)]
    mean, cov, level = _population(sample, min(share, 0.9), noise, steps, tol)
    W, P = _posterior(moments, mean, cov, level)
    return RandomEffects(mean, cov, level, W, P)


def discounted(effects: RandomEffects, W: Float, rows: Float, dim: int) -> RandomEffects:
    """Random effects less what the choice of the representation made of noise.

    `W` (T, r) are the least-squares coefficients in whitened coordinates, `rows` (T,) the tasks' counts. Then
    `√(n_t/σ²) w_t` has singular values y√T that noise alone takes up to √d + √T. With β = d/T the share of y
    that is signal is `√((y² − β − 1)² − 4β) / y²`; random effects have taken `1 − 1/y²` already.
    """
    T, r = W.shape
    weighted = W * np.sqrt(rows / effects.noise)[:, None]
    _, values, axes = np.linalg.svd(weighted, full_matrices=False)
    gamma = min(fitted_share(dim, T, r, float(rows.sum())), 0.5)  # overfitting inflates y, as in `rank`
    y2, beta = np.maximum(values**2 / T * (1 - gamma) ** 3, np.finfo(float).tiny), dim / T
    above = y2 > (1 + np.sqrt(beta)) ** 2
    share = np.where(above, np.sqrt(np.maximum((y2 - beta - 1) ** 2 - 4 * beta, 0.0)) / y2, 0.0)
    K: Float = (axes.T * (share / np.where(above, 1 - 1 / y2, 1.0))) @ axes
    return replace(effects, mean=K @ effects.mean, cov=K @ effects.cov @ K, W=effects.W @ K)


def _population(
    moments: Moments, share: float, noise: float | None, steps: int, tol: float
) -> tuple[Float, Float, float]:
    """Mean, covariance and noise variance; `share` of the rows went into the representation."""
    rows = max(float(moments.free.sum()), 1.0)
    seen = moments[_enough_rows(moments)]
    mean: Float = seen.W.mean(axis=0)
    wide = 0.01 * float(np.mean(seen.W**2)) * np.eye(seen.W.shape[1])  # EM would never leave a zero
    cov: Float = _spread(seen.W, mean, np.zeros_like(seen.gram)) + wide
    spare = max(rows * (1 - share) - moments.W.size, 0.1 * rows)
    level = max(float(moments.rss.sum()) / spare if noise is None else noise, moments.floor)
    for _ in range(steps):
        old = mean, cov, level
        W, P = _posterior(moments, mean, cov, level)
        mean = W.mean(axis=0)
        cov = _spread(W, mean, P)
        if noise is None:
            spread = np.einsum("tij,tji->t", moments.gram, P)
            level = max(float((moments.residual(W) + spread).sum()) / (rows * (1 - share)), moments.floor)
        if _settled(old, (mean, cov, level), tol):
            break
    return mean, cov, level


def _enough_rows(moments: Moments) -> NDArray[np.bool_]:
    """Tasks whose least squares is determined; all of them where none is."""
    enough: NDArray[np.bool_] = moments.free >= moments.W.shape[1]
    return enough if enough.any() else ~enough


def _settled(old: tuple[Float, Float, float], new: tuple[Float, Float, float], tol: float) -> bool:
    scale = max(float(np.trace(new[1]) + new[0] @ new[0]), np.finfo(float).tiny)
    return bool(
        np.abs(new[1] - old[1]).max() < tol * scale
        and np.abs(new[0] - old[0]).max() < tol * np.sqrt(scale)
        and abs(new[2] - old[2]) < tol * new[2]
    )


def _posterior(moments: Moments, mean: Float, cov: Float, noise: float) -> tuple[Float, Float]:
    """w_t = m + P_t (h_t − M_t m)/σ² with P_t = (M_t/σ² + Σ⁻¹)⁻¹, in a form a singular Σ does not trouble."""
    values, vectors = np.linalg.eigh(cov)
    root = np.ascontiguousarray(vectors * np.sqrt(np.maximum(values, 0.0)))
    W, P = np.empty_like(moments.W), np.empty_like(moments.gram)
    gap = moments.cross - moments.gram @ mean
    kernels.posteriors(moments.gram, gap, root, noise, mean, W, P)
    return W, P


def _spread(W: Float, mean: Float, P: Float) -> Float:
    centred = W - mean
    total: Float = (centred.T @ centred + P.sum(axis=0)) / len(W)
    return total
