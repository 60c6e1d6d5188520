"""A task's covariance and `away`, multiplied with vectors: from dense matrices, or from rows directly.

`judge` and `mixture` ask for three things only: `V x`, `x'V x` and `away'x`. A dense belief has both matrices;
of a compact one they follow from the task's rows R (r, p) in units of their noise. With `A = I + R D R' = CC'`,
`WL = C⁻¹R L` and `M = (I + WL'WL)⁻¹`,

    s = C⁻¹R D x,   e = C⁻ᵀs,   o = x − R'e,   m = M (L'x − WL's)
    away'x = x − R'C⁻ᵀ(s + WL m)
    x'V x = Σ D o² + |e|² + m'M⁻¹m + (away'x)'O (away'x)

which costs 4 r p + p² and makes no matrix of size p. The names are those of `posterior`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from banister.data import Float
from banister.solver.kernels import compiled, dot


class Dense(NamedTuple):
    """V and `away`, (p, p) of one task or (T, p, p) of all."""

    V: Float
    away: Float


class Factored(NamedTuple):
    """One task's rows and what was prepared from them.

    Attributes:
        R: (r, p); C: (r, r) lower; WL: (k, r), transposed; root: (k, k) lower, `M = root'root`.
        L: (k, p), transposed; D: (p,); O: (p, p) what is open of the shared part; least: (p,) variance that
            rounding leaves.
    """

    R: Float
    C: Float
    WL: Float
    root: Float
    L: Float
    D: Float
    O: Float  # noqa: E741 (the name of the module's formulas)
    least: Float


Matrices = Dense | Factored


@compiled
def product(A, x, out):  # type: ignore[no-untyped-def]
    """out = A x."""
    for i in range(A.shape[0]):
        out[i] = dot(A[i], x)


@compiled
def quadratic(A, x):  # type: ignore[no-untyped-def]
    """x'A x."""
    total = 0.0
    for i in range(A.shape[0]):
        total += x[i] * dot(A[i], x)
    return total


@compiled
def add_transposed(A, x, out):  # type: ignore[no-untyped-def]
    """out += A'x, reading A row by row."""
    for i in range(A.shape[0]):
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
def prepare(R, L, D, c, sums, C, WL, root, opened, least, rounding):  # type: ignore[no-untyped-def]
    """Fill what `Factored` holds: C, WL, root, O and least.

    Args:
        R, L, D: of the task; L is (k, p).
        c: (k + 1,) coefficients.
        sums: (pairs, p p) of `Open`: what is open, for each product of two coefficients.
    """
    r, p, k = R.shape[0], R.shape[1], L.shape[0]
    scaled = np.empty(p)
    for i in range(r):
        for j in range(p):
            scaled[j] = R[i, j] * D[j]
        for j in range(i + 1):
            C[i, j] = dot(scaled, R[j])
        C[i, i] += 1.0
    _factor(C, 1.0)
    for a in range(k):
        product(R, L[a], WL[a])
        solve(C, WL[a])
    inner = np.empty((k, k))
    for a in range(k):
        for b in range(a + 1):
            inner[a, b] = dot(WL[a], WL[b])
        inner[a, a] += 1.0
    _factor(inner, 1.0)
    for a in range(k):  # the inverse of the factor, column by column
        root[:, a] = 0.0
        root[a, a] = 1.0
        solve(inner, root[:, a])
    for j in range(p):
        least[j] = D[j]
        for a in range(k):
            least[j] += L[a, j] * L[a, j]
        least[j] *= rounding
    flat, pair = opened.reshape(p * p), 0
    flat[:] = 0.0
    for a in range(k + 1):
        for b in range(a, k + 1):
            weight, row = c[a] * c[b], sums[pair]
            for j in range(p * p):
                flat[j] += weight * row[j]
            pair += 1


@compiled
def _factor(A, least):  # type: ignore[no-untyped-def]
    """A's lower triangle becomes its Cholesky factor; pivots are `least` at least, rounding may say less."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = (A[i, j] - dot(A[i, :j], A[j, :j])) / A[j, j]
            A[j, i] = 0.0
        A[i, i] = np.sqrt(max(A[i, i] - dot(A[i, :i], A[i, :i]), least))


@compiled
def _coefficients(of, x, s):  # type: ignore[no-untyped-def]
    """Fills s (r,); returns `root (L'x − WL's)` and m, (k,) each."""
    k = of.L.shape[0]
    product(of.R, of.D * x, s)
    solve(of.C, s)
    inner, half, m = np.empty(k), np.empty(k), np.zeros(k)
    for a in range(k):
        inner[a] = dot(of.L[a], x) - dot(of.WL[a], s)
    product(of.root, inner, half)
    add_transposed(of.root, half, m)
    return half, m


@compiled
def _away(of, x, s, m, out):  # type: ignore[no-untyped-def]
    """out = x − R'C⁻ᵀ(s + WL m)."""
    room = s.copy()
    add_transposed(of.WL, m, room)
    solve_transposed(of.C, room)
    room *= -1.0
    out[:] = x
    add_transposed(of.R, room, out)


@compiled
def _own(of, x, e):  # type: ignore[no-untyped-def]
    """o = x − R'e."""
    o = x.copy()
    add_transposed(of.R, -e, o)
    return o


@compiled
def _square_of_rows(of, x):  # type: ignore[no-untyped-def]
    e, away = np.empty(of.R.shape[0]), np.empty(x.shape[0])
    half, m = _coefficients(of, x, e)
    _away(of, x, e, m, away)
    solve_transposed(of.C, e)
    o = _own(of, x, e)
    total = dot(e, e) + dot(half, half) + quadratic(of.O, away)
    for j in range(x.shape[0]):
        total += of.D[j] * o[j] * o[j] + of.least[j] * x[j] * x[j]
    return total


@compiled
def _times_rows(of, x, out):  # type: ignore[no-untyped-def]
    """`V x = own (D o + q) + D R'C⁻ᵀC⁻¹e + J (m − M WL'C⁻¹R q)`, `q = O away'x`: as squares, so as exact."""
    r, p = of.R.shape
    s, away, q, y = np.empty(r), np.empty(p), np.empty(p), np.empty(p)
    _, m = _coefficients(of, x, s)
    _away(of, x, s, m, away)
    product(of.O, away, q)
    e = s.copy()
    solve_transposed(of.C, e)
    o = _own(of, x, e)
    rows_q, rows_y = np.empty(r), np.empty(r)
    for j in range(p):
        y[j] = of.D[j] * o[j]
        out[j] = y[j] + q[j] + of.least[j] * x[j]
    product(of.R, q, rows_q)
    product(of.R, y, rows_y)
    solve(of.C, rows_q)
    rows_y -= e
    solve(of.C, rows_y)
    half, less = np.empty(m.shape[0]), np.zeros(m.shape[0])
    product(of.WL, rows_q, half)
    add_transposed(of.root, of.root @ half, less)
    m -= less
    rows_y += rows_q
    add_transposed(of.WL, m, rows_y)
    solve_transposed(of.C, rows_y)
    y[:] = 0.0
    add_transposed(of.R, rows_y, y)
    for j in range(p):
        out[j] -= of.D[j] * y[j]
    add_transposed(of.L, m, out)


@compiled
def _turn_rows(of, x, out):  # type: ignore[no-untyped-def]
    s = np.empty(of.R.shape[0])
    _, m = _coefficients(of, x, s)
    _away(of, x, s, m, out)


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


def square(of: Any, x: Float) -> Any:
    """x'V x."""
    return quadratic(of.V, x) if isinstance(of, Dense) else _square_of_rows(of, x)


def turned(of: Any, x: Float, out: Float) -> None:
    """out = away'x."""
    _turn_dense(of, x, out) if isinstance(of, Dense) else _turn_rows(of, x, out)


def _is_dense(of: types.Type) -> bool:
    return isinstance(of, types.BaseNamedTuple) and of.instance_class is Dense


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
def _square(of, x):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x: quadratic(of.V, x)
    return lambda of, x: _square_of_rows(of, x)


@overload(turned)
def _turned(of, x, out):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, out: _turn_dense(of, x, out)
    return lambda of, x, out: _turn_rows(of, x, out)
