"""How a basis is found: on all tasks at once, or on a sample of them and then polished on all.

The representation belongs to the population, so a thousand tasks show its rank and nearly its place; a few
passes over all tasks then carry it to the same optimum that a search over all would have found. What all
tasks hold and the sample missed shows in their residuals, which are looked at in the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from banister.data import Float, Int
from banister.estimators import rank as ranks
from banister.estimators.prediction import predictive_score
from banister.solver import (
    LocalPool,
    Passes,
    Pool,
    Solution,
    Whitening,
    explains,
    from_raw,
    minimise,
    noise_norm,
    nothing_left,
    solve,
)

MANY = 2000  # tasks from which a sample goes first: below, a search over all costs about the same
_SAMPLE = 1000  # tasks in it at least, and ten for each feature: √d is then small beside √T, as it is for all
_SAMPLE_TOL = 1e-6  # the polish goes on from there
_LEFT = 1.1  # as in a solve's check: noise alone leaves a largest singular value of about 1


@dataclass(frozen=True, kw_only=True)
class Search:
    """Settings of a search; see `AltGDmin` for what they mean."""

    rng: np.random.Generator
    tol: float
    max_passes: int
    threads: int | None
    intercepts: bool


@dataclass(frozen=True)
class Found:
    """A solution, whether it is to be trusted as the global one, and whether any direction stood out."""

    solution: Solution
    agreed: bool
    stands_out: bool = True


def find(pool: Pool, whitening: Whitening, rank: int | None, search: Search) -> Found:
    """The best fit of this rank; None means as many directions as stand out and help to predict."""
    if pool.n_tasks >= MANY:
        return _sample_and_polish(pool, whitening, rank, search)
    if rank is not None:
        return Found(*_solve(Passes(pool, rank), whitening, None, search))
    scan = _scan(pool, whitening, search)
    if scan.explained:
        return Found(_polish(pool, whitening, scan.solution.B, search)[1], True)
    warm = scan.solution.B
    return Found(*_solve(Passes(pool, warm.shape[1]), whitening, warm, search), scan.rank > 0)


def _solve(passes: Passes, whitening: Whitening, warm: Float | None, search: Search) -> tuple[Solution, bool]:
    return solve(passes, whitening, warm=warm, rng=search.rng, tol=search.tol, max_passes=search.max_passes)


def _scan(pool: Pool, whitening: Whitening, search: Search) -> ranks.Scan:
    return ranks.scan_ranks(
        pool, whitening, rng=search.rng, max_passes=search.max_passes, intercepts=search.intercepts,
        score=_score(pool, whitening, search),
    )  # fmt: skip


def _score(pool: Pool, whitening: Whitening, search: Search) -> ranks.Score:
    return partial(predictive_score, pool, whitening, intercepts=search.intercepts)


def _sample_and_polish(pool: Pool, whitening: Whitening, rank: int | None, search: Search) -> Found:
    sample = LocalPool(pool.take(sample_tasks(pool, search.rng)), threads=search.threads)
    first, met, stands_out = _first(sample, whitening, rank, search)
    passes, solution = _polish(pool, whitening, first, search)
    if not solution.converged:
        return Found(*_solve(passes, whitening, solution.B, search), stands_out)
    if rank is None:
        adjusted = _adjusted(pool, whitening, passes, solution, search)
        met, solution = met and adjusted is solution, adjusted
    return Found(solution, met or _convincing(pool, whitening, solution), stands_out)


def _first(sample: Pool, whitening: Whitening, rank: int | None, search: Search) -> tuple[Float, bool, bool]:
    """A basis from the sample, whether it is to be trusted there, and whether any direction stood out."""
    warm, stands_out = None, True
    if rank is None:
        scan = _scan(sample, whitening, search)
        if scan.explained:
            return scan.solution.B, True, True
        warm, stands_out = scan.solution.B, scan.rank > 0
        rank = warm.shape[1]
    rougher = replace(search, tol=max(search.tol, _SAMPLE_TOL))
    solution, met = _solve(Passes(sample, rank), whitening, warm, rougher)
    return solution.B, met, stands_out


def _convincing(pool: Pool, whitening: Whitening, solution: Solution) -> bool:
    """Whether the fit explains all tasks' data; one pass."""
    passes = Passes(pool, solution.B.shape[1])
    passes.gradient(solution.B)
    return explains(passes, whitening, solution)


def sample_tasks(pool: Pool, rng: np.random.Generator) -> Int:
    """Sorted indices of the tasks that go first, drawn from those that have rows."""
    some = np.flatnonzero(pool.counts)
    size = min(max(_SAMPLE, 10 * pool.dim), len(some))
    return np.sort(rng.choice(some, size, replace=False))


def _polish(pool: Pool, whitening: Whitening, B: Float, search: Search) -> tuple[Passes, Solution]:
    passes = Passes(pool, B.shape[1])
    start = from_raw(whitening, B)
    return passes, minimise(passes, whitening, start, tol=search.tol, max_passes=search.max_passes)


def _adjusted(
    pool: Pool, whitening: Whitening, passes: Passes, solution: Solution, search: Search
) -> Solution:
    """The sample's rank, lowered or raised until all tasks agree with it."""
    if ranks.weakest_snr(pool, whitening, solution, intercepts=search.intercepts) < ranks.DETECT:
        return _lowered(pool, whitening, solution, search)
    while (more := _raised(pool, whitening, passes, solution, search)) is not None:
        passes, solution = more
    return solution


def _lowered(pool: Pool, whitening: Whitening, solution: Solution, search: Search) -> Solution:
    """Without its weakest direction, again and again, down to one."""
    while solution.B.shape[1] > 1:
        _, solution = _polish(pool, whitening, ranks.without_weakest(pool, whitening, solution), search)
        if ranks.weakest_snr(pool, whitening, solution, intercepts=search.intercepts) >= ranks.DETECT:
            break
    return solution


def _raised(
    pool: Pool, whitening: Whitening, passes: Passes, solution: Solution, search: Search
) -> tuple[Passes, Solution] | None:
    """With one direction more, if all tasks' residuals hold one that stands out and helps to predict."""
    k = solution.B.shape[1] + 1
    if k > min(pool.dim, ranks.MAX_RANK):
        return None
    edge = noise_norm(pool.dim, pool.n_tasks)
    noise = ranks.noise_variance(pool, solution, intercepts=search.intercepts)
    if nothing_left(passes, whitening, (_LEFT * edge) ** 2 * noise):
        return None
    start = from_raw(whitening, ranks.one_more(passes, whitening, solution))
    probe = Passes(pool, k)
    rough = minimise(probe, whitening, start, tol=ranks.rough(pool), max_passes=search.max_passes)
    if ranks.weakest_snr(pool, whitening, rough, intercepts=search.intercepts) < ranks.DETECT:
        return None
    score = _score(pool, whitening, search)
    return _polish(pool, whitening, rough.B, search) if score(rough.B) > score(solution.B) else None
