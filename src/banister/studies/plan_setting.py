"""What is to be planned: sizes, noise, the floor; checked here before any work is done."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from banister.data import Float
from banister.environments.synthetic import Synthetic
from banister.errors import SettingError

MOST_BYTES = 2 * 2**30  # what a simulated certificate may hold


@dataclass(frozen=True, kw_only=True)
class PlanSetting:
    """A setting to plan for; the defaults are the paper's experiments.

    Features are taken to be standardised (unit variance, uncorrelated), as the paper does. Then ‖θ_t‖ is the
    standard deviation of a task's expected reward between actions.

    Attributes:
        dim, rank, tasks: d, r, T.
        noise: standard deviation of the reward noise.
        alpha: α, the share of the baseline reward that may be risked.
        rows_per_epoch, epochs: rounds of an epoch (= rows a task), and how many epochs.
        actions: K, on offer in a round.
        baseline_rank: the policy in place plays the action that is this good: 1 the best.
        kappa: κ, ratio of the largest to the smallest of the r singular values of Θ.
        signal: root mean square of ‖θ_t‖; None for the paper's scale, σ*_max = 1, where it shrinks as √(r/T).
        known_baseline: whether the baseline's expected reward is known in every round.
        baseline_range: (r_l, r_h) for an unknown baseline reward.
        delta: probability with which the paper's statements may fail.

    Examples:
        >>> setting = PlanSetting(dim=100, rank=2, tasks=50)
        >>> setting.rounds, round(setting.task_norm, 3), round(setting.sigma_max, 3)
        (200, 0.2, 1.0)
    """

    dim: int = 100
    rank: int = 2
    tasks: int = 100
    noise: float = 1e-3
    alpha: float = 0.2
    rows_per_epoch: int = 50
    epochs: int = 4
    actions: int = 10
    baseline_rank: int = 5
    kappa: float = 1.0
    signal: float | None = None
    known_baseline: bool = True
    baseline_range: tuple[float, float] | None = None
    delta: float = 0.05

    def __post_init__(self) -> None:
        for name in ("dim", "rank", "tasks", "rows_per_epoch", "epochs"):
            _whole(name, getattr(self, name), 1)
        _whole("actions", self.actions, 2)
        _whole("baseline_rank", self.baseline_rank, 1)
        most = min(self.dim, self.tasks)
        _require(self.rank <= most, "rank", self.rank, f"tasks that share {self.rank} directions need at "
                 f"least as many features and tasks; with dim={self.dim} and tasks={self.tasks} give at most "
                 f"{most}")  # fmt: skip
        _require(self.baseline_rank <= self.actions, "baseline_rank", self.baseline_rank,
                 f"there are {self.actions} actions")  # fmt: skip
        _require(0 <= self.noise < math.inf, "noise", self.noise, "give a standard deviation of at least 0")
        for name in ("alpha", "delta"):
            share = getattr(self, name)
            _require(0 < share < 1, name, share, "give a number strictly between 0 and 1")
        _require(
            1 <= self.kappa < math.inf, "kappa", self.kappa, "a ratio of largest to smallest is at least 1"
        )
        _require(self.rank > 1 or self.kappa == 1, "kappa", self.kappa, "with rank=1 it can only be 1")
        if self.signal is not None:
            _require(0 < self.signal < math.inf, "signal", self.signal, "give a number above 0")
        self._check_range()

    def _check_range(self) -> None:
        if self.baseline_range is None:
            return
        low, high = self.baseline_range
        _require(low <= high, "baseline_range", self.baseline_range, "give the lower end first")
        _require(not self.known_baseline, "baseline_range", self.baseline_range,
                 "it is for a baseline reward that is not known; add known_baseline=False "
                 "(--unknown-baseline)")  # fmt: skip

    @property
    def rounds(self) -> int:
        """N."""
        return self.rows_per_epoch * self.epochs

    @property
    def _spectrum(self) -> Float:
        return np.geomspace(1.0, 1.0 / self.kappa, self.rank)

    @property
    def task_norm(self) -> float:
        """Root mean square of ‖θ_t‖, in reward."""
        own = math.sqrt(float(np.sum(self._spectrum**2)) / self.tasks)
        return own if self.signal is None else self.signal

    @property
    def sigma_max(self) -> float:
        """σ*_max of Θ."""
        return self.task_norm * math.sqrt(self.tasks / float(np.sum(self._spectrum**2)))

    @property
    def sigma_min(self) -> float:
        """σ*_min of Θ, the smallest of r."""
        return self.sigma_max / self.kappa

    @property
    def certificate_bytes(self) -> int:
        """What a certificate holds: a d×d covariance for every task."""
        return 8 * self.tasks * self.dim**2

    def check_simulable(self) -> None:
        """An error where simulating would take more memory than is reasonable."""
        if self.certificate_bytes > MOST_BYTES:
            raise SettingError(
                f"dim={self.dim} and tasks={self.tasks} are too large to simulate: a certificate would hold "
                f"{self.certificate_bytes / 2**30:.0f} GB. Give trials=0 for the bounds alone, or plan for "
                "fewer tasks, which errs on the cautious side if tasks keep their size (give signal)."
            )

    def with_tasks(self, tasks: int) -> Self:
        """The same tasks, but only so many of them: their size stays, the rank is capped."""
        rank = min(self.rank, tasks)
        kappa = self.kappa if rank > 1 else 1.0
        return replace(self, tasks=tasks, rank=rank, kappa=kappa, signal=self.task_norm)

    def environment(self) -> Synthetic:
        """This setting in units of `task_norm`: rewards and noise are divided by it."""
        return Synthetic(
            dim=self.dim,
            rank=self.rank,
            tasks=self.tasks,
            actions=self.actions,
            baseline_rank=self.baseline_rank,
            noise_std=self.noise / self.task_norm,
            kappa=self.kappa,
            normalise="unit-task",
            baseline_known=self.known_baseline,
        )


def _whole(name: str, value: Any, least: int) -> None:
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value >= least
    _require(bool(good), name, value, f"give a whole number from {least} up")


def _require(good: bool, name: str, value: Any, words: str) -> None:
    if not good:
        raise SettingError(f"{name}={value!r} is not possible: {words}.")
