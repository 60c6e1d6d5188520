"""From evidence to a certificate: the steps, in order, each a small part of its own.

1. `scales`: every row is divided by its noise level; claims about baseline rewards are checked.
2. `regime`: the rank, and whether any direction stands far enough out of the noise.
3. a fit weighted by the tasks' moderated noise, and its delta-method covariance.
4. an allowance for a direction too weak to be seen.
5. `bootstrap`: is the standard error honest on data like these?
6. `checks`: tasks that do not fit the shared model stay shut.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm, t as student

from banister.data import Float, TaskData
from banister.errors import SettingError
from banister.estimators._passes import Passes
from banister.estimators._starts import solve
from banister.estimators._varpro import Solution, Whitening
from banister.estimators.confidence import LowRankCovariance
from banister.estimators.rank import whiten_basis
from banister.safety import bootstrap, checks, regime
from banister.safety.certificate import Certificate
from banister.safety.evidence import Evidence
from banister.safety.noise import Moderated, freedom_left, moderate, task_sums
from banister.safety.scales import Scales, rescale, scaled_rows

_STABLE = 1.25  # scales that change by less than this factor are left as they are


@dataclass(kw_only=True)
class Certifier:
    """Makes certificates from growing evidence; keeps what warm-starts the next one.

    Args:
        confidence: the probability, over all decisions together, with which bounds may fail is one minus it.
        rank: a rank to insist on; below what the data show it keeps every gate shut.
        decisions: how many decisions the union bound counts; by default those so far, twice over.
    """

    confidence: float = 0.95
    rank: int | None = None
    decisions: int | None = None
    _scales: Scales | None = None
    _found: int = 1
    _bases: dict[int, Float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise SettingError(f"confidence={self.confidence!r} must lie strictly between 0 and 1.")

    def certify(
        self, evidence: Evidence, n_tasks: int, dim: int, decisions: int, rng: np.random.Generator
    ) -> Certificate:
        """A certificate from all evidence so far; `decisions` have been made."""
        z = self._quantile(decisions, n_tasks)
        rows = self._rows(evidence, n_tasks, rng)
        if rows is None:
            return Certificate.closed(n_tasks, dim, checks.REGIME)
        data, kind = rows
        whitening = Whitening.of(data)
        search = regime.RankSearch(data, whitening, rng, regime.effective_counts(data), 1.0, self._bases)
        found = search.run(self._found)
        rank = max(found, self.rank or 0)
        if rank == 0 or not search.strong(found) or (self.rank is not None and self.rank < found):
            self._found = max(found, 1)
            return Certificate.closed(n_tasks, dim, checks.REGIME)
        self._found = found
        data, kind, whitening, solution = self._settle(evidence, data, kind, whitening, search, rank, rng)
        fit = _Fit.of(data, whitening, solution, rng)
        self._bases[rank] = fit.solution.B
        return self._judge_fit(fit, kind, evidence, z, rng)

    def _quantile(self, decisions: int, n_tasks: int) -> float:
        count = self.decisions or max(2 * decisions, 100 * n_tasks)
        return float(np.sqrt(2 * np.log(count / (1 - self.confidence))))

    def _rows(
        self, evidence: Evidence, n_tasks: int, rng: np.random.Generator
    ) -> tuple[TaskData, Float] | None:
        plays, labels = evidence.plays(), evidence.labels()
        if plays is None and labels is None:
            return None
        if self._scales is None or len(self._scales.play) != n_tasks:
            self._scales = _first_scales(evidence, n_tasks, rng)
        if self._scales is None:
            return None
        return scaled_rows(plays, labels, self._scales, n_tasks)

    def _settle(
        self,
        evidence: Evidence,
        data: TaskData,
        kind: Float,
        whitening: Whitening,
        search: regime.RankSearch,
        rank: int,
        rng: np.random.Generator,
    ) -> tuple[TaskData, Float, Whitening, Solution]:
        """Fit and rescale until the noise levels stay put; each round is a warm fit."""
        solution = search.solution(rank)
        for _ in range(4):
            assert self._scales is not None
            residual = data.y - data.fitted(solution.B @ solution.W)
            self._scales, change = rescale(self._scales, residual, kind, data, rank)
            if change < _STABLE:
                break
            data, kind = scaled_rows(evidence.plays(), evidence.labels(), self._scales, data.n_tasks)
            whitening = Whitening.of(data)
            solution, _ = solve(
                Passes(data, rank), whitening, warm=solution.B, rng=rng, tol=1e-7, check=False
            )
        return data, kind, whitening, solution

    def _judge_fit(
        self, fit: _Fit, kind: Float, evidence: Evidence, z: float, rng: np.random.Generator
    ) -> Certificate:
        assert self._scales is not None
        offered = evidence.offered()
        covariance = fit.covariances()
        growth = 1.0
        if offered is not None:
            std = np.sqrt(np.einsum("nd,nde,ne->n", offered[1], covariance[offered[0]], offered[1]))
            growth = bootstrap.inflation(
                fit.data, fit.whitening, fit.B, fit.W, fit.noise.variance, offered, std, z, rng=rng
            )
        shut, rms = fit.shut(kind)
        tail = norm.sf(z)
        quantile = student.isf(tail, fit.noise.freedom) * growth * np.maximum(rms, 1.0)
        covariance += fit.allowance()
        theta = np.ascontiguousarray((fit.solution.B @ fit.solution.W).T)
        details = {"z": z, "bootstrap": growth, "inflation": self._scales.inflation}
        return Certificate(theta, covariance, quantile, shut, self._scales, z, fit.rank, details)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The weighted fit of scaled rows, and what is read off it."""

    data: TaskData
    whitening: Whitening
    solution: Solution
    noise: Moderated
    B: Float
    W: Float
    residual: Float

    @classmethod
    def of(
        cls, data: TaskData, whitening: Whitening, first: Solution, rng: np.random.Generator
    ) -> _Fit:
        """Fit once more, weighted by the tasks' moderated variances of the first fit."""
        noise = _task_noise(data, data.y - data.fitted(first.B @ first.W), first.B.shape[1])
        passes = Passes(data, first.B.shape[1], weights=1 / noise.variance)
        solution, _ = solve(passes, whitening, warm=first.B, rng=rng, check=False)
        residual = data.y - data.fitted(solution.B @ solution.W)
        B, W = whiten_basis(whitening, solution.B, solution.W)
        noise = _task_noise(data, residual, solution.B.shape[1])
        return cls(data, whitening, solution, noise, B, W, residual)

    @property
    def rank(self) -> int:
        return int(self.B.shape[1])

    def covariances(self) -> Float:
        """V_t of every task, (T, d, d)."""
        parts = LowRankCovariance.of(self.data, self.whitening.A, self.B, self.W, self.noise.variance)
        return np.stack([parts.of_task(t) for t in range(self.data.n_tasks)])

    def allowance(self) -> Float:
        """Variance of a direction too weak to be seen: (s_t²/n̄)(√d+√T)²/(T d) · ‖x̃‖², (T, d, d)."""
        d, T = self.data.dim, self.data.n_tasks
        unseen = (np.sqrt(d) + np.sqrt(T)) ** 2 / (T * d) / max(self.data.n_rows / T, 1.0)
        metric = self.whitening.A @ self.whitening.A.T
        return (unseen * self.noise.variance)[:, None, None] * metric

    def shut(self, kind: Float) -> tuple[Float, Float]:
        """Why each task's gate is shut (0: open), and how far its quantile grows for its baselines' misfit."""
        data, variance = self.data, self.noise.variance
        correlation = regime.misfit_correlations(data, self.whitening.A, self.residual)
        rms = checks.baseline_rms(self.residual / np.sqrt(variance)[data.codes], kind, data)
        shut = np.zeros(data.n_tasks, dtype=np.int64)
        shut[checks.disagreeing(rms)] = checks.BASELINES
        statistic = checks.misfit(data, correlation, self.residual, variance)
        shut[checks.misfitting(statistic)] = checks.MISFIT
        shut[checks.few_rows(regime.effective_counts(data), self.rank)] = checks.FEW_ROWS
        if regime.left_over(data, correlation, variance):
            shut[:] = checks.REGIME
        if not self.solution.converged:
            shut[:] = checks.FIT
        return shut, rms


def _task_noise(data: TaskData, residual: Float, rank: int) -> Moderated:
    freedom = freedom_left(data.counts, rank, data.dim)
    sums = task_sums(residual, data.codes, data.n_tasks)
    return moderate(sums / np.maximum(freedom, 0.5), freedom)


def _first_scales(evidence: Evidence, n_tasks: int, rng: np.random.Generator) -> Scales | None:
    """Noise levels before the first fit of everything: from a fit of the labels alone, or of the rewards.

    None while no shared direction stands out.
    """
    plays, labels = evidence.plays(), evidence.labels()
    rows = plays if labels is None else labels
    assert rows is not None
    level = max(float(np.std(rows.y)), np.finfo(float).tiny)
    crude = Scales(np.full(n_tasks, level))
    if plays is None:
        return crude
    data, _ = scaled_rows(plays if labels is None else None, labels, crude, n_tasks)
    search = regime.RankSearch(
        data, Whitening.of(data), rng, regime.effective_counts(data), 1e-8 if labels is None else 1.0
    )
    rank = search.run(1)
    if rank == 0:
        return None
    theta = search.solution(rank).B @ search.solution(rank).W
    error = plays.y - np.einsum("nd,dn->n", plays.X, theta[:, plays.task])
    spent = 0 if labels is not None else rank * (data.dim + n_tasks - rank)
    left = max(1 - spent / len(plays), 0.05)
    return Scales(np.full(n_tasks, max(float(np.sqrt(np.mean(error**2) / left)), 1e-6 * level)))
