"""Products of small matrices and vectors, compiled: of whole matrices, and of triangles row by row."""

from __future__ import annotations

from banister.solver.kernels import compiled, dot


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
def quadratic_packed(A, x):  # type: ignore[no-untyped-def]
    """x'A x from A's upper triangle."""
    total, first, p = 0.0, 0, x.shape[0]
    for i in range(p):
        row = A[first : first + p - i]
        total += x[i] * (2.0 * dot(row, x[i:]) - row[0] * x[i])
        first += p - i
    return total


@compiled
def product_packed(A, x, out):  # type: ignore[no-untyped-def]
    """out = A x from A's upper triangle, each entry read once."""
    first, p = 0, x.shape[0]
    out[:] = 0.0
    for i in range(p):
        row, below, rest = A[first : first + p - i], out[i:], x[i:]
        here, total = rest[0], 0.0
        for j in range(1, p - i):
            total += row[j] * rest[j]
            below[j] += row[j] * here
        below[0] += total + row[0] * here
        first += p - i


@compiled
def weighted_squares(A, weight, x):  # type: ignore[no-untyped-def]
    """Σ weight_i (A x)_i², four rows at a time."""
    n, i, total = A.shape[0], 0, 0.0
    while i + 4 <= n:
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(A.shape[1]):
            s0 += a[j] * x[j]
            s1 += b[j] * x[j]
            s2 += c[j] * x[j]
            s3 += d[j] * x[j]
        total += weight[i] * s0 * s0 + weight[i + 1] * s1 * s1
        total += weight[i + 2] * s2 * s2 + weight[i + 3] * s3 * s3
        i += 4
    for k in range(i, n):
        total += weight[k] * dot(A[k], x) ** 2
    return total
