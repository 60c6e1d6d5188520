"""Means and ratios over trials with intervals that respect small samples, and the exact one for shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.data import Float

LEVEL = 0.95


def student(n: int) -> float:
    """How many standard errors the 95 % interval of a mean of n values reaches to either side."""
    from scipy.stats import t

    return float(t.ppf((1.0 + LEVEL) / 2.0, n - 1)) if n > 1 else float("nan")


def mean_interval(values: Any) -> tuple[float, float, float]:
    """A mean over trials and its 95 % Student interval; the interval is NaN for a single trial.

    Examples:
        >>> mean_interval([2.0, 2.0, 2.0])
        (2.0, 2.0, 2.0)
        >>> [round(x, 3) for x in mean_interval([1.0, 2.0, 3.0])]  # 2 ± 4.303 / √3
        [2.0, -0.484, 4.484]
    """
    array = np.asarray(values, dtype=float)
    array = array[np.isfinite(array)]
    if len(array) == 0:
        return float("nan"), float("nan"), float("nan")
    mean = float(array.mean())
    if len(array) == 1:
        return mean, float("nan"), float("nan")
    reach = float(student(len(array)) * array.std(ddof=1) / np.sqrt(len(array)))
    return mean, mean - reach, mean + reach


def ratio_interval(over: Float, under: Float) -> tuple[float, float, float]:
    """The ratio of two means over the same trials, with Fieller's 95 % interval.

    A ratio R lies inside if the paired differences `over − R · under` have a mean that a t test does not tell
    from zero. Where `under` itself is not told from zero the interval is the whole line.

    Examples:
        >>> ratio_interval(np.array([6.0, 8.0, 10.0]), np.array([3.0, 4.0, 5.0]))  # doubled in every trial
        (2.0, 2.0, 2.0)
    """
    n = len(over)
    a, b = float(over.mean()), float(under.mean())
    if b == 0 or not np.isfinite([a, b]).all():
        return float("nan"), float("nan"), float("nan")
    if n < 2:
        return a / b, float("nan"), float("nan")
    (saa, sab), (_, sbb) = np.cov(over, under) * student(n) ** 2 / n
    square, cross, rest = b * b - sbb, a * b - sab, a * a - saa
    if square <= 0:
        return a / b, -np.inf, np.inf
    root = np.sqrt(max(cross * cross - square * rest, 0.0))
    return a / b, float((cross - root) / square), float((cross + root) / square)


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
