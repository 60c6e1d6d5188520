"""The compiled inner loops: one pass over the data each, no temporaries of its size.

A kernel works on one block of tasks and adds into that block's own output, so that blocks can run in threads
or on other machines (see `block`). Every kernel has a plain numpy twin in the tests.

Layout: `X` (N, d) rows sorted by task, `offsets` (T + 1,); small matrices are transposed, `Bt` (r, d), so
that inner loops run along the features; `Z` is flat, and task `t` with rows lo..hi keeps `(X_t B)'` (r, n_t)
at `Z[r·lo : r·hi]`. The first sweep over a task's rows comes from memory, so it goes strictly forwards (and
asks for rows ahead where it has work to do meanwhile); the second finds them in the cache and takes four at a
time.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from banister.solver.prefetch import prefetch

# The two ways in which the package compiles. Where speed counts, sums may be reordered (that is what
# vectorises them); where a result is written down, they are done as they stand. NaN and infinity keep their
# meaning in both.
compiled: Any = numba.njit(
    cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"}, error_model="numpy"
)
exact: Any = numba.njit(cache=True, nogil=True, error_model="numpy")
_AHEAD = 16  # rows fetched ahead of use


@compiled
def _fetch(F, d, i):  # type: ignore[no-untyped-def]
    """Ask for row i + _AHEAD of the flat data."""
    start = min((i + _AHEAD) * d, F.shape[0] - d)
    for p in range(start, start + d, 8):
        prefetch(F, p)  # type: ignore[call-arg]


@compiled
def times_matrix(X, lo, hi, Bt, z):  # type: ignore[no-untyped-def]
    """z[k, i - lo] = X[i] · Bt[k] for rows lo..hi; columns of B four at a time."""
    d = X.shape[1]
    r = Bt.shape[0]
    F = X.ravel()
    for i in range(lo, hi):
        _fetch(F, d, i)
        x = X[i]
        k = 0
        while k + 4 <= r:
            b0, b1, b2, b3 = Bt[k], Bt[k + 1], Bt[k + 2], Bt[k + 3]
            s0 = s1 = s2 = s3 = X.dtype.type(0.0)
            for j in range(d):
                s0 += x[j] * b0[j]
                s1 += x[j] * b1[j]
                s2 += x[j] * b2[j]
                s3 += x[j] * b3[j]
            z[k, i - lo], z[k + 1, i - lo], z[k + 2, i - lo], z[k + 3, i - lo] = s0, s1, s2, s3
            k += 4
        if k + 2 <= r:
            b0, b1 = Bt[k], Bt[k + 1]
            s0 = s1 = X.dtype.type(0.0)
            for j in range(d):
                s0 += x[j] * b0[j]
                s1 += x[j] * b1[j]
            z[k, i - lo], z[k + 1, i - lo] = s0, s1
            k += 2
        if k < r:
            b0 = Bt[k]
            s0 = X.dtype.type(0.0)
            for j in range(d):
                s0 += x[j] * b0[j]
            z[k, i - lo] = s0


@compiled
def times_vector(X, lo, hi, q, u):  # type: ignore[no-untyped-def]
    """u[i - lo] = X[i] · q for rows lo..hi; so little arithmetic that the processor keeps ahead by itself."""
    d = X.shape[1]
    for i in range(lo, hi):
        x = X[i]
        s = X.dtype.type(0.0)
        for j in range(d):
            s += x[j] * q[j]
        u[i - lo] = s


@compiled
def transpose_times(X, lo, hi, u, v):  # type: ignore[no-untyped-def]
    """v = Σ_i u[i - lo] X[i] over rows lo..hi."""
    d = X.shape[1]
    for j in range(d):
        v[j] = 0.0
    i = lo
    while i + 4 <= hi:
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        a0, a1, a2, a3 = u[i - lo], u[i - lo + 1], u[i - lo + 2], u[i - lo + 3]
        for j in range(d):
            v[j] += a0 * x0[j] + a1 * x1[j] + a2 * x2[j] + a3 * x3[j]
        i += 4
    while i < hi:
        x0 = X[i]
        a0 = u[i - lo]
        for j in range(d):
            v[j] += a0 * x0[j]
        i += 1


@compiled
def dot(a, b):  # type: ignore[no-untyped-def]
    """Σ a_i b_i in double precision; products too, or a float32 Gram matrix would not be positive."""
    s = 0.0
    for i in range(a.shape[0]):
        s += np.float64(a[i]) * np.float64(b[i])
    return s


@compiled
def invert_gram(M, ridge, Minv, L):  # type: ignore[no-untyped-def]
    """Minv = (M + ridge I)^-1 by Cholesky, for M ≥ 0 given by its lower triangle.

    Pivots cannot fall below the ridge but for rounding, so they are held there.
    """
    r = M.shape[0]
    for a in range(r):
        for b in range(a + 1):
            s = M[a, b] + (ridge if a == b else 0.0)
            for c in range(b):
                s -= L[a, c] * L[b, c]
            if a == b:
                L[a, a] = 1.0 / np.sqrt(max(s, ridge))  # the diagonal is kept inverted: one division a row
            else:
                L[a, b] = s * L[b, b]
    for col in range(r):
        for a in range(r):
            s = 1.0 if a == col else 0.0
            for c in range(col, a):
                s -= L[a, c] * Minv[c, col]
            Minv[a, col] = s * L[a, a] if a >= col else 0.0
        for a in range(r - 1, -1, -1):
            s = Minv[a, col]
            for c in range(a + 1, r):
                s -= L[c, a] * Minv[c, col]
            Minv[a, col] = s * L[a, a]


@compiled
def _solve_task(z, y, ridge, Minv, w, M, L, h):  # type: ignore[no-untyped-def]
    """w = argmin ‖y − z'w‖² + ridge ‖w‖², and Minv = (z z' + ridge I)^-1.

    A ridge of at least 1e-11 of the trace defines the answer for a task with fewer rows than the rank: nearly
    the minimum-norm one. One step of refinement removes what that ridge did to the others.
    """
    r = z.shape[0]
    trace = 0.0
    for a in range(r):
        h[a] = dot(z[a], y)
        for b in range(a + 1):
            M[a, b] = dot(z[a], z[b])
        trace += M[a, a]
    invert_gram(M, ridge + (1e-11 * trace if trace > 0.0 else 1.0), Minv, L)
    for a in range(r):
        w[a] = dot(Minv[a], h)
    for a in range(r):
        s = h[a] - ridge * w[a]
        for b in range(r):
            s -= (M[a, b] if b <= a else M[b, a]) * w[b]
        L[0, a] = s  # scratch from here on
    for a in range(r):
        w[a] += dot(Minv[a], L[0])


@compiled
def _residual(y, z, w, e):  # type: ignore[no-untyped-def]
    """e = y − z'w."""
    e[:] = y
    for a in range(z.shape[0]):
        wa, za = e.dtype.type(w[a]), z[a]
        for i in range(e.shape[0]):
            e[i] -= wa * za[i]


@compiled
def _longest(offsets):  # type: ignore[no-untyped-def]
    most = 0
    for t in range(offsets.shape[0] - 1):
        most = max(most, offsets[t + 1] - offsets[t])
    return most


@compiled
def value_and_gradient(X, y, offsets, weight, ridge, Bt, W, Z, Minv, V, grad, spread):  # type: ignore[no-untyped-def]
    """One pass at `B`: least squares per task, value, and gradient in `B`.

    Writes `W` (T, r), `Z`, `Minv` (T, r, r) = (Z_t'Z_t + ridge I)^-1 and `V` (T, d) = X_t'e_t, adds
    −Σ ω_t X_t'e_t w_t' into `grad` (r, d) and Σ ω_t n_t w_t w_t' into `spread` (r, r), and returns
    Σ ω_t (‖e_t‖² + ridge ‖w_t‖²), e_t = y_t − Z_t w_t.
    """
    r, d = Bt.shape
    residual = np.empty(_longest(offsets), X.dtype)
    M, L, h = np.empty((r, r)), np.zeros((r, r)), np.empty(r)
    value = 0.0
    for t in range(offsets.shape[0] - 1):
        lo, hi = offsets[t], offsets[t + 1]
        z = Z[r * lo : r * hi].reshape((r, hi - lo))
        times_matrix(X, lo, hi, Bt, z)
        w, v, e = W[t], V[t], residual[: hi - lo]
        _solve_task(z, y[lo:hi], ridge, Minv[t], w, M, L, h)
        _residual(y[lo:hi], z, w, e)
        value += weight[t] * (dot(e, e) + ridge * dot(w, w))
        transpose_times(X, lo, hi, e, v)
        for a in range(r):
            scale, rows = -weight[t] * w[a], (hi - lo) * weight[t] * w[a]
            for j in range(d):
                grad[a, j] += scale * v[j]
            for b in range(r):
                spread[a, b] += rows * w[b]
    return value


@compiled
def hessian_product(X, offsets, weight, Dt, exact, W, Z, Minv, V, out):  # type: ignore[no-untyped-def]
    """Add the Hessian of f/2 applied to D into `out` (r, d).

    Gauss-Newton's is Σ ω_t X_t' (I − Z_t Minv_t Z_t') X_t D w_t w_t'. The `exact` one follows how w moves
    with B, dw = Minv_t (D'v_t − Z_t'X_t D w_t) and v_t = X_t'e_t:
    Σ ω_t (X_t'(X_t D w_t + Z_t dw) w_t' − v_t dw').
    """
    r, d = Dt.shape
    buffer = np.empty(_longest(offsets), X.dtype)
    v, q = np.empty(d, X.dtype), np.empty(d, X.dtype)
    c, dw = np.empty(r), np.empty(r)
    for t in range(offsets.shape[0] - 1):
        lo, hi = offsets[t], offsets[t + 1]
        z, w, u = Z[r * lo : r * hi].reshape((r, hi - lo)), W[t], buffer[: hi - lo]
        q[:] = 0.0
        for a in range(r):
            for j in range(d):
                q[j] += w[a] * Dt[a, j]
        times_vector(X, lo, hi, q, u)
        for a in range(r):
            c[a] = (dot(Dt[a], V[t]) if exact else 0.0) - dot(z[a], u)
        for a in range(r):
            dw[a] = dot(Minv[t, a], c)
            step, za = X.dtype.type(dw[a]), z[a]
            for i in range(hi - lo):
                u[i] += step * za[i]
        transpose_times(X, lo, hi, u, v)
        for a in range(r):
            along, against = weight[t] * w[a], weight[t] * dw[a] if exact else 0.0
            for j in range(d):
                out[a, j] += along * v[j] - against * V[t, j]


@compiled
def correlations(X, y, offsets, p, H):  # type: ignore[no-untyped-def]
    """H[t] = X_t'(y_t − X_t p) for every task, shape (T, d)."""
    e = np.empty(_longest(offsets), X.dtype)
    for t in range(offsets.shape[0] - 1):
        lo, hi = offsets[t], offsets[t + 1]
        times_vector(X, lo, hi, p, e)
        for i in range(lo, hi):
            e[i - lo] = y[i] - e[i - lo]
        transpose_times(X, lo, hi, e, H[t])


@compiled
def moments(X, y, offsets, Bt, gram, cross, W, rss):  # type: ignore[no-untyped-def]
    """Small statistics of every task within the span of B, Z_t = X_t B.

    Writes `gram` (T, r, r) = Z_t'Z_t, `cross` (T, r) = Z_t'y_t, the least-squares `W` (T, r) and `rss` (T,).
    """
    r = Bt.shape[0]
    longest = _longest(offsets)
    Z, residual = np.empty(r * longest, X.dtype), np.empty(longest, X.dtype)
    Minv, L = np.empty((r, r)), np.zeros((r, r))
    for t in range(offsets.shape[0] - 1):
        lo, hi = offsets[t], offsets[t + 1]
        z, e = Z[: r * (hi - lo)].reshape((r, hi - lo)), residual[: hi - lo]
        times_matrix(X, lo, hi, Bt, z)
        _solve_task(z, y[lo:hi], 0.0, Minv, W[t], gram[t], L, cross[t])
        for a in range(r):
            for b in range(a):
                gram[t, b, a] = gram[t, a, b]
        _residual(y[lo:hi], z, W[t], e)
        rss[t] = dot(e, e)


@compiled
def posteriors(gram, gap, root, noise, mean, W, P):  # type: ignore[no-untyped-def]
    """Normal posteriors of w_t ~ N(mean, F F') given tasks' moments, F = `root`; no inverse of F F' is taken.

    P_t = F (F' gram_t F / noise + I)^-1 F' and w_t = mean + P_t gap_t / noise, with gap = cross − gram mean.
    """
    T, r = gap.shape
    K, Kinv, L = np.empty((r, r)), np.empty((r, r)), np.zeros((r, r))
    GF, FK = np.empty((r, r)), np.empty((r, r))
    for t in range(T):
        _product(gram[t], root, GF)
        for a in range(r):
            for b in range(a + 1):
                s = 0.0
                for c in range(r):
                    s += root[c, a] * GF[c, b]
                K[a, b] = s / noise
        invert_gram(K, 1.0, Kinv, L)
        _product(root, Kinv, FK)
        for a in range(r):
            for b in range(a + 1):
                P[t, a, b] = P[t, b, a] = dot(FK[a], root[b])
        for a in range(r):
            W[t, a] = mean[a] + dot(P[t, a], gap[t]) / noise


@compiled
def _product(A, B, out):  # type: ignore[no-untyped-def]
    """out = A B for small square matrices."""
    r = A.shape[0]
    for a in range(r):
        for b in range(r):
            s = 0.0
            for c in range(r):
                s += A[a, c] * B[c, b]
            out[a, b] = s
