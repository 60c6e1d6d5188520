"""Where to start: spectral subspaces of first estimates, and more of them where the first two disagree."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.linalg import eigh

from banister.data import Float
from banister.estimators._passes import Passes, correlations
from banister.estimators._varpro import Solution, Whitening, minimise, rounding_level

AGREE = 1e-5  # two local optima within this share of each other count as one
_CONTINUATION = (1.0, 0.3, 0.1, 0.03, 0.01)


def solve(
    passes: Passes,
    whitening: Whitening,
    *,
    warm: Float | None = None,
    rng: np.random.Generator,
    tol: float = 1e-8,
    max_passes: int = 400,
    budget: int | None = None,
    check: bool = True,
) -> tuple[Solution, bool]:
    """The best solution found, and whether two starts agreed on it.

    The starts with the two lowest objectives are followed; the second only until it meets the first. Where
    they disagree, or nothing converged, the others follow: the remaining starts, a ridge continuation and
    random subspaces. With `check=False` one converged solve is enough. `warm` is a basis in the data's
    coordinates, one more start. `max_passes` limits each descent, `budget` (twice that unless given) the
    whole search.
    """
    budget = 2 * max_passes if budget is None else budget
    max_passes = min(max_passes, budget)
    starts = _ranked(passes, whitening, _candidates(passes, whitening, warm))
    descend = partial(minimise, passes, whitening, tol=tol, max_passes=max_passes)
    best, zero = descend(starts[0]), rounding_level(passes)
    if best.converged and not check:
        return best, True
    met = 1 if best.converged else 0
    for B in [*starts[1:], None, *_random(starts[0].shape, rng)]:
        if met >= 2 or passes.count >= budget:
            break
        if B is None:
            B = _continuation(passes, whitening, starts[0])
        near = AGREE * best.objective + zero
        other = descend(B, good_enough=best.objective + near)
        agrees = abs(other.objective - best.objective) <= near
        if agrees and met:
            met += 1
        elif other.objective < best.objective:
            best, met = descend(_from_raw(whitening, other.B)), 1
    best.passes = passes.count
    return best, met >= 2


def _candidates(passes: Passes, whitening: Whitening, warm: Float | None) -> list[Float]:
    data, rank = passes.data, passes.rank
    h = correlations(data, threads=passes.threads).astype(float)
    root = np.sqrt(np.maximum(data.counts, 1.0))
    white = whitening.A.T @ (h / root)  # columns have equal noise whatever the rows of a task
    starts = [top_left(white, rank), _from_raw(whitening, top_left(h / root, rank))]
    pooled = white @ root / data.n_rows
    residual = data.y - data.X @ (whitening.A @ pooled).astype(data.X.dtype)
    rest = whitening.A.T @ (correlations(data, residual, threads=passes.threads).astype(float) / root)
    starts.append(np.linalg.qr(np.column_stack([pooled, top_left(rest, rank)]))[0][:, :rank])
    if warm is not None:
        starts.append(_from_raw(whitening, warm))
    return starts


def _ranked(passes: Passes, whitening: Whitening, starts: list[Float]) -> list[Float]:
    values = [passes.gradient(whitening.A @ B)[0] for B in starts]
    return [starts[i] for i in np.argsort(values, kind="stable")]


def _from_raw(whitening: Whitening, B: Float) -> Float:
    return np.linalg.qr(whitening.inverse @ B)[0]


def _continuation(passes: Passes, whitening: Whitening, B: Float) -> Float:
    """Follow the minimum of a ridge-penalised objective as the ridge on w fades."""
    for share in _CONTINUATION:
        passes.ridge = share * passes.data.n_rows / passes.data.n_tasks
        B = _from_raw(whitening, minimise(passes, whitening, B, tol=1e-4, max_passes=60).B)
    passes.ridge = 0.0
    return B


def _random(shape: tuple[int, ...], rng: np.random.Generator, count: int = 3) -> list[Float]:
    return [np.linalg.qr(rng.standard_normal(shape))[0] for _ in range(count)]


def top_left(matrix: Float, rank: int) -> Float:
    """The top `rank` left singular vectors, through the smaller Gram matrix where the other side is long."""
    d, T = matrix.shape
    if d <= T:
        return np.ascontiguousarray(eigh(matrix @ matrix.T, subset_by_index=(d - rank, d - 1))[1][:, ::-1])
    return np.linalg.svd(matrix, full_matrices=False)[0][:, :rank]
