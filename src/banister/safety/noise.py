"""Noise levels of tasks.

A task's own residual variance rests on few rows, so it is shrunk towards what is common to all tasks
(Smyth 2004, the moderated variance of `limma`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import norm
from scipy.stats import t as student

from banister.data import Float

MANY = 1e4  # degrees of freedom that count as infinitely many
_SURELY = 2.0  # standard errors of a variance of n levels
LEAST_FREEDOM = 3.0  # of Student's quantile; with fewer its tails have no variance


@dataclass(frozen=True)
class Moderated:
    """Variances shrunk across tasks.

    Attributes:
        variance: (T,); freedom: (T,) the degrees of freedom behind each.
        lent: how many of these come from the others: few where levels surely differ by more than chance does.
    """

    variance: Float
    freedom: Float
    lent: float = MANY


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
    found, chance = float(np.var(e, ddof=1)), float(np.mean(polygamma(1, half)))
    extra = found - chance
    if extra <= 0:
        # The spread of the variances is no more than chance: one level for all, from the pooled residuals.
        level = float(np.average(variance[used], weights=freedom[used]))
        total = min(float(freedom[used].sum()), MANY)
        return Moderated(np.full(len(variance), level), np.full(len(variance), total), total)
    prior = _freedom_of(extra)
    level = float(np.exp(np.mean(e) + digamma(prior / 2) - np.log(prior / 2)))
    own = np.where(used, freedom, 0.0)
    shrunk = (prior * level + own * np.where(used, variance, 0.0)) / (prior + own)
    return Moderated(shrunk, prior + own, _lent(found, chance, int(used.sum())))


def _lent(found: float, chance: float, n: int) -> float:
    """Degrees of freedom that n levels lend each other, if their spread is the least that it may well be.

    Examples:
        A variance of log-levels of 4 in place of 0.1, in many tasks and in few:

        >>> [round(_lent(4.0, 0.1, n), 1) for n in (1000, 50, 20, 6)]
        [1.2, 1.6, 2.4, 10000.0]
    """
    sure = found * (1 - _SURELY * np.sqrt(2 / (n - 1))) - chance
    return _freedom_of(float(sure))


def _freedom_of(extra: float) -> float:
    """The degrees of freedom of a law of levels whose logarithms vary by so much beyond chance."""
    return min(2 * _inverse_trigamma(extra), MANY) if extra > 0 else MANY


def wider(freedom: Float, z: float) -> Float:
    """By how much variances that rest on so many degrees of freedom are taken larger, for a quantile z.

    The squared ratio of Student's quantile to the normal one; few different numbers ask for few quantiles.

    Examples:
        >>> wider(np.array([3.0, 19.0, 1e4]), 4.0).round(2)
        array([66.49,  1.63,  1.  ])
    """
    each, where = np.unique(freedom, return_inverse=True)
    ratio: Float = (student.isf(norm.sf(z), each) / z) ** 2
    return ratio[where.reshape(np.shape(freedom))]


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
    return replace(noise, variance=np.where(rare, np.maximum(noise.variance, usual), noise.variance))


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
