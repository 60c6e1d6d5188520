"""Theorem l9: how many iterations make the greedy epochs safe, as printed and with the right sign.

*Derivation.* A greedy action x (best by θ̂) and the best action x* satisfy x'θ̂ ≥ x*'θ̂, so

    x'θ ≥ x*'θ − |x*'(θ̂−θ)| − |x'(θ̂−θ)| ≥ x*'θ − 2 z ‖θ̂−θ‖,

where z bounds |a'(θ̂−θ)|/‖θ̂−θ‖ over every action a on offer. The floor is met if 2 z ‖θ̂−θ‖ ≤ margin, the
margin being x*'θ − floor = κ_b + α|r_b|. Lemma l2 (4) and Theorem T5 give ‖θ̂−θ‖ ≤ (1 + 2/q) f^L δ_0 n, with
q = (1−2ρ)², n the bound on ‖θ_t‖ and f < 1 the contraction. Write D = 2 z (1 + 2/q) δ_0 n. Then

    f^L D ≤ margin   ⟺   L log f ≤ log(margin/D)   ⟺   L ≥ log(D/margin) / (−log f),

because dividing by log f < 0 turns the inequality. The paper divides and keeps it: it prints
L ≥ C κ² log(margin/D), which is negative whenever there is anything to do (margin < D), and *falls* as the
margin shrinks. Since −log(1−x) ≥ x, L = (κ²/c) log(D/margin) also suffices: the printed form with the
fraction turned over.

*Two further repairs.* The paper takes z = √(2 log(NT/δ)), as if x and x* were drawn blindly. Both are chosen
from K actions by looking at θ̂ or θ, so z must cover all K, on both sides: √(2 log(2NTK/δ)). And for an
unknown baseline the paper puts the *upper* bounds κ_h + α r_h into the logarithm; with the sign right, the
least margin counts, κ_l + α min|r_b|.
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
)
from banister.theory.bound import Bound
from banister.theory.contraction import FIRST, contraction, first_step_size, iterations_to_reach
from banister.theory.safety import gaussian_radius, interval, nearest_to_zero


def safety_margin(*, baseline_gap: Any, baseline_reward: Any, alpha: Any) -> Any:
    """κ_b + α|r_b|: by how much the best action clears the floor; Theorem l9's numerator for r_b ≥ 0.

    Args:
        baseline_gap: κ_b = x*'θ − r_b ≥ 0 (Assumption 2), in units of reward.
        baseline_reward: r_b.
        alpha: α.
    """
    gap = non_negative("baseline_gap", baseline_gap)
    return gap + open_unit("alpha", alpha) * np.abs(real("baseline_reward", baseline_reward))


def least_margin(*, gap_low: Any, baseline_low: Any, baseline_high: Any, alpha: Any) -> Any:
    """κ_l + α min|r_b| over r_b in [r_l, r_h]: the margin to plan for when the baseline is unknown; Remark 3.

    The paper puts κ_h + α r_h here. That is the most favourable case, and follows from the wrong sign.
    """
    low, high = interval("baseline_low", baseline_low, "baseline_high", baseline_high)
    return safety_margin(baseline_gap=gap_low, baseline_reward=nearest_to_zero(low, high), alpha=alpha)


def largest_safe_error(*, margin: Any, rounds: Any, tasks: Any, actions: Any, delta: Any) -> Any:
    """The ‖θ̂_t − θ_t‖ at which greedy play is still safe: margin / (2 √(2 log(2NTK/δ))).

    Args:
        margin: κ_b + α|r_b|, from `safety_margin`, in units of reward.
        rounds: N.
        tasks: T.
        actions: K, actions on offer in a round.
        delta: δ, probability that any greedy play breaks its floor.
    """
    events = 2.0 * count("rounds", rounds) * count("tasks", tasks) * count("actions", actions)
    return non_negative("margin", margin) / (2.0 * gaussian_radius(events=events, delta=delta))


def safety_iterations(
    *,
    margin: Any,
    theta_norm: Any,
    rho: Any,
    kappa: Any,
    rounds: Any,
    tasks: Any,
    actions: Any,
    delta: Any,
    start: Any = 1.0,
    c: Any = 0.5,
) -> Bound:
    """Least L for which all greedy epochs are safe; Theorem l9, corrected.

    Args:
        margin: κ_b + α|r_b|, from `safety_margin` or `least_margin`, in units of reward; 0 gives infinity.
        theta_norm: bound on ‖θ_t‖, such as μ √(r/T) σ*_max from `norm_bound`.
        rho: ρ in [0, 0.25] ∪ [0.75, 1].
        kappa: κ, condition number.
        rounds: N, the horizon.
        tasks: T.
        actions: K, actions on offer in a round.
        delta: δ.
        start: δ_0, distance of the start; 1 is what the paper's proof uses ("δ_0 < 1").
        c: step constant of γ = c/((1 + 0.04/q)² σ*_max²).
    """
    factor = step_contraction(rho=rho, kappa=kappa, c=c)
    growth = 1.0 + 2.0 / gap_square(theorem_rho(rho))
    error = largest_safe_error(margin=margin, rounds=rounds, tasks=tasks, actions=actions, delta=delta)
    target = error / (growth * positive("theta_norm", theta_norm))
    value = iterations_to_reach(target=target, start=start, factor=factor)
    return Bound(value, "Theorem l9, corrected", constants={"c": float(np.max(c)), "coefficient": FIRST})


def safety_iterations_printed(
    *, margin: Any, theta_norm: Any, rho: Any, kappa: Any, rounds: Any, tasks: Any, delta: Any, C: float = 1.0
) -> Bound:
    """C κ² log(margin / (2 (1 + 2/q) μ σ*_max √((2r/T) log(NT/δ)))); Theorem l9 as printed.

    Kept to show what is printed: it is negative wherever iterations are needed. Use `safety_iterations`.
    """
    growth = 1.0 + 2.0 / gap_square(theorem_rho(rho))
    radius = gaussian_radius(events=count("rounds", rounds) * count("tasks", tasks), delta=delta)
    scale = 2.0 * growth * positive("theta_norm", theta_norm) * radius
    C = float(positive("C", C))
    value = C * at_least_one("kappa", kappa) ** 2 * np.log(positive("margin", margin) / scale)
    return Bound(value, "Theorem l9", constants={"C": C}, conditions={"L >= 0": value >= 0})


def step_contraction(*, rho: Any, kappa: Any, c: Any = 0.5) -> Any:
    """1 − 0.23 c / ((1 + 0.04/q)² κ²): Theorem T5's factor at the step of Theorems l9 and T10.

    This is the paper's "1 − c/κ²" with its second c spelt out.
    """
    gamma = first_step_size(rho=rho, sigma_max=1.0, c=c)
    return contraction(gamma=gamma, sigma_min=1.0 / at_least_one("kappa", kappa))
