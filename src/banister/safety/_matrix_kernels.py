"""A task's covariance and `away`, multiplied with vectors: from dense matrices, or from rows directly.

`judge` and `mixture` ask for three things only: `V x`, `x'V x` and `away'x`. A dense belief has both
matrices; of a compact one they follow from the task's rows R (r, p) in units of their noise. With
`I + R D R' = CC'`, `W = C⁻¹R`, `WL = W L`, `HL = W'WL` and `M = (I + WL'WL)⁻¹`,

    s = W D x,   e = C⁻ᵀs,   o = x − W's,   m = M (L'x − WL's),   away'x = o − HL m
    x'V x = Σ D o² + |e|² + m'M⁻¹m + (away'x)'O (away'x)

which costs 2 r p + p²/2 and makes no matrix of size p; `x'V x ≥ Σ D x² − |s|²` costs half of the first. The
names are those of `posterior`. Rows that are not quite the task's own make all of it `more` (see `stored`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from banister.data import Float
from banister.solver.kernels import compiled, dot

_DIGITS = 1e-12  # share of the prior variance that the difference of two sums may be wrong by


class Dense(NamedTuple):
    """V and `away`, (p, p) of one task or (T, p, p) of all."""

    V: Float
    away: Float


class Factored(NamedTuple):
    """One task's rows and what was prepared from them.

    Attributes:
        W: (r, p); C: (r, r) lower; WL, HL, L: (k, r), (k, p), (k, p), transposed; root: (k, k) lower,
            `M = root'root`.
        D: (p,); O: (p (p+1)/2,) what is open of the shared part, its upper triangle row by row; least: (p,)
            variance that rounding leaves.
        more: what V is multiplied by, and `away` by its root.
    """

    W: Float
    C: Float
    WL: Float
    HL: Float
    root: Float
    L: Float
    D: Float
    O: Float  # noqa: E741 (the name of the module's formulas)
    least: Float
    more: float


Matrices = Dense | Factored


@compiled
def product(A, x, out):  # type: ignore[no-untyped-def]
    """out = A x, four rows at a time."""
    n, i = A.shape[0], 0
    while i + 4 <= n:
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(A.shape[1]):
            s0 += a[j] * x[j]
            s1 += b[j] * x[j]
            s2 += c[j] * x[j]
            s3 += d[j] * x[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = s0, s1, s2, s3
        i += 4
    for k in range(i, n):
        out[k] = dot(A[k], x)


@compiled
def quadratic(A, x):  # type: ignore[no-untyped-def]
    """x'A x of a symmetric A, from its upper triangle."""
    total = 0.0
    for i in range(A.shape[0]):
        total += x[i] * (A[i, i] * x[i] + 2.0 * dot(A[i, i + 1 :], x[i + 1 :]))
    return total


@compiled
def quadratics(A, of, X, out):  # type: ignore[no-untyped-def]
    """out = x'A x of each row of X (m, p), with the symmetric matrix A[of] (m,) of each."""
    for i in range(X.shape[0]):
        out[i] = quadratic(A[of[i]], X[i])


@compiled
def add_transposed(A, x, out):  # type: ignore[no-untyped-def]
    """out += A'x, reading A row by row, four at a time."""
    n, first = A.shape[0], 0
    while first + 4 <= n:
        a, b, c, d = A[first], A[first + 1], A[first + 2], A[first + 3]
        s0, s1, s2, s3 = x[first], x[first + 1], x[first + 2], x[first + 3]
        for j in range(A.shape[1]):
            out[j] += s0 * a[j] + s1 * b[j] + s2 * c[j] + s3 * d[j]
        first += 4
    for i in range(first, n):
        s = x[i]
        if s != 0.0:
            row = A[i]
            for j in range(A.shape[1]):
                out[j] += s * row[j]


@compiled
def solve(C, x):  # type: ignore[no-untyped-def]
    """x = C⁻¹x for a lower triangle."""
    for i in range(x.shape[0]):
        x[i] = (x[i] - dot(C[i, :i], x[:i])) / C[i, i]


@compiled
def solve_transposed(C, x):  # type: ignore[no-untyped-def]
    """x = C⁻ᵀx for a lower triangle."""
    for i in range(x.shape[0] - 1, -1, -1):
        x[i] /= C[i, i]
        for j in range(i):
            x[j] -= C[i, j] * x[i]


@compiled
def _quadratic_packed(A, x):  # type: ignore[no-untyped-def]
    """x'A x from A's upper triangle."""
    total, first, p = 0.0, 0, x.shape[0]
    for i in range(p):
        row = A[first : first + p - i]
        total += x[i] * (2.0 * dot(row, x[i:]) - row[0] * x[i])
        first += p - i
    return total


@compiled
def _product_packed(A, x, out):  # type: ignore[no-untyped-def]
    """out = A x from A's upper triangle."""
    first, p = 0, x.shape[0]
    out[:] = 0.0
    for i in range(p):
        row = A[first : first + p - i]
        out[i] += dot(row, x[i:])
        for j in range(i + 1, p):
            out[j] += row[j - i] * x[i]
        first += p - i


@compiled
def decode(codes, step, fix, dual):  # type: ignore[no-untyped-def]
    """The rows (r, p) that are stored as `codes` (see `Stored`)."""
    r, p = codes.shape
    R = np.empty((r, p))
    for i in range(r):
        unit = np.float64(step[i])
        for j in range(p):
            R[i, j] = unit * codes[i, j]
        for a in range(fix.shape[1]):
            along = np.float64(fix[i, a])
            if along != 0.0:
                for j in range(p):
                    R[i, j] += along * dual[a, j]
    return R


@compiled
def _opened(c, sums):  # type: ignore[no-untyped-def]
    """What is open of a task with coefficients c (q,), from the triangles of each product of two of them."""
    q, n = c.shape[0], sums.shape[0]
    weights = np.empty(n)
    pair = 0
    for a in range(q):
        for b in range(a, q):
            weights[pair] = c[a] * c[b]
            pair += 1
    opened = weights[0] * sums[0]
    for pair in range(1, n - 1, 2):
        one, two, u, v = sums[pair], sums[pair + 1], weights[pair], weights[pair + 1]
        for j in range(opened.shape[0]):
            opened[j] += u * one[j] + v * two[j]
    if n % 2 == 0:
        one, u = sums[n - 1], weights[n - 1]
        for j in range(opened.shape[0]):
            opened[j] += u * one[j]
    return opened


@compiled
def prepare(W, L, D, c, sums, more, rounding):  # type: ignore[no-untyped-def]
    """A task's `Factored` from its rows, which become W.

    Args:
        W, L, D: of the task; L is (k, p).
        c: (k + 1,) coefficients.
        sums: (pairs, p (p+1)/2) upper triangles of what is open, for each product of two coefficients.
        more, rounding: what V is multiplied by; share of the prior variance that rounding leaves.
    """
    r, p, k = W.shape[0], W.shape[1], L.shape[0]
    C, WL, HL, root = np.empty((r, r)), np.empty((k, r)), np.zeros((k, p)), np.empty((k, k))
    least, scaled = np.empty(p), np.empty(p)
    for i in range(r):
        for j in range(p):
            scaled[j] = W[i, j] * D[j]
        for j in range(i + 1):
            C[i, j] = dot(scaled, W[j])
        C[i, i] += 1.0
    _factor(C)
    for i in range(r):
        for a in range(i):
            factor, earlier = C[i, a], W[a]
            for j in range(p):
                W[i, j] -= factor * earlier[j]
        W[i] /= C[i, i]
    for a in range(k):
        product(W, L[a], WL[a])
        add_transposed(W, WL[a], HL[a])
    inner = np.empty((k, k))
    for a in range(k):
        for b in range(a + 1):
            inner[a, b] = dot(WL[a], WL[b])
        inner[a, a] += 1.0
    _factor(inner)
    for a in range(k):  # the inverse of the factor, column by column
        root[:, a] = 0.0
        root[a, a] = 1.0
        solve(inner, root[:, a])
    for j in range(p):
        least[j] = D[j]
        for a in range(k):
            least[j] += L[a, j] * L[a, j]
        least[j] *= rounding
    return Factored(W, C, WL, HL, root, L, D, _opened(c, sums), least, more)


@compiled
def _factor(A):  # type: ignore[no-untyped-def]
    """The lower triangle of `A`, which is I and something positive, becomes its Cholesky factor."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = (A[i, j] - dot(A[i, :j], A[j, :j])) / A[j, j]
        # Pivots are 1 at least; rounding may say less.
        A[i, i] = np.sqrt(max(A[i, i] - dot(A[i, :i], A[i, :i]), 1.0))


@compiled
def _explained(of, x, s, o, away):  # type: ignore[no-untyped-def]
    """Fills s (r,), o and away'x (p,); returns `root (L'x − WL's)` and m, (k,) each."""
    k, p = of.L.shape
    for j in range(p):
        away[j] = of.D[j] * x[j]
    product(of.W, away, s)
    inner, half, m = np.empty(k), np.empty(k), np.zeros(k)
    for a in range(k):
        inner[a] = dot(of.L[a], x) - dot(of.WL[a], s)
    product(of.root, inner, half)
    add_transposed(of.root, half, m)
    away[:] = 0.0
    add_transposed(of.W, s, away)
    for j in range(p):
        o[j] = x[j] - away[j]
        away[j] = o[j]
    for a in range(k):
        for j in range(p):
            away[j] -= m[a] * of.HL[a, j]
    return half, m


@compiled
def _least_of_rows(of, x):  # type: ignore[no-untyped-def]
    """Not above x'V x, for half its cost: what the left-over alone leaves, less what rounding could add."""
    p, prior = x.shape[0], 0.0
    scaled = np.empty(p)
    for j in range(p):
        scaled[j] = of.D[j] * x[j]
        prior += scaled[j] * x[j]
    known = 0.0
    for i in range(of.W.shape[0]):
        s = dot(of.W[i], scaled)
        known += s * s
    return of.more * ((1.0 - _DIGITS) * prior - known)


@compiled
def _square_of_rows(of, x, away):  # type: ignore[no-untyped-def]
    e, o = np.empty(of.W.shape[0]), np.empty(x.shape[0])
    half, _ = _explained(of, x, e, o, away)
    solve_transposed(of.C, e)
    total = dot(e, e) + dot(half, half) + _quadratic_packed(of.O, away)
    for j in range(x.shape[0]):
        total += of.D[j] * o[j] * o[j] + of.least[j] * x[j] * x[j]
    away *= np.sqrt(of.more)
    return of.more * total


@compiled
def _times_rows(of, x, out):  # type: ignore[no-untyped-def]
    """`V x = own (D o + q) + D W'C⁻¹e + J (m − M HL'q)`, `q = O away'x`: sums of squares, so as exact."""
    r, p = of.W.shape
    e, o, away, q = np.empty(r), np.empty(p), np.empty(p), np.empty(p)
    _, m = _explained(of, x, e, o, away)
    solve_transposed(of.C, e)
    solve(of.C, e)
    _product_packed(of.O, away, q)
    inner, half, less = np.empty(m.shape[0]), np.empty(m.shape[0]), np.zeros(m.shape[0])
    product(of.HL, q, inner)
    product(of.root, inner, half)
    add_transposed(of.root, half, less)
    m -= less
    for j in range(p):
        q[j] += of.D[j] * o[j]
        out[j] = q[j] + of.least[j] * x[j]
    rows, back = np.empty(r), np.zeros(p)
    product(of.W, q, rows)
    rows -= e
    add_transposed(of.WL, m, rows)
    add_transposed(of.W, rows, back)
    for j in range(p):
        out[j] -= of.D[j] * back[j]
    add_transposed(of.L, m, out)
    out *= of.more


@compiled
def _turn_rows(of, x, out):  # type: ignore[no-untyped-def]
    _explained(of, x, np.empty(of.W.shape[0]), np.empty(x.shape[0]), out)
    out *= np.sqrt(of.more)


@compiled
def _turn_dense(of, x, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    add_transposed(of.away, x, out)


def taken(of: Any, task: int) -> Any:
    """One task's, of all tasks' dense matrices; a task's rows are its own already."""
    return Dense(of.V[task], of.away[task]) if isinstance(of, Dense) else of


def times(of: Any, x: Float, out: Float) -> None:
    """out = V x."""
    product(of.V, x, out) if isinstance(of, Dense) else _times_rows(of, x, out)


def square(of: Any, x: Float, own: Float) -> Any:
    """x'V x; rows fill `own` (p,) with `away'x` on the way, see `completed`."""
    return quadratic(of.V, x) if isinstance(of, Dense) else _square_of_rows(of, x, own)


def at_least(of: Any, x: Float) -> Any:
    """A number not above x'V x that is cheap to have; 0 where none is."""
    return 0.0 if isinstance(of, Dense) else _least_of_rows(of, x)


def sure_share(of: Any) -> Any:
    """The share of V, and of what `away` adds, that is there for certain; the rest is for coarse rows."""
    return 1.0 if isinstance(of, Dense) else (2.0 - of.more) / of.more


def completed(of: Any, x: Float, own: Float) -> None:
    """own = away'x, after `square` of the same x."""
    if isinstance(of, Dense):
        _turn_dense(of, x, own)


def turned(of: Any, x: Float, out: Float) -> None:
    """out = away'x."""
    _turn_dense(of, x, out) if isinstance(of, Dense) else _turn_rows(of, x, out)


def _is_dense(of: types.Type) -> bool:
    return getattr(of, "instance_class", None) is Dense


@overload(taken)
def _taken(of, task):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, task: Dense(of.V[task], of.away[task])
    return lambda of, task: of


@overload(times)
def _times(of, x, out):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, out: product(of.V, x, out)
    return lambda of, x, out: _times_rows(of, x, out)


@overload(square)
def _square(of, x, own):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, own: quadratic(of.V, x)
    return lambda of, x, own: _square_of_rows(of, x, own)


@overload(at_least)
def _at_least(of, x):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x: 0.0
    return lambda of, x: _least_of_rows(of, x)


@overload(sure_share)
def _sure_share(of):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of: 1.0
    return lambda of: (2.0 - of.more) / of.more


@overload(completed)
def _completed(of, x, own):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, own: _turn_dense(of, x, own)
    return lambda of, x, own: None


@overload(turned)
def _turned(of, x, out):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, out: _turn_dense(of, x, out)
    return lambda of, x, out: _turn_rows(of, x, out)
