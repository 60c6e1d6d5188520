"""One iteration of Algorithm 1 over all tasks, compiled: each task's rows are fetched once and used twice.

The printed algorithm does it a hundred times an epoch. Its plain numpy twin is in the tests.
"""

from __future__ import annotations

import numpy as np

from banister.data import Float, TaskData
from banister.solver.kernels import compiled, dot, times_matrix, times_vector, transpose_times

_RELATIVE = 1e-10  # a column that the others explain this far leaves no unique answer worth computing fast


@compiled
def _solve(Q, y, R, w, least):  # type: ignore[no-untyped-def]
    """`w = Z† y` from the columns `Q` (r, n) of Z, by modified Gram-Schmidt on [Z, y]; both are used up.

    False if a column is, up to `least` of its length, a mixture of those before it.
    """
    r, n = Q.shape
    for k in range(r):
        whole = 0.0
        for j in range(k):
            whole += R[j, k] * R[j, k]
        rest = dot(Q[k], Q[k])
        if not rest > least * least * (whole + rest):
            return False
        R[k, k] = np.sqrt(rest)
        for i in range(n):
            Q[k, i] /= R[k, k]
        for j in range(k + 1, r):
            R[k, j] = dot(Q[k], Q[j])
            for i in range(n):
                Q[j, i] -= R[k, j] * Q[k, i]
        w[k] = dot(Q[k], y)
        for i in range(n):
            y[i] -= w[k] * Q[k, i]
    for k in range(r - 1, -1, -1):
        for j in range(k + 1, r):
            w[k] -= R[k, j] * w[j]
        w[k] /= R[k, k]
    return True


@compiled
def _pull(X, lo, hi, y, Bt, w, e, v, gradient):  # type: ignore[no-untyped-def]
    """Add `X_t'(X_t B w_t − y_t) w_t'` of a task to `gradient` (r, d); returns the squared error."""
    r, d = Bt.shape
    v[:] = 0.0
    for a in range(r):
        for j in range(d):
            v[j] += w[a] * Bt[a, j]
    times_vector(X, lo, hi, v, e)
    for i in range(lo, hi):
        e[i - lo] -= y[i]
    errors = e[: hi - lo]
    transpose_times(X, lo, hi, errors, v)
    for a in range(r):
        for j in range(d):
            gradient[a, j] += w[a] * v[j]
    return dot(errors, errors)


@compiled
def _sweep(Xf, yf, starts, X, y, offsets, Bt, least, W, done, e, gradient):  # type: ignore[no-untyped-def]
    """Coefficients `W` (T, r) from the rows `Xf`, then the gradient on the rows `X`, where it can solve."""
    r, d = Bt.shape
    R, v = np.zeros((r, r)), np.empty(d)
    value = 0.0
    for t in range(offsets.shape[0] - 1):
        lo, hi = starts[t], starts[t + 1]
        if hi - lo < r:
            continue
        Q = np.empty((r, hi - lo))
        times_matrix(Xf, lo, hi, Bt, Q)
        done[t] = _solve(Q, yf[lo:hi].copy(), R, W[t], least)
        if done[t]:
            value += _pull(X, offsets[t], offsets[t + 1], y, Bt, W[t], e, v, gradient)
    return value


def sweep(fit_on: TaskData, used: TaskData, B: Float) -> tuple[Float, float, Float]:
    """The lines "Update w" on the rows `fit_on` and "Gradient" on the rows `used`, at the basis B (d, r).

    Returns:
        W (r, T) of `(Φ B)† Y`, minimum norm where rows are too few; the squared error on the rows used; and
        the gradient `Σ_t X_t'(X_t B w_t − y_t) w_t'` (d, r).
    """
    Bt, T = np.ascontiguousarray(B.T), used.n_tasks
    W, done, gradient = np.zeros((T, len(Bt))), np.zeros(T, dtype=np.bool_), np.zeros(Bt.shape)
    e = np.empty(int(used.counts.max(initial=0)))
    y = used.y.astype(np.float64, copy=False)
    value = _sweep(
        fit_on.X, fit_on.y.astype(np.float64, copy=False), fit_on.offsets,
        used.X, y, used.offsets, Bt, _RELATIVE, W, done, e, gradient,
    )  # fmt: skip
    v = np.empty(len(B))
    for t in np.flatnonzero(~done):
        rows = slice(fit_on.offsets[t], fit_on.offsets[t + 1])
        if rows.start < rows.stop:
            W[t] = np.linalg.lstsq(fit_on.X[rows] @ B, fit_on.y[rows], rcond=None)[0]
        value += _pull(used.X, used.offsets[t], used.offsets[t + 1], y, Bt, W[t], e, v, gradient)
    return W.T, float(value), gradient.T
