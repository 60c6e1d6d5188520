"""The paper's comparison table (Table I): the rates of all seven systems.

Rates are as printed there, with constants and logarithms left out. They show how each grows, not which is
lower at one size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from banister.theory._domain import count, non_negative, positive, unit


@dataclass(frozen=True)
class Setting:
    """What the rates depend on; every field may be an array.

    Attributes:
        dim: d.
        rank: r.
        tasks: T.
        rounds: N.
        error: max(ε, ε_noise), the accuracy reached, in units of ‖θ‖.
        nsr: noise-to-signal ratio.
        rho: ρ.
    """

    dim: Any
    rank: Any
    tasks: Any
    rounds: Any
    error: Any = 0.1
    nsr: Any = 1.0
    rho: Any = 0.0

    def __post_init__(self) -> None:
        for name in ("dim", "rank", "tasks", "rounds"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        object.__setattr__(self, "error", positive("error", self.error))
        object.__setattr__(self, "nsr", non_negative("nsr", self.nsr))
        object.__setattr__(self, "rho", unit("rho", self.rho))


def yang_regret(s: Setting) -> Any:
    """T √(rN) + √(drNT)."""
    return s.tasks * np.sqrt(s.rank * s.rounds) + np.sqrt(s.dim * s.rank * s.rounds * s.tasks)


def hu_regret(s: Setting) -> Any:
    """T √(drN) + d √(rNT)."""
    return s.tasks * np.sqrt(s.dim * s.rank * s.rounds) + s.dim * np.sqrt(s.rank * s.rounds * s.tasks)


def cella_regret(s: Setting) -> Any:
    """T √(rN) + √(drNT), the same as Yang et al."""
    return yang_regret(s)


def moradipari_regret(s: Setting) -> Any:
    """d T √N: each task alone."""
    return s.dim * s.tasks * np.sqrt(s.rounds)


def lin_distributed_regret(s: Setting) -> Any:
    """d √(NT)."""
    return s.dim * np.sqrt(s.rounds * s.tasks)


def lin_altgdmin_regret(s: Setting) -> Any:
    """max(ε, ε_noise) √(rNT)."""
    return s.error * np.sqrt(s.rank * s.rounds * s.tasks)


def safe_altgdmin_regret(s: Setting) -> Any:
    """√(rNT (ρ²−ρ+1)); Theorem T10, which leaves out the mean of epoch 1's regret."""
    return np.sqrt(s.rank * s.rounds * s.tasks * (s.rho**2 - s.rho + 1.0))


def lin_altgdmin_samples(s: Setting) -> Any:
    """(d + T) r (r² + log(1/error)), over all tasks; the logarithm counts only for error < 1."""
    return (s.dim + s.tasks) * s.rank * (s.rank**2 + _log_inverse(s))


def lin_altgdmin_task_samples(s: Setting) -> Any:
    """max(log d, log T, r) log(1/error), per task."""
    logs = np.maximum(np.log(s.dim), np.log(s.tasks))
    return np.maximum(logs, s.rank) * _log_inverse(s)


def safe_altgdmin_samples(s: Setting) -> Any:
    """(d + r) r max(1, NSR/ε²), over all tasks."""
    return (s.dim + s.rank) * s.rank * np.maximum(1.0, s.nsr / s.error**2)


def safe_altgdmin_task_samples(s: Setting) -> Any:
    """(r + log T + log d) max(1, NSR/(ε² r)), per task."""
    logs = np.log(s.tasks) + np.log(s.dim)
    return (s.rank + logs) * np.maximum(1.0, s.nsr / (s.error**2 * s.rank))


Rate = Callable[[Setting], Any]


@dataclass(frozen=True)
class System:
    """One row of Table I.

    Attributes:
        name: as printed.
        citation: the work.
        shared: learns a shared representation.
        constrained: keeps a floor.
        regret: rate over all tasks.
        samples: rows over all tasks, where the table states them.
        task_samples: rows per task, where the table states them.
    """

    name: str
    citation: str
    shared: bool
    constrained: bool
    regret: Rate
    samples: Rate | None = None
    task_samples: Rate | None = None


SYSTEMS: tuple[System, ...] = (
    System(
        "Yang et al., 2020",
        "J. Yang, W. Hu, J. D. Lee, S. S. Du. Impact of representation learning in linear bandits. "
        "ICLR 2021.",
        True,
        False,
        yang_regret,
    ),
    System(
        "Hu et al., 2021",
        "J. Hu, X. Chen, C. Jin, L. Li, L. Wang. Near-optimal representation learning for linear bandits and "
        "linear RL. ICML 2021.",
        True,
        False,
        hu_regret,
    ),
    System(
        "Cella et al., 2023",
        "L. Cella, K. Lounici, G. Pacreau, M. Pontil. Multi-task representation learning with stochastic "
        "linear bandits. AISTATS 2023.",
        True,
        False,
        cella_regret,
    ),
    System(
        "Naive extension of Moradipari et al., 2020",
        "A. Moradipari, C. Thrampoulidis, M. Alizadeh. Stage-wise conservative linear bandits. NeurIPS 2020.",
        False,
        True,
        moradipari_regret,
    ),
    System(
        "Lin et al., 2025",
        "J. Lin, S. Moothedath. Distributed multi-task learning for stochastic bandits with context "
        "distribution and stage-wise constraints. arXiv:2401.11563.",
        False,
        True,
        lin_distributed_regret,
    ),
    System(
        "Lin et al., 2024",
        "J. Lin, S. Moothedath, N. Vaswani. Fast and sample efficient multi-task representation learning in "
        "stochastic contextual bandits. ICML 2024.",
        True,
        False,
        lin_altgdmin_regret,
        lin_altgdmin_samples,
        lin_altgdmin_task_samples,
    ),
    System(
        "Safe-AltGDmin",
        "J. Lin, S. Moothedath. Multi-task representation learning for conservative linear bandits.",
        True,
        True,
        safe_altgdmin_regret,
        safe_altgdmin_samples,
        safe_altgdmin_task_samples,
    ),
)


def _log_inverse(s: Setting) -> Any:
    return np.maximum(0.0, np.log(1.0 / s.error))
