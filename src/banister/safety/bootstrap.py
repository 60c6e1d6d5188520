"""Calibration by simulation: does this estimator, on data like these, err more than its standard error says?

Rewards are simulated from the fitted model (its directions shrunk by what noise adds to them), the model is
fitted again, and the largest standardised error over actions that were really offered is compared with the
quantile in use. Where errors are larger, the quantile grows.
"""

from __future__ import annotations

import numpy as np

from banister.data import Float, Int, TaskData
from banister.solver import Passes, Solution, Whitening, minimise

SAFETY = 1.3


def inflation(
    data: TaskData,
    whitening: Whitening,
    B: Float,
    W: Float,
    variance: Float,
    offered: tuple[Int, Float],
    std: Float,
    z: float,
    *,
    rng: np.random.Generator,
    times: int = 2,
) -> float:
    """The factor, at least 1, by which `z` must grow.

    Args:
        data: the rows of the fit (scaled to unit noise).
        whitening: of those rows.
        B: whitened basis, (d, r).
        W: (T, r) coefficients in it.
        variance: (T,) remaining noise variances.
        offered: tasks (n,) and features (n, d) of offered actions.
        std: (n,) their standard errors.
        z: the quantile in use.
        rng: of the simulated noise.
        times: simulated data sets.
    """
    task, actions = offered
    W = _without_noise(data, W, variance)
    theta = whitening.A @ B @ W.T
    mean = data.fitted(theta)
    spread = np.sqrt(variance)[data.codes]
    truth = np.einsum("ij,ji->i", actions, theta[:, task])
    worst = 0.0
    for _ in range(times):
        simulated = data.replace_y(mean + spread * rng.standard_normal(data.n_rows))
        fit = _refit(simulated, whitening, B, 1 / variance)
        error = np.einsum("ij,ji->i", actions, (fit.B @ fit.W)[:, task]) - truth
        worst = max(worst, float(np.max(np.abs(error) / np.maximum(std, np.finfo(float).tiny))))
    return max(1.0, SAFETY * worst / z)


def _refit(data: TaskData, whitening: Whitening, B: Float, weights: Float) -> Solution:
    passes = Passes(data, B.shape[1], weights=weights)
    return minimise(passes, whitening, B, tol=1e-5, max_passes=60)


def _without_noise(data: TaskData, W: Float, variance: Float) -> Float:
    """Directions shrunk to what they would be without the part of their strength that is noise."""
    root = np.sqrt(np.maximum(data.counts, 1) / variance)[:, None]
    U, s, Vt = np.linalg.svd(W * root, full_matrices=False)
    noise = data.dim + data.n_tasks
    shrunk: Float = (U * np.sqrt(np.maximum(s**2 - noise, 0.25 * s**2))) @ Vt / root
    return shrunk
