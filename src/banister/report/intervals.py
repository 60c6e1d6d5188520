"""Means with intervals: bootstrap over trials, and the exact one for shares."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from banister.data import Float, Int

LEVEL = 0.95
RESAMPLES = 2000


@lru_cache(maxsize=32)
def resamples(n: int) -> Int:
    """(RESAMPLES, n) trial numbers drawn with replacement, the same ones in every process."""
    drawn: Int = np.random.default_rng(n).integers(n, size=(RESAMPLES, n))
    return drawn


def quantiles(statistics: Float) -> tuple[float, float]:
    """The interval that holds 95 % of resampled statistics."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(statistics, [tail, 1.0 - tail])
    return float(low), float(high)


def mean_interval(values: Any) -> tuple[float, float, float]:
    """A mean over trials and its 95 % bootstrap interval; the interval is NaN for a single trial.

    Examples:
        >>> mean_interval([2.0, 2.0, 2.0])
        (2.0, 2.0, 2.0)
    """
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array)]
    if len(array) == 0:
        return float("nan"), float("nan"), float("nan")
    mean = float(array.mean())
    if len(array) == 1:
        return mean, float("nan"), float("nan")
    low, high = quantiles(array[resamples(len(array))].mean(axis=1))
    return mean, low, high


def share_interval(hits: int, n: int) -> tuple[float, float, float]:
    """A share and its 95 % Clopper–Pearson interval, which says something even where nothing happened.

    Examples:
        >>> [round(x, 3) for x in share_interval(0, 100)]
        [0.0, 0.0, 0.036]
    """
    from scipy.stats import beta

    tail = (1.0 - LEVEL) / 2.0
    low = float(beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    high = float(beta.ppf(1.0 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return hits / n, low, high
