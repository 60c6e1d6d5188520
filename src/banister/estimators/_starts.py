"""Where to start: spectral subspaces of first estimates, and more of them where the first two disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from scipy.linalg import eigh

from banister.data import Float
from banister.estimators._passes import Passes, correlations
from banister.estimators._varpro import Solution, Whitening, minimise, rounding_level

AGREE = 1e-5  # two local optima within this share of each other count as one
_CLEAR = 6.0  # signal-to-noise ratio of the weakest fitted direction; noise alone gives about 1
_NOTHING = 1.1  # largest singular value of the residuals' correlations; noise alone gives about 1
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
    """The best solution found, and whether it is to be trusted as the global one.

    It is if the first descent explains the data down to noise (see `explains`), or if a second one met it.
    The start with the lowest objective goes first. Where a check is needed the next one follows, only until
    it meets the first; then ridge continuations, the remaining starts and random ones. A lucky descent is
    home soon and an unlucky one crawls, so each gets half of `max_passes` before the next is tried, and only
    the best is followed to the end. `budget` (three times `max_passes` unless given) limits the search.

    With `check=False` one converged descent is enough. `warm`, a basis in the data's coordinates, is one more
    start.
    """
    budget = 3 * max_passes if budget is None else budget
    max_passes = min(max_passes, budget)
    starts = ranked(passes, whitening, candidates(passes, whitening, warm))
    descend = partial(minimise, passes, whitening, tol=tol)
    taste = max(max_passes // 2, 1)
    best, zero = descend(starts[0], max_passes=taste), rounding_level(passes)
    met = int(best.converged)
    if met and (not check or explains(passes, whitening, best)):
        best.passes = passes.count
        return best, True
    for start in _more_starts(passes, whitening, starts, rng):
        near = AGREE * best.objective + zero
        other = descend(start(), max_passes=taste, good_enough=best.objective + near if met else -np.inf)
        if met and abs(other.objective - best.objective) <= near:
            met += 1
        elif other.objective < best.objective:
            best, met = other, int(other.converged)
        if met >= (2 if check else 1) or passes.count >= budget:
            break
    if not best.converged:
        best = descend(from_raw(whitening, best.B), max_passes=max(budget - passes.count, taste))
    best.passes = passes.count
    return best, met >= 2


def _more_starts(
    passes: Passes, whitening: Whitening, starts: list[Float], rng: np.random.Generator
) -> Iterator[Callable[[], Float]]:
    """What to try after the first start, in this order."""
    follow = partial(_continuation, passes, whitening)
    yield lambda: starts[1]
    yield lambda: follow(starts[0])
    yield lambda: follow(starts[1])
    for B in [*starts[2:], *_random(starts[0].shape, rng)]:
        yield partial(follow, B)


def explains(passes: Passes, whitening: Whitening, solution: Solution) -> bool:
    """Every fitted direction stands far out of the noise, and the residuals hold no further one.

    A local optimum misses a direction that the data have, and fits noise in its place: one of the two shows.
    Call it straight after the descent: `passes` still holds the residuals there.
    """
    data, rank = passes.data, passes.rank
    gamma = (data.dim + data.n_tasks - rank) * rank / data.n_rows
    if gamma > 0.5 or solution.objective <= 0:
        return False
    noise = solution.objective / (data.n_rows * (1 - gamma))
    edge = np.sqrt(data.dim) + np.sqrt(data.n_tasks)
    counts = np.maximum(data.counts, 1)
    left = whitening.A.T @ (passes.residual_correlations.T * np.sqrt(passes.weights / (counts * noise)))
    W = passes.W * np.sqrt(counts * passes.weights / noise)[:, None]
    weakest = float(np.linalg.eigvalsh(W.T @ W)[0]) * (1 - gamma) ** 3
    return bool(weakest >= _CLEAR * edge**2 and top_singular_value(left) <= _NOTHING * edge)


def candidates(passes: Passes, whitening: Whitening, warm: Float | None) -> list[Float]:
    """Spectral subspaces of the whitened data, the raw data and what a pooled model leaves; and `warm`."""
    data, rank = passes.data, passes.rank
    h = correlations(data, threads=passes.threads).astype(float)
    root = np.sqrt(np.maximum(data.counts, 1.0))
    white = whitening.A.T @ (h / root)  # columns have equal noise whatever the rows of a task
    starts = [top_left(white, rank), from_raw(whitening, top_left(h / root, rank))]
    pooled = white @ root / data.n_rows
    residual = data.y - data.X @ (whitening.A @ pooled).astype(data.X.dtype)
    rest = whitening.A.T @ (correlations(data, residual, threads=passes.threads).astype(float) / root)
    starts.append(np.linalg.qr(np.column_stack([pooled, top_left(rest, rank)]))[0][:, :rank])
    if warm is not None:
        starts.append(from_raw(whitening, warm))
    return starts


def ranked(passes: Passes, whitening: Whitening, starts: list[Float]) -> list[Float]:
    """The starts by their objective, lowest first; one pass each."""
    values = [passes.gradient(whitening.A @ B)[0] for B in starts]
    return [starts[i] for i in np.argsort(values, kind="stable")]


def from_raw(whitening: Whitening, B: Float) -> Float:
    """An orthonormal basis, in whitened coordinates, of the span of B in the data's."""
    return np.linalg.qr(whitening.inverse @ B)[0]


def _continuation(passes: Passes, whitening: Whitening, B: Float) -> Float:
    """Follow the minimum of a ridge-penalised objective as the ridge on w fades."""
    for share in _CONTINUATION:
        passes.ridge = share * passes.data.n_rows / passes.data.n_tasks
        B = from_raw(whitening, minimise(passes, whitening, B, tol=1e-4, max_passes=60).B)
    passes.ridge = 0.0
    return B


def _random(shape: tuple[int, ...], rng: np.random.Generator, count: int = 3) -> list[Float]:
    return [np.linalg.qr(rng.standard_normal(shape))[0] for _ in range(count)]


def top_singular_value(matrix: Float) -> float:
    """The largest singular value, through the smaller Gram matrix."""
    d, T = matrix.shape
    gram = matrix @ matrix.T if d <= T else matrix.T @ matrix
    last = len(gram) - 1
    top = eigh(gram, eigvals_only=True, subset_by_index=(last, last), check_finite=False)
    return float(np.sqrt(max(0.0, top[0])))


def top_left(matrix: Float, rank: int) -> Float:
    """The top `rank` left singular vectors, through the smaller Gram matrix."""
    d, T = matrix.shape
    if d <= T:
        return np.ascontiguousarray(eigh(matrix @ matrix.T, subset_by_index=(d - rank, d - 1))[1][:, ::-1])
    right = eigh(matrix.T @ matrix, subset_by_index=(T - rank, T - 1))[1][:, ::-1]
    return np.linalg.qr(matrix @ right)[0]
