"""May the model be trusted at all yet? The rank, and the rule that keeps the gate shut until it may.

A standard error is over-confident exactly where it matters: early, and with a rank that is too small. So
nothing is certified until some shared direction stands far out of the noise (`OPEN`), every direction that
stands out at all is in the model (`rank.DETECT`), and the residuals hold no further one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from banister.data import Float, TaskData
from banister.estimators.rank import (
    DETECT,
    MOST_FITTED,
    direction_snrs,
    fitted_share,
    whiten_basis,
)
from banister.solver import (
    Passes,
    Solution,
    Whitening,
    candidates,
    correlations,
    minimise,
    ranked,
    solve_quick,
    top_left,
    top_singular_value,
)

OPEN = 6.0
LEFT_OVER = 1.10
_MAX_RANK = 20
_PROBE, _WIDE, _BUDGET = 25, 60, 200  # passes
_MOST_EXACT = 0.7
_MET = 1.5  # a fit errs at labels by no more than this many of their standard errors


@dataclass
class RankSearch:
    """Fits of one data set at neighbouring ranks, begun at the last rank found and warm from the last fits.

    Attributes:
        counts: (T,) effective rows of each task.
        least_noise: noise variance below which residuals are taken for rounding or luck, not for precision.
        exact: whether nearly all knowledge is in labels known to `least_noise`, not estimated from residuals.
        bases: bases by rank, of this data set or an earlier one; warm starts.
        fits: what was fitted to this data set, by rank.
    """

    data: TaskData
    whitening: Whitening
    counts: Float
    least_noise: float
    exact: bool = False
    bases: dict[int, Float] = field(default_factory=dict)
    fits: dict[int, Solution] = field(default_factory=dict)
    _wide: Solution | None = None

    @property
    def most_fitted(self) -> float:
        """The largest share of the rows that a fit may have in numbers, and still be judged."""
        return _MOST_EXACT if self.exact else MOST_FITTED

    def run(self, start: int = 0) -> int | None:
        """The largest rank, found from `start`, whose weakest direction stands out from the noise; 0 if none.

        Without a start, a guess from one wide fit takes its place: where directions are many and equal none
        of them stands out before all are fitted, so a search from below would see only noise.

        None if the rank cannot be told: the fit of the rank found did not converge, or the next rank has too
        many numbers for the rows. The next one need not be looked at where labels are exact and the fit meets
        them: what it leaves unexplained is then known to be small, whatever its rank.
        """
        most = min(self.data.dim, self.data.n_tasks, _MAX_RANK)
        if not self._judged(1):
            return None
        k = min(start or self._guess(most), most)
        while k >= 1 and not self._stands_out(k):
            k -= 1
        while 1 <= k < most and self._fits(k + 1) and self._worth_a_fit(k + 1) and self._stands_out(k + 1):
            k += 1
        told = k == 0 or (self.fit(k).converged and (self._next_judged(k) or self._meets_labels(k)))
        return k if told else None

    def strong(self, rank: int) -> bool:
        """Whether some direction up to this rank stands far out."""
        return any(self.snr(k) >= OPEN for k in range(rank, 0, -1))

    def snr(self, k: int) -> float:
        """Of the weakest direction of the fit of rank k."""
        noise = max(_common_noise(self.data, self.fit(k)), self.least_noise)
        return float(self._snrs(self._coefficients(k), noise)[1][-1])

    def fit(self, k: int) -> Solution:
        """The fit of rank k, made when first asked for."""
        if k not in self.fits:
            # With rows for no rank but this one, a fit that must meet the labels does so soon or not at all.
            budget = _BUDGET if self._next_judged(k) else _WIDE
            passes, warm = Passes(self.data, k), self.bases.get(k)
            self.fits[k] = solve_quick(passes, self.whitening, warm=warm, budget=budget)
            self.bases[k] = self.fits[k].B
        return self.fits[k]

    def estimate(self) -> tuple[Float, int] | tuple[None, int]:
        """The parameters (T, d) and rank of the largest fit made, for those who want to see them."""
        if not self.fits:
            return None, 0
        rank = max(self.fits)
        solution = self.fits[rank]
        return np.ascontiguousarray((solution.B @ solution.W).T), rank

    def _guess(self, most: int) -> int:
        """How many directions stand out of a few steps towards the widest fit that can be judged; at least 1.

        Their basis is where the fit of that rank then starts.
        """
        wide = self._widest_fit(most)
        B, W = whiten_basis(self.whitening, wide.B, wide.W)
        noise = max(_common_noise(self.data, wide), self.least_noise)
        U, snr = self._snrs(W, noise)
        found = max(int(np.sum(snr >= DETECT)), 1)
        self.bases[found] = np.linalg.qr(self.whitening.A @ (B @ U[:, :found]))[0]
        return found

    def _widest_fit(self, most: int) -> Solution:
        judged = (k for k in range(1, most + 1) if self._next_judged(k - self.exact))
        widest = max(judged, default=1)
        if self._wide is None or self._wide.B.shape[1] != widest:
            passes = Passes(self.data, widest)
            starts = candidates(passes, self.whitening, self.bases.get(widest))
            start = ranked(passes, self.whitening, starts)[0]
            self._wide = minimise(passes, self.whitening, start, max_passes=_WIDE)
        return self._wide

    def _coefficients(self, k: int) -> Float:
        """Of the fit of rank k, whitened, (T, k)."""
        return whiten_basis(self.whitening, self.fit(k).B, self.fit(k).W)[1]

    def _snrs(self, W: Float, noise: float) -> tuple[Float, Float]:
        noises = np.full(self.data.n_tasks, noise)
        return direction_snrs(self.data, W, noises, counts=self.counts, most_fitted=self.most_fitted)

    def _next_judged(self, k: int) -> bool:
        """Whether there are rows enough, whatever labels say, for the rank after k, if there is one."""
        return self._share(min(k + 1, self.data.dim, self.data.n_tasks)) <= MOST_FITTED

    def _judged(self, k: int) -> bool:
        """Whether a fit of rank k could be judged: the next one fits too, or exact labels stand in for it."""
        return self._fits(k if self.exact else min(k + 1, self.data.dim, self.data.n_tasks))

    def _meets_labels(self, k: int) -> bool:
        """Whether exact labels vouch for the fit of rank k: it meets them, and every direction rests on many.

        A direction that few tasks share bends to whatever their rows are, and proves nothing by meeting them.
        """
        if not self.exact or _common_noise(self.data, self.fit(k)) > _MET**2 * self.least_noise:
            return False
        return least_support(self._coefficients(k), self.counts) * self.most_fitted >= self.data.dim - k

    def _fits(self, k: int) -> bool:
        """Whether there are rows enough to judge a fit of rank k."""
        return self._share(k) <= self.most_fitted

    def _share(self, k: int) -> float:
        return fitted_share(self.data.dim, self.data.n_tasks, k, float(self.counts.sum()))

    def _stands_out(self, k: int) -> bool:
        return self._fits(k) and self.snr(k) >= DETECT

    def _worth_a_fit(self, k: int) -> bool:
        """Whether one more direction gains more than noise would, by a few steps from the fit below.

        A direction of energy E lowers the objective by E. A whole fit with a direction too many crawls along
        a flat valley, so it is made only where there is something to find.
        """
        below, gamma = self.fit(k - 1), self._share(k)
        edge = (np.sqrt(self.data.dim) + np.sqrt(self.data.n_tasks)) ** 2 / (1 - gamma) ** 3
        if below.objective < DETECT * edge * self.least_noise:
            return False  # not even if it explained all that is left
        probe = minimise(Passes(self.data, k), self.whitening, self._one_more(below), max_passes=_PROBE)
        self.bases[k] = probe.B
        noise = max(_common_noise(self.data, probe), self.least_noise)
        return bool(below.objective - probe.objective >= DETECT * edge * noise)

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


def least_support(W: Float, counts: Float) -> float:
    """Rows behind the direction of W (T, k) that rests on the fewest, less what the coefficients take.

    A direction rests on `1/Σ_t p_t²` tasks, where p_t is task t's share of it. The directions looked at are
    those of the tasks' own coefficients: one that belongs to few tasks is nearly that of one of them.
    """
    Q = np.linalg.qr(W * np.sqrt(counts)[:, None])[0]
    used = Q[np.linalg.norm(Q, axis=1) > 0]
    own = used / np.linalg.norm(used, axis=1)[:, None]
    shares = (Q @ own.T) ** 2
    rows = (shares.T @ counts - W.shape[1]) / np.sum(shares**2, axis=0)
    return float(rows.min())


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
    return bool(top_singular_value(scaled) > LEFT_OVER * edge)
