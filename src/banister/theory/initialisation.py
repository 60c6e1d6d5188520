"""Proposition p6: how many rows make the spectral start good enough, and how good a start given rows buy."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.errors import SettingError
from banister.theory._domain import at_least_one, count, non_negative, positive, real
from banister.theory.bound import Bound, at_least_zero


def start_samples(
    *,
    target: Any,
    dim: Any,
    rank: Any,
    tasks: Any,
    mu: Any,
    kappa: Any,
    nsr: Any,
    C: float = 1.0,
    c: float = 1.0,
) -> Bound:
    """Rows over all tasks for SD(B_0, B*) ≤ `target`; Proposition p6.

    `G_1 T > C μ² κ² (d r κ² + d NSR) / δ_0²`, with probability 1 − exp(−c (d + T)).

    Args:
        target: δ_0, the subspace distance wanted, below 0.1.
        dim: d.
        rank: r.
        tasks: T.
        mu: μ, incoherence.
        kappa: κ, condition number.
        nsr: noise-to-signal ratio.
        C: the paper's unstated constant; 1 is a placeholder, not a recommendation.
        c: the unstated constant of the probability; 1 is a placeholder.
    """
    wanted = positive("target", target)
    if np.any(wanted >= 0.1):
        raise SettingError(
            f"target={float(wanted.max())!r} is too large: Proposition p6 needs delta_0 < 0.1."
        )
    C, c = float(positive("C", C)), float(positive("c", c))
    rows = C * _difficulty(dim, rank, mu, kappa, nsr) / wanted**2
    chance = at_least_zero(1.0 - np.exp(-c * (count("dim", dim) + count("tasks", tasks))))
    return Bound(rows, "Proposition p6", constants={"C": C, "c": c}, probability=chance)


def start_distance(*, rows: Any, dim: Any, rank: Any, mu: Any, kappa: Any, nsr: Any, C: float = 1.0) -> Bound:
    """The δ_0 that `rows` rows over all tasks buy: Proposition p6 solved for δ_0.

    Where it comes out at 0.1 or more the proposition says nothing, and the condition says so.
    """
    C = float(positive("C", C))
    value = np.sqrt(C * _difficulty(dim, rank, mu, kappa, nsr) / positive("rows", rows))
    return Bound(value, "Proposition p6", constants={"C": C}, conditions={"delta_0 < 0.1": value < 0.1})


def required_start(*, mu: Any, rank: Any, kappa: Any, c: Any = 0.02) -> Any:
    """c / (μ √r κ²), the start Lemma l2 and Theorems T5 (c = 0.02) and T11 (c unstated) ask for."""
    root = np.sqrt(count("rank", rank))
    return positive("c", c) / (at_least_one("mu", mu) * root * at_least_one("kappa", kappa) ** 2)


def truncation_multiplier(*, mu: Any, kappa: Any) -> Any:
    """C̃ = 9 κ² μ²: rewards with y² above C̃ · mean(y²) are left out of the spectral start; Section III-B."""
    return 9.0 * (at_least_one("kappa", kappa) * at_least_one("mu", mu)) ** 2


def estimated_truncation_multiplier(rewards: Any) -> float:
    """C̃ with κ²μ² replaced by the paper's estimate T max_t‖θ̂_t‖² / ‖Θ̂‖²_F from rewards alone.

    Args:
        rewards: y, shape (rounds, T); Section III-B, "Practical setting of parameters".
    """
    power = (real("rewards", rewards) ** 2).mean(axis=0)
    if power.ndim != 1 or not power.sum() > 0:
        raise SettingError("rewards must be (rounds, tasks) with at least one reward that is not 0.")
    return float(9.0 * len(power) * power.max() / power.sum())


def _difficulty(dim: Any, rank: Any, mu: Any, kappa: Any, nsr: Any) -> Any:
    spread = at_least_one("kappa", kappa) ** 2
    signal = count("rank", rank) * spread + non_negative("nsr", nsr)
    return at_least_one("mu", mu) ** 2 * spread * count("dim", dim) * signal
