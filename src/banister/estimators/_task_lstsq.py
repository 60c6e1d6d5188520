"""Least squares of every task on a few columns, compiled: Algorithm 1 does it a hundred times an epoch."""

from __future__ import annotations

import numpy as np

from banister.data import Float, Int
from banister.solver.kernels import compiled, dot

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
def _solve_all(Z, y, offsets, least, W, done):  # type: ignore[no-untyped-def]
    r = Z.shape[1]
    R = np.zeros((r, r))
    for t in range(offsets.shape[0] - 1):
        rows = slice(offsets[t], offsets[t + 1])
        if offsets[t + 1] - offsets[t] >= r:
            done[t] = _solve(np.ascontiguousarray(Z[rows].T), y[rows].copy(), R, W[t], least)


def task_coefficients(Z: Float, y: Float, offsets: Int) -> Float:
    """`Z_t† y_t` of every task, shape (r, T), for rows sorted by task; minimum norm where rows are too few.

    Gram-Schmidt serves where the columns are independent; other tasks take the singular values.

    Examples:
        >>> task_coefficients(np.array([[1.0], [2.0], [0.0]]), np.array([1.0, 2.0, 5.0]), np.array([0, 2, 3]))
        array([[1., 0.]])
    """
    W, done = np.zeros((len(offsets) - 1, Z.shape[1])), np.zeros(len(offsets) - 1, dtype=np.bool_)
    if np.isfinite(Z).all():
        _solve_all(Z, y.astype(np.float64, copy=False), offsets, _RELATIVE, W, done)
    for t in np.flatnonzero(~done & (np.diff(offsets) > 0)):
        rows = slice(offsets[t], offsets[t + 1])
        W[t] = np.linalg.lstsq(Z[rows], y[rows], rcond=None)[0]
    return W.T
