"""Checks of single tasks: one that does not fit the shared model must not be certified by it."""

from __future__ import annotations

import numpy as np

from banister.contract import Bool
from banister.data import Float, TaskData
from banister.estimators.rank import MOST_FITTED
from banister.safety.noise import task_sums

OPEN, NO_DATA, REGIME, FEW_ROWS, MISFIT, BASELINES, UNDECIDED, DRIFT, RANK = range(9)
REASONS = (
    "certified",
    "fallback:no-data",
    "fallback:signal-too-weak",
    "fallback:few-rows",
    "fallback:task-misfit",
    "fallback:baseline-disagrees",
    "fallback:fit-undecided",
    "fallback:drift",
    "fallback:rank-too-small",
)

_ALONE = 0.5
_MISFIT = 4.0
_BASELINE_RMS = 1.75
_FAR_WORSE = 4.0
NOTICEABLE = 0.1  # of a row's standard error; a smaller misfit is no reason to shut a gate


def few_rows(counts: Float, rank: int) -> Bool:
    """Tasks with too few rows to have coefficients of their own and a residual."""
    return counts < 2 * rank + 1


def alone(W: Float, counts: Float, variance: Float, dim: int) -> Bool:
    """Tasks that have a direction of W (T, k) nearly to themselves, and too few rows to know it alone.

    A task outside the subspace is given a direction of its own, which then fits every row of it. Other tasks
    seem to confirm that direction by coefficients that are noise, and the standard error believes them.
    The rule is that of `rank.MOST_FITTED`: no more fitted numbers than half the rows.
    """
    weighted = W * np.sqrt(counts / variance)[:, None]
    share = np.sum(np.linalg.qr(weighted)[0] ** 2, axis=1)
    found: Bool = (share > _ALONE) & (dim * share > MOST_FITTED * counts)
    return found


def misfit(data: TaskData, correlation: Float, residual: Float, variance: Float) -> Float:
    """The studentised U-statistic Σ_{i≠j} e_i e_j x̃_i'x̃_j of each task, (T,).

    Large where a task's residuals agree on a direction, as those of a task outside the shared subspace do.
    Squared lengths of whitened rows stand as their share of the mean, which is d.
    """
    lengths = np.einsum("ij,ij->i", data.X, data.X)
    lengths *= data.dim / max(float(lengths.mean()), np.finfo(float).tiny)
    own = np.bincount(data.codes, weights=residual**2 * lengths, minlength=data.n_tasks)
    statistic = np.einsum("dt,dt->t", correlation, correlation) - own
    total = np.bincount(data.codes, weights=lengths, minlength=data.n_tasks)
    pairs = np.maximum(total**2 - task_sums(lengths, data.codes, data.n_tasks), np.finfo(float).tiny)
    studentised: Float = statistic / (variance * np.sqrt(2 * pairs / data.dim))
    return studentised


def misfitting(statistic: Float) -> Bool:
    """Tasks whose residuals agree on a direction."""
    return statistic > _MISFIT


def baseline_rms(residual: Float, is_label: Bool, data: TaskData) -> Float:
    """Root mean square of the scaled residuals of each task's baseline labels, (T,); 0 without labels.

    They are not divided by the task's own variance: a task outside the model must not pass for a noisy one.
    """
    codes = data.codes[is_label]
    n = np.bincount(codes, minlength=data.n_tasks)
    sums = task_sums(residual[is_label], codes, data.n_tasks)
    return np.sqrt(np.divide(sums, n, out=np.zeros(data.n_tasks), where=n > 0))


def disagreeing(rms: Float) -> Bool:
    """Tasks whose known baseline rewards do not fit the model, or fit far worse than other tasks' do."""
    seen = rms[rms > 0]
    usual = float(np.median(seen)) if len(seen) else 0.0
    return rms > min(_BASELINE_RMS, max(_FAR_WORSE * usual, NOTICEABLE))
