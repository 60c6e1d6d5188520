"""AltGDmin as the paper writes it (Algorithm 1), the reference that the default solver is compared with.

It follows the paper to the letter, including what fails on data that a policy collected: the step
`γ = c / ((1 + 0.04/(1−2ρ)²)² ‖Θ̂0‖²)` assumes Gaussian contexts, for which ‖Θ̂0‖ ≈ σ_max. On the 5th best of
ten actions ‖Θ̂0‖ is about a quarter of σ_max, the step is some 17 times too long and the iteration
oscillates. `sigma_max` puts the true value in its place; `c` scales the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.data import Float, TaskData
from banister.errors import InputError, SettingError
from banister.solver import Solution, top_left


@dataclass(frozen=True, kw_only=True)
class PaperSolver:
    """Settings of Algorithm 1.

    Attributes:
        iterations: L, gradient steps.
        split: partition each task's rows into 2L + 1 disjoint sets (2L with a warm start), one for each use.
        c: the constant of the step size, at most 0.5 in Theorem l9.
        rho: ρ of the conservative exploration that collected the data; it enters the step size.
        sigma_max: σ_max of the truth; by default ‖Θ̂0‖ stands in ("Practical setting of parameters").
        truncation: C̃; by default 9 κ²μ² with κ²μ² estimated as T·max_t ‖θ̂_t‖²/‖Θ̂‖_F².
    """

    iterations: int = 100
    split: bool = False
    c: float = 0.5
    rho: float = 0.0
    sigma_max: float | None = None
    truncation: float | None = None

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise SettingError(f"iterations={self.iterations} must be at least 1.")
        if not self.c > 0:
            raise SettingError(f"c={self.c} must be positive; the theorems ask for at most 0.5.")
        if self.sigma_max is not None and not self.sigma_max > 0:
            raise SettingError(f"sigma_max={self.sigma_max} must be positive, or None to estimate it.")
        if not (0 <= self.rho <= 0.25 or 0.75 <= self.rho <= 1):
            raise SettingError(f"rho={self.rho} must lie in [0, 0.25] or [0.75, 1] (Theorem l9).")

    def solve(self, data: TaskData, rank: int, warm: Float | None = None) -> Solution:
        """One epoch of Algorithm 1: spectral initialisation unless a basis `warm` is given, then L steps."""
        sets = self._partition(data, with_init=warm is None)
        B, norm = (
            spectral_init(sets[0], rank, self.truncation)
            if warm is None
            else (warm, _init_norm(data, self.truncation))
        )
        gamma = self._step_size(norm if self.sigma_max is None else self.sigma_max)
        W: Float = np.zeros((rank, data.n_tasks))
        history = []
        for step in range(self.iterations):
            W = task_least_squares(sets[1 + step], B)  # line "Update w": (Φ B)† Y
            history.append(_objective(data, B, W))
            B = _gradient_step(sets[1 + self.iterations + step], B, W, gamma)
        objective = _objective(data, B, W)  # Θ̂ = B_L W_L with W_L computed at B_{L−1}, as printed
        converged = bool(np.isfinite(objective) and abs(history[-1] - objective) <= 1e-6 * objective)
        return Solution(
            B, W, objective, converged, 2 * self.iterations, self.iterations, [*history, objective]
        )

    def _step_size(self, sigma_max: float) -> float:
        return float(self.c / ((1 + 0.04 / (1 - 2 * self.rho) ** 2) ** 2 * sigma_max**2))

    def _partition(self, data: TaskData, *, with_init: bool) -> list[TaskData]:
        """The line "Sample-split": set 00, then sets 01…2L; without splitting each is all of the data."""
        if not self.split:
            return [data] * (2 * self.iterations + 1)
        parts = 2 * self.iterations + (1 if with_init else 0)
        shortest = int(data.counts.min())
        if shortest < parts:
            raise InputError(
                f"Splitting into {parts} sets needs that many rows of every task, but one has {shortest}; "
                f"use at most {max((shortest - 1) // 2, 0)} iterations, or split=False."
            )
        place = np.arange(data.n_rows) - np.repeat(data.offsets[:-1], data.counts)
        size = np.repeat(data.counts // parts, data.counts)
        group = place // size  # rows left over by the division are in no set
        sets = [_subset(data, group == k) for k in range(parts)]
        return sets if with_init else [data, *sets]


def spectral_init(data: TaskData, rank: int, truncation: float | None = None) -> tuple[Float, float]:
    """Truncated spectral initialisation: B^(0), and ‖Θ̂0‖."""
    theta = _truncated_estimate(data, truncation)
    return top_left(theta, rank), float(np.linalg.norm(theta, 2))


def estimate_truncation(data: TaskData) -> float:
    """C̃ = 9 κ²μ² with κ²μ² ≈ T·max_t ‖θ̂_t‖²/‖Θ̂‖_F² ("Practical setting of parameters")."""
    energy = np.array([np.mean(y**2) if len(y) else 0.0 for _, y in data])
    return float(9 * data.n_tasks * energy.max() / max(energy.sum(), np.finfo(float).tiny))


def task_least_squares(data: TaskData, B: Float) -> Float:
    """w_t = (X_t B)† y_t for every task, shape (r, T); minimum-norm where rows are too few."""
    columns = [np.linalg.lstsq(X @ B, y, rcond=None)[0] if len(y) else np.zeros(B.shape[1]) for X, y in data]
    return np.column_stack(columns)


def _truncated_estimate(data: TaskData, truncation: float | None) -> Float:
    multiplier = estimate_truncation(data) if truncation is None else truncation
    alpha = multiplier * float(np.mean(data.y**2))
    kept = np.where(data.y**2 <= alpha, data.y, 0.0)
    parts = [
        X.T @ kept[lo : lo + len(y)] / max(len(y), 1)
        for (X, y), lo in zip(data, data.offsets[:-1], strict=True)
    ]
    return np.column_stack(parts)


def _init_norm(data: TaskData, truncation: float | None) -> float:
    return float(np.linalg.norm(_truncated_estimate(data, truncation), 2))


def _gradient_step(data: TaskData, B: Float, W: Float, gamma: float) -> Float:
    """Lines "Gradient", "GD step" and "Projection step".

    The printed step is γ/(𝒢_m − 𝒢_{m−1}): the sum over rows becomes a mean. With splitting that is the count
    of the set in use, as the proofs need; where counts differ between tasks, their mean.
    """
    gradient = np.zeros_like(B)
    for t, (X, y) in enumerate(data):
        gradient += np.outer(X.T @ (X @ (B @ W[:, t]) - y), W[:, t])
    rows = data.n_rows / data.n_tasks
    return np.linalg.qr(B - gamma / rows * gradient)[0]


def _objective(data: TaskData, B: Float, W: Float) -> float:
    theta = B @ W
    return float(sum(np.sum((y - X @ theta[:, t]) ** 2) for t, (X, y) in enumerate(data)))


def _subset(data: TaskData, rows: Float) -> TaskData:
    return TaskData.from_codes(data.X[rows], data.y[rows], data.codes[rows], data.labels)
