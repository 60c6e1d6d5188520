"""A solve: the first start that explains the data, and more of them where it does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import LinAlgError, cho_factor

from banister.data import Float
from banister.solver.descent import Solution, minimise, rounding_level
from banister.solver.low_rank import fitted_share, noise_norm
from banister.solver.passes import Passes
from banister.solver.spectra import Spectra, from_raw
from banister.solver.whitening import Whitening

AGREE = 1e-5  # two local optima within this share of each other count as one
_CLEAR = 6.0  # signal-to-noise ratio of the weakest fitted direction; noise alone gives about 1
_NOTHING = 1.1  # largest singular value of the residuals' correlations; noise alone gives about 1
_FIRST = 60  # passes for the first start on its own; most need fewer than 30
# Ridges on w, as shares of the mean number of rows, from one so strong that the start hardly matters.
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
    spectra: Spectra | None = None,
) -> tuple[Solution, bool]:
    """The best solution found, and whether it is to be trusted as the global one.

    It is if the first descent explains the data down to noise (see `explains`), or if a second one met it.
    With a check, `warm` (a basis in the data's coordinates) or else the spectral start goes first on its own
    (unless features vary too little in some direction for residuals to show what it missed); mostly that is
    all. Otherwise the start with the lowest objective follows, and the next one, only until it
    meets the best; then ridge continuations, the remaining starts and random ones. A lucky descent is home
    soon and an unlucky one crawls, so each gets half of `max_passes` before the next is tried, and only the
    best is followed to the end. `budget` (three times `max_passes` unless given) limits the search.

    With `check=False` one converged descent is enough, from the lowest of all starts. `spectra` may be given
    by those who fit several ranks.
    """
    budget = 3 * max_passes if budget is None else budget
    limits = _Limits(tol, max(min(max_passes, budget) // 2, 1), budget, check)
    spectra = spectra or Spectra(passes.pool, whitening, passes.rank)
    if not (check and whitening.complete):
        starts = _with(whitening, spectra.starts(passes.rank), warm)
        return _search(passes, whitening, starts, limits, rng)
    alone = spectra.white(passes.rank) if warm is None else from_raw(whitening, warm)
    first = minimise(passes, whitening, alone, tol=tol, max_passes=min(_FIRST, limits.taste))
    if first.converged and explains(passes, whitening, first):
        return first, True
    # A start that has had its turn gives way to where it led: to meet itself again would prove nothing.
    others = spectra.starts(passes.rank)[1 if warm is None else 0 :]
    return _search(passes, whitening, _with(whitening, others, first.B), limits, rng)


@dataclass(frozen=True)
class _Limits:
    """The tolerance, passes for one start, passes for all, and whether a second descent must agree."""

    tol: float
    taste: int
    budget: int
    check: bool


def _search(
    passes: Passes, whitening: Whitening, starts: list[Float], limits: _Limits, rng: np.random.Generator
) -> tuple[Solution, bool]:
    """From the lowest start, then from others until two met or the budget is spent."""
    descend = partial(minimise, passes, whitening, tol=limits.tol)
    starts = ranked(passes, whitening, starts)
    best, zero = descend(starts[0], max_passes=limits.taste), rounding_level(passes)
    met = int(best.converged)
    if met and (not limits.check or explains(passes, whitening, best)):
        best.passes = passes.count
        return best, True
    for start in _more_starts(passes, whitening, starts, rng):
        near = AGREE * best.objective + zero
        good_enough = best.objective + near if met else -np.inf
        other = descend(start(), max_passes=limits.taste, good_enough=good_enough)
        if met and abs(other.objective - best.objective) <= near:
            met += 1
        elif other.objective < best.objective:
            best, met = other, int(other.converged)
        if met >= (2 if limits.check else 1) or passes.count >= limits.budget:
            break
    if not best.converged:
        left = max(limits.budget - passes.count, limits.taste)
        best = descend(from_raw(whitening, best.B), max_passes=left)
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
    Call it straight after the descent: `passes` is still at its end.
    """
    pool, rank = passes.pool, passes.rank
    gamma = fitted_share(pool.dim, pool.n_tasks, rank, pool.n_rows)
    if gamma > 0.5 or solution.objective <= 0:
        return False
    noise = solution.objective / (pool.n_rows * (1 - gamma))
    edge = noise_norm(pool.dim, pool.n_tasks)
    weakest = float(np.linalg.eigvalsh(passes.spread / noise)[0]) * (1 - gamma) ** 3
    return bool(weakest >= _CLEAR * edge**2) and nothing_left(
        passes, whitening, (_NOTHING * edge) ** 2 * noise
    )


def nothing_left(passes: Passes, whitening: Whitening, most: float) -> bool:
    """Whether no direction of the residuals' correlations, whitened, has an energy above `most`.

    Cholesky's factor of `most·I − A'RA` exists exactly then, at a tenth of the price of an eigenvalue.
    """
    left = whitening.A.T @ passes.residual_moment() @ whitening.A
    try:
        cho_factor(most * np.eye(len(left)) - left, check_finite=False)
    except LinAlgError:
        return False
    return True


def _with(whitening: Whitening, starts: list[Float], warm: Float | None) -> list[Float]:
    return starts if warm is None else [*starts, from_raw(whitening, warm)]


def ranked(passes: Passes, whitening: Whitening, starts: list[Float]) -> list[Float]:
    """The starts by their objective, lowest first; one pass each."""
    values = [passes.gradient(whitening.A @ B)[0] for B in starts]
    return [starts[i] for i in np.argsort(values, kind="stable")]


def _continuation(passes: Passes, whitening: Whitening, B: Float) -> Float:
    """Follow the minimum of a ridge-penalised objective as the ridge on w fades."""
    for share in _CONTINUATION:
        passes.ridge = share * passes.pool.n_rows / passes.pool.n_tasks
        B = from_raw(whitening, minimise(passes, whitening, B, tol=1e-4, max_passes=60).B)
    passes.ridge = 0.0
    return B


def _random(shape: tuple[int, ...], rng: np.random.Generator, count: int = 3) -> list[Float]:
    return [np.linalg.qr(rng.standard_normal(shape))[0] for _ in range(count)]
