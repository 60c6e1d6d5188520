"""The two steps of Theorem T10's proof after epoch 1, as printed; see `regret` for what they leave out."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.errors import SettingError
from banister.theory._domain import at_least_one, count, open_unit, positive, theorem_rho
from banister.theory.bound import Bound, at_least_zero


def later_epochs_regret_printed(
    *,
    rounds: Any,
    first: Any,
    tasks: Any,
    rank: Any,
    rho: Any,
    mu: Any,
    sigma_max: Any,
    delta: Any,
    epochs: Any,
    iterations: Any,
    dim: Any,
) -> Bound:
    """2 μ σ*_max √(2 (N − G_1)(ρ²−ρ+1) r T log(1/δ)), probability 1 − δ − (M−1) L d⁻¹⁰; proof of T10, R².

    The arguments are those of `regret_bound`, and `first` = G_1 ≤ N.
    """
    left = _left(rounds, first)
    value = _scale(tasks, rank, rho, mu, sigma_max, delta) * np.sqrt(2.0 * left)
    failure = (count("epochs", epochs) - 1.0) * count("iterations", iterations, least=0) * _rare(dim)
    chance = at_least_zero(1.0 - open_unit("delta", delta) - failure)
    return Bound(value, "Theorem T10, later epochs", probability=chance)


def regret_bound_two_roots(
    *,
    rounds: Any,
    first: Any,
    tasks: Any,
    rank: Any,
    rho: Any,
    mu: Any,
    sigma_max: Any,
    delta: Any,
    epochs: Any,
    iterations: Any,
    dim: Any,
) -> Bound:
    """2 μ σ*_max √(r T (ρ²−ρ+1) log(1/δ)) (√G_1 + √(2(N − G_1))); the last step before Theorem T10's bound.

    Never above `regret_bound`, which follows by √x + √y ≤ 2√(x + y); probability 1 − 2δ − M L d⁻¹⁰. The
    arguments are those of `regret_bound`, and `first` = G_1 ≤ N.
    """
    left, begun = _left(rounds, first), count("first", first)
    value = _scale(tasks, rank, rho, mu, sigma_max, delta) * (np.sqrt(begun) + np.sqrt(2.0 * left))
    failure = count("epochs", epochs) * count("iterations", iterations, least=0) * _rare(dim)
    chance = at_least_zero(1.0 - 2.0 * open_unit("delta", delta) - failure)
    return Bound(value, "Theorem T10, two roots", probability=chance)


def _scale(tasks: Any, rank: Any, rho: Any, mu: Any, sigma_max: Any, delta: Any) -> Any:
    rho, delta = theorem_rho(rho), open_unit("delta", delta)
    size = at_least_one("mu", mu) * positive("sigma_max", sigma_max)
    inside = count("rank", rank) * count("tasks", tasks) * (rho**2 - rho + 1.0) * np.log(1.0 / delta)
    return 2.0 * size * np.sqrt(inside)


def _left(rounds: Any, first: Any) -> Any:
    left = count("rounds", rounds) - count("first", first)
    if np.any(left < 0):
        raise SettingError("first exceeds rounds; epoch 1 is part of the N rounds.")
    return left


def _rare(dim: Any) -> Any:
    return count("dim", dim) ** -10.0
