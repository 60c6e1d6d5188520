"""Proposition p1 and Lemma l2: errors of the coefficients and parameters for a representation B near B*.

The paper bounds the four parts of `x x' = ((1−ρ)x_b + ρζ)(…)'` one by one, which leaves `(1 − 2ρ)²` in every
denominator and infinity at ρ = ½. Under its own Assumption 3 there is nothing special about ½: the mixture
is again Gaussian, with covariance `s² I`, `s² = 2ρ² − 2ρ + 1 ≥ ½`. `gram_inverse_exact` uses that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from banister.theory._domain import at_least_one, count, gap_square, non_negative, open_unit, positive, unit
from banister.theory.bound import Bound, at_least_zero
from banister.theory.initialisation import required_start
from banister.theory.matrices import norm_bound


def mixture_variance(*, rho: Any) -> Any:
    """s² = (1−ρ)² + ρ² = 2ρ² − 2ρ + 1, variance of a coordinate of (1−ρ)x_b + ρζ; Lemma l4."""
    rho = unit("rho", rho)
    return 2.0 * rho**2 - 2.0 * rho + 1.0


def gram_inverse(*, rho: Any, rows: Any, rank: Any, tasks: Any, c: float = 1.0) -> Bound:
    """‖(B'Φ_t'Φ_t B)⁻¹‖ ≤ 2 / ((1−2ρ)² G_1) for all tasks; Proposition p1, first part, as printed.

    Args:
        rho: ρ; the bound is infinite at ½.
        rows: G_1, rows per task.
        rank: r.
        tasks: T.
        c: unstated constant of the probability 1 − 4T exp(r − c G_1); 1 is a placeholder.
    """
    rho, rows = unit("rho", rho), count("rows", rows)
    c = float(positive("c", c))
    with np.errstate(divide="ignore"):
        value = 2.0 / (gap_square(rho) * rows)
    chance = at_least_zero(1.0 - 4.0 * _net_failure(rows, rank, tasks, c))
    return Bound(value, "Proposition p1 (1)", constants={"c": c}, probability=chance)


def gram_inverse_exact(*, rho: Any, rows: Any, rank: Any, tasks: Any, delta: Any) -> Bound:
    """‖(B'Φ_t'Φ_t B)⁻¹‖ ≤ 1 / (s² (√G_1 − √r − √(2 log(T/δ)))²), no unstated constant and no pole at ρ = ½.

    Φ_t B is G_1 × r with independent N(0, s²) entries, so Gaussian concentration of its smallest singular
    value (Davidson and Szarek, 2001, Theorem II.13) and a union over tasks give it with probability 1 − δ.
    """
    rows, rank, tasks = count("rows", rows), count("rank", rank), count("tasks", tasks)
    delta = open_unit("delta", delta)
    room = np.sqrt(rows) - np.sqrt(rank) - np.sqrt(2.0 * np.log(tasks / delta))
    with np.errstate(divide="ignore"):
        value = np.where(room > 0, 1.0 / (mixture_variance(rho=rho) * np.maximum(room, 0.0) ** 2), np.inf)[()]
    return Bound(
        value, "Proposition p1 (1), corrected", conditions={"enough rows": room > 0}, probability=1 - delta
    )


def leakage(*, rho: Any, outside: Any, rows: Any, rank: Any, tasks: Any, c: float = 1.0) -> Bound:
    """Coefficient error from the part of θ_t outside B: at most outside/(1−2ρ)²; Proposition p1, second part.

    Args:
        rho: ρ; the bound is infinite at ½.
        outside: ‖(I − BB')θ_t‖, in units of reward per unit of feature.
        rows: G_1, rows per task.
        rank: r.
        tasks: T.
        c: unstated constant of the probability 1 − 8T exp(r − c ε_2² G_1) at ε_2 = ½; a placeholder.
    """
    rho, outside, rows = unit("rho", rho), non_negative("outside", outside), count("rows", rows)
    c = float(positive("c", c))
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(outside > 0, outside / gap_square(rho), 0.0)[()]
    chance = at_least_zero(1.0 - 8.0 * _net_failure(rows, rank, tasks, c))
    return Bound(value, "Proposition p1 (2)", constants={"c": c}, probability=chance)


@dataclass(frozen=True, eq=False)
class EstimationErrors:
    """The seven parts of Lemma l2, in its order.

    Attributes:
        coefficient: (1) ‖w_t − g_t‖ with g_t = B'θ*_t.
        coefficient_norm: (2) ‖w_t‖.
        coefficients: (3) ‖W − G‖_F.
        parameter: (4) ‖θ_t − θ*_t‖.
        parameters: (5) ‖Θ − Θ*‖_F.
        smallest: (6) lower bound on σ_min(W).
        largest: (7) upper bound on σ_max(W).
        holds: whether δ_ℓ ≤ 0.02/(μ √r κ²), the lemma's hypothesis.
    """

    coefficient: Any
    coefficient_norm: Any
    coefficients: Any
    parameter: Any
    parameters: Any
    smallest: Any
    largest: Any
    holds: Any


def estimation_errors(
    *, distance: Any, rho: Any, mu: Any, rank: Any, tasks: Any, sigma_max: Any, kappa: Any
) -> EstimationErrors:
    """All seven bounds of Lemma l2 at subspace distance δ_ℓ.

    Args:
        distance: δ_ℓ = SD(B, B*).
        rho: ρ; the bounds are infinite at ½.
        mu: μ, incoherence.
        rank: r.
        tasks: T.
        sigma_max: σ*_max, in units of reward per unit of feature.
        kappa: κ, condition number.

    Examples:
        >>> errors = estimation_errors(
        ...     distance=0.01, rho=0.0, mu=1.0, rank=1, tasks=4, sigma_max=2.0, kappa=1.0)
        >>> round(float(errors.parameter), 4), round(float(errors.largest), 4), bool(errors.holds)
        (0.03, 2.08, True)
    """
    distance, kappa = non_negative("distance", distance), at_least_one("kappa", kappa)
    each = norm_bound(mu=mu, rank=rank, tasks=tasks, sigma_max=sigma_max)
    all_tasks = each * np.sqrt(count("tasks", tasks))
    with np.errstate(divide="ignore"):
        growth = 1.0 / gap_square(unit("rho", rho))
    slack = 0.04 * growth  # 2 δ_ℓ μ √r κ² ≤ 0.04 under the lemma's hypothesis
    top = positive("sigma_max", sigma_max)
    return EstimationErrors(
        coefficient=2.0 * growth * distance * each,
        coefficient_norm=(1.0 + slack) * each,
        coefficients=2.0 * growth * distance * all_tasks,
        parameter=(1.0 + 2.0 * growth) * distance * each,
        parameters=(1.0 + 2.0 * growth) * distance * all_tasks,
        smallest=np.maximum(0.0, np.sqrt(1.0 - 4e-4) - slack) * top / kappa,
        largest=(1.0 + slack) * top,
        holds=distance <= required_start(mu=mu, rank=rank, kappa=kappa),
    )


def estimation_probability(
    *, distance: Any, theta_norm: Any, noise: Any, rows: Any, rank: Any, tasks: Any, c: float = 1.0
) -> Any:
    """1 − 8T exp(r − c G_1) − 2T exp(r − c ε_3² G_1/σ_η²) with ε_3 = ½ δ_ℓ μ√(r/T)σ*_max; Lemma l2.

    It falls to 0 as δ_ℓ does: no number of iterations takes the error below what the noise leaves.

    Args:
        distance: δ_ℓ.
        theta_norm: μ √(r/T) σ*_max, from `norm_bound`.
        noise: σ_η, in units of reward.
        rows: G_1, rows per task.
        rank: r.
        tasks: T.
        c: the unstated constant, taken equal in both terms; 1 is a placeholder.
    """
    share = 0.5 * non_negative("distance", distance) * positive("theta_norm", theta_norm)  # ε_3, Eq. (l2_1)
    noise, rows, c = non_negative("noise", noise), count("rows", rows), float(positive("c", c))
    with np.errstate(divide="ignore", invalid="ignore"):
        useful = np.where(noise > 0, rows * (share / noise) ** 2, np.inf)
    failure = 8.0 * _net_failure(rows, rank, tasks, c) + 2.0 * _net_failure(useful, rank, tasks, c)
    return at_least_zero(1.0 - failure)


def _net_failure(rows: Any, rank: Any, tasks: Any, c: float) -> Any:
    """T exp(r − c·rows): one Bernstein tail over an epsilon-net of the r-sphere and all tasks."""
    exponent = np.minimum(count("rank", rank) - c * rows, 700.0)
    return count("tasks", tasks) * np.exp(exponent)
