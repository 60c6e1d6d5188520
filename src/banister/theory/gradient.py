"""Proposition p3 and Lemma l4: the mean of the epoch-1 gradient in B, and how far it strays."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.theory._domain import at_least_one, count, gap_square, non_negative, positive, unit
from banister.theory.bound import Bound, at_least_zero
from banister.theory.estimation import estimation_probability, mixture_variance
from banister.theory.initialisation import required_start
from banister.theory.matrices import norm_bound


def gradient_mean(*, distance: Any, rho: Any, rows: Any, mu: Any, rank: Any, sigma_max: Any) -> Any:
    """Bound on ‖E[GradB]‖, the mean being s² G_1 (Θ − Θ*)W'; Lemma l4, second part.

    Proposition p3's bound for GradB_1 and GradB_4 is this one at ρ-free weight, i.e. divided by s².

    Args:
        distance: δ_ℓ.
        rho: ρ.
        rows: G_1, rows per task.
        mu: μ, incoherence.
        rank: r.
        sigma_max: σ*_max.
    """
    size = count("rows", rows) * at_least_one("mu", mu) * np.sqrt(count("rank", rank))
    scale = size * non_negative("distance", distance) * positive("sigma_max", sigma_max) ** 2
    return mixture_variance(rho=rho) * _growth(rho) * scale


def gradient_deviation(
    *,
    distance: Any,
    rho: Any,
    rows: Any,
    mu: Any,
    rank: Any,
    dim: Any,
    tasks: Any,
    sigma_max: Any,
    kappa: Any,
    noise: Any,
    epsilon: Any = 0.01,
    C: float = 1.0,
    c: float = 1.0,
) -> Bound:
    """‖GradB − E[GradB]‖ ≤ 2(1 + 0.04/q)(1 + 2/q) ε_4 δ_ℓ G_1 σ*_min², q = (1−2ρ)²; Lemma l4, third part.

    The paper's proof also assumes NSR ≥ c/κ⁶: it does not cover rewards that are almost noiseless.

    Args:
        distance: δ_ℓ.
        rho: ρ.
        rows: G_1, rows per task.
        mu: μ, incoherence.
        rank: r.
        dim: d.
        tasks: T.
        sigma_max: σ*_max.
        kappa: κ, condition number.
        noise: σ_η, in units of reward.
        epsilon: ε_4; the proof of Theorem T5 sets 0.01.
        C: unstated constant of the epsilon-net exponent C (d + r); a placeholder.
        c: unstated constant of the Bernstein exponents, and of ε_5 = c ε_4 δ_ℓ; a placeholder.
    """
    distance, noise = non_negative("distance", distance), non_negative("noise", noise)
    kappa, rows, rank = at_least_one("kappa", kappa), count("rows", rows), count("rank", rank)
    epsilon, c = positive("epsilon", epsilon), float(positive("c", c))
    sigma_min = positive("sigma_max", sigma_max) / kappa
    net = float(positive("C", C)) * (count("dim", dim) + rank)
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = rows * (c * epsilon * distance * sigma_min / kappa) ** 2 / noise**2  # ε_5 = c ε_4 δ_ℓ
    reward = 2.0 * _tail(net - c * np.where(noise > 0, clear, np.inf))
    failure = reward + 4.0 * _net_failure(epsilon, rows, mu, rank, dim, tasks, kappa, C, c)
    base = estimation_probability(
        distance=distance,
        theta_norm=norm_bound(mu=mu, rank=rank, tasks=tasks, sigma_max=sigma_max),
        noise=noise,
        rows=rows,
        rank=rank,
        tasks=tasks,
        c=c,
    )
    value = 2.0 * _growth(rho) * epsilon * distance * rows * sigma_min**2
    chance = at_least_zero(base - failure)
    return Bound(value, "Lemma l4 (3)", {"C": float(C), "c": c}, _near(distance, mu, rank, kappa), chance)


def gradient_part_deviation(
    *,
    distance: Any,
    rho: Any,
    rows: Any,
    mu: Any,
    rank: Any,
    dim: Any,
    tasks: Any,
    sigma_max: Any,
    kappa: Any,
    noise: Any,
    epsilon_3: Any,
    epsilon_4: Any = 0.01,
    C: float = 1.0,
    c: float = 1.0,
) -> Bound:
    """‖GradB_i − E[GradB_i]‖ ≤ (1 + 0.04/q)(1 + 2/q) ε_4 G_1 σ*_min² δ_ℓ, i = 1…4; Prop. p3, third part.

    GradB_1 to GradB_4 are the gradient's parts in x_b x_b', x_b ζ', ζ x_b' and ζ ζ'. The arguments are those
    of `gradient_deviation`, with `epsilon_3` the ε_3 of Lemma l2.
    """
    kappa, rows = at_least_one("kappa", kappa), count("rows", rows)
    sigma_min = positive("sigma_max", sigma_max) / kappa
    distance, epsilon = non_negative("distance", distance), positive("epsilon_4", epsilon_4)
    failure = _net_failure(epsilon, rows, mu, rank, dim, tasks, kappa, C, c) + _task_failure(
        epsilon_3, rows, rank, tasks, noise, c
    )
    value = _growth(rho) * epsilon * rows * sigma_min**2 * distance
    constants, near = {"C": float(C), "c": float(c)}, _near(distance, mu, rank, kappa)
    return Bound(value, "Proposition p3 (3)", constants, near, at_least_zero(1.0 - failure))


def gradient_probability_printed(
    *,
    rows: Any,
    mu: Any,
    rank: Any,
    dim: Any,
    tasks: Any,
    sigma_max: Any,
    kappa: Any,
    noise: Any,
    epsilon_3: Any,
    epsilon_4: Any,
    epsilon_5: Any,
    C: float = 1.0,
    c: float = 1.0,
) -> Any:
    """The probability that Lemma l4's third part states, with its three accuracies free.

    1 − 2 exp(C(d+r) − c ε_5² G_1 σ*_min²/(σ_η² κ²)) − 4 exp(C(d+r) − c ε_4² G_1 T/(μ² r κ⁴))
      − 8 T exp(r − c G_1) − 2 T exp(r − c ε_3² G_1/σ_η²); 0 where that is negative.

    `gradient_deviation` sets ε_5 = c ε_4 δ_ℓ, which the bound itself needs.
    """
    noise, kappa, rows = non_negative("noise", noise), at_least_one("kappa", kappa), count("rows", rows)
    sigma_min = positive("sigma_max", sigma_max) / kappa
    net = float(positive("C", C)) * (count("dim", dim) + count("rank", rank))
    with np.errstate(divide="ignore"):
        clear = positive("epsilon_5", epsilon_5) ** 2 * rows * sigma_min**2 / (noise**2 * kappa**2)
    reward = 2.0 * _tail(net - float(positive("c", c)) * clear)
    design = 4.0 * _net_failure(epsilon_4, rows, mu, rank, dim, tasks, kappa, C, c)
    return at_least_zero(1.0 - reward - design - _task_failure(epsilon_3, rows, rank, tasks, noise, c))


def _near(distance: Any, mu: Any, rank: Any, kappa: Any) -> dict[str, Any]:
    """What both deviations ask for: a start that is near enough."""
    enough = distance <= required_start(mu=mu, rank=rank, kappa=kappa)
    return {"distance <= 0.02/(mu sqrt(r) kappa^2)": enough}


def _net_failure(
    epsilon: Any, rows: Any, mu: Any, rank: Any, dim: Any, tasks: Any, kappa: Any, C: float, c: float
) -> Any:
    """exp(C(d+r) − c ε_4² G_1 T/(μ² r κ⁴))."""
    rank = count("rank", rank)
    net = float(positive("C", C)) * (count("dim", dim) + rank)
    design = positive("epsilon_4", epsilon) ** 2 * rows * count("tasks", tasks)
    design = design / (at_least_one("mu", mu) ** 2 * rank * kappa**4)
    return _tail(net - float(positive("c", c)) * design)


def _task_failure(epsilon: Any, rows: Any, rank: Any, tasks: Any, noise: Any, c: float) -> Any:
    """8 T exp(r − c G_1) + 2 T exp(r − c ε_3² G_1/σ_η²)."""
    rank, tasks, noise = count("rank", rank), count("tasks", tasks), non_negative("noise", noise)
    with np.errstate(divide="ignore"):
        clear = positive("epsilon_3", epsilon) ** 2 * rows / noise**2
    return 8.0 * tasks * _tail(rank - c * rows) + 2.0 * tasks * _tail(rank - c * clear)


def _growth(rho: Any) -> Any:
    """(1 + 0.04/q)(1 + 2/q), what Lemma l2 lets ‖W‖ and ‖Θ − Θ*‖ grow by."""
    with np.errstate(divide="ignore"):
        inverse = 1.0 / gap_square(unit("rho", rho))
    return (1.0 + 0.04 * inverse) * (1.0 + 2.0 * inverse)


def _tail(exponent: Any) -> Any:
    return np.exp(np.minimum(exponent, 700.0))
