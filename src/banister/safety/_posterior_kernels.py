"""The compiled parts of `posterior`: a task's matrices are made and used while they are in the cache.

Products of matrices are the library's (`np.dot`), loops over small ones are ours.
"""

from __future__ import annotations

import numpy as np

from banister.data import Float
from banister.solver.kernels import compiled, dot


@compiled
def _invert_root(A, factor, root):  # type: ignore[no-untyped-def]
    """root = the inverse of the lower Cholesky factor of `I + A`."""
    for i in range(A.shape[0]):
        for j in range(i):
            factor[i, j] = (A[i, j] - dot(factor[i, :j], factor[j, :j])) / factor[j, j]
        pivot = 1.0 + A[i, i] - dot(factor[i, :i], factor[i, :i])
        # A is positive, so pivots are 1 at least; rounding may say less.
        factor[i, i] = 1.0 if pivot < 1.0 else np.sqrt(pivot)
        root[i, :] = 0.0
        root[i, i] = 1.0 / factor[i, i]
        for j in range(i):
            f = factor[i, j] * root[i, i]
            for m in range(j + 1):
                root[i, m] -= f * root[j, m]


@compiled
def _inverse_roots(A, out):  # type: ignore[no-untyped-def]
    factor = np.empty(A.shape[1:])
    for t in range(A.shape[0]):
        _invert_root(A[t], factor, out[t])


def inverse_roots(A: Float) -> Float:
    """Lower triangles `G` with `G'G = (I + A)⁻¹`, for positive A (T, n, n)."""
    out = np.empty_like(A)
    _inverse_roots(A, out)
    return out


@compiled
def whiten(R, D, G, W):  # type: ignore[no-untyped-def]
    """G = the inverse Cholesky factor of `I + R D R'` and `W = G R`, task by task; D is (T, p) or (1, p)."""
    T, r, p = R.shape
    A, factor, scaled, deviation = np.empty((r, r)), np.empty((r, r)), np.empty((r, p)), np.empty(p)
    for t in range(T):
        if t == 0 or len(D) > 1:
            deviation[:] = np.sqrt(D[t])
        for i in range(r):
            for j in range(p):
                scaled[i, j] = R[t, i, j] * deviation[j]
        np.dot(scaled, scaled.T, A)
        _invert_root(A, factor, G[t])
        np.dot(G[t], R[t], W[t])


@compiled
def squared(W, H):  # type: ignore[no-untyped-def]
    """H = W'W of each task."""
    for t in range(W.shape[0]):
        np.dot(W[t].T, W[t], H[t])


@compiled
def packed_squares(W, out):  # type: ignore[no-untyped-def]
    """out = the upper triangle of W'W of each task, row after row, (T, p (p+1)/2)."""
    p = W.shape[2]
    H = np.empty((p, p))
    for t in range(W.shape[0]):
        np.dot(W[t].T, W[t], H)
        start = 0
        for i in range(p):
            row = out[t, start : start + p - i]
            for j in range(p - i):
                row[j] = H[i, i + j]
            start += p - i


@compiled
def coefficients(WL, e, M, w):  # type: ignore[no-untyped-def]
    """`M = (I + (W L)'W L)⁻¹` and `w = M (W L)'e` of each task, for `W L` (T, r, k) and e (T, r)."""
    T, r, k = WL.shape
    A, factor, root, score = np.empty((k, k)), np.empty((k, k)), np.empty((k, k)), np.empty(k)
    for t in range(T):
        A[:], score[:] = 0.0, 0.0
        for i in range(r):
            for a in range(k):
                f = WL[t, i, a]
                score[a] += f * e[t, i]
                for b in range(a + 1):
                    A[a, b] += f * WL[t, i, b]
        _invert_root(A, factor, root)
        for a in range(k):
            for b in range(k):
                M[t, a, b] = dot(root[:, a], root[:, b])
        for a in range(k):
            w[t, a] = dot(M[t, a], score)


@compiled
def packed_less(packed, X, out):  # type: ignore[no-untyped-def]
    """out = packed − X X' of each task, for X (T, p, k); both are upper triangles, row after row."""
    T, p, k = X.shape
    turned = np.empty((k, p))
    for t in range(T):
        turned[:] = X[t].T
        start = 0
        for i in range(p):
            m = p - i
            row, before = out[t, start : start + m], packed[t, start : start + m]
            for j in range(m):
                row[j] = before[j]
            for a in range(k):
                factor, other = turned[a, i], turned[a, i:]
                for j in range(m):
                    row[j] -= factor * other[j]
            start += m


@compiled
def place_blocks(packed, out):  # type: ignore[no-untyped-def]
    """out = the upper triangle of a symmetric matrix of symmetric blocks, (q, p, q, p).

    `packed` (pairs, p (p+1)/2) has the upper triangles of blocks in the order of `np.triu_indices(q)`.
    """
    q, p, pair = out.shape[0], out.shape[1], 0
    for a in range(q):
        for b in range(a, q):
            start = 0
            for i in range(p):
                row, values = out[a, i, b, i:], packed[pair, start : start + p - i]
                for j in range(p - i):
                    row[j] = values[j]
                if b > a:
                    for j in range(1, p - i):
                        out[a, i + j, b, i] = values[j]
                start += p - i
            pair += 1


@compiled
def whole_blocks(upper, out):  # type: ignore[no-untyped-def]
    """out = blocks (q, q, p, p) of a symmetric matrix (q p, q p), of which the upper triangle is read."""
    q, p = out.shape[0], out.shape[2]
    for a in range(q):
        for b in range(a, q):
            for i in range(p):
                for j in range(p if b > a else i + 1):
                    value = upper[a * p + i, b * p + j] if b > a else upper[a * p + j, a * p + i]
                    out[a, b, i, j] = value
                    out[b, a, j, i] = value


_AT_A_TIME = 16  # tasks whose p × p matrices stay in the processor's cache; what is open is read once for all


@compiled
def open_rows(W, pairs, sums, out):  # type: ignore[no-untyped-def]
    """out = `W O W'` of each task, `O = Σ pairs_i sums_i` being what is open for its coefficients.

    Args:
        W: (T, r, p).
        pairs: (T, pairs) products of two coefficients, in the order of `np.triu_indices`.
        sums: (pairs, p, p).
        out: (T, r, r).
    """
    T, r, p = W.shape
    opened, product = np.empty((_AT_A_TIME, p * p)), np.empty((r, p))
    flat = sums.reshape(sums.shape[0], p * p)
    for first in range(0, T, _AT_A_TIME):
        n = min(_AT_A_TIME, T - first)
        np.dot(pairs[first : first + n], flat, opened[:n])
        for i in range(n):
            np.dot(W[first + i], opened[i].reshape(p, p), product)
            np.dot(product, W[first + i].T, out[first + i])


@compiled
def expected_scores(W, PW, learned, out):  # type: ignore[no-untyped-def]
    """out = the diagonal of `(W − learned P W)'P W` of each task, (T, p); never below 0."""
    T, r, p = W.shape
    lost = np.empty((r, p))
    for t in range(T):
        np.dot(learned[t], PW[t], lost)
        total = out[t]
        total[:] = 0.0
        for i in range(r):
            for j in range(p):
                total[j] += (W[t, i, j] - lost[i, j]) * PW[t, i, j]
        for j in range(p):
            total[j] = max(total[j], 0.0)


@compiled
def _less(A, left, right, out):  # type: ignore[no-untyped-def]
    """out = A − left right, matrix by matrix, in one sweep: the inner dimension is small."""
    for t in range(A.shape[0]):
        for i in range(A.shape[1]):
            row, before, factor = out[t, i], A[t, i], left[t, i, 0]
            for j in range(A.shape[2]):
                row[j] = before[j] - factor * right[t, 0, j]
            for a in range(1, left.shape[2]):
                factor = left[t, i, a]
                for j in range(A.shape[2]):
                    row[j] -= factor * right[t, a, j]


def less(A: Float, left: Float, right: Float) -> Float:
    """`A − left right` for A (T, m, n), left (T, m, k), right (T, k, n), k ≥ 1."""
    out = np.empty(A.shape)
    _less(A, np.ascontiguousarray(left), right, out)
    return out


@compiled
def _remaining(H, left, right, i, row):  # type: ignore[no-untyped-def]
    """Fill `row` from i on with row i of `H − left right`, of which the rest follows by symmetry."""
    p = H.shape[0]
    for j in range(i, p):
        row[j] = H[i, j]
    for a in range(left.shape[1]):
        factor, other = left[i, a], right[a]
        for j in range(i, p):
            row[j] -= factor * other[j]


@compiled
def add_squares(packed, left, right, tasks, out):  # type: ignore[no-untyped-def]
    """out += Σ_t (H − left right)∘(H − left right), its upper triangle, over some tasks; H packed."""
    p = left.shape[1]
    row = np.empty(p)
    for t in range(packed.shape[0]):
        if not tasks[t]:
            continue
        start = 0
        for i in range(p):
            m = p - i
            for j in range(m):
                row[j] = packed[t, start + j]
            for a in range(left.shape[2]):
                factor, other = left[t, i, a], right[t, a, i:]
                for j in range(m):
                    row[j] -= factor * other[j]
            total = out[i, i:]
            for j in range(m):
                total[j] += row[j] * row[j]
            start += m


@compiled
def weighted_squares(H, left, right, weights, out):  # type: ignore[no-untyped-def]
    """out = Σ_ij (H − left right)_ij² weights_i weights_j of each task."""
    p = H.shape[1]
    row = np.empty(p)
    for t in range(H.shape[0]):
        d, total = weights[t], 0.0
        for i in range(p):
            _remaining(H[t], left[t], right[t], i, row)
            beyond = 0.0
            for j in range(i + 1, p):
                beyond += row[j] * row[j] * d[j]
            total += d[i] * (d[i] * row[i] * row[i] + 2.0 * beyond)
        out[t] = total
