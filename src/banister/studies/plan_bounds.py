"""What the paper's bounds say of a setting, with every constant in the open.

The paper's `C` and `c` are unstated: sample sizes here are orders of growth with C = 1, never promises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from banister import theory
from banister.data import Float
from banister.studies.plan_setting import PlanSetting

_TRUTHS = 9  # drawn to know how uneven tasks come out
_DRAWS = 20_000  # rounds drawn to know how baseline rewards and gaps are spread
_RHO_RANGE = 0.25  # Theorems T5, l9 and T10 are stated for ρ up to here


@dataclass(frozen=True, eq=False)
class Population:
    """How rewards are spread, in units of reward.

    Attributes:
        mu: incoherence.
        norms: ‖θ_t‖ of T tasks.
        baseline_reward: r_b of many rounds, (n,).
        gap: κ_b of as many rounds, by how much the best action beats the baseline, (n,).
    """

    mu: float
    norms: Float
    baseline_reward: Float
    gap: Float


def model_population(setting: PlanSetting, rng: np.random.Generator) -> Population:
    """The paper's model: Gaussian features, the baseline the k-th best of K actions."""
    env, norms, mus = setting.environment(), [], []
    for _ in range(_TRUTHS):
        env.reset(rng)
        norms.append(setting.task_norm * np.linalg.norm(env.theta, axis=0))
        # `theory.incoherence` without its decomposition of Θ: σ*_max is known here
        mus.append(norms[-1].max() * np.sqrt(setting.tasks / setting.rank) / setting.sigma_max)
    scores = np.sort(rng.standard_normal((_DRAWS, setting.actions)), axis=1)
    scores *= rng.choice(np.concatenate(norms), _DRAWS)[:, None]
    baseline = scores[:, -setting.baseline_rank]
    return Population(max(1.0, float(np.median(mus))), norms[0], baseline, scores[:, -1] - baseline)


def paper_bounds(setting: PlanSetting, population: Population) -> dict[str, Any]:
    """Every bound that answers a planner's question, as plain numbers for JSON."""
    scale = _scale(setting, population)
    rho = _rho(setting, population, scale["theta_norm_bound"])
    iterations = _iterations(setting, population, scale, rho["median"])
    return {
        "scale": scale,
        "rho": rho,
        "iterations": iterations,
        "rows": _rows(setting, scale, iterations["target_distance"]),
        "regret": _regret(setting, population, scale, rho["median"], iterations["both"]),
        "rates": _rates(setting, scale, rho["median"], iterations["target_distance"]),
        "sharing": theory.sharing_tasks(
            dim=setting.dim, rank=setting.rank, nsr=scale["nsr"], target=iterations["target_distance"]
        ).as_dict(),
        "communication": _communication(setting, iterations["both"]),
    }


def _scale(setting: PlanSetting, population: Population) -> dict[str, float]:
    bound = theory.norm_bound(
        mu=population.mu, rank=setting.rank, tasks=setting.tasks, sigma_max=setting.sigma_max
    )
    nsr = theory.noise_to_signal(noise=setting.noise, tasks=setting.tasks, sigma_min=setting.sigma_min)
    return {
        "kappa": setting.kappa,
        "mu": population.mu,
        "sigma_max": setting.sigma_max,
        "sigma_min": setting.sigma_min,
        "task_norm": setting.task_norm,
        "theta_norm_bound": float(bound),
        "nsr": float(nsr),
        "delta": setting.delta,
    }


def _rho(setting: PlanSetting, population: Population, norm: float) -> dict[str, Any]:
    """Lemma l8's ρ over the rounds of epoch 1: it depends on r_b, so it is spread as r_b is."""
    common: dict[str, Any] = {
        "alpha": setting.alpha,
        "theta_norm": norm,
        "rounds": setting.rows_per_epoch,
        "tasks": setting.tasks,
        "delta": setting.delta,
    }
    if setting.known_baseline:
        bound = theory.largest_safe_rho(baseline_reward=population.baseline_reward, **common)
    else:
        low, high = _reward_range(setting, population)
        bound = theory.largest_safe_rho_interval(baseline_low=low, baseline_high=high, **common)
    quantiles = np.quantile(bound.value, [0.1, 0.5, 0.9])
    radius = theory.gaussian_radius(events=setting.rows_per_epoch * setting.tasks, delta=setting.delta)
    return {
        "median": float(quantiles[1]),
        "low": float(quantiles[0]),
        "high": float(quantiles[2]),
        "source": bound.source,
        "constants": {"z": float(radius), "theta_norm": norm, "delta": setting.delta},
        "baseline_reward": [float(q) for q in np.quantile(population.baseline_reward, [0.1, 0.5, 0.9])],
    }


def _reward_range(setting: PlanSetting, population: Population) -> tuple[float, float]:
    """r_l and r_h: as given, else the most extreme of the rounds drawn."""
    reward = population.baseline_reward
    return setting.baseline_range or (float(reward.min()), float(reward.max()))


def _margins(setting: PlanSetting, population: Population) -> Float:
    """By how much the best action clears the floor in each round; with r_b unknown, at the worst r_b."""
    common: dict[str, Any] = {"alpha": setting.alpha}
    if setting.known_baseline:
        common["baseline_reward"] = population.baseline_reward
        margin = theory.safety_margin(baseline_gap=population.gap, **common)
    else:
        low, high = _reward_range(setting, population)
        margin = theory.least_margin(gap_low=population.gap, baseline_low=low, baseline_high=high, **common)
    return np.asarray(margin)


def _iterations(
    setting: PlanSetting, population: Population, scale: dict[str, float], rho: float
) -> dict[str, Any]:
    """Theorems l9 and T10, corrected; most rounds need few iterations, the tightest many."""
    rho = min(rho, _RHO_RANGE)
    margin = _margins(setting, population)
    events: dict[str, Any] = {
        "rounds": setting.rounds,
        "tasks": setting.tasks,
        "actions": setting.actions,
        "delta": setting.delta,
    }
    norm = scale["theta_norm_bound"]
    middle, tight = np.quantile(margin, [0.5, 0.01])
    safety = theory.safety_iterations(
        margin=[middle, tight], theta_norm=norm, rho=rho, kappa=setting.kappa, **events
    )
    regret = theory.regret_iterations(rho=rho, kappa=setting.kappa)
    error = float(theory.largest_safe_error(margin=middle, **events))
    growth = 1.0 + 2.0 / (1.0 - 2.0 * rho) ** 2  # Lemma l2 (4): ‖θ̂−θ‖ ≤ (1 + 2/q) SD n
    return {
        "safety_median": float(safety.value[0]),
        "safety_99": float(safety.value[1]),
        "regret": float(regret.value),
        "both": float(max(safety.value[1], regret.value)),
        "margin_median": float(middle),
        "largest_safe_error": error,
        "target_distance": min(error / (growth * norm), 0.99),
        "source": f"{safety.source}; {regret.source}",
        "constants": dict(safety.constants),
    }


def _rows(setting: PlanSetting, scale: dict[str, float], target: float) -> dict[str, Any]:
    common: dict[str, Any] = {
        "dim": setting.dim,
        "rank": setting.rank,
        "tasks": setting.tasks,
        "mu": scale["mu"],
        "kappa": setting.kappa,
        "nsr": scale["nsr"],
        "target": target,
    }
    first, later = theory.first_epoch_samples(**common), theory.later_epoch_samples(**common)
    return {"first_epoch": first.as_dict(), "later_epoch": later.as_dict(), "target_distance": target}


def _regret(
    setting: PlanSetting, population: Population, scale: dict[str, float], rho: float, iterations: float
) -> dict[str, Any]:
    rho = min(rho, _RHO_RANGE)
    printed = theory.regret_bound(
        rounds=setting.rounds, tasks=setting.tasks, rank=setting.rank, rho=rho, mu=scale["mu"],
        sigma_max=scale["sigma_max"], delta=setting.delta, epochs=setting.epochs, iterations=iterations,
        dim=setting.dim,
    )  # fmt: skip
    place: dict[str, Any] = {"actions": setting.actions, "place": setting.baseline_rank}
    first = theory.first_epoch_regret(
        rounds=setting.rows_per_epoch, theta_norms=population.norms, rho=rho, delta=setting.delta, **place
    )
    slope = float(theory.first_epoch_slope(theta_norms=population.norms, rho=0.0, **place))
    return {
        "printed": printed.as_dict(),
        "first_epoch": first.as_dict(),
        "baseline_per_round": slope,
        "baseline_only": slope * setting.rounds,
    }


def _rates(setting: PlanSetting, scale: dict[str, float], rho: float, target: float) -> dict[str, float]:
    rates = theory.Setting(
        dim=setting.dim, rank=setting.rank, tasks=setting.tasks, rounds=setting.rounds, error=target,
        nsr=scale["nsr"], rho=rho,
    )  # fmt: skip
    return {system.name: float(system.regret(rates)) for system in theory.SYSTEMS}


def _communication(setting: PlanSetting, iterations: float) -> dict[str, float]:
    per_task = float(theory.bytes_per_iteration(dim=setting.dim, rank=setting.rank))
    return {
        "bytes_per_task_and_iteration": per_task,
        "bytes_per_iteration": per_task * setting.tasks,
        "iterations": iterations,
        "bytes_per_epoch": per_task * setting.tasks * iterations,
    }
