"""The compiled arithmetic of draws: shares of a committee, and the largest probability a floor allows."""

from __future__ import annotations

import numpy as np

from banister.safety._betting_kernels import compiled

_INSIDE = 1e-9  # a root is moved inwards by this share, so that rounding cannot leave it outside


@compiled
def shares(scores, baseline, share, others):  # type: ignore[no-untyped-def]
    """Fill `share` and `others` (K,) from scores (S, K); returns the share off the baseline."""
    n_members, n_actions = scores.shape
    share[:] = 0.0
    for s in range(n_members):
        best = baseline
        for k in range(n_actions):
            if scores[s, k] > scores[s, best]:
                best = k
        share[best] += 1.0
    off = n_members - share[baseline]
    for k in range(n_actions):
        if k == baseline:
            others[k] = 0.0
        else:
            others[k] = share[k] / off if off > 0.0 else 1.0 / (n_actions - 1)
        share[k] /= n_members
    return off / n_members


@compiled
def _margin(p, gain, mean_b, v_gain, cross, v_b, a, z):  # type: ignore[no-untyped-def]
    """`(pδ + a x_b)'μ` less z standard errors."""
    spread = p * p * v_gain + 2.0 * p * a * cross + a * a * v_b
    return p * gain + a * mean_b - z * np.sqrt(max(spread, 0.0))


@compiled
def _largest(gain, mean_b, v_gain, cross, v_b, a, z, free):  # type: ignore[no-untyped-def]
    """The largest p in [free, 1] with a margin of at least 0, or −1.

    The margin is concave in p, so the good p are an interval whose ends solve `A p² + 2 B p + C = 0`.
    """
    if _margin(1.0, gain, mean_b, v_gain, cross, v_b, a, z) >= 0.0:
        return 1.0
    A = gain * gain - z * z * v_gain
    B = a * (gain * mean_b - z * z * cross)
    C = a * a * (mean_b * mean_b - z * z * v_b)
    # Rounding can push a double root below 0; what has no root fails the test of its margin below.
    root = np.sqrt(max(B * B - A * C, 0.0))
    best = -1.0
    # Of the two forms of a root the one without cancellation: t = −B ∓ √, roots t/A and C/t.
    t = -B - root if B >= 0.0 else -B + root
    for p in (t / A if A != 0.0 else -1.0, C / t if t != 0.0 else -1.0):
        inside = p * (1.0 - _INSIDE)
        margin = _margin(inside, gain, mean_b, v_gain, cross, v_b, a, z)
        if best < inside <= 1.0 and inside >= free and margin >= 0.0:
            best = inside
    return best


@compiled
def cap_unknown(gain, mean_b, v_gain, cross, v_b, alpha, z, free):  # type: ignore[no-untyped-def]
    """The decision cap where r_b is unknown: either floor, (1−α) r_b or (1+α) r_b, is enough.

    Args:
        gain, mean_b: δ'μ and x_b'μ.
        v_gain, cross, v_b: δ'Vδ, δ'V x_b, x_b'V x_b.
        alpha, z, free: see `draw.decision_cap`.
    """
    plus = _largest(gain, mean_b, v_gain, cross, v_b, alpha, z, free)
    minus = _largest(gain, mean_b, v_gain, cross, v_b, -alpha, z, free)
    return max(free, max(plus, minus))


@compiled
def cap_known(low, r_b, alpha, free):  # type: ignore[no-untyped-def]
    """The decision cap where r_b is known: `p (r_b − low) ≤ α|r_b|`, low the bound on the rest's value."""
    loss = r_b - low
    if loss <= 0.0:
        return 1.0
    return min(max(alpha * abs(r_b) / loss, free), 1.0)


@compiled
def ask_many(  # type: ignore[no-untyped-def]
    task, actions, baseline, committee, mean, cov, alpha, z, free, share, others, wish, cap
):
    """Committee and decision cap of many requests.

    Args:
        task: (m,); actions: (m, K, d); baseline: (m,) indices.
        committee: (T, S, d); mean: (T, d); cov: (T, d, d).
        alpha, z: as in `draw.decision_cap`; z = inf gives the free share.
        free: (m,) free shares.
        share, others: (m, K) results; wish, cap: (m,) results.
    """
    m, _, d = actions.shape
    delta, v_delta, v_b = np.empty(d), np.empty(d), np.empty(d)
    for i in range(m):
        x, t, b = actions[i], task[i], baseline[i]
        wish[i] = shares(np.dot(committee[t], x.T), b, share[i], others[i])
        cap[i] = free[i]
        if np.isinf(z):
            continue
        delta[:] = np.dot(others[i], x) - x[b]
        v_delta[:] = np.dot(cov[t], delta)
        v_b[:] = np.dot(cov[t], x[b])
        cap[i] = cap_unknown(
            np.dot(delta, mean[t]), np.dot(x[b], mean[t]), np.dot(delta, v_delta), np.dot(delta, v_b),
            np.dot(x[b], v_b), alpha, z, free[i],
        )  # fmt: skip
