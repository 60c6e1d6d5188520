"""From evidence to a certificate: the steps, in order, each a small part of its own.

1. `scales`: every row is divided by its noise level; claims about baseline rewards are checked.
2. `regime`: the rank, and whether any direction stands far enough out of the noise.
3. a fit weighted by the tasks' moderated noise, and its delta-method covariance.
4. an allowance for a direction too weak to be seen.
5. `bootstrap`: is the standard error honest on data like these?
6. `checks`: tasks that do not fit the shared model stay shut.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from banister.contract import Bool
from banister.data import Float, Int, TaskData
from banister.errors import SettingError
from banister.estimators.confidence import LowRankCovariance, by_task
from banister.estimators.rank import fitted_share, whiten_basis
from banister.safety import bootstrap, checks, regime
from banister.safety.certificate import Certificate
from banister.safety.evidence import Evidence, Observations
from banister.safety.noise import Moderated, freedom_left, moderate, task_sums
from banister.safety.scales import Scales, rescale, scaled_rows
from banister.solver import Passes, Solution, Whitening, solve_quick

_GRAINS = (1.0, 10.0)
_ROUNDS = 5  # of fitting and rescaling
_ROUNDED = 1e-13  # of a task's largest variance
_ROUNDING = 1e-8  # share of the rewards' variance below which residuals say nothing
_LEAST = 1e-6  # scaled noise variance of a task: exact labels fit to rounding, which is no noise level
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
    _found: int = 0
    _bases: dict[int, Float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise SettingError(f"confidence={self.confidence!r} must lie strictly between 0 and 1.")

    def forget(self) -> None:
        """Forget noise levels and rank; bases stay as starts of the next fits."""
        self._scales, self._found = None, 0

    def state(self) -> dict[str, Float]:
        """What warm-starts the next certificate, as arrays to keep in a file."""
        arrays = {f"basis_{rank}": B for rank, B in self._bases.items()}
        arrays["found"] = np.array([self._found])
        if self._scales is not None:
            arrays |= {f"scale_{name}": np.asarray(value) for name, value in vars(self._scales).items()}
        return arrays

    def restore(self, arrays: dict[str, Float]) -> None:
        """Continue from what `state` gave."""
        self._bases = {int(name[6:]): B for name, B in arrays.items() if name.startswith("basis_")}
        self._found = int(arrays["found"][0]) if "found" in arrays else 0
        scales = {name[6:]: a for name, a in arrays.items() if name.startswith("scale_")}
        values = {name: a if a.ndim else float(a) for name, a in scales.items()}
        self._scales = Scales(**values) if values else None  # type: ignore[arg-type]

    def certify(
        self, evidence: Evidence, n_tasks: int, dim: int, decisions: int, rng: np.random.Generator
    ) -> Certificate:
        """A certificate from all evidence so far; `decisions` have been made."""
        plays, labels = evidence.plays(), evidence.labels()
        if plays is None:
            return Certificate.closed(n_tasks, dim)
        rows = _Rows(plays, labels, n_tasks)
        settled = self._at_some_grain(rows)
        if isinstance(settled, Certificate):
            return settled
        fit, self._scales, self._found = settled
        self._bases[fit.rank] = fit.solution.B
        certificate = self._judge_fit(fit, evidence.offered(), self._quantile(decisions, n_tasks), rng)
        return replace(certificate, usual=_usual_size(rows, certificate, self._scales))

    def _at_some_grain(self, rows: _Rows) -> Certificate | tuple[_Fit, Scales, int]:
        """Settle with labels as exact as they are said to be, or as coarse as the model needs them to be."""
        scales, found = self._scales, self._found
        if scales is None or len(scales.play) != rows.n_tasks:
            scales, found = _first_scales(rows, self._bases)
        if scales is None:
            return Certificate.closed(rows.n_tasks, rows.plays.X.shape[1], checks.REGIME)
        # What settled once at a finer grain is not judged by a coarser one, which would hide what it showed.
        finest, coarsest = (scales.grain, _GRAINS[-1]) if self._scales is None else (1.0, scales.grain)
        grains = [g for g in _GRAINS if finest <= g <= coarsest] if rows.labels is not None else [1.0]
        for grain in grains:
            settled = self._settle(rows, replace(scales, grain=grain), found)
            if not isinstance(settled, Certificate):
                break
        return settled

    def _settle(
        self, rows: _Rows, scales: Scales, found: int | None
    ) -> Certificate | tuple[_Fit, Scales, int]:
        """Find the rank, fit, and rescale until the noise levels stay put; or say why that cannot be."""
        for _ in range(_ROUNDS):
            data, is_label = rows.scaled(scales)
            whitening = Whitening.of(data)
            counts = regime.effective_counts(data)
            exact = rows.labels is not None and bool(is_label.all()) and scales.exact(rows.labels.std)
            search = regime.RankSearch(data, whitening, counts, 1.0, exact, self._bases)
            found = search.run(found or 0)
            if found is None:
                return Certificate.closed(data.n_tasks, data.dim, checks.UNDECIDED, *search.estimate())
            if not search.strong(found):
                return Certificate.closed(data.n_tasks, data.dim, checks.REGIME, *search.estimate())
            rank = found if self.rank is None else min(self.rank, data.dim, data.n_tasks)
            if rank < found:
                return Certificate.closed(data.n_tasks, data.dim, checks.RANK, *search.estimate())
            solution = search.fit(rank)
            scales, change = rescale(scales, rows.plays, rows.labels, solution.B @ solution.W, rank)
            if change < _STABLE:
                return _Fit.of(data, is_label, whitening, solution), scales, found
        return Certificate.closed(data.n_tasks, data.dim, checks.UNDECIDED, *search.estimate())

    def _quantile(self, decisions: int, n_tasks: int) -> float:
        count = self.decisions or max(2 * decisions, 100 * n_tasks)
        return float(np.sqrt(2 * np.log(count / (1 - self.confidence))))

    def _judge_fit(
        self, fit: _Fit, offered: tuple[Int, Float] | None, z: float, rng: np.random.Generator
    ) -> Certificate:
        assert self._scales is not None
        theta = np.ascontiguousarray((fit.solution.B @ fit.solution.W).T)
        shut, rms = fit.shut()
        if (shut != checks.OPEN).all():
            return Certificate.closed(len(theta), theta.shape[1], shut, theta, fit.rank)
        covariance = fit.covariances()
        growth = 1.0
        if offered is not None:
            std = np.sqrt(by_task(lambda X, t: np.sum(X @ covariance[t] * X, axis=1), offered[1], offered[0]))
            growth = bootstrap.inflation(
                fit.data, fit.whitening, fit.B, fit.W, fit.noise.variance, offered, std, z, rng=rng
            )
        covariance += fit.allowance()
        quantile = student.isf(norm.sf(z), fit.noise.freedom) * growth * np.maximum(rms, 1.0)
        scales = self._scales
        details = {"z": z, "bootstrap": growth, "inflation": scales.inflation, "grain": scales.grain}
        surprises = np.array([0, max(3, -(-len(theta) // 10))])
        return Certificate(theta, covariance, quantile, shut, scales, z, fit.rank, surprises, details=details)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What there is to fit."""

    plays: Observations
    labels: Observations | None
    n_tasks: int

    def scaled(self, scales: Scales) -> tuple[TaskData, Bool]:
        """See `scaled_rows`."""
        return scaled_rows(self.plays, self.labels, scales, self.n_tasks)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The weighted fit of scaled rows, and what is read off it."""

    data: TaskData
    is_label: Bool
    whitening: Whitening
    solution: Solution
    noise: Moderated
    B: Float
    W: Float
    residual: Float

    @classmethod
    def of(cls, data: TaskData, is_label: Bool, whitening: Whitening, first: Solution) -> _Fit:
        """Fit once more, weighted by the tasks' moderated variances of the first fit."""
        noise = _task_noise(data, data.y - data.fitted(first.B @ first.W), first.B.shape[1])
        passes = Passes(data, first.B.shape[1], weights=1 / noise.variance)
        solution = solve_quick(passes, whitening, warm=first.B)
        residual = data.y - data.fitted(solution.B @ solution.W)
        B, W = whiten_basis(whitening, solution.B, solution.W)
        noise = _task_noise(data, residual, solution.B.shape[1])
        return cls(data, is_label, whitening, solution, noise, B, W, residual)

    @property
    def rank(self) -> int:
        return int(self.B.shape[1])

    def covariances(self) -> Float:
        """V_t of every task, (T, d, d)."""
        parts = LowRankCovariance.of(self.data, self.whitening.A, self.B, self.W, self.noise.variance)
        covariance = parts.of_tasks(np.arange(self.data.n_tasks))
        covariance += _rounding(covariance)
        return covariance

    def allowance(self) -> Float:
        """Variance of a direction too weak to be seen: (s_t²/n̄)(√d+√T)²/(T d) · ‖x̃‖², (T, d, d)."""
        d, T = self.data.dim, self.data.n_tasks
        unseen = (np.sqrt(d) + np.sqrt(T)) ** 2 / (T * d) / max(self.data.n_rows / T, 1.0)
        metric = self.whitening.A @ self.whitening.A.T
        allowed: Float = (unseen * self.noise.variance)[:, None, None] * metric
        return allowed

    def shut(self) -> tuple[Int, Float]:
        """Why each task's gate is shut (0: open), and the root mean square misfit of its baselines."""
        data, variance = self.data, self.noise.variance
        correlation = regime.misfit_correlations(data, self.whitening.A, self.residual)
        rms = checks.baseline_rms(self.residual, self.is_label, data)
        shut = np.zeros(data.n_tasks, dtype=np.int64)
        shut[checks.disagreeing(rms)] = checks.BASELINES
        noticeable = np.maximum(variance, checks.NOTICEABLE**2)
        statistic = checks.misfit(data, correlation, self.residual, noticeable)
        shut[checks.misfitting(statistic)] = checks.MISFIT
        counts = regime.effective_counts(data)
        shut[checks.alone(self.W, counts, variance, data.dim)] = checks.MISFIT
        shut[checks.few_rows(counts, self.rank)] = checks.FEW_ROWS
        if regime.left_over(data, correlation, noticeable):
            shut[:] = checks.RANK
        if not self.solution.converged:
            shut[:] = checks.UNDECIDED
        return shut, rms


def _rounding(covariance: Float) -> Float:
    """What rounding may have taken from variances, (T, d, d): no knowledge is more exact than that."""
    largest = np.einsum("tii->ti", covariance).max(axis=1)
    margin: Float = _ROUNDED * largest[:, None, None] * np.eye(covariance.shape[1])
    return margin


def _task_noise(data: TaskData, residual: Float, rank: int) -> Moderated:
    freedom = freedom_left(data.counts, rank, data.dim)
    sums = task_sums(residual, data.codes, data.n_tasks)
    noise = moderate(sums / np.maximum(freedom, 0.5), freedom)
    return replace(noise, variance=np.maximum(noise.variance, _LEAST))


def _usual_size(rows: _Rows, certificate: Certificate, scales: Scales) -> float:
    """The size that one in a hundred standardised errors of new rewards exceeds.

    Rewards that carried the fit err less in it than the noise: by √(1−γ), γ the share of fitted numbers.
    """
    plays = rows.plays
    size = np.abs(plays.errors(certificate.theta.T)) / scales.play[plays.task]
    T, dim = certificate.theta.shape
    share = fitted_share(dim, T, certificate.rank, len(plays))
    return float(np.quantile(size, 0.99) / np.sqrt(max(1 - share, 0.05)))


def _first_scales(rows: _Rows, bases: dict[int, Float]) -> tuple[Scales, int] | tuple[None, int]:
    """Noise levels and rank before the first fit of everything: from the labels alone, or the rewards.

    None while no shared direction stands out, however coarse labels are taken to be.
    """
    plays, labels, n_tasks = rows.plays, rows.labels, rows.n_tasks
    level = max(float(np.std(plays.y if labels is None else labels.y)), np.finfo(float).tiny)
    crude = Scales(np.full(n_tasks, level))
    data, _ = scaled_rows(plays if labels is None else None, labels, crude, n_tasks)
    search = regime.RankSearch(
        data, Whitening.of(data), regime.effective_counts(data), _ROUNDING, bases=bases
    )
    for grain in (1.0,) if labels is None else _GRAINS:
        if labels is not None:
            search.least_noise, search.exact = grain**2, replace(crude, grain=grain).exact(labels.std)
        rank = search.run()
        if rank:
            break
    else:
        return None, 0
    solution = search.fit(rank)
    spent = 0 if labels is not None else rank * (data.dim + n_tasks - rank)
    variance = np.mean(plays.errors(solution.B @ solution.W) ** 2) / max(1 - spent / len(plays), 0.05)
    return Scales(np.full(n_tasks, max(float(np.sqrt(variance)), 1e-6 * level)), grain=grain), rank
