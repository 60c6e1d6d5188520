"""Noise levels of tasks.

A task's own residual variance rests on few rows, so it is shrunk towards what is common to all tasks
(Smyth 2004, the moderated variance of `limma`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, polygamma

from banister.data import Float

_MOST = 1e4  # degrees of freedom that count as infinitely many


@dataclass(frozen=True)
class Moderated:
    """Variances shrunk across tasks: `variance` (T,), and the degrees of freedom behind each, (T,)."""

    variance: Float
    freedom: Float


def moderate(variance: Float, freedom: Float) -> Moderated:
    """Shrink per-task variances with `freedom` degrees of freedom towards their common level.

    Tasks with less than one degree of freedom get the common level.

    Examples:
        >>> out = moderate(np.array([1.0, 1.0, 1.0]), np.array([10.0, 10.0, 10.0]))
        >>> out.variance, out.freedom
        (array([1., 1., 1.]), array([30., 30., 30.]))
    """
    used = (freedom >= 1) & (variance > 0)
    if used.sum() < 2:
        level = float(np.average(variance, weights=np.maximum(freedom, 1e-9)))
        return Moderated(np.full(len(variance), level), np.maximum(freedom, 1.0))
    half = freedom[used] / 2
    e = np.log(variance[used]) - digamma(half) + np.log(half)
    extra = float(np.var(e, ddof=1) - np.mean(polygamma(1, half)))
    if extra <= 0:
        # The spread of the variances is no more than chance: one level for all, from the pooled residuals.
        level = float(np.average(variance[used], weights=freedom[used]))
        total = min(float(freedom[used].sum()), _MOST)
        return Moderated(np.full(len(variance), level), np.full(len(variance), total))
    prior = min(2 * _inverse_trigamma(extra), _MOST)
    level = float(np.exp(np.mean(e) + digamma(prior / 2) - np.log(prior / 2)))
    own = np.where(used, freedom, 0.0)
    shrunk = (prior * level + own * np.where(used, variance, 0.0)) / (prior + own)
    return Moderated(shrunk, prior + own)


def lifted(noise: Moderated, rows: Float, telling: Float) -> Moderated:
    """Noise of tasks most of whose rewards are one value is not taken for less than is usual of all.

    A task that mostly plays what always earns the same looks quiet; its other actions are as noisy as any,
    and a single reward of one of them must not count as if it were exact.

    Args:
        noise: of tasks.
        rows, telling: (T,) rewards, and those that are not the most common one.

    Examples:
        >>> quiet = Moderated(np.array([1.0, 0.01, 0.01]), np.full(3, 9.0))
        >>> lifted(quiet, np.full(3, 10.0), np.array([10.0, 10.0, 2.0])).variance
        array([1.  , 0.01, 0.34])
    """
    usual = float(np.average(noise.variance, weights=rows))
    rare = 2.0 * telling < rows
    return Moderated(np.where(rare, np.maximum(noise.variance, usual), noise.variance), noise.freedom)


def _inverse_trigamma(value: float) -> float:
    """x with trigamma(x) = value, by Newton's method (Smyth 2004, appendix)."""
    x = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(polygamma(1, x))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step < 1e-8 * x:
            break
    return x
