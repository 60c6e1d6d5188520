"""The compiled inner loops of the policies that keep one ridge regression per task.

Each task keeps a square root `S` of its inverse Gram matrix, `SS' = V⁻¹`. One matrix then serves everything:
`‖x‖_{V⁻¹} = ‖S'x‖`, a sample of `N(0, V⁻¹)` is `Sη`, and a new row is a rank-one change of `S`, after which
`SS'` is still positive definite whatever the rounding:

    w = S'x,  q = √(1 + w'w),  S ← S (I − ww'/(q(q + 1))),   as  (I − ww'/(q(q+1)))² = I − ww'/(1 + w'w).

Every kernel has a plain numpy twin in the tests.
"""

from __future__ import annotations

import numpy as np

from banister.solver.kernels import compiled, dot


@compiled
def _transpose_times(S, x, w):  # type: ignore[no-untyped-def]
    """w = S'x; four rows at a time, so that w is read and written a quarter as often."""
    d = x.shape[0]
    w[:] = 0.0
    i = 0
    while i + 4 <= d:
        s0, s1, s2, s3 = S[i], S[i + 1], S[i + 2], S[i + 3]
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        for j in range(d):
            w[j] += x0 * s0[j] + x1 * s1[j] + x2 * s2[j] + x3 * s3[j]
        i += 4
    while i < d:
        row, xi = S[i], x[i]
        for j in range(d):
            w[j] += xi * row[j]
        i += 1


@compiled
def absorb(task, X, y, root, theta, log_det, trace, energy, rows):  # type: ignore[no-untyped-def]
    """Take in rows one after the other.

    Args:
        task, X, y: (m,) task indices, (m, d) features, (m,) rewards.
        root: (T, d, d) S; theta: (T, d) ridge estimates; rows: (T,) counts.
        log_det: (T,) log det(V/λ); trace: (T,) tr V⁻¹; energy: (T,) ‖y − Xθ̂‖² + λ‖θ̂‖².
    """
    d = X.shape[1]
    w = np.empty(d)
    for n in range(task.shape[0]):
        t, x = task[n], X[n]
        S, estimate = root[t], theta[t]
        _transpose_times(S, x, w)
        s = dot(w, w)
        q = np.sqrt(1.0 + s)
        shrink = 1.0 / (q * (q + 1.0))
        error = y[n] - dot(x, estimate)
        gain = error / (1.0 + s)
        length = 0.0
        for i in range(d):
            row = S[i]
            u = dot(row, w)  # (V⁻¹x)_i
            length += u * u
            estimate[i] += gain * u
            c = shrink * u
            for j in range(d):
                row[j] -= c * w[j]
        log_det[t] += np.log1p(s)
        trace[t] -= length / (1.0 + s)
        energy[t] += gain * error
        rows[t] += 1


@compiled
def sample(task, root, theta, radius, normal, out):  # type: ignore[no-untyped-def]
    """out[n] = θ̂_t + radius_t S_t normal[n]: a draw from N(θ̂_t, radius_t² V_t⁻¹) for each row, (m, d)."""
    d = theta.shape[1]
    for n in range(task.shape[0]):
        t = task[n]
        S = root[t]
        for i in range(d):
            out[n, i] = theta[t, i] + radius[t] * dot(S[i], normal[n])


@compiled
def _differs(x, factor, b, v):  # type: ignore[no-untyped-def]
    for j in range(x.shape[0]):
        v[j] = x[j] - factor * b[j]


@compiled
def choose(  # type: ignore[no-untyped-def]
    task, actions, baseline, floor, factors, shut, root, theta, radius, prefer, optimism, chosen, bound
):
    """The preferred action among those whose lower bound clears the floor, for each request.

    Args:
        task, actions: (m,), (m, K, d); baseline: (m, d) features.
        floor: (m,), NaN where the baseline reward is unknown: then an action is safe if, for one factor,
            `(x − factor · x_b)'θ` is surely not negative.
        factors: see `Constraint.factors`; shut: (m,) rows for which nothing may be certified.
        root, theta, radius: (T, d, d), (T, d), (T,).
        prefer: (m, d) parameters by which actions are ranked, plus `optimism` times their width.
        chosen: (m,) result, −1 where no action is safe; bound: (m,) its lower bound.
    """
    m, n_actions, d = actions.shape
    w, v = np.empty(d), np.empty(d)
    for n in range(m):
        t = task[n]
        chosen[n], bound[n] = -1, np.nan
        if shut[n] or not radius[t] < np.inf:
            continue
        best = -np.inf
        known = not np.isnan(floor[n])
        for k in range(n_actions):
            x = actions[n, k]
            score, mean = dot(x, prefer[n]), dot(x, theta[t])
            # The width costs d²: only actions that could be safe, and could be preferred, are worth it.
            if (known and mean < floor[n]) or (optimism == 0.0 and score <= best):
                continue
            _transpose_times(root[t], x, w)
            width = radius[t] * np.sqrt(dot(w, w))
            safe = known and mean - width >= floor[n]
            if not known:
                for f in range(factors.shape[0]):
                    _differs(x, factors[f], baseline[n], v)
                    _transpose_times(root[t], v, w)
                    safe = safe or dot(v, theta[t]) >= radius[t] * np.sqrt(dot(w, w))
            if safe and score + optimism * width > best:
                best = score + optimism * width
                chosen[n], bound[n] = k, mean - width
