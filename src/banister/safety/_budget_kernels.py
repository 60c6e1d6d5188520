"""The compiled bookkeeping of budgets: rewards in, probabilities out, on plain arrays. See `betting`.

Rows of the arrays are the tasks and, last, the fleet. Columns of `sums` are named below.
"""

from __future__ import annotations

import numpy as np

from banister.data import Float
from banister.safety._betting_kernels import (
    bet,
    log_mean,
    range_of_saving,
    running_mean,
    saving,
    suspect,
)
from banister.solver.kernels import exact as compiled

RATES = 14  # the smallest is 2^-13 of the largest, enough for 10^7 times the decisions of the first savings
_TOP = 4.0  # largest rate over |k|/σ²
_PEAK, _WIDTH, _TAIL = 3.0, 2.0, 0.02  # weights exp(−½((j−3)/2)²) + 0.02: flat near the useful rates
_SEEN = 10.0  # rewards that stand out (Kish's effective number of squared deviations) before rates are set

# Columns of `sums`: all rewards (number, Σ(y−k)², Σ(y−k)⁴); those of the baseline (number, Σy); what counted
# as evidence (number, ΣW, Σ(W−c)²); the baseline's among these (number, Σk); pending (number, Σp).
COLUMNS = 12
N, SPREAD, SPREAD2, PLAYS, EARNED, COUNTED, SAVED, SQUARES, HEARD, CENTRED, EXPOSED, EXPOSURE = range(COLUMNS)


def log_weights(n: int) -> Float:
    """Logarithms of the weights of n rates."""
    w = np.exp(-0.5 * ((np.arange(n) - _PEAK) / _WIDTH) ** 2) + _TAIL
    weights: Float = np.log(w / w.sum())
    return weights


LOG_WEIGHTS = log_weights(RATES)


@compiled
def centre(sums, row, low):  # type: ignore[no-untyped-def]
    """k: the running mean of the baseline's rewards; a task's is drawn towards the fleet's."""
    last = sums.shape[0] - 1
    own, fleet = sums[row], sums[last]
    if row == last:
        return running_mean(0.0, 0.0, fleet[PLAYS], fleet[EARNED], low)
    return running_mean(own[PLAYS], own[EARNED], fleet[PLAYS], fleet[EARNED], low)


@compiled
def set_rates(rates, sums, low):  # type: ignore[no-untyped-def]
    """Fix the rates once the fleet's rewards show a scale."""
    x = sums[sums.shape[0] - 1]
    if x[SPREAD2] <= 0.0 or x[SPREAD] ** 2 / x[SPREAD2] < _SEEN:
        return
    variance = x[SPREAD] / x[N]
    top = max(_TOP * abs(centre(sums, sums.shape[0] - 1, low)) / variance, 0.5 / np.sqrt(variance))
    for j in range(rates.shape[0]):
        rates[j] = top * 0.5**j


@compiled
def expose(sums, task, p, free, sign):  # type: ignore[no-untyped-def]
    """A draw beyond its free share begins (sign 1) or ends (−1) to wait for its reward."""
    if p <= free:
        return
    for row in (task, sums.shape[0] - 1):
        sums[row, EXPOSED] += sign
        sums[row, EXPOSURE] += sign * p


@compiled
def update(  # type: ignore[no-untyped-def]
    rates, weights, wealth, recent, harm, upper, sums, alarms, task, played_baseline, y, pi_b, control, free,
    alpha, low, high, keep, alarm,
):  # fmt: skip
    """Rewards (m,) in the order of their decisions, each for its task's row and for the fleet's."""
    for i in range(task.shape[0]):
        k = control[i] if control[i] == control[i] else centre(sums, task[i], low)
        k = min(max(k, low), high)
        for row in (task[i], sums.shape[0] - 1):
            if rates[0] > 0.0:
                _count(
                    rates, weights, wealth[row], recent[row], harm[row], upper[row], sums[row],
                    alarms[row : row + 1], played_baseline[i], y[i], pi_b[i], k, free[i], alpha, low, high,
                    keep, alarm,
                )  # fmt: skip
            _describe(sums[row], played_baseline[i], y[i], k)
        if rates[0] == 0.0:
            set_rates(rates, sums, low)


@compiled
def _count(  # type: ignore[no-untyped-def]
    rates, weights, wealth, recent, harm, upper, sums, alarms, played_baseline, y, pi_b, k, free, alpha, low,
    high, keep, alarm,
):  # fmt: skip
    """One reward as evidence for one row."""
    factor = 1.0 - alpha if k >= 0.0 else 1.0 + alpha
    w = saving(y, played_baseline, pi_b, k, factor)
    least, most = range_of_saving(pi_b, k, factor, low, high)
    p, mid = 1.0 - pi_b, alpha * abs(k)
    certain = 0.0 if p <= free else min(alpha * abs(high) - p * (high - low), 0.0)
    bet(wealth, rates, w, mid, least, certain, 1.0)
    bet(recent, rates, w, mid, least, certain, keep)
    suspect(harm, rates, w, most)
    if log_mean(harm, weights) > alarm:
        alarms[0] += 1.0
        harm[:] = 0.0
        recent[:] = 0.0
    if played_baseline:
        bet(upper, rates, k - y, 0.0, k - high, k - high, 1.0)
        sums[HEARD] += 1.0
        sums[CENTRED] += k
    sums[COUNTED] += 1.0
    sums[SAVED] += w
    sums[SQUARES] += (w - mid) ** 2


@compiled
def _describe(sums, played_baseline, y, k):  # type: ignore[no-untyped-def]
    square = (y - k) ** 2
    sums[N] += 1.0
    sums[SPREAD] += square
    sums[SPREAD2] += square * square
    if played_baseline:
        sums[PLAYS] += 1.0
        sums[EARNED] += y


@compiled
def largest_share(limit, alpha, most):  # type: ignore[no-untyped-def]
    """The largest p in [α, most] with `p + (p−α)²/(1−p) ≤ limit`, α if none.

    Times 1 − p it is linear: `p(1−2α) + α² ≤ limit (1−p)`.
    """
    p = (limit - alpha * alpha) / (limit + 1.0 - 2.0 * alpha)
    return min(max(p, alpha), most)


@compiled
def affordable(left, u, alpha, low):  # type: ignore[no-untyped-def]
    """The largest p that costs at most `left`: `p (u − lo) − α|u| ≤ left`; 0 if nothing is left."""
    if left <= 0.0:
        return 0.0
    return min(1.0, (left + alpha * abs(u)) / max(u - low, 1e-300))


@compiled
def cost(number, total, u, alpha, low):  # type: ignore[no-untyped-def]
    """What `number` draws with `total` probability off the baseline can cost, a baseline being worth u."""
    return max(total * (u - low) - number * alpha * abs(u), 0.0)
