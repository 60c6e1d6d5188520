"""Is a claimed baseline reward what the baseline is expected to earn *in this request*?

A claim `r_b` that is right is worth far more than a noisy reward, and one that is wrong (a task's average
passed for every request, a forecast of another quantity) breaks every floor that it enters. So claims become
labels only as far as rewards of played baselines bear them out:

* a task whose claims stay the same while its baselines' features vary was given an average;
* within tasks, rewards must rise with claims: a slope of three standard errors at least, within four of 1;
* `reward − claim` must leave nothing that depends on the features, in pairs of rows of a task and overall.

Claims that fail are not used, neither in the fit nor in a decision; the floor of the number given has to be
cleared all the same, since whoever gave it meant it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int

_LEAST_ROWS = 10  # played baselines with a claim before claims can be compared with rewards
_SAME = 1e-9  # relative range below which claims are one number
_MOVES = 1e-6  # range of a standardised feature from which baselines differ
_RISES = 3.0  # standard errors of the slope
_OFF_ONE = 4.0  # standard errors by which the slope may differ from 1
_OFF_EXACT = 0.02  # and by this much in any case: claims are rounded
_DEPENDS = 4.5  # standard deviations of the U-statistic


class Claims(StrEnum):
    """What was found about claimed baseline rewards."""

    NONE = "none given"
    UNTESTED = "too few rewards to compare them with"
    BORNE_OUT = "borne out by rewards"
    AVERAGES = "averages, not expectations of each request"
    NOT_BORNE_OUT = "not borne out by rewards yet"
    CONTRADICTED = "contradicted by rewards"


@dataclass(frozen=True, eq=False)
class Trust:
    """The verdict on all claims, and the tasks (T,) whose claims count as labels."""

    verdict: Claims
    labelled: Bool


def trust(
    task: Int, Z: Float, y: Float, claim: Float, label_task: Int, label_Z: Float, label: Float, n_tasks: int
) -> Trust:
    """Judge claims.

    Args:
        task, Z, y, claim: played baselines that came with a claim: their features, rewards and claims.
        label_task, label_Z, label: all claims, played or not.
        n_tasks: T.
    """
    nobody = np.zeros(n_tasks, dtype=bool)
    if len(label) == 0:
        return Trust(Claims.NONE, nobody)
    average = averages(label_task, label_Z, label, n_tasks)
    given = np.bincount(label_task, minlength=n_tasks) > 0
    if (average | ~given).all():
        return Trust(Claims.AVERAGES, nobody)
    rows = ~average[task]
    task, Z, y, claim = task[rows], Z[rows], y[rows], claim[rows]
    if len(y) < _LEAST_ROWS:
        return Trust(Claims.UNTESTED, nobody)
    if depends(task, Z, y - claim):
        return Trust(Claims.CONTRADICTED, nobody)
    if not _rises(task, y, claim, n_tasks, _vary(label_task, label_Z, n_tasks)):
        return Trust(Claims.NOT_BORNE_OUT, nobody)
    return Trust(Claims.BORNE_OUT, ~average)


def averages(task: Int, Z: Float, label: Float, n_tasks: int) -> Bool:
    """Tasks with three claims or more that are one number while their features vary, (T,)."""
    found = np.zeros(n_tasks, dtype=bool)
    for t, rows in _by_task(task, n_tasks):
        if len(rows) >= 3:
            values = label[rows]
            same = np.ptp(values) <= _SAME * np.abs(values).max()
            found[t] = bool(same and np.ptp(Z[rows], axis=0).max() > _MOVES)
    return found


def _vary(task: Int, Z: Float, n_tasks: int) -> bool:
    """Whether some task's baselines differ from request to request."""
    return any(np.ptp(Z[rows], axis=0).max() > _MOVES for _, rows in _by_task(task, n_tasks))


def _rises(task: Int, y: Float, claim: Float, n_tasks: int, vary: bool) -> bool:
    """Whether rewards follow claims one for one within tasks. Fixed baselines cannot tell, and need not."""
    n = np.bincount(task, minlength=n_tasks)
    x, r = _centred(claim, task, n), _centred(y, task, n)
    if x @ x <= 1e-12 * (claim @ claim):
        return not vary
    slope = float(x @ r) / float(x @ x)
    small = len(y) / max(len(y) - int((n > 0).sum()), 1)
    error = max(float(np.sqrt(((x * (r - slope * x)) ** 2).sum() * small)) / float(x @ x), 1e-12)
    return slope >= _RISES * error and abs(slope - 1) <= _OFF_ONE * error + _OFF_EXACT


def _centred(values: Float, task: Int, n: Int) -> Float:
    means = np.bincount(task, weights=values, minlength=len(n)) / np.maximum(n, 1)
    centred: Float = values - means[task]
    return centred


def depends(task: Int, Z: Float, error: Float) -> bool:
    """Whether errors (n,) depend on features (n, p), in the rows of one task or in all rows together."""
    statistic = variance = 0.0
    for _, rows in _by_task(task, int(task.max()) + 1):
        X, e = Z[rows], error[rows]
        products = (X @ X.T) * np.outer(e, e)
        np.fill_diagonal(products, 0.0)
        statistic += products.sum()
        variance += 2 * (products**2).sum()
    if statistic > _DEPENDS * np.sqrt(max(variance, 1e-300)):
        return True
    score = Z.T @ error
    moment = (Z * (error**2)[:, None]).T @ Z
    p = Z.shape[1]
    overall = score @ np.linalg.pinv(moment, rcond=1e-10, hermitian=True) @ score
    return bool(overall > p + 5 * np.sqrt(2 * p) + 10)


def _by_task(task: Int, n_tasks: int) -> list[tuple[int, Int]]:
    """Each task's rows."""
    order = np.argsort(task, kind="stable")
    n = np.bincount(task, minlength=n_tasks)
    ends = np.cumsum(n)
    return [(int(t), order[ends[t] - n[t] : ends[t]]) for t in np.flatnonzero(n)]
