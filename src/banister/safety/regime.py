"""May the model be trusted at all yet? The rank, and the rule that keeps the gate shut until it may.

A standard error is over-confident exactly where it matters: early, and with a rank that is too small. So
nothing is certified until some shared direction stands far out of the noise (`OPEN`), every direction that
stands out at all is in the model (`rank.DETECT`), and the residuals hold no further one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse.linalg import svds

from banister.data import Float, TaskData
from banister.estimators._passes import Passes, correlations
from banister.estimators._starts import solve
from banister.estimators._varpro import Solution, Whitening
from banister.estimators.rank import DETECT, MOST_FITTED, fitted_share, weakest_snr, whiten_basis

OPEN = 6.0
LEFT_OVER = 1.10
_MAX_RANK = 20


@dataclass
class RankSearch:
    """Fits of one data set at neighbouring ranks, begun at the last rank found and warm from the last fits.

    Attributes:
        counts: (T,) effective rows of each task.
        least_noise: noise variance below which residuals are taken for rounding or luck, not for precision.
        bases: bases by rank, of this data set or an earlier one; warm starts.
        fits: what was fitted to this data set: solution and snr of the weakest direction, by rank.
    """

    data: TaskData
    whitening: Whitening
    rng: np.random.Generator
    counts: Float
    least_noise: float
    bases: dict[int, Float] = field(default_factory=dict)
    fits: dict[int, tuple[Solution, float]] = field(default_factory=dict)

    def run(self, start: int) -> int:
        """The last rank, scanning up, whose weakest direction stands out from the noise; 0 if none does."""
        most = min(self.data.dim, self.data.n_tasks, _MAX_RANK)
        k = min(max(start, 1), most)
        while k >= 1 and self.snr(k) < DETECT:
            k -= 1
        while 1 <= k < most and self.snr(k + 1) >= DETECT:
            k += 1
        return k

    def strong(self, rank: int) -> bool:
        """Whether some direction up to this rank stands far out."""
        return any(self.snr(k) >= OPEN for k in range(rank, 0, -1))

    def snr(self, k: int) -> float:
        """Of the weakest of k directions; 0 without a fit where the rows are too few for one."""
        if fitted_share(self.data.dim, self.data.n_tasks, k, float(self.counts.sum())) > MOST_FITTED:
            return 0.0
        return self._fit(k)[1]

    def solution(self, k: int) -> Solution:
        """The fit of rank k."""
        return self._fit(k)[0]

    def _fit(self, k: int) -> tuple[Solution, float]:
        if k not in self.fits:
            passes = Passes(self.data, k)
            solution, _ = solve(
                passes, self.whitening, warm=self.bases.get(k), rng=self.rng, tol=1e-7, check=False
            )
            W = whiten_basis(self.whitening, solution.B, solution.W)[1]
            noise = max(_common_noise(self.data, solution), self.least_noise)
            levels = np.full(self.data.n_tasks, noise)
            self.fits[k] = solution, weakest_snr(self.data, W, levels, counts=self.counts)
            self.bases[k] = solution.B
        return self.fits[k]


def effective_counts(data: TaskData) -> Float:
    """How many rows of equal weight each task's scaled rows amount to (Kish), (T,)."""
    energy = np.einsum("ij,ij->i", data.X, data.X)
    total = np.bincount(data.codes, weights=energy, minlength=data.n_tasks)
    squares = np.bincount(data.codes, weights=energy**2, minlength=data.n_tasks)
    return np.divide(total**2, squares, out=np.zeros(data.n_tasks), where=squares > 0)


def _common_noise(data: TaskData, solution: Solution) -> float:
    rank = solution.B.shape[1]
    left = data.n_rows - rank * (data.dim + data.n_tasks - rank)
    return float(solution.objective / max(left, 0.05 * data.n_rows))


def misfit_correlations(data: TaskData, A: Float, residual: Float) -> Float:
    """A'X_t'e_t of every task, (d, T): what the residuals still know of the features, whitened."""
    return A.T @ correlations(data, residual)


def left_over(data: TaskData, misfit: Float, variance: Float) -> bool:
    """Whether the residuals hold a shared direction: their top singular value exceeds noise's."""
    scaled = misfit / np.sqrt(np.maximum(data.counts, 1) * variance)
    edge = np.sqrt(data.dim) + np.sqrt(data.n_tasks)
    if min(scaled.shape) < 3:
        return bool(np.linalg.norm(scaled, 2) > LEFT_OVER * edge)
    top = svds(scaled, k=1, return_singular_vectors=False, rng=0)
    return bool(top[0] > LEFT_OVER * edge)
