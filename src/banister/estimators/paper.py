"""AltGDmin as the paper writes it (Algorithm 1): one epoch's estimate, every open choice a setting.

It keeps what fails on data that a policy collected: the step `γ = c / ((1 + 0.04/(1−2ρ)²)² ‖Θ̂0‖²)` assumes
Gaussian contexts, for which ‖Θ̂0‖ ≈ σ_max. On the 5th best of ten actions ‖Θ̂0‖ is about a quarter of σ_max,
the step is some 17 times too long and the iteration oscillates. `SafeAltGDmin(safety="paper")` plays it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from banister.data import Float, TaskData
from banister.errors import InputError, SettingError
from banister.estimators._printed_sweep import sweep
from banister.solver import Solution


@dataclass(frozen=True, kw_only=True)
class PaperSolver:
    """The open choices of Algorithm 1, each named by the line of the paper that leaves it open.

    Attributes:
        iterations: L of the line "Parameters"; the experiments do not give it.
        split: the line "Sample-split": partition each task's rows into 2L + 1 disjoint sets (2L from epoch
            2), one for each use. Off by default: the experiments' 50 rows would leave
            at most L = 12 at rank 2.
        c: the constant of the step γ ("Practical setting of parameters" allows any up to 0.5).
        step: "once" as the line "Parameters" has it: one γ for all epochs, from epoch 1; or "each epoch".
        rho: ρ in γ. None: the largest ρ that the policy played in epoch 1; 0 for a fit without a policy.
        sigma_max: σ_max in γ, as Theorem l9 has it; None: ‖Θ̂0‖ stands in ("Practical setting").
        truncation: C̃ of the line "Spectral Initialization"; None: 9 κ²μ² with κ²μ² estimated as
            T·max_t ‖θ̂_t‖²/‖Θ̂‖_F² ("Practical setting").
        divide: what 𝒢_1 and 𝒢_m − 𝒢_{m−1} mean in the lines "Spectral Initialization" and "GD step" once
            rows are split: the rows of the "set" in use, as the proofs need, or of the whole "epoch", as
            printed. Without splitting the two are the same.

    Examples:
        >>> from banister import AltGDmin, PaperSolver
        >>> rng = np.random.default_rng(0)
        >>> X, tasks = rng.standard_normal((200, 5)), np.repeat(np.arange(10), 20)
        >>> y = X[:, 0] * (1 + tasks)
        >>> model = AltGDmin(rank=1, solver=PaperSolver(iterations=200, c=0.1)).fit(X, y, tasks)
        >>> bool(np.abs(model.theta_[0] - np.arange(1, 11)).max() < 1e-3)
        True
    """

    iterations: int = 100
    split: bool = False
    c: float = 0.5
    step: Literal["once", "each epoch"] = "once"
    rho: float | None = None
    sigma_max: float | None = None
    truncation: float | None = None
    divide: Literal["set", "epoch"] = "set"

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise SettingError(f"iterations={self.iterations} must be at least 1.")
        if not self.c > 0:
            raise SettingError(f"c={self.c} must be positive; the theorems ask for at most 0.5.")
        if self.step not in ("once", "each epoch"):
            raise SettingError(f"step={self.step!r} must be 'once' or 'each epoch'.")
        if self.divide not in ("set", "epoch"):
            raise SettingError(f"divide={self.divide!r} must be 'set' or 'epoch'.")
        if self.sigma_max is not None and not self.sigma_max > 0:
            raise SettingError(f"sigma_max={self.sigma_max} must be positive, or None to estimate it.")
        if self.rho is not None and not (0 <= self.rho <= 0.25 or 0.75 <= self.rho <= 1):
            raise SettingError(f"rho={self.rho} must lie in [0, 0.25] or [0.75, 1] (Theorem l9).")

    def solve(
        self, data: TaskData, rank: int, warm: Float | None = None, *, gamma: float | None = None
    ) -> Solution:
        """One epoch of Algorithm 1.

        Args:
            data: the epoch's rows.
            rank: r.
            warm: the last epoch's basis; None in epoch 1, which starts spectrally.
            gamma: the step; None: from these rows (`step_size`).
        """
        sets = self._partition(data, with_init=warm is None)
        B = self._start(sets[0], data, rank) if warm is None else warm
        gamma = self.step_size(data, first=warm is None) if gamma is None else gamma
        W: Float = np.zeros((rank, data.n_tasks))
        history = []
        for step in range(self.iterations):
            fit_on, used = sets[1 + step], sets[1 + self.iterations + step]
            W, squares, gradient = sweep(fit_on, used, B)  # lines "Update w" and "Gradient"
            history.append(squares)
            B = np.linalg.qr(B - gamma / self._rows(used, data) * gradient)[0]  # "GD step", "Projection step"
        last = _errors(data, projected(data, B), W)  # Θ̂ = B_L W_L with W_L computed at B_{L−1}, as printed
        objective = float(last @ last)
        converged = bool(np.isfinite(objective) and abs(history[-1] - objective) <= 1e-6 * objective)
        return Solution(
            B, W, objective, converged, 2 * self.iterations, self.iterations, [*history, objective]
        )

    def step_size(self, data: TaskData, *, rho: float = 0.0, first: bool = True) -> float:
        """γ from an epoch's rows; `rho` is what the policy played, `first` whether set 00 is kept apart."""
        sigma = self.sigma_max
        if sigma is None:
            init = self._partition(data, with_init=True)[0] if first else data
            sigma = float(np.linalg.norm(self._truncated(init, data), 2))
        rho = rho if self.rho is None else self.rho
        return float(self.c / ((1 + 0.04 / (1 - 2 * rho) ** 2) ** 2 * sigma**2))

    def _start(self, init: TaskData, data: TaskData, rank: int) -> Float:
        """Line "Spectral Initialization": the top r left singular vectors of Θ̂0."""
        return _top(self._truncated(init, data), rank)

    def _truncated(self, init: TaskData, data: TaskData) -> Float:
        whole = data if self.divide == "epoch" else init
        share: Float = init.counts / np.maximum(whole.counts, 1)  # 1 unless 𝒢_1 counts rows outside set 00
        return truncated_estimate(init, self.truncation, whole) * share

    def _rows(self, used: TaskData, data: TaskData) -> float:
        """Rows a task that the line "GD step" divides by."""
        whole = data if self.divide == "epoch" else used
        return whole.n_rows / whole.n_tasks

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
    theta = truncated_estimate(data, truncation)
    return _top(theta, rank), float(np.linalg.norm(theta, 2))


def estimate_truncation(data: TaskData) -> float:
    """C̃ = 9 κ²μ² with κ²μ² ≈ T·max_t ‖θ̂_t‖²/‖Θ̂‖_F² ("Practical setting of parameters")."""
    energy = np.array([np.mean(y**2) if len(y) else 0.0 for _, y in data])
    return float(9 * data.n_tasks * energy.max() / max(energy.sum(), np.finfo(float).tiny))


def task_least_squares(data: TaskData, B: Float) -> Float:
    """w_t = (X_t B)† y_t for every task, shape (r, T); minimum-norm where rows are too few."""
    return sweep(data, data, B)[0]


def projected(data: TaskData, B: Float) -> Float:
    """All tasks' rows in the basis, (rows, r)."""
    return data.X @ B


def _top(theta: Float, rank: int) -> Float:
    U: Float = np.linalg.svd(theta, full_matrices=False)[0]
    return U[:, :rank]


def truncated_estimate(data: TaskData, truncation: float | None, whole: TaskData | None = None) -> Float:
    """Θ̂0 of the rows, divided by how many there are; the threshold α comes from the rows of `whole`."""
    whole = data if whole is None else whole
    multiplier = estimate_truncation(whole) if truncation is None else truncation
    alpha = multiplier * float(np.mean(whole.y**2))
    kept = np.where(data.y**2 <= alpha, data.y, 0.0)
    parts = [
        X.T @ kept[lo : lo + len(y)] / max(len(y), 1)
        for (X, y), lo in zip(data, data.offsets[:-1], strict=True)
    ]
    return np.column_stack(parts)


def _errors(data: TaskData, Z: Float, W: Float) -> Float:
    """Predicted less observed rewards, row by row, from the rows in the basis."""
    errors: Float = np.einsum("nr,nr->n", Z, W.T[data.codes]) - data.y
    return errors


def _subset(data: TaskData, rows: Float) -> TaskData:
    return TaskData.from_codes(data.X[rows], data.y[rows], data.codes[rows], data.labels)
