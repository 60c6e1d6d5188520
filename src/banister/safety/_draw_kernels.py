"""The compiled arithmetic of draws: shares of a committee, and the largest probability a floor allows."""

from __future__ import annotations

import numpy as np

from banister.safety._kernels import UP, floor_of, standardise
from banister.safety._matrix_kernels import taken, times, turned
from banister.solver.kernels import dot
from banister.solver.kernels import exact as compiled

_INSIDE = 1e-9  # a root is moved inwards by this share, so that rounding cannot leave it outside


@compiled
def _count(level, away, width, baseline, out):  # type: ignore[no-untyped-def]
    """How many members hold each action best, (K,); a tie with the baseline is the baseline's."""
    out[:] = 0.0
    for s in range(away.shape[0]):
        best = baseline
        most = level[best] + width * away[s, best]
        for k in range(level.shape[0]):
            value = level[k] + width * away[s, k]
            if value > most:
                best, most = k, value
        out[best] += 1.0


@compiled
def votes(level, away, leave, search, baseline, share, others):  # type: ignore[no-untyped-def]
    """What a committee with the scores `level + width · away` would play.

    Args:
        level, away: (K,) and (S, K).
        leave, search: the widths at which `share` (K,) and `others` (K,) are filled.
        baseline: the action in place.

    Returns:
        The share of members off the baseline at the width `leave`.
    """
    n_members, n_actions = away.shape
    _count(level, away, search, baseline, others)
    off = n_members - others[baseline]
    for k in range(n_actions):
        others[k] = others[k] / off if off > 0.0 else 1.0 / (n_actions - 1)
    others[baseline] = 0.0
    _count(level, away, leave, baseline, share)
    share /= n_members
    return 1.0 - share[baseline]


@compiled
def fallen_on(probabilities, u):  # type: ignore[no-untyped-def]
    """The first place whose part of the whole u in [0, 1) falls on; of what rounding leaves, the last."""
    whole = 0.0
    for k in range(probabilities.shape[0]):
        whole += probabilities[k]
    reach = u * whole
    last, edge = 0, 0.0
    for k in range(probabilities.shape[0]):
        edge += probabilities[k]
        if probabilities[k] > 0.0:
            last = k
            if edge > reach:
                break
    return last


@compiled
def _margin(p, gain, base, v_gain, cross, v_base, z):  # type: ignore[no-untyped-def]
    """`p·gain + base` less z standard errors."""
    spread = p * p * v_gain + 2.0 * p * cross + v_base
    return p * gain + base - z * np.sqrt(max(spread, 0.0))


@compiled
def largest(gain, base, v_gain, cross, v_base, z, free):  # type: ignore[no-untyped-def]
    """The largest p in [free, 1] with a margin of at least 0, or −1.

    The margin is concave in p, so the good p are an interval whose ends solve `A p² + 2 B p + C = 0`.

    Args:
        gain, base: means of the slope and of the value at p = 0; v_gain, cross, v_base: their covariance.
    """
    if _margin(1.0, gain, base, v_gain, cross, v_base, z) >= 0.0:
        return 1.0
    A = gain * gain - z * z * v_gain
    B = gain * base - z * z * cross
    C = base * base - z * z * v_base
    # Rounding can push a double root below 0; what has no root fails the test of its margin below.
    root = np.sqrt(max(B * B - A * C, 0.0))
    best = -1.0
    # Of the two forms of a root the one without cancellation: t = −B ∓ √, roots t/A and C/t.
    t = -B - root if B >= 0.0 else -B + root
    for p in (t / A if A != 0.0 else -1.0, C / t if t != 0.0 else -1.0):
        inside = p * (1.0 - _INSIDE)
        margin = _margin(inside, gain, base, v_gain, cross, v_base, z)
        if best < inside <= 1.0 and inside >= free and margin >= 0.0:
            best = inside
    return best


@compiled
def _moment(own, left):  # type: ignore[no-untyped-def]
    """`√UP ‖(own_j √left_j)‖₄`: its square is the variance allowed for the left-over's own doubt.

    A norm, so that of a sum is at most the sum of the norms: with it that variance is at most a square in p.
    """
    total = 0.0
    for j in range(left.shape[0]):
        total += (own[j] * own[j] * left[j]) ** 2
    return np.sqrt(UP * np.sqrt(total))


@compiled
def _with_doubt(gain, base, v_gain, cross, v_base, s_gain, s_base, z, free):  # type: ignore[no-untyped-def]
    """The largest p in [free, 1] with `p·gain + base` above 0 by z standard errors, or −1; and its margin."""
    v_gain, cross, v_base = v_gain + s_gain**2, cross + s_gain * s_base, v_base + s_base**2
    if not (v_gain >= 0.0 and v_base >= 0.0 and np.isfinite(cross)):
        return -1.0, np.nan
    p = largest(gain, base, v_gain, cross, v_base, z, free)
    return p, _margin(p, gain, base, v_gain, cross, v_base, z)


@compiled
def mixture(  # type: ignore[no-untyped-def]
    actions, baseline, others, low, high, std, literal, alpha, shift, scale, unit, mean, matrices, left,
    labelled, label_error, z, free,
):  # fmt: skip
    """The largest p, at least `free`, at which `(1−p) x_b + p x_q` clears its floor by z standard errors.

    With `δ = x_q − x_b` the draw is worth `x_b'θ + p δ'θ`. Three cases, as in `judge`: a baseline reward that
    counts as a label conditions the belief and fixes the floor; without one the draw is compared with the
    baseline of this very request: it clears its floor as soon as `(p δ ± α x_b)'θ ≥ 0` for one sign, plus
    for the floor `(1−α) r_b`, minus for `(1+α) r_b`; a reward that is claimed and does not count must be
    cleared as well.

    Args:
        actions, baseline, others: (K, d), an index, and (K,) how p is spread.
        low, high, std: the baseline reward as it was given, NaN where unknown.
        literal, alpha, shift, scale, unit: the floor, and the units of features and rewards.
        mean, matrices, left, labelled, label_error: the belief of this task.

    Returns:
        p; the bound on the draw's value, or on its height above the floor where that is unknown; the floor,
        0 in that case.
    """
    n, of = mean.shape[0], taken(matrices, 0)
    zb, delta, vb = np.empty(n), np.empty(n), np.empty(n)
    vd, own_b, own_d = np.empty(n), np.empty(n), np.empty(n)
    standardise(np.dot(others, actions), shift, scale, delta)
    standardise(actions[baseline], shift, scale, zb)
    delta -= zb
    times(of, zb, vb)
    times(of, delta, vd)
    turned(of, zb, own_b)
    turned(of, delta, own_d)
    gain, mean_b = dot(delta, mean), dot(zb, mean)
    v_gain, cross, v_b = dot(delta, vd), dot(delta, vb), max(dot(zb, vb), 0.0)
    given, number = not np.isnan(high), low == high
    r, error = high / unit, std / unit
    least = floor_of(r + z * error if number else r, alpha, literal)
    if number and labelled:
        noise = max(error, label_error) ** 2
        known = 1.0 / (v_b + noise)
        moved, keep = known * (r - mean_b), 1.0 - v_b * known
        own_d -= cross * known * own_b
        p, margin = _with_doubt(
            gain + cross * moved, mean_b + v_b * moved - least,
            v_gain - cross * cross * known + label_error**2, cross * keep, v_b * keep,
            _moment(own_d, left), abs(keep) * _moment(own_b, left), z, free,
        )  # fmt: skip
        return (p, (least + margin) * unit, least * unit) if p > free else (free, np.nan, least * unit)
    s_d, s_b = _moment(own_d, left), _moment(own_b, left)
    best, height = -1.0, np.nan
    for a in (alpha, -alpha):
        if not (literal and a < 0.0):
            p, margin = _with_doubt(
                gain, a * mean_b, v_gain, a * cross, a * a * v_b, s_d, abs(a) * s_b, z, free
            )
            if p > best:
                best, height = p, margin
    if given and best > free:
        p, margin = _with_doubt(gain, mean_b - least, v_gain, cross, v_b, s_d, s_b, z, free)
        if p < best:
            best, height = p, np.nan
    if best > free:
        return best, height * unit, 0.0
    return free, np.nan, floor_of(high, alpha, literal)
