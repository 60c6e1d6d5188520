"""What the two steps of Theorem T10's proof really give; `regret_printed` has what the paper prints.

*Epoch 1.* The proof takes Σ_n (x* − (1−ρ)x_b − ρζ)'θ_t to be Gaussian with mean 0 because x* and x_b are
"i.i.d. standard Gaussian". The best and the k-th best of K Gaussian actions are not: their rewards have means
m_1‖θ_t‖ and m_k‖θ_t‖ (`expected_order`). The sum therefore has mean G_1 (m_1 − (1−ρ) m_k) ‖θ_t‖: linear in
G_1. What the proof says of the spread is right: the sum is a Lipschitz function of independent Gaussians with
constant √(2(ρ²−ρ+1) G_1) ‖θ_t‖, so Gaussian concentration gives

    R¹ ≤ G_1 (m_1 − (1−ρ) m_k) Σ_t ‖θ_t‖ + 2 √(G_1 (ρ²−ρ+1) log(1/δ)) ‖Θ‖_F      (probability 1−δ).

*Later epochs.* The proof asks only that ‖θ̂_t − θ_t‖ ≤ √(2(ρ²−ρ+1)) n with n the bound on ‖θ_t‖. That root is
above 1.2: an estimate of 0 qualifies. For Gaussian contexts, greedy play by an estimate at angle φ from θ_t
loses m_1‖θ_t‖(1 − cos φ) on average, which is of second order in the error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.theory._domain import (
    count,
    non_negative,
    open_unit,
    positive,
    real,
    unit,
)
from banister.theory.bound import Bound
from banister.theory.contraction import iterations_to_reach
from banister.theory.iterations import step_contraction
from banister.theory.order import expected_order
from banister.theory.regret_printed import accuracy_asked, regret_root, regret_spread
from banister.theory.safety import gaussian_radius


def first_epoch_slope(*, theta_norms: Any, rho: Any, actions: Any, place: Any) -> Any:
    """Expected epoch-1 regret per round over all tasks: (m_1 − (1−ρ) m_k) Σ_t ‖θ_t‖, Gaussian contexts.

    Args:
        theta_norms: ‖θ_t‖, shape (..., T), in units of reward per unit of feature.
        rho: ρ.
        actions: K.
        place: k, the baseline is the k-th best of the K actions.
    """
    norms = non_negative("theta_norms", theta_norms)
    best, baseline = expected_order(place=1, actions=actions), expected_order(place=place, actions=actions)
    return (best - (1.0 - unit("rho", rho)) * baseline) * norms.sum(axis=-1)


def first_epoch_regret(
    *, rounds: Any, theta_norms: Any, rho: Any, actions: Any, place: Any, delta: Any
) -> Bound:
    """Epoch-1 regret with its mean, for Gaussian contexts; Theorem T10, corrected (see the module's text).

    Args:
        rounds: G_1.
        theta_norms: ‖θ_t‖, shape (..., T).
        rho: ρ.
        actions: K.
        place: k, the baseline is the k-th best of the K actions.
        delta: δ.
    """
    norms = non_negative("theta_norms", theta_norms)
    mean = count("rounds", rounds) * first_epoch_slope(
        theta_norms=norms, rho=rho, actions=actions, place=place
    )
    spread = 2.0 * np.sqrt((norms**2).sum(axis=-1)) * regret_spread(rounds, unit("rho", rho), delta)
    return Bound(mean + spread, "Theorem T10, epoch 1 corrected", probability=1.0 - open_unit("delta", delta))


def first_epoch_regret_by_gap(
    *, rounds: Any, tasks: Any, gap_high: Any, baseline_high: Any, rho: Any, frobenius: Any, delta: Any
) -> Bound:
    """Epoch-1 regret from Assumption 2 alone, whatever the contexts.

    G_1 T (κ_h + ρ r_h) + ρ √(2 G_1 log(1/δ)) ‖Θ‖_F, with probability 1−δ.

    One mixture loses κ_b + ρ r_b − ρ ζ'θ_t against the best action; only ζ is random.

    Args:
        rounds: G_1.
        tasks: T.
        gap_high: κ_h, most by which the best action beats the baseline.
        baseline_high: r_h, most the baseline earns.
        rho: ρ.
        frobenius: ‖Θ‖_F, at most √r σ*_max.
        delta: δ.
    """
    rounds, rho, delta = count("rounds", rounds), unit("rho", rho), open_unit("delta", delta)
    loss = non_negative("gap_high", gap_high) + rho * real("baseline_high", baseline_high)
    spread = rho * np.sqrt(2.0 * rounds * np.log(1.0 / delta)) * non_negative("frobenius", frobenius)
    value = rounds * count("tasks", tasks) * loss + spread
    return Bound(value, "Theorem T10, epoch 1 by Assumption 2", probability=1.0 - delta)


def greedy_regret_mean(*, rounds: Any, theta_norm: Any, error: Any, actions: Any) -> Any:
    """Most that greedy play loses on average in `rounds` rounds of one task, Gaussian contexts.

    N m_1 ‖θ‖ (1 − cos φ), and sin φ ≤ error/‖θ‖ if the error is below ‖θ‖; beyond that φ may be anything and
    the factor is 2.

    Args:
        rounds: rounds of greedy play.
        theta_norm: ‖θ_t‖.
        error: ‖θ̂_t − θ_t‖.
        actions: K.
    """
    norm, error = positive("theta_norm", theta_norm), non_negative("error", error)
    ratio = error / norm
    loss = np.where(ratio < 1.0, 1.0 - np.sqrt(1.0 - np.minimum(ratio, 1.0) ** 2), 2.0)
    return count("rounds", rounds) * expected_order(place=1, actions=actions) * norm * loss


def greedy_regret(*, rounds: Any, errors: Any, actions: Any, delta: Any) -> Bound:
    """Σ_t 2 z ‖θ̂_t − θ_t‖ N with z = √(2 log(2NTK/δ)): greedy regret of all tasks, probability 1−δ.

    From the derivation of Theorem l9: no single greedy play loses more than 2 z ‖θ̂_t − θ_t‖.

    Args:
        rounds: rounds of greedy play, each task once a round.
        errors: ‖θ̂_t − θ_t‖, shape (..., T).
        actions: K.
        delta: δ.
    """
    errors, rounds = non_negative("errors", errors), count("rounds", rounds)
    events = 2.0 * rounds * errors.shape[-1] * count("actions", actions)
    value = 2.0 * gaussian_radius(events=events, delta=delta) * rounds * errors.sum(axis=-1)
    return Bound(value, "Theorem T10, later epochs corrected", probability=1.0 - open_unit("delta", delta))


def failing_rounds(
    *, slope: Any, share: Any, tasks: Any, rank: Any, rho: Any, mu: Any, sigma_max: Any, delta: Any
) -> Any:
    """The G_1 from which epoch 1's expected regret alone exceeds Theorem T10's bound, if G_1 = share · N.

    The one grows as G_1, the other as √N = √(G_1/share). With the paper's schedule G_1 = √N there is no such
    point if slope ≤ 4√2 μ σ*_max √(r T (ρ²−ρ+1) log(1/δ)), which holds in practice.

    Args:
        slope: expected epoch-1 regret per round over all tasks, from `first_epoch_slope`.
        share: G_1/N; 1/4 in the paper's experiments.
        tasks: T.
        rank: r.
        rho: ρ.
        mu: μ, incoherence.
        sigma_max: σ*_max.
        delta: δ.
    """
    per_root = np.sqrt(8.0) * regret_root(tasks, rank, unit("rho", rho), mu, sigma_max, delta)
    return (per_root / positive("slope", slope)) ** 2 / unit("share", positive("share", share))


def regret_iterations(*, rho: Any, kappa: Any, start: Any = 1.0, c: Any = 0.5) -> Bound:
    """Least L with f^L δ_0 ≤ `accuracy_asked`; Theorem T10's L with the right sign.

    As in Theorem l9 the paper divides by log f < 0 and keeps the inequality. Its proof that this L exceeds
    the one of Theorem l9 compares two negative numbers; take the larger of this and `safety_iterations`.

    Args:
        rho: ρ in [0, 0.25] ∪ [0.75, 1].
        kappa: κ, condition number.
        start: δ_0.
        c: step constant of γ = c/((1 + 0.04/q)² σ*_max²).
    """
    factor = step_contraction(rho=rho, kappa=kappa, c=c)
    value = iterations_to_reach(target=accuracy_asked(rho=rho), start=start, factor=factor)
    return Bound(value, "Theorem T10 (L), corrected", constants={"c": float(np.max(c))})
