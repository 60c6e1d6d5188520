"""The compiled arithmetic of betting: one reward, one bound. `betting` has the theorem and the words.

Every function here is pure arithmetic on numbers and small arrays, one entry per rate; each has a plain numpy
twin in the tests. NaN and infinity keep their meaning (no fast mathematics).
"""

from __future__ import annotations

import numpy as np

from banister.solver.kernels import exact as compiled

MOST = 0.9  # a bet risks at most this share of the wealth: log(1 − 0.9) = −2.3 is the worst single step
_TRUST = 20.0  # a task's running mean counts the fleet's as this many of its own rewards
_STEPS = 60  # Newton steps at most; from the left of a convex function it takes 5 to 8


@compiled
def running_mean(plays, earned, fleet_plays, fleet_earned, low):  # type: ignore[no-untyped-def]
    """The mean of a task's rewards, drawn towards the fleet's; the fleet's own for no plays."""
    fleet = low if fleet_plays == 0.0 else fleet_earned / fleet_plays
    return (earned + _TRUST * fleet) / (plays + _TRUST)


@compiled
def saving(y, played_baseline, pi_b, k, factor):  # type: ignore[no-untyped-def]
    """`W = y − f·(k + [a=b](y−k)/π_b)`; its mean is the draw's value less f times the baseline's."""
    return y - factor * (k + ((y - k) / pi_b if played_baseline else 0.0))


@compiled
def range_of_saving(pi_b, k, factor, low, high):  # type: ignore[no-untyped-def]
    """The least and the greatest value that `saving` can take for a reward in [low, high]."""
    at_low = saving(low, True, pi_b, k, factor)
    at_high = saving(high, True, pi_b, k, factor)
    least, most = min(at_low, at_high), max(at_low, at_high)
    if pi_b < 1.0:
        least, most = min(least, low - factor * k), max(most, high - factor * k)
    return least, most


@compiled
def bet(log_wealth, rates, x, centre, least, certain, keep):  # type: ignore[no-untyped-def]
    """Multiply each rate's wealth by what its bet on x returns.

    A bet of size `λ = min(η, MOST/(centre − least))` keeps the wealth positive. The rest of the rate, η − λ,
    is settled with what is certain: `E x ≥ certain`.

    Args:
        log_wealth: (J,), changed in place; keep: what it is multiplied by first (1: nothing is forgotten).
        rates: (J,) η.
        x: what was seen; centre: a guess of its mean, made before; least: no x is below this.
        certain: a lower bound on the mean of x that needs no data.
    """
    largest = MOST / max(centre - least, 1e-300)
    for j in range(rates.shape[0]):
        size = min(rates[j], largest)
        gain = np.log1p(size * (x - centre)) + size * centre + (rates[j] - size) * certain
        log_wealth[j] = keep * log_wealth[j] + gain


@compiled
def lower_bound(log_wealth, rates, log_weights, log_odds):  # type: ignore[no-untyped-def]
    """The s at which `Σ_j w_j exp(C_j − η_j s) = 1/δ`, with `log_odds = log(1/δ)`.

    The logarithm of the sum is convex and falls in s. The start, where the largest single term alone reaches
    1/δ, lies to the left of the root, from where Newton's steps cannot overshoot.
    """
    s = -np.inf
    for j in range(rates.shape[0]):
        s = max(s, (log_wealth[j] + log_weights[j] - log_odds) / rates[j])
    for _ in range(_STEPS):
        top = -np.inf
        for j in range(rates.shape[0]):
            top = max(top, log_wealth[j] + log_weights[j] - rates[j] * s)
        total = slope = 0.0
        for j in range(rates.shape[0]):
            term = np.exp(log_wealth[j] + log_weights[j] - rates[j] * s - top)
            total += term
            slope += term * rates[j]
        step = (top + np.log(total) - log_odds) * total / slope
        s += step
        if step <= 1e-12 * (abs(s) + 1.0 / rates[0]):
            break
    return s


@compiled
def lower_bounds(log_wealth, rates, log_weights, log_odds, out):  # type: ignore[no-untyped-def]
    """`lower_bound` of every row of log_wealth (rows, J)."""
    for row in range(log_wealth.shape[0]):
        out[row] = lower_bound(log_wealth[row], rates, log_weights, log_odds)


@compiled
def suspect(harm, rates, x, most):  # type: ignore[no-untyped-def]
    """Carry on the search for a recent fall: `H_j = max(H_j, 0) + log(1 − λ x)` for each rate."""
    largest = MOST / max(most, 1e-300)
    for j in range(rates.shape[0]):
        harm[j] = max(harm[j], 0.0) + np.log1p(-min(rates[j], largest) * x)


@compiled
def log_mean(values, log_weights):  # type: ignore[no-untyped-def]
    """`log Σ_j w_j exp(v_j)`."""
    top = -np.inf
    for j in range(values.shape[0]):
        top = max(top, values[j] + log_weights[j])
    total = 0.0
    for j in range(values.shape[0]):
        total += np.exp(values[j] + log_weights[j] - top)
    return top + np.log(total)
