"""Theorems T5 and T11: how fast the subspace distance shrinks, with which step, from how many rows.

Two things to know about Theorem T5 before using it.

*A dropped factor.* Lemma l4 gives E[GradB] = s² G_1 (Θ − Θ*)W' with s² = 2ρ² − 2ρ + 1, so the step maps the
part of B outside B* by `I − γ s² W W'`. The proof of T5 writes `I − γ W W'`. `proved_coefficient` redoes the
proof's arithmetic with s²: it supports the printed 0.23 up to ρ = 0.188, falls to 0 at ρ = 0.243, and gives
0.73 at ρ = 0, where the printed constant is three times too cautious.

*A dropped accuracy.* The sample sizes of T5 hold NSR where the proof needs NSR/δ_L²: it inserts
δ_L = √(2(ρ²−ρ+1)) > 1 for the final distance, though δ_0 is at most 0.02. `target` puts it back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.theory._domain import (
    at_least_one,
    count,
    gap_square,
    non_negative,
    open_unit,
    positive,
    real,
    theorem_rho,
    unit,
)
from banister.theory.bound import Bound, SampleSize, at_least_zero
from banister.theory.estimation import mixture_variance
from banister.theory.initialisation import required_start

FIRST = 0.23  # Theorem T5
LATER = 0.36  # Theorem T11


def first_step_size(*, rho: Any, sigma_max: Any, c: Any = 0.5) -> Any:
    """γ = c / ((1 + 0.04/(1−2ρ)²)² σ*_max²); Theorems l9, T5 (c ≤ 1) and T10 (c ≤ 0.5 in Section III-B).

    Args:
        rho: ρ in [0, 0.25] ∪ [0.75, 1].
        sigma_max: σ*_max. The paper puts ‖Θ̂_0‖ here; that is right only for Gaussian features.
        c: share of the largest step, above 0 and at most 1.
    """
    slack = 1.0 + 0.04 / gap_square(theorem_rho(rho))
    return unit("c", positive("c", c)) / (slack * positive("sigma_max", sigma_max)) ** 2


def later_step_size(*, sigma_max: Any, c: Any = 0.5) -> Any:
    """γ = c / σ*_max² with c ≤ 0.5; Theorem T11."""
    return positive("c", c) / positive("sigma_max", sigma_max) ** 2


def contraction(*, gamma: Any, sigma_min: Any, coefficient: Any = FIRST) -> Any:
    """1 − a γ σ*_min², the factor per iteration: a = 0.23 in Theorem T5, 0.36 in Theorem T11.

    Args:
        gamma: γ, step size, in units of 1/σ².
        sigma_min: σ*_min.
        coefficient: a; `FIRST`, `LATER`, or `proved_coefficient(rho=...)`.
    """
    return (
        1.0
        - real("coefficient", coefficient)
        * non_negative("gamma", gamma)
        * positive("sigma_min", sigma_min) ** 2
    )


def proved_coefficient(*, rho: Any, epsilon: Any = 0.01) -> Any:
    """The `a` that the proof of Theorem T5 supports, with the factor s² it drops put back.

    a(ρ) = s²(√(1−4·10⁻⁴) − 0.04/q)² − 2ε_4 u v − 0.04 u v (s² + 2ε_4), with q = (1−2ρ)², u = 1 + 0.04/q and
    v = 1 + 2/q. A value of 0 or less means that the proof shows no contraction there.

    Args:
        rho: ρ in [0, 0.25] ∪ [0.75, 1].
        epsilon: ε_4, 0.01 in the proof.
    """
    q, s2 = gap_square(theorem_rho(rho)), mixture_variance(rho=rho)
    epsilon = positive("epsilon", epsilon)
    grow = (1.0 + 0.04 / q) * (1.0 + 2.0 / q)
    shrink = s2 * (np.sqrt(1.0 - 4e-4) - 0.04 / q) ** 2
    return shrink - 2.0 * epsilon * grow - 0.04 * grow * (s2 + 2.0 * epsilon)


def first_epoch_distance(
    *,
    iterations: Any,
    start: Any,
    gamma: Any,
    rho: Any,
    mu: Any,
    rank: Any,
    kappa: Any,
    sigma_max: Any,
    dim: Any,
) -> Bound:
    """SD after ℓ iterations of epoch 1: (1 − 0.23 γ σ*_min²)^ℓ δ_0, probability 1 − ℓ d⁻¹⁰; Theorem T5.

    Args:
        iterations: ℓ.
        start: δ_0, the distance of the spectral start.
        gamma: γ, step size.
        rho: ρ in [0, 0.25] ∪ [0.75, 1].
        mu: μ, incoherence.
        rank: r.
        kappa: κ, condition number.
        sigma_max: σ*_max.
        dim: d.
    """
    iterations, start = count("iterations", iterations, least=0), non_negative("start", start)
    sigma_min = positive("sigma_max", sigma_max) / at_least_one("kappa", kappa)
    value = contraction(gamma=gamma, sigma_min=sigma_min) ** iterations * start
    conditions = {
        "start <= 0.02/(mu sqrt(r) kappa^2)": start <= required_start(mu=mu, rank=rank, kappa=kappa),
        "gamma <= largest step": real("gamma", gamma)
        <= first_step_size(rho=rho, sigma_max=sigma_max, c=1.0) * (1 + 1e-12),
    }
    chance = at_least_zero(1.0 - iterations * count("dim", dim) ** -10.0)
    return Bound(value, "Theorem T5", conditions=conditions, probability=chance)


def later_epoch_distance(
    *,
    iterations: Any,
    epoch: Any,
    per_epoch: Any,
    start: Any,
    gamma: Any,
    mu: Any,
    rank: Any,
    kappa: Any,
    sigma_max: Any,
    dim: Any,
    c: float = 0.02,
) -> Bound:
    """SD after ℓ iterations of epoch m ≥ 2: (1 − 0.36 γ σ*_min²)^((m−2)L+ℓ) δ_0; Theorem T11.

    The probability is 1 − ((m−1)L + ℓ) d⁻¹⁰. The distance cannot go below the ε of `later_epoch_samples`.

    Args:
        iterations: ℓ, within the epoch.
        epoch: m, at least 2.
        per_epoch: L, iterations of every epoch.
        start: SD(B⁽¹⁾, B*), the distance after epoch 1.
        gamma: γ, at most 0.5/σ*_max².
        mu: μ, incoherence.
        rank: r.
        kappa: κ, condition number.
        sigma_max: σ*_max.
        dim: d.
        c: unstated constant of the condition on `start`; 0.02 is the one of Theorem T5.
    """
    iterations, per_epoch = count("iterations", iterations, least=0), count("per_epoch", per_epoch)
    epoch, start, c = count("epoch", epoch, least=2), non_negative("start", start), float(positive("c", c))
    sigma_min = positive("sigma_max", sigma_max) / at_least_one("kappa", kappa)
    steps = (epoch - 2) * per_epoch + iterations
    value = contraction(gamma=gamma, sigma_min=sigma_min, coefficient=LATER) ** steps * start
    conditions = {
        "start <= c/(mu sqrt(r) kappa^2)": start <= required_start(mu=mu, rank=rank, kappa=kappa, c=c),
        "gamma <= 0.5/sigma_max^2": real("gamma", gamma)
        <= later_step_size(sigma_max=sigma_max) * (1 + 1e-12),
    }
    chance = at_least_zero(1.0 - ((epoch - 1) * per_epoch + iterations) * count("dim", dim) ** -10.0)
    return Bound(value, "Theorem T11", constants={"c": c}, conditions=conditions, probability=chance)


def first_epoch_samples(
    *,
    dim: Any,
    rank: Any,
    tasks: Any,
    mu: Any,
    kappa: Any,
    nsr: Any,
    target: Any = 1.0,
    with_start: bool = True,
    C: float = 1.0,
) -> SampleSize:
    """Rows of epoch 1 per GD iteration; Theorem T5, or with the spectral start, Theorems l9 and T10.

    Without the start: G_1 T > C (d+r) κ² max(μ² r κ², NSR/δ²); with it: G_1 T > C μ⁴ d r κ⁶ max(r κ², NSR),
    and not less than the former. Per task: G_1 > C (r + log T + log d) max(1, NSR/(μ² r κ² δ²)).

    Args:
        dim: d.
        rank: r.
        tasks: T.
        mu: μ, incoherence.
        kappa: κ, condition number.
        nsr: noise-to-signal ratio.
        target: δ, the distance the epoch is to reach; 1 gives the printed form, which leaves it out.
        with_start: include the rows Proposition p6 asks for.
        C: the paper's unstated constant; 1 is a placeholder, not a recommendation.
    """
    d, r, n_tasks = count("dim", dim), count("rank", rank), count("tasks", tasks)
    mu, kappa, C = at_least_one("mu", mu), at_least_one("kappa", kappa), float(positive("C", C))
    noise = non_negative("nsr", nsr) / positive("target", target) ** 2
    total = (d + r) * kappa**2 * np.maximum(mu**2 * r * kappa**2, noise)
    if with_start:
        total = np.maximum(total, mu**4 * d * r * kappa**6 * np.maximum(r * kappa**2, nsr))
    per_task = (r + np.log(n_tasks) + np.log(d)) * np.maximum(1.0, noise / (mu**2 * r * kappa**2))
    source = "Theorems l9, T10 (epoch 1)" if with_start else "Theorem T5"
    return SampleSize(C * total, C * per_task, n_tasks, source, {"C": C})


def later_epoch_samples(
    *, dim: Any, rank: Any, tasks: Any, mu: Any, kappa: Any, nsr: Any, target: Any, C: float = 1.0
) -> SampleSize:
    """Rows of each epoch m ≥ 2 per GD iteration; Theorem T11 (and l9, T10).

    (G_m − G_{m−1}) T ≥ C μ² κ⁴ (d+r) r max(1, κ² NSR/ε²), and per task
    C (r + log T + log d) max(1, NSR/(ε² r)).

    Args:
        dim: d.
        rank: r.
        tasks: T.
        mu: μ, incoherence.
        kappa: κ, condition number.
        nsr: noise-to-signal ratio.
        target: ε, the final subspace distance wanted.
        C: the paper's unstated constant; 1 is a placeholder, not a recommendation.
    """
    d, r, n_tasks = count("dim", dim), count("rank", rank), count("tasks", tasks)
    mu, kappa, C = at_least_one("mu", mu), at_least_one("kappa", kappa), float(positive("C", C))
    noise = non_negative("nsr", nsr) / positive("target", target) ** 2
    total = mu**2 * kappa**4 * (d + r) * r * np.maximum(1.0, kappa**2 * noise)
    per_task = (r + np.log(n_tasks) + np.log(d)) * np.maximum(1.0, noise / r)
    return SampleSize(C * total, C * per_task, n_tasks, "Theorem T11", {"C": C})


def iterations_to_reach(*, target: Any, start: Any, factor: Any) -> Any:
    """The least whole ℓ ≥ 0 with factor^ℓ · start ≤ target: Theorems T5 and T11 solved for ℓ.

    Args:
        target: distance wanted; 0 needs infinitely many.
        start: distance before the first iteration.
        factor: contraction per iteration, strictly between 0 and 1.
    """
    target, start, factor = (
        non_negative("target", target),
        positive("start", start),
        open_unit("factor", factor),
    )
    with np.errstate(divide="ignore"):
        # a hair's breadth of rounding must not cost an iteration
        exact = np.log(start / target) / -np.log(factor)
    return np.maximum(0.0, np.ceil(exact - 1e-9))
