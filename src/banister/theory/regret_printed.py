"""Theorem T10 and the steps of its proof as the paper prints them; see `regret` for what they leave out."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.errors import SettingError
from banister.theory._domain import at_least_one, count, gap_square, open_unit, positive, theorem_rho, unit
from banister.theory.bound import Bound, at_least_zero


def regret_bound(
    *,
    rounds: Any,
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
    """4√2 μ σ*_max √(r N T (ρ²−ρ+1) log(1/δ)), probability 1 − 2δ − M L d⁻¹⁰; Theorem T10 as printed.

    It leaves out the mean of epoch 1's regret: see `first_epoch_regret` and `failing_rounds`.

    Args:
        rounds: N.
        tasks: T.
        rank: r.
        rho: ρ in [0, 0.25] ∪ [0.75, 1].
        mu: μ, incoherence.
        sigma_max: σ*_max.
        delta: δ.
        epochs: M.
        iterations: L, per epoch.
        dim: d.
    """
    root = regret_root(tasks, rank, theorem_rho(rho), mu, sigma_max, delta)
    value = np.sqrt(8.0 * count("rounds", rounds)) * root
    return Bound(value, "Theorem T10", probability=_chance(2.0, delta, epochs, iterations, dim))


def first_epoch_regret_printed(
    *, rounds: Any, tasks: Any, rank: Any, rho: Any, mu: Any, sigma_max: Any, delta: Any
) -> Bound:
    """2 μ σ*_max √(G_1 r T (ρ²−ρ+1) log(1/δ)); Eq. (T10_1), which leaves the mean out.

    The arguments are those of `regret_bound`, with `rounds` = G_1.
    """
    root = regret_root(tasks, rank, unit("rho", rho), mu, sigma_max, delta)
    return Bound(np.sqrt(count("rounds", rounds)) * root, "Theorem T10, Eq. (T10_1)")


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
    root = regret_root(tasks, rank, theorem_rho(rho), mu, sigma_max, delta)
    value = np.sqrt(2.0 * _left(rounds, first)) * root
    chance = _chance(1.0, delta, count("epochs", epochs) - 1.0, iterations, dim, least=0)
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
    root = regret_root(tasks, rank, theorem_rho(rho), mu, sigma_max, delta)
    value = (np.sqrt(count("first", first)) + np.sqrt(2.0 * _left(rounds, first))) * root
    return Bound(value, "Theorem T10, two roots", probability=_chance(2.0, delta, epochs, iterations, dim))


def accuracy_asked(*, rho: Any) -> Any:
    """√(2(ρ²−ρ+1)) / (1 + 2/q): the subspace distance Theorem T10 asks of epoch 1."""
    rho = theorem_rho(rho)
    return np.sqrt(2.0 * (rho**2 - rho + 1.0)) / (1.0 + 2.0 / gap_square(rho))


def regret_iterations_printed(*, rho: Any, kappa: Any, C: float = 1.0) -> Bound:
    """C κ² log(√(2(ρ²−ρ+1)) / (1 + 2/q)); Theorem T10's L as printed, negative for every ρ allowed."""
    C = float(positive("C", C))
    value = C * at_least_one("kappa", kappa) ** 2 * np.log(accuracy_asked(rho=rho))
    return Bound(value, "Theorem T10 (L)", constants={"C": C}, conditions={"L >= 0": value >= 0})


def regret_root(tasks: Any, rank: Any, rho: Any, mu: Any, sigma_max: Any, delta: Any) -> Any:
    """2 μ σ*_max √(r T (ρ²−ρ+1) log(1/δ)): every printed regret is a root of rounds times this.

    μ σ*_max √(r T) is at least Σ_t ‖θ_t‖.
    """
    size = at_least_one("mu", mu) * positive("sigma_max", sigma_max)
    width = size * np.sqrt(count("rank", rank) * count("tasks", tasks))
    return 2.0 * width * regret_spread(1, rho, delta)


def regret_spread(rounds: Any, rho: Any, delta: Any) -> Any:
    """√(n (ρ²−ρ+1) log(1/δ))."""
    return np.sqrt(count("rounds", rounds) * (rho**2 - rho + 1.0) * np.log(1.0 / open_unit("delta", delta)))


def _chance(times: float, delta: Any, epochs: Any, iterations: Any, dim: Any, *, least: int = 1) -> Any:
    """1 − times δ − M L d⁻¹⁰, 0 where that is negative."""
    rare = count("dim", dim) ** -10.0
    failure = count("epochs", epochs, least=least) * count("iterations", iterations, least=0) * rare
    return at_least_zero(1.0 - times * open_unit("delta", delta) - failure)


def _left(rounds: Any, first: Any) -> Any:
    left = count("rounds", rounds) - count("first", first)
    if np.any(left < 0):
        raise SettingError("first exceeds rounds; epoch 1 is part of the N rounds.")
    return left
