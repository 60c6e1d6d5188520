"""Noise that is larger along some features than along others: an arm whose rewards swing more than another's.

A task has one level of noise. Where rows with a large feature j have larger errors than that level says,
estimates along j are less certain than the fit believes, and new rewards of such rows err more although
nothing has changed. A feature's own level is the mean of squared errors, weighted by the feature's square;
the errors are divided by what the fit left of them, so that a feature on which the fit spent its rows does
not look quiet. Few rows along a feature say little of its level: levels are shrunk across features as those
of tasks are (`noise`), and what remains uncertain widens them by Student's quantile. Where features differ by
no more than chance does, that leaves all of them at one.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from banister.data import Float
from banister.safety.noise import moderate

EVEN: Float = np.ones(0)  # nothing is louder than anything else
_LEAST_FREEDOM = 3.0  # of Student's quantile; with fewer its tails have no variance


def loudness(Z: Float, square: Float, left: Float, z: float) -> Float:
    """By how much the variance of noise along each feature exceeds the common level, (d,), at least 1.

    Args:
        Z: (n, d) features of rows.
        square: (n,) squared errors, in units of the noise's variance.
        left: (n,) the share of each error that the fit has left, its expected square.
        z: the normal quantile of bounds.

    Examples:
        Two arms, of which the second is ten times as loud:

        >>> Z = np.tile(np.eye(2), (200, 1))
        >>> loudness(Z, np.tile([0.2, 2.0], 200), np.ones(400), 4.0).round(1)
        array([1. , 2.1])
        >>> loudness(Z, np.ones(400), np.ones(400), 4.0).round(1)
        array([1., 1.])
    """
    weight = Z**2 * left[:, None]
    total = weight.sum(axis=0)
    seen = np.maximum(total, 1e-300)
    levels = moderate(
        (Z**2 * square[:, None]).sum(axis=0) / seen, total**2 / np.maximum((weight**2).sum(axis=0), 1e-300)
    )
    freedom = np.maximum(levels.freedom, _LEAST_FREEDOM)
    wider = (student.isf(norm.sf(z), freedom) / z) ** 2
    found: Float = np.maximum(levels.variance * wider, 1.0)
    return found


def local(Z: Float, loud: Float) -> Float:
    """The variance of noise at rows (n, d) in units of the common level, (n,): a mean of their features'."""
    if len(loud) == 0:
        return np.ones(len(Z))
    square = Z**2
    total = square.sum(axis=1)
    mean: Float = np.where(total > 0, (square @ loud) / np.where(total > 0, total, 1.0), 1.0)
    return mean
