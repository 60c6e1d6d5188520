"""What a belief is made from, and what of it tells anything."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.safety.past import Past

PAIRED = 400  # latest rows of a task whose pairs are compared when claims are judged
_CLICKS = 2  # rewards that are not the usual one, for each coefficient


class Seen(NamedTuple):
    """Everything a belief is made from.

    Attributes:
        task, X, y: (n,), (n, d), (n,) what was played and earned.
        is_baseline: (n,) whether that was the baseline.
        claim: (n,) the baseline reward claimed for it; NaN for other actions and where none was given.
        label_task, labelled_features, label, label_std: every claimed baseline reward, played or not.
        offered_task, offered: a sample of the actions offered.
        past, label_past: plays and labels of long ago, of which only sums are left.
    """

    task: Int
    X: Float
    y: Float
    is_baseline: Bool
    claim: Float
    label_task: Int
    labelled_features: Float
    label: Float
    label_std: Float
    offered_task: Int
    offered: Float
    past: Past | None = None
    label_past: Past | None = None


def telling(y: Float, dim: int, past: Past | None = None) -> bool:
    """Whether rewards can tell anything: where most are one value (no click), enough others must be there.

    A model of `dim` coefficients explains a handful of clicks among many zeros perfectly, and is wrong.
    """
    times, n = np.ones(len(y)), len(y)
    if past is not None:
        y, times, n = np.append(y, past.usual), np.append(times, past.times), n + int(past.n.sum())
    if n == 0:
        return False
    most = int(most_common(np.zeros(len(y), dtype=np.int64), y, 1, times)[0])
    return n > most if 2 * most <= n else n - most >= _CLICKS * dim


def most_common(task: Int, y: Float, n_tasks: int, times: Float) -> Float:
    """How often each task's most common reward came, (T,), each of `y` having come so many `times`."""
    order = np.lexsort((y, task))
    t, value = task[order], y[order]
    starts = np.flatnonzero(np.r_[True, (t[1:] != t[:-1]) | (value[1:] != value[:-1])])
    most = np.zeros(n_tasks)
    np.maximum.at(most, t[starts], np.add.reduceat(times[order], starts))
    return most


def latest(task: Int, which: Bool, n_tasks: int) -> Int:
    """The latest rows of each task among some, at most `PAIRED` each."""
    rows = np.flatnonzero(which)
    order = rows[np.argsort(task[rows], kind="stable")]
    n = np.bincount(task[rows], minlength=n_tasks)
    after = np.cumsum(n)[task[order]] - np.arange(len(order))  # how many of its task follow, itself included
    return np.sort(order[after <= PAIRED])
