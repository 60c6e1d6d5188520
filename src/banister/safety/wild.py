"""Wild rewards: what a few values far outside all others may do to a fit.

A typing error, a test order or an overflow can make one reward a thousand times too large. Least squares
would follow it and every bound would widen. So a reward that lies far outside the usual ones counts as the
largest (or the smallest) usual one: it keeps its side, since a very bad reward must not vanish, and loses its
size.

What is usual is read off the rewards themselves, in any unit. With the median as centre, and among the
distances from it that are not zero, let `m` be the median and `q` the value that a tenth exceeds; then

    reach = q · max(q / m, 2)³

For normal noise that is 24 standard deviations. A heavier tail has a larger `q / m` and is let further: for
95 % zeros and log-normal revenue the reach lies beyond five standard deviations of its logarithm, where less
than a thousandth of the mean is to be found, so that an arm which seldom sells is not robbed of its sales.

A task with many rewards has a reach of its own, others share one. Values beyond it are errors only while they
are few. Where they come more often than `FEW` they are what the task earns, and count in full; unless they
are so far out that no arithmetic holds them beside the others': then the task is left out of the fit and
stays at its baseline.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int

FEW = 1 / 400  # of rewards: what comes more often is a pattern and no accident; one in a task is always few
_FEW_IN_ALL = 3  # wild rewards in the whole fleet that are always few
_LEAST = 20  # rewards off the centre before anything can be called usual
_OWN = 200  # rewards from which a task has a centre and a reach of its own
_LIGHTEST = 2.0  # least ratio of the two distances: clicks and ratings have hardly a tail
_POWER = 3  # of that ratio: see the module's text
_BEYOND = 1e5  # reaches: squares ten powers of ten apart leave nothing of the others' noise


class Tamed(NamedTuple):
    """Rewards as a fit counts them.

    Attributes:
        y: (n,) with wild ones put at the end of what is usual.
        wild: (n,) which those are.
        left_out: (n,) rows of tasks that cannot be fitted with the others.
    """

    y: Float
    wild: Bool
    left_out: Bool


def tame(task: Int, y: Float) -> Tamed:
    """Put an end to wild rewards (n,) of tasks (n,).

    Examples:
        >>> y = np.r_[np.linspace(0.0, 2.0, 99), 1000.0]
        >>> out = tame(np.zeros(100, dtype=int), y)
        >>> out.y.max(), int(out.wild.sum())
        (np.float64(2.0), 1)
    """
    nobody = np.zeros(len(y), dtype=bool)
    if len(y) == 0:
        return Tamed(y, nobody, nobody)
    with np.errstate(over="ignore", invalid="ignore"):  # infinitely far is far
        common = _reaches(y, np.zeros(len(y)))
        out = _own_where_told(task, y, common)
    far, absurd = out > 1.0, common > _BEYOND
    if not (far | absurd).any():
        return Tamed(y, nobody, nobody)
    T = int(task.max()) + 1
    n, wild = np.bincount(task), np.bincount(task[far | absurd], minlength=T)
    pattern = wild > np.maximum(1, FEW * n)
    if wild.sum() > max(_FEW_IN_ALL, FEW * len(y)):
        pattern = wild > 0
    left_out = (pattern & (np.bincount(task[absurd], minlength=T) > 0))[task]
    wild_rows = (far | absurd) & ~pattern[task]
    return Tamed(np.where(wild_rows, np.clip(y, *_ends(task, y, ~(far | absurd))), y), wild_rows, left_out)


def _ends(task: Int, y: Float, usual: Bool) -> tuple[Float, Float]:
    """The least and the largest usual reward: of the row's own task where that has many, (n,) each."""
    T = int(task.max()) + 1
    low, high = np.full(T, np.inf), np.full(T, -np.inf)
    np.minimum.at(low, task[usual], y[usual])
    np.maximum.at(high, task[usual], y[usual])
    own = np.bincount(task[usual], minlength=T) >= _OWN
    low, high = np.where(own, low, y[usual].min()), np.where(own, high, y[usual].max())
    return low[task], high[task]


def _own_where_told(task: Int, y: Float, common: Float) -> Float:
    """How far each reward is from its centre, in reaches: the task's own where it has many, (n,)."""
    out, n = common.copy(), np.bincount(task)
    order, ends = np.argsort(task, kind="stable"), np.cumsum(n)
    for t in np.flatnonzero(n >= _OWN):
        rows = order[ends[t] - n[t] : ends[t]]
        out[rows] = _reaches(y[rows], out[rows])
    return out


def _reaches(y: Float, otherwise: Float) -> Float:
    """Distances from the median in reaches; `otherwise` where too few rewards can tell."""
    distance = np.abs(y - np.median(y))
    off = distance[distance > 0]
    if len(off) < _LEAST:
        return otherwise
    middle, tenth = np.quantile(off, [0.5, 0.9])
    scaled: Float = distance / tenth / max(tenth / middle, _LIGHTEST) ** _POWER
    return scaled
