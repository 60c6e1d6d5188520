"""A task's covariance and `away` multiplied with vectors, from its rows: no matrix of size p is made.

Rows R (r, p) come in units of their noise and turned so that `R D R'` is diagonal, or nearly (`stored`). With
`Λ = 1/(1 + diag(R D R'))` and `M = (I + L'R'ΛR L)⁻¹`,

    s = R D x,    m = M L'(x − R'Λs),    e = Λ (s + R L m),    a = away'x = x − R'e
    x'V x = Σ D a² + |m|² + |e|² + a'O a

For exactly diagonal rows this is the posterior's covariance. In any case it is the variance of an estimate
that weights rewards by e, and so never below the posterior's, and above it only by the square of what is off
the diagonal. It costs 2 r p + p²/2; `V x` twice that; a bound from below, half of the first term alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banister.data import Float
from banister.safety._small_kernels import (
    add_transposed,
    product,
    product_packed,
    quadratic_packed,
    weighted_squares,
)
from banister.solver.kernels import compiled, dot

_DIGITS = 1e-12  # share of the prior variance that the difference of two sums may be wrong by


class Coded(NamedTuple):
    """One task as it is stored.

    Attributes:
        codes, step, fix, dual: its rows, see `Stored`; L: (k, p); D: (p,).
        c: (k + 1,) coefficients.
        sums: (pairs, p (p+1)/2) upper triangles of what is open, for each product of two coefficients.
        more, tied: see `stored`; rounding: share of the prior variance that rounding leaves.
    """

    codes: NDArray[Any]
    step: NDArray[Any]
    fix: NDArray[Any]
    dual: Float
    L: Float
    D: Float
    c: Float
    sums: Float
    more: float
    tied: float
    rounding: float


class Factored(NamedTuple):
    """One task's rows and what is made of them for the time of a call.

    Attributes:
        R: (r, p); share: (r,) Λ; L, RL: (k, p), (k, r), transposed; M: (k, k); D: (p,).
        O: (p (p+1)/2,) what is open of the shared part, its upper triangle row by row; the first entry is NaN
            until it is asked for, as many decisions do without (`_opened`). pairs, sums: what it is made of.
        more: what V is multiplied by, and `away` by its root; tied, rounding: see `Coded`.
    """

    R: Float
    share: Float
    L: Float
    RL: Float
    M: Float
    D: Float
    O: Float  # noqa: E741 (the name of the module's formulas)
    pairs: Float
    sums: Float
    more: float
    tied: float
    rounding: float


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
def prepare(of):  # type: ignore[no-untyped-def]
    """A task's `Factored` from its `Coded`."""
    R, L, D = decode(of.codes, of.step, of.fix, of.dual), of.L, of.D
    share, RL = np.empty(R.shape[0]), np.empty((L.shape[0], R.shape[0]))
    for i in range(R.shape[0]):
        size = 1.0
        for j in range(R.shape[1]):
            size += R[i, j] * R[i, j] * D[j]
        share[i] = 1.0 / size
    for a in range(L.shape[0]):
        product(R, L[a], RL[a])
    O = np.empty(of.sums.shape[1])  # noqa: E741
    O[0] = np.nan
    return Factored(
        R, share, L, RL, _inner(RL, share), D, O, _pairs(of.c), of.sums, of.more, of.tied, of.rounding
    )


@compiled
def _inner(RL, share):  # type: ignore[no-untyped-def]
    """M = (I + L'R'ΛR L)⁻¹, by elimination: pivots of I and something positive need no exchange."""
    k, r = RL.shape
    A, M = np.empty((k, k)), np.eye(k)
    for a in range(k):
        for b in range(k):
            A[a, b] = 1.0 if a == b else 0.0
            for i in range(r):
                A[a, b] += RL[a, i] * share[i] * RL[b, i]
    for a in range(k):
        M[a] /= A[a, a]
        A[a] /= A[a, a]
        for b in range(k):
            if b != a:
                factor = A[b, a]
                A[b] -= factor * A[a]
                M[b] -= factor * M[a]
    return M


@compiled
def _pairs(c):  # type: ignore[no-untyped-def]
    """The products of two coefficients each."""
    pairs, n = np.empty(c.shape[0] * (c.shape[0] + 1) // 2), 0
    for a in range(c.shape[0]):
        for b in range(a, c.shape[0]):
            pairs[n] = c[a] * c[b]
            n += 1
    return pairs


@compiled
def _opened(of):  # type: ignore[no-untyped-def]
    """O, made when it is first asked for."""
    opened = of.O
    if np.isnan(opened[0]):
        opened[:] = 0.0
        add_transposed(of.sums, of.pairs, opened)
    return opened


@compiled
def _rounded(of, x, out):  # type: ignore[no-untyped-def]
    """out = the variance that rounding leaves, times x."""
    D, L = of.D, of.L
    for j in range(x.shape[0]):
        prior = D[j]
        for a in range(L.shape[0]):
            prior += L[a, j] * L[a, j]
        out[j] = of.rounding * prior * x[j]


@compiled
def _weights(of, s, m, e):  # type: ignore[no-untyped-def]
    """e = Λ (s + R L m)."""
    share = of.share
    for i in range(s.shape[0]):
        e[i] = s[i]
    add_transposed(of.RL, m, e)
    for i in range(s.shape[0]):
        e[i] *= share[i]


@compiled
def _along(of, s):  # type: ignore[no-untyped-def]
    """L'R'Λs (k,)."""
    share, RL = of.share, of.RL
    weighted, out = np.empty(s.shape[0]), np.empty(RL.shape[0])
    for i in range(s.shape[0]):
        weighted[i] = share[i] * s[i]
    product(RL, weighted, out)
    return out


@compiled
def _estimated(of, x, away, e):  # type: ignore[no-untyped-def]
    """Fills `away'x` (p,) and e (r,); returns m (k,)."""
    D, L, s = of.D, of.L, np.empty(e.shape[0])
    for j in range(x.shape[0]):
        away[j] = D[j] * x[j]
    product(of.R, away, s)
    inner, m = -_along(of, s), np.empty(L.shape[0])
    for a in range(L.shape[0]):
        inner[a] += dot(L[a], x)
    product(of.M, inner, m)
    _weights(of, s, m, e)
    for i in range(s.shape[0]):
        s[i] = -e[i]
    for j in range(x.shape[0]):
        away[j] = x[j]
    add_transposed(of.R, s, away)
    return m


@compiled
def least_of_rows(of, x, scaled):  # type: ignore[no-untyped-def]
    """Not above x'V x, for half its cost: what the left-over alone leaves, less what rounding could add.

    `scaled` (p,) is room.
    """
    D, prior = of.D, 0.0
    for j in range(x.shape[0]):
        scaled[j] = D[j] * x[j]
        prior += scaled[j] * x[j]
    known = weighted_squares(of.R, of.share, scaled)
    return of.more * ((1.0 - _DIGITS) * prior - known / (1.0 - of.tied))


@compiled
def sketch_of_rows(of, x, out):  # type: ignore[no-untyped-def]
    """`least_of_rows` as a form: out = its matrix times x; returns x'out, which may be negative."""
    D, share, more = of.D, of.share, of.more
    s = np.empty(share.shape[0])
    for j in range(x.shape[0]):
        out[j] = D[j] * x[j]
    product(of.R, out, s)
    for i in range(s.shape[0]):
        s[i] *= -share[i] / (1.0 - of.tied)
    for j in range(x.shape[0]):
        out[j] = (1.0 - _DIGITS) * x[j]
    add_transposed(of.R, s, out)
    for j in range(x.shape[0]):
        out[j] *= more * D[j]
    return dot(x, out)


@compiled
def square_of_rows(of, x, away):  # type: ignore[no-untyped-def]
    """x'V x, and `away'x` (p,)."""
    D, e, rest = of.D, np.empty(of.R.shape[0]), np.empty(x.shape[0])
    m = _estimated(of, x, away, e)
    total, scale = dot(m, m) + dot(e, e) + quadratic_packed(_opened(of), away), np.sqrt(of.more)
    _rounded(of, x, rest)
    for j in range(x.shape[0]):
        total += D[j] * away[j] * away[j] + rest[j] * x[j]
    for j in range(x.shape[0]):
        away[j] *= scale
    return of.more * total


@compiled
def times_rows(of, x, out):  # type: ignore[no-untyped-def]
    """out = V x = q − K (R q − e) with `q = Σ a + O a`, as exact as sums of squares."""
    D, more, (r, p) = of.D, of.more, of.R.shape
    e, rows, away, q, rest = np.empty(r), np.empty(r), np.empty(p), np.empty(p), np.empty(p)
    m = _estimated(of, x, away, e)
    product_packed(_opened(of), away, q)
    for j in range(p):
        q[j] += D[j] * away[j]
    add_transposed(of.L, m, q)
    product(of.R, q, rows)
    for i in range(r):
        rows[i] -= e[i]
    _spread(of, rows, out)
    _rounded(of, x, rest)
    for j in range(p):
        out[j] = more * (q[j] + rest[j] - out[j])


@compiled
def _spread(of, rows, out):  # type: ignore[no-untyped-def]
    """out = K rows, `K = Σ R'(Λ⁻¹ + R L L'R')⁻¹`."""
    D, m, weights = of.D, np.empty(of.L.shape[0]), np.empty(rows.shape[0])
    product(of.M, _along(of, rows), m)
    _weights(of, rows, -m, weights)
    out[:] = 0.0
    add_transposed(of.R, weights, out)
    for j in range(out.shape[0]):
        out[j] *= D[j]
    add_transposed(of.L, m, out)


@compiled
def turn_rows(of, x, out):  # type: ignore[no-untyped-def]
    """out = away'x."""
    _estimated(of, x, out, np.empty(of.R.shape[0]))
    scale = np.sqrt(of.more)
    for j in range(out.shape[0]):
        out[j] *= scale
