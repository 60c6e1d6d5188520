"""Lemma l8: how far safe exploration may leave the baseline.

The mixture (1−ρ)x_b + ρζ earns (1−ρ)r_b + ρ ζ'θ. With ζ'θ ≥ −z for all tasks and rounds (probability 1−δ),
it clears the floor r_b − α|r_b| if ρ (r_b + z) ≤ α|r_b|. So

    ρ_max = min(1, α|r_b| / (r_b + z))   if r_b + z > 0,   and 1 otherwise.

For r_b ≥ 0 this is the printed lemma. For r_b < 0 the printed floor (1−α)r_b lies *above* r_b, so that even
the baseline breaks it, and the printed ρ is negative or above 1; the form here stays meaningful.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.errors import SettingError
from banister.theory._domain import count, open_unit, positive, real
from banister.theory.bound import Bound


def gaussian_radius(*, events: Any, delta: Any) -> Any:
    """√(2 log(events/δ)): no one of `events` standard normals exceeds it, with probability 1−δ.

    Proposition "Chernoff bound for Gaussian" with a union bound; the proofs of Lemma l8 and Theorem l9.
    """
    return np.sqrt(2.0 * np.log(count("events", events) / open_unit("delta", delta)))


def largest_safe_rho(
    *, baseline_reward: Any, alpha: Any, theta_norm: Any, rounds: Any, tasks: Any, delta: Any
) -> Bound:
    """Largest ρ for which all mixtures clear r_b − α|r_b|, with probability 1−δ; Lemma l8, corrected.

    Args:
        baseline_reward: r_b, in units of reward, any sign.
        alpha: α, share of |r_b| that may be risked.
        theta_norm: bound on ‖θ_t‖, such as μ √(r/T) σ*_max from `norm_bound`.
        rounds: G_1, rounds of exploration.
        tasks: T.
        delta: δ, probability that any of the G_1·T mixtures falls below its floor.

    Examples:
        >>> bound = largest_safe_rho(
        ...     baseline_reward=[1.0, -1.0, 0.0], alpha=0.2, theta_norm=0.5, rounds=50, tasks=10, delta=0.05)
        >>> bound.value.round(4)
        array([0.0636, 0.1745, 0.    ])
    """
    reward, share = real("baseline_reward", baseline_reward), open_unit("alpha", alpha)
    loss = reward + _reach(
        theta_norm, rounds, tasks, delta
    )  # most that leaving the baseline may cost, at ρ = 1
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(loss > 0, np.minimum(1.0, share * np.abs(reward) / loss), 1.0)[()]
    return Bound(value, "Lemma l8, corrected for r_b < 0", probability=1.0 - open_unit("delta", delta))


def largest_safe_rho_printed(
    *, baseline_reward: Any, alpha: Any, theta_norm: Any, rounds: Any, tasks: Any, delta: Any
) -> Bound:
    """α r_b / (r_b + √(2 (r/T) log(G_1 T/δ)) μ σ*_max); Lemma l8 as printed, for r_b ≥ 0 only.

    Raises:
        SettingError: for a negative r_b, where the printed floor forbids the baseline itself.
    """
    reward, share = real("baseline_reward", baseline_reward), open_unit("alpha", alpha)
    if np.any(reward < 0):
        raise SettingError(
            f"baseline_reward={float(reward.min())!r} is negative: Lemma l8 as printed has no safe rho "
            "there; use largest_safe_rho."
        )
    value = share * reward / (reward + _reach(theta_norm, rounds, tasks, delta))
    return Bound(value, "Lemma l8", probability=1.0 - open_unit("delta", delta))


def largest_safe_rho_interval(
    *,
    baseline_low: Any,
    baseline_high: Any,
    alpha: Any,
    theta_norm: Any,
    rounds: Any,
    tasks: Any,
    delta: Any,
) -> Bound:
    """Largest ρ safe for every r_b in [r_l, r_h]: the unknown baseline of Remark 3.

    α|r|/(r + z) rises with r above 0 and falls with r below 0, so the worst case is r_l for positive
    intervals, r_h for negative ones, and 0 (no exploration) for intervals that hold 0.

    Args:
        baseline_low: r_l, least the baseline may earn.
        baseline_high: r_h, most it may earn.
        alpha: α.
        theta_norm: bound on ‖θ_t‖.
        rounds: G_1.
        tasks: T.
        delta: δ.
    """
    low, high = interval("baseline_low", baseline_low, "baseline_high", baseline_high)
    worst = nearest_to_zero(low, high)
    bound = largest_safe_rho(
        baseline_reward=worst, alpha=alpha, theta_norm=theta_norm, rounds=rounds, tasks=tasks, delta=delta
    )
    return Bound(bound.value, "Lemma l8, unknown baseline", probability=bound.probability)


def interval(low_name: str, low: Any, high_name: str, high: Any) -> tuple[Any, Any]:
    """Both ends of an interval, or an error if they are the wrong way round."""
    first, second = real(low_name, low), real(high_name, high)
    if np.any(first > second):
        raise SettingError(f"{low_name} exceeds {high_name}; give the lower end first.")
    return first, second


def nearest_to_zero(low: Any, high: Any) -> Any:
    """The member of [low, high] nearest to 0."""
    return np.where(low > 0, low, np.where(high < 0, high, 0.0))[()]


def _reach(theta_norm: Any, rounds: Any, tasks: Any, delta: Any) -> Any:
    """z: how far below 0 the reward of a random direction may fall in G_1·T draws."""
    events = count("rounds", rounds) * count("tasks", tasks)
    return gaussian_radius(events=events, delta=delta) * positive("theta_norm", theta_norm)
