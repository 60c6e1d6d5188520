"""How many directions the tasks share.

For k = 1, 2, … a rank-k model is fitted and its weakest direction is compared with what noise alone would
give: `snr_k = λ_min(Σ_t (n_t/s²) w_t w_t') / (√d + √T)²` over tasks with at least 3k rows, corrected for the
`(d + T − k) k` fitted numbers by `(1 − γ_k)³`, `γ_k = (d + T − k) k / N`. Pure noise sits near 0.85. The last
k before the first value below 1.25 is taken: too small a rank is unsafe later, too large only costs.

Mostly that is not needed. A guess is read off the spectrum of first estimates; a fit of that rank, or of one
of the next, that explains the data down to noise (every direction far above it, residuals that hold no
further one) settles the matter, and only where none does is every rank tried from 1 up.

A direction that stands out need not pay for itself (see `prediction`). Whoever gives a `score` gets the best
scored of the ranks that stand out, and a fit that explains the data settles nothing if it scores better
without its weakest direction.

To tell whether a direction stands out a rough fit will do: it stops once a step gains less than a hundredth
of what noise alone gives a direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from banister.data import Float, TaskData
from banister.solver import (
    Passes,
    Pool,
    Solution,
    Spectra,
    Whitening,
    as_pool,
    explains,
    fitted_share,
    from_raw,
    minimise,
    noise_norm,
    solve,
    top_vectors,
)

DETECT = 1.25
MOST_FITTED = 0.5  # a fit with more numbers than half the rows says nothing of its own errors
MAX_RANK = 20
_LEAST_FREE = 0.05  # of the rows: a fit with nearly as many numbers as rows must not look free of noise
_GUESS = 3.0  # times noise's: tasks of unlike energy reach 2 without any shared direction
_CLIMB = 60  # passes for a rank on the way up; one that needs more explains nothing
_CHECKPOINTS = (4, 8, 16)  # ranks tried after which the search ends if the best is in their lower half

Score = Callable[[Float], float]  # of a basis (d, k) in the data's coordinates: larger is better


def largest(B: Float) -> float:
    """The score of those who want every direction that stands out."""
    return float(B.shape[1])


@dataclass(frozen=True)
class Scan:
    """What the scan over ranks saw.

    Attributes:
        rank: the last rank whose weakest direction stands out; 0 if none does.
        snr: corrected signal-to-noise ratio of the weakest direction, for each rank tried.
        solution: the rough fit of the best scored rank; of rank 1 if none stands out.
        explained: that fit explains the data down to noise.
    """

    rank: int
    snr: dict[int, float]
    solution: Solution
    explained: bool = False


def scan_ranks(
    data: TaskData | Pool,
    whitening: Whitening,
    *,
    rng: np.random.Generator,
    max_rank: int | None = None,
    threads: int | None = None,
    max_passes: int = 400,
    intercepts: bool = False,
    score: Score = largest,
) -> Scan:
    """How many directions stand out from noise, and a rough fit of the best scored of these ranks."""
    pool = as_pool(data, threads)
    most = min(pool.dim, pool.n_tasks, max_rank or MAX_RANK)
    spectra = Spectra(pool, whitening, most)
    solve_rank = partial(
        solve,
        whitening=whitening,
        rng=rng,
        tol=rough(pool),
        max_passes=max_passes,
        check=False,
        spectra=spectra,
    )
    settled = _climb(pool, whitening, spectra, most, intercepts, score) if whitening.complete else None
    return settled or _try_all(pool, whitening, solve_rank, most, intercepts, score)


def _climb(
    pool: Pool, whitening: Whitening, spectra: Spectra, most: int, intercepts: bool, score: Score = largest
) -> Scan | None:
    """From the guess up, each rank from the one below and what its residuals agree on, until one explains."""
    snr: dict[int, float] = {}
    k = spectra.outstanding(_GUESS)
    start = spectra.white(k)
    while k <= most and fitted_share(pool.dim, pool.n_tasks, k, pool.n_rows) <= MOST_FITTED:
        passes = Passes(pool, k)
        solution = minimise(passes, whitening, start, tol=rough(pool), max_passes=_CLIMB)
        snr[k] = weakest_snr(pool, whitening, solution, intercepts=intercepts)
        if not solution.converged or snr[k] < DETECT:
            return None
        if explains(passes, whitening, solution):
            paid = k == 1 or score(solution.B) > score(without_weakest(pool, whitening, solution))
            return Scan(k, snr, solution, explained=True) if paid else None
        start = from_raw(whitening, one_more(passes, whitening, solution)) if k < pool.dim else start
        k += 1
    return None


def _try_all(
    pool: Pool,
    whitening: Whitening,
    solve_rank: Callable[..., tuple[Solution, bool]],
    most: int,
    intercepts: bool,
    score: Score,
) -> Scan:
    """Fit ranks 1, 2, … until a direction no longer stands out from noise, or the best is well behind."""
    snr: dict[int, float] = {}
    below, fits, scores = None, list[Solution](), list[float]()
    for k in range(1, most + 1):
        if k > 1 and fitted_share(pool.dim, pool.n_tasks, k, pool.n_rows) > MOST_FITTED:
            break
        passes = Passes(pool, k)
        solution, _ = solve_rank(passes, warm=below)
        snr[k] = weakest_snr(pool, whitening, solution, intercepts=intercepts)
        if snr[k] < DETECT:
            break
        below = one_more(passes, whitening, solution) if k < most else None
        fits.append(solution)
        scores.append(score(solution.B))
        if k in _CHECKPOINTS and np.argmax(scores) < k // 2:
            break
    return Scan(len(fits), snr, fits[int(np.argmax(scores))] if fits else solution)


def rough(pool: Pool) -> float:
    """A tolerance at which ranks can be told apart: see above."""
    edge = noise_norm(pool.dim, pool.n_tasks) ** 2
    return min(0.01 * edge / pool.n_rows, 1e-3)


def one_more(passes: Passes, whitening: Whitening, solution: Solution) -> Float:
    """A fit's basis and the direction that its residuals agree on most, in the data's coordinates.

    Call it straight after the descent: `passes` is still at its end.
    """
    left = whitening.A.T @ passes.residual_moment() @ whitening.A
    direction = whitening.A @ top_vectors(left, 1)
    return np.linalg.qr(np.column_stack([solution.B, direction]))[0]


def without_weakest(pool: Pool, whitening: Whitening, solution: Solution) -> Float:
    """A fit's basis less the direction that stands out least, in the data's coordinates."""
    B, W = whiten_basis(whitening, solution.B, solution.W)
    strong = direction_snrs(pool, W, np.ones(pool.n_tasks))[0][:, :-1]
    return whitening.A @ (B @ strong)


def weakest_snr(pool: Pool, whitening: Whitening, solution: Solution, *, intercepts: bool) -> float:
    """Corrected snr of the weakest direction of a fit."""
    coefficients = whiten_basis(whitening, solution.B, solution.W)[1]
    noise = noise_variance(pool, solution, intercepts=intercepts)
    return float(direction_snrs(pool, coefficients, np.full(pool.n_tasks, noise))[1][-1])


def direction_snrs(
    data: TaskData | Pool,
    W: Float,
    noise: Float,
    *,
    counts: Float | None = None,
    most_fitted: float = MOST_FITTED,
) -> tuple[Float, Float]:
    """Corrected snr of each direction, the strongest first, (k,); and the directions, columns of (k, k).

    `W` (T, k) is in whitened coordinates, noise (T,). `counts` are the tasks' effective rows where some rows
    weigh far more than others; by default all rows. All are 0 where the fit has more numbers than
    `most_fitted` of the rows.
    """
    T, k = W.shape
    rows = data.counts if counts is None else counts
    used = rows >= 3 * k
    gamma = fitted_share(data.dim, T, k, float(rows.sum()))
    if gamma > most_fitted or used.sum() < k:
        return np.eye(k), np.zeros(k)
    weighted = W[used] * np.sqrt(data.counts[used] / noise[used])[:, None]
    energy, directions = np.linalg.eigh(weighted.T @ weighted)
    snr: Float = energy[::-1] / noise_norm(data.dim, T) ** 2 * (1 - gamma) ** 3
    return directions[:, ::-1], snr


def standardised_singular_values(data: TaskData | Pool, W: Float, noise: Float) -> Float:
    """Singular values of the coefficients in units of what noise alone gives: above 1 stands out."""
    weighted = W * np.sqrt(data.counts / noise)[:, None]
    values: Float = np.linalg.svd(weighted, compute_uv=False) / noise_norm(data.dim, len(W))
    return values


def noise_variance(
    data: TaskData | Pool, solution: Solution, given: float | None = None, *, intercepts: bool = False
) -> float:
    """Residual variance with the degrees of freedom that a rank-r fit leaves, or the one given.

    `intercepts` says that the rows were centred within tasks, which took one degree of freedom of each.
    """
    if given is not None:
        return given
    rank = solution.B.shape[1]
    taken = np.minimum(data.counts, rank + intercepts)
    free = data.n_rows - float(taken.sum()) - rank * (data.dim - rank)
    tiny = 1e-20 * as_pool(data).energy() / data.n_rows + np.finfo(float).tiny
    return max(float(solution.objective / max(free, _LEAST_FREE * data.n_rows)), tiny)


def whiten_basis(whitening: Whitening, B: Float, W: Float) -> tuple[Float, Float]:
    """(B, W) in whitened coordinates: an orthonormal (d, r) basis and (T, r) coefficients."""
    Q, R = np.linalg.qr(whitening.inverse @ B)
    return Q, (R @ W).T
