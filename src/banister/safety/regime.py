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
from banister.estimators._quick import solve_quick
from banister.estimators._starts import top_left
from banister.estimators._varpro import Solution, Whitening, minimise
from banister.estimators.rank import DETECT, MOST_FITTED, fitted_share, weakest_snr, whiten_basis

OPEN = 6.0
LEFT_OVER = 1.10
_MAX_RANK = 20
_PROBE = 25  # passes


@dataclass
class RankSearch:
    """Fits of one data set at neighbouring ranks, begun at the last rank found and warm from the last fits.

    Attributes:
        counts: (T,) effective rows of each task.
        least_noise: noise variance below which residuals are taken for rounding or luck, not for precision.
        bases: bases by rank, of this data set or an earlier one; warm starts.
        fits: what was fitted to this data set, by rank.
    """

    data: TaskData
    whitening: Whitening
    counts: Float
    least_noise: float
    bases: dict[int, Float] = field(default_factory=dict)
    fits: dict[int, Solution] = field(default_factory=dict)

    def run(self, start: int) -> int | None:
        """The last rank, scanning up, whose weakest direction stands out from the noise; 0 if none does.

        None if that cannot be told: the next rank has too many numbers for the rows, or the fit of the rank
        found did not converge.
        """
        most = min(self.data.dim, self.data.n_tasks, _MAX_RANK)
        if not self._fits(min(2, most)):
            return None
        k = min(max(start, 1), most)
        while k >= 1 and not self._stands_out(k):
            k -= 1
        while 1 <= k < most and self._fits(k + 1) and self._worth_a_fit(k + 1) and self._stands_out(k + 1):
            k += 1
        told = k == 0 or (self.fit(k).converged and (k == most or self._fits(k + 1)))
        return k if told else None

    def strong(self, rank: int) -> bool:
        """Whether some direction up to this rank stands far out."""
        return any(self.snr(k) >= OPEN for k in range(rank, 0, -1))

    def snr(self, k: int) -> float:
        """Of the weakest direction of the fit of rank k."""
        solution = self.fit(k)
        W = whiten_basis(self.whitening, solution.B, solution.W)[1]
        noise = max(_common_noise(self.data, solution), self.least_noise)
        return weakest_snr(self.data, W, np.full(self.data.n_tasks, noise), counts=self.counts)

    def fit(self, k: int) -> Solution:
        """The fit of rank k, made when first asked for."""
        if k not in self.fits:
            self.fits[k] = solve_quick(Passes(self.data, k), self.whitening, warm=self.bases.get(k))
            self.bases[k] = self.fits[k].B
        return self.fits[k]

    def estimate(self) -> tuple[Float, int] | tuple[None, int]:
        """The parameters (T, d) and rank of the largest fit made, for those who want to see them."""
        if not self.fits:
            return None, 0
        rank = max(self.fits)
        solution = self.fits[rank]
        return np.ascontiguousarray((solution.B @ solution.W).T), rank

    def _fits(self, k: int) -> bool:
        """Whether there are rows enough to judge a fit of rank k."""
        return fitted_share(self.data.dim, self.data.n_tasks, k, float(self.counts.sum())) <= MOST_FITTED

    def _stands_out(self, k: int) -> bool:
        return self._fits(k) and self.snr(k) >= DETECT

    def _worth_a_fit(self, k: int) -> bool:
        """Whether one more direction gains more than noise would, by a few steps from the fit below.

        A direction of energy E lowers the objective by E. A whole fit with a direction too many crawls along
        a flat valley, so it is made only where there is something to find.
        """
        below = self.fit(k - 1)
        probe = minimise(Passes(self.data, k), self.whitening, self._one_more(below), max_passes=_PROBE)
        self.bases[k] = probe.B
        noise = max(_common_noise(self.data, probe), self.least_noise)
        gamma = fitted_share(self.data.dim, self.data.n_tasks, k, float(self.counts.sum()))
        edge = (np.sqrt(self.data.dim) + np.sqrt(self.data.n_tasks)) ** 2
        gain = (below.objective - probe.objective) / noise / edge * (1 - gamma) ** 3
        return bool(gain >= DETECT)

    def _one_more(self, below: Solution) -> Float:
        """A fit's basis and the direction its residuals agree on most, whitened."""
        residual = self.data.y - self.data.fitted(below.B @ below.W)
        direction = top_left(misfit_correlations(self.data, self.whitening.A, residual), 1)
        basis = whiten_basis(self.whitening, below.B, below.W)[0]
        return np.linalg.qr(np.column_stack([basis, direction]))[0]


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
