"""Noise that is larger along some features than along others: an arm whose rewards swing more than another's.

A task has one level of noise. Where rows with a large feature j have larger errors than that level says,
estimates along j are less certain than the fit believes, and new rewards of such rows err more although
nothing has changed. A feature's own level is the mean of squared errors, weighted by the feature's square;
the errors are divided by what the fit left of them, so that a feature on which the fit spent its rows does
not look quiet.

A task that played loud actions has a high level because of them, and beside it they look quiet; another task,
whose level is that of quiet actions, knows nothing of how loud they are. So levels of features and of tasks
are told apart in turns. A task's bounds then widen along a feature by the feature's level over what is usual
of the task's own rows.

Few rows along a feature say little of its level: levels are shrunk across features as those of tasks are
(`noise`), and what remains uncertain widens them by Student's quantile. Where features differ by no more than
chance does, that leaves all of them at one.

While a fit has spent nearly all rows along a feature on what tasks have of their own, none of this is known:
loud noise looks like tasks that differ much. Where such a feature's left-over stands out among the others',
all of it may be noise (`passed_through`).

Nor is a feature as loud in one task as in another. Where levels of tasks differ by more than chance does, the
noise of what a task has hardly played may be of any of these sizes: a bound along it has Student's quantile
with no more degrees of freedom than other tasks lend and the task's own rows along the feature give.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banister.data import Float, Int
from banister.safety.noise import LEAST_FREEDOM, MANY, moderate, wider
from banister.safety.widening import sums

EVEN: Float = np.ones(0)  # nothing is louder than anything else
_TURNS = 5  # of telling levels of features and of tasks apart
_TELLING = 3.0  # degrees of freedom along a feature: from there on noise is told from tasks that differ
_APART = 4.0  # times the usual left-over of features, beyond which it may be noise


class Loudness(NamedTuple):
    """By how much the variance of noise along each feature exceeds a task's level; at least 1.

    Attributes:
        common: (p,) over what is usual of all rows; what new rewards are compared with.
        each: (T, p) over what is usual of each task's rows; by this bounds widen.
    """

    common: Float
    each: Float


class Told(NamedTuple):
    """Rows whose errors tell something of noise.

    Attributes:
        task: (n,) of each row; Z: (n, p) its features, an intercept among them.
        square: (n,) squared errors, in units of the task's noise variance.
        left: (n,) the share of each error that the fit has left, its expected square.
    """

    task: Int
    Z: Float
    square: Float
    left: Float


def loudness(told: Told, freedom: Float, z: float, least: Float | float = 1.0) -> Loudness:
    """How loud each feature is.

    Args:
        told: rows.
        freedom: (T, p) the degrees of freedom behind each task's noise along each feature, or (T, 1).
        z: the normal quantile of bounds.
        least: (T, p) how loud each must be feared to be, whatever errors say (`passed_through`).

    Examples:
        Two arms, of which the second is ten times as loud; the second task plays the first arm only:

        >>> Z, task = np.tile(np.eye(2), (200, 1)), np.zeros(400, dtype=int)
        >>> rows = Told(task, Z, np.tile([0.2, 2.0], 200), np.ones(400))
        >>> more = Told(task[:200] + 1, np.tile([1.0, 0.0], (200, 1)), np.full(200, 1.0), np.ones(200))
        >>> both = Told(*(np.concatenate(pair) for pair in zip(rows, more)))
        >>> loudness(both, np.full((2, 1), np.inf), 4.0).each.round(1)
        array([[ 1. ,  1.9],
               [ 1. , 10.2]])
    """
    energy = told.Z**2
    weight = energy * told.left[:, None]
    total = weight.sum(axis=0)
    own = total**2 / np.maximum((weight**2).sum(axis=0), 1e-300)
    n_tasks = len(freedom)
    level: Float = np.ones(n_tasks)
    for _ in range(_TURNS):
        square = told.square / level[told.task]
        features = moderate((energy * square[:, None]).sum(axis=0) / np.maximum(total, 1e-300), own)
        near = local(told.Z, features.variance)
        level = _levels(told, near, n_tasks)
    common = features.variance * _wider(features.freedom, z) / np.average(near, weights=told.left)
    few = np.minimum(freedom, features.freedom)
    each = features.variance * _wider(few, z) / _usual(told, near, n_tasks)[:, None]
    return Loudness(np.maximum(common, 1.0), np.maximum(each, least))


def passed_through(told: Told, left_over: Float, noise: Float) -> Float:
    """By how much noise may be louder along features whose rows the fit has spent, (T, p); 1 along others.

    Args:
        told: rows.
        left_over: (p,) variance of what tasks have of their own along each feature.
        noise: (T,) variance of noise that tasks are believed to have.

    Examples:
        No row with the third feature has an error left, and along it tasks differ by far the most:

        >>> rows = Told(np.zeros(8, dtype=int), np.tile(np.eye(3)[:2], (4, 1)), np.ones(8), np.ones(8))
        >>> passed_through(rows, np.array([0.1, 0.1, 4.0]), np.array([0.5, 0.1]))
        array([[ 1.,  1.,  9.],
               [ 1.,  1., 41.]])
    """
    energy, left = told.Z**2, told.left[:, None]
    seen = (energy * left).sum(axis=0) ** 2 / np.maximum((energy**2 * left).sum(axis=0), 1e-300)
    doubted = (seen < _TELLING) & (left_over > _APART * np.median(left_over))
    found: Float = np.where(doubted, 1 + left_over / noise[:, None], 1.0)
    return found


def _levels(told: Told, near: Float, n_tasks: int) -> Float:
    """Noise variances of tasks (T,) once errors are divided by their features' level `near` (n,)."""
    freedom = _sums(told, told.left, n_tasks)
    levels = moderate(_sums(told, told.square / near, n_tasks) / np.maximum(freedom, 1e-300), freedom)
    return np.maximum(levels.variance, 1e-300)


def _usual(told: Told, near: Float, n_tasks: int) -> Float:
    """The mean level of features over each task's rows, (T,); the least of all for tasks without rows."""
    freedom, total = _sums(told, told.left, n_tasks), _sums(told, told.left * near, n_tasks)
    some = freedom > 0
    usual = total[some] / freedom[some]
    found = np.full(n_tasks, usual.min())
    found[some] = usual
    return found


def _sums(told: Told, values: Float, n_tasks: int) -> Float:
    """Sums of values (n,) over each task's rows, (T,)."""
    return np.asarray(np.bincount(told.task, weights=values, minlength=n_tasks), dtype=float)


def _wider(freedom: Float, z: float) -> Float:
    """`noise.wider` by a whole number of degrees of freedom, so that many entries ask for few quantiles."""
    return wider(np.floor(np.clip(freedom, LEAST_FREEDOM, MANY)), z)


def rows_along(task: Int, Z: Float, n_tasks: int) -> Float:
    """How many rows of each task speak of each feature, (T, p): `(Σ z²)² / Σ z⁴` of its rows (n, p).

    Examples:
        >>> rows_along(np.array([0, 0, 0]), np.array([[1.0, 3.0], [1.0, 0.0], [-1.0, 0.0]]), 1)
        array([[3., 1.]])
    """
    square = Z**2
    found: Float = sums(task, square, n_tasks) ** 2 / np.maximum(sums(task, square**2, n_tasks), 1e-300)
    return found


def local(Z: Float, loud: Float) -> Float:
    """The variance of noise at rows (n, p) in units of the common level, (n,): a mean of their features'."""
    if len(loud) == 0:
        return np.ones(len(Z))
    square = Z**2
    total = square.sum(axis=1)
    mean: Float = np.where(total > 0, (square @ loud) / np.where(total > 0, total, 1.0), 1.0)
    return mean
