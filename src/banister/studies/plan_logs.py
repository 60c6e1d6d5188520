"""What logs of the policy in place say of a setting: noise, rank, κ, μ, and how sure that is.

Features are whitened by their pooled second moment first, so that the paper's assumption of isotropic
features holds and κ and μ do not depend on the units of the columns. Intervals come from a parametric
bootstrap: rewards are drawn from the fit and fitted again, and features are resampled.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import t as student

from banister import theory
from banister.data import Float, TaskData
from banister.errors import ConvergenceWarning, InputError
from banister.estimators.altgdmin import AltGDmin
from banister.estimators.rank import DETECT, MOST_FITTED
from banister.features.arms import Arms
from banister.features.frames import read_frame
from banister.learner.memory import Memory
from banister.online.logs import read_logs as read_feature_rows
from banister.online.raw import read_raw_logs
from banister.safety.believer import Believer
from banister.safety.gates import Gates
from banister.safety.reasons import OPEN, REASONS
from banister.solver import fitted_numbers, fitted_share
from banister.studies.plan_bounds import Population
from banister.studies.plan_setting import MOST_BYTES, PlanSetting

_REFITS = 20
_EDGE = 0.05  # on either side: intervals are to hold the truth with 90 %
_FEW_ROWS = 3  # rows per fitted number below which estimates are shaky


@dataclass(frozen=True)
class Estimate:
    """A figure and the interval that holds it with 90 %."""

    value: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """Plain numbers, for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, eq=False)
class LogFindings:
    """What was found in logs.

    Attributes:
        rows, dim, tasks: sizes of the logs.
        counts: least, median and most rows of a task.
        rank: directions that stand out from the noise, at least 1.
        weakest: strength of the weakest of them, in units of what noise alone gives.
        noise, kappa, mu, signal: with intervals; `signal` is the root mean square of ‖θ_t‖ after whitening.
        baseline_reward: fitted expected rewards of the rows, (n,): what the policy in place earns.
        norms: ‖θ_t‖ after whitening, (T,).
        open_tasks: share of tasks that a certificate from these logs alone would open; None if not tried.
        shut: reasons why the others stay shut, and how many tasks each holds for.
        notes: what to keep in mind.
    """

    rows: int
    dim: int
    tasks: int
    counts: tuple[int, int, int]
    rank: int
    weakest: float
    noise: Estimate
    kappa: Estimate
    mu: Estimate
    signal: Estimate
    baseline_reward: Float
    norms: Float
    open_tasks: float | None
    shut: dict[str, int]
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "rows": self.rows,
            "dim": self.dim,
            "tasks": self.tasks,
            "rows_per_task": dict(zip(("least", "median", "most"), self.counts, strict=True)),
            "rank": self.rank,
            "weakest_direction": self.weakest,
            **{name: getattr(self, name).as_dict() for name in ("noise", "kappa", "mu", "signal")},
            "baseline_reward": np.quantile(self.baseline_reward, [0.1, 0.5, 0.9]).tolist(),
            "open_tasks": self.open_tasks,
            "shut": self.shut,
            "notes": self.notes,
        }

    def population(self, setting: PlanSetting, model: Population) -> Population:
        """Baseline rewards and task sizes of the logs; gaps, which logs do not show, of the model."""
        scale = setting.task_norm / self.signal.value
        rng = np.random.default_rng(0)
        reward = rng.choice(self.baseline_reward, len(model.gap)) * scale
        return Population(self.mu.value, self.norms * scale, reward, model.gap)


def read_logs(
    logs: Any, *, task: str, reward: str, features: str | Sequence[str] = "f*", arms: Arms | None = None,
    arm: str = "arm",
) -> TaskData:  # fmt: skip
    """Rows of a log: of ready-made features, or with `arms` of raw values and named arms.

    Args:
        logs: a path or any table, see `read_frame`.
        task, reward: names of columns.
        features: names of columns, or a pattern that they match, such as `f*`.
        arms: what makes features of a raw log; it learns from this one.
        arm: the column with what was played in a raw log.
    """
    frame = read_frame(logs)
    if arms is None:
        rows = read_feature_rows(frame, task=task, reward=reward, features=features)
    else:
        rows = read_raw_logs(frame, arms.learn(frame), task=task, arm=arm, reward=reward)
        rows = replace(rows, X=rows.X[:, rows.X.any(axis=0)])  # a category that never came says nothing here
    return TaskData.from_rows(rows.X, rows.y, [rows.labels[t] for t in rows.task])


def study_logs(data: TaskData, *, seed: int = 0) -> LogFindings:
    """Fit the logs with the rank they call for, and read off what a plan needs."""
    model = AltGDmin(rank="auto", seed=seed).fit_data(data)
    _check_signal(data, model)
    rng = np.random.default_rng(seed)
    root = _root(data.X)
    found = _figures(model, root)
    # Features are a sample too: what whitens them is drawn anew for every refit.
    again = np.array([_figures(m, _root(rng.choice(data.X, data.n_rows))) for m in _refits(data, model, rng)])
    noise, kappa, mu, signal = (_interval(*pair) for pair in zip(found, again.T, strict=True))
    fitted = data.fitted(model.theta_)
    opened, shut = _gates(data)
    low, middle, high = np.quantile(data.counts, [0.0, 0.5, 1.0]).astype(int).tolist()
    return LogFindings(
        rows=data.n_rows,
        dim=data.dim,
        tasks=data.n_tasks,
        counts=(low, middle, high),
        rank=model.rank_,
        weakest=float(model.singular_values_[-1]),
        noise=noise,
        kappa=kappa,
        mu=mu,
        signal=signal,
        baseline_reward=fitted,
        norms=np.linalg.norm(root @ model.theta_, axis=0),
        open_tasks=opened,
        shut=shut,
        notes=[*model.warnings_, *_notes(data, model, fitted)],
    )


def _check_signal(data: TaskData, model: AltGDmin) -> None:
    """An error where nothing stands out from the noise: then κ and μ mean nothing."""
    share = fitted_share(data.dim, data.n_tasks, model.rank_, data.n_rows)
    if share > MOST_FITTED or model.singular_values_[-1] ** 2 * (1.0 - share) ** 3 < DETECT:
        raise InputError(
            f"No shared direction stands out from the noise in these {data.n_rows} rows of {data.n_tasks} "
            f"tasks and {data.dim} features; bring more rows, or plan without --logs by giving --dim, "
            "--rank, --tasks, --noise and --signal."
        )


def _root(X: Float) -> Float:
    """C^½ of the pooled second moment C = X'X/N: Θ in whitened coordinates is C^½ Θ."""
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _figures(model: AltGDmin, root: Float) -> tuple[float, float, float, float]:
    """Noise, κ, μ and signal of a fit."""
    theta = root @ model.theta_
    return (
        float(model.noise_std_),
        theory.condition_number(theta, rank=model.rank_),
        theory.incoherence(theta, rank=model.rank_),
        float(np.sqrt(np.mean(np.sum(theta**2, axis=0)))),
    )


def _refits(data: TaskData, model: AltGDmin, rng: np.random.Generator) -> list[AltGDmin]:
    """Fits of simulated rewards; one in which a weak direction vanished has no κ and is left out."""
    mean = data.fitted(model.theta_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # said once, by the fit of the logs
        fits = [
            AltGDmin(rank=model.rank_).fit_data(
                data.replace_y(mean + model.noise_std_ * rng.standard_normal(data.n_rows))
            )
            for _ in range(_REFITS)
        ]
    return [fit for fit in fits if np.linalg.matrix_rank(fit.theta_) >= model.rank_] or [model]


def _interval(value: float, refits: Float) -> Estimate:
    """The refits' bias and spread, on the logarithmic scale, turned round.

    Student's quantile of the spread rather than the refits' own quantiles, which few refits place too near.
    """
    errors = np.log(refits / value)
    middle = math.log(value) - float(errors.mean())
    reach = float(student.isf(_EDGE, max(len(errors) - 1, 1)) * errors.std(ddof=min(1, len(errors) - 1)))
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    return Estimate(value, min(low, value), max(high, value))  # a bias must not push the estimate outside


def _gates(data: TaskData) -> tuple[float | None, dict[str, int]]:
    """Whether these logs alone would open gates; rewards only, as logs hold no baseline labels."""
    if 8 * data.n_tasks * data.dim**2 > MOST_BYTES:
        return None, {}
    memory, n = Memory(data.dim), data.n_rows
    no_claim, number = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    memory.plays.extend(data.codes, data.X, data.y, np.ones(n, dtype=bool), no_claim, number)
    belief = Believer().believe(memory.snapshot().seen(), data.n_tasks, n)
    codes, counts = np.unique(Gates.of(belief).codes, return_counts=True)
    shut = {str(REASONS[code]): int(c) for code, c in zip(codes, counts, strict=True) if code != OPEN}
    return float(belief.known.mean()), shut


def _notes(data: TaskData, model: AltGDmin, fitted: Float) -> list[str]:
    notes = []
    rank, spent = model.rank_, fitted_numbers(data.dim, data.n_tasks, model.rank_)
    if fitted_share(data.dim, data.n_tasks, rank + 1, data.n_rows) > MOST_FITTED:
        notes.append(f"Too few rows to look for more than {rank} shared directions; the rank may be higher.")
    if data.n_rows < _FEW_ROWS * spent:
        notes.append(f"{data.n_rows} rows for {spent} fitted numbers: take the estimates with care.")
    if _levels_left(data, data.y - fitted, model.noise_std_**2):
        notes.append(
            "Rewards have a level that the features do not explain; add a column of ones to the features."
        )
    ratio = float(np.mean(fitted) / max(np.std(fitted), np.finfo(float).tiny))
    if abs(ratio) > 1:
        notes.append(
            f"The policy in place earns {np.mean(fitted):.3g} on average, {abs(ratio):.1f} times its spread. "
            "The simulated one earns about zero, where the floor is tightest, so the calibrated figures are "
            "cautious."
        )
    return notes


def _levels_left(data: TaskData, residual: Float, variance: float) -> bool:
    """Whether the tasks' mean residuals are larger than noise would make them (χ² with T degrees)."""
    sums = np.bincount(data.codes, weights=residual, minlength=data.n_tasks)
    statistic = float(np.sum(sums**2 / np.maximum(data.counts, 1)) / variance)
    return statistic > data.n_tasks + 4.0 * math.sqrt(2.0 * data.n_tasks)
