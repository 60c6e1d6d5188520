"""Two facts that the proofs lean on: Bernstein's inequality, and what features of non-zero mean do."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.theory._domain import non_negative, positive, real
from banister.theory.bound import Bound, at_least_zero


def bernstein_tail(*, deviation: Any, norms: Any, c: float = 1.0) -> Bound:
    """2 exp(−c min(g²/Σ K_i², g/max K_i)), at least P(|Σ X_i| ≥ g); the paper's first proposition.

    For independent, zero-mean, sub-exponential X_i.

    Args:
        deviation: g ≥ 0.
        norms: K_i = ‖X_i‖_ψ1, shape (..., N), all above 0.
        c: the absolute constant, which neither the paper nor its source states; a placeholder.

    Examples:
        >>> float(bernstein_tail(deviation=2.0, norms=[1.0, 1.0]))  # 2 exp(−min(4/2, 2/1))
        0.2706705664732254
    """
    g, K = non_negative("deviation", deviation), positive("norms", norms)
    c = float(positive("c", c))
    gaussian, exponential = g**2 / np.sum(K**2, axis=-1), g / K.max(axis=-1)
    value = 2.0 * np.exp(-c * np.minimum(gaussian, exponential))
    chance = at_least_zero(1.0 - value)
    return Bound(value, "Proposition 1 (Bernstein)", {"c": c}, probability=chance)


def centred_noise(*, noise: Any, mean_rewards: Any) -> Any:
    """√(σ_η² + mean of (μ_x'θ)²): the noise once features are centred and their mean counts as noise.

    The paper's remark on Assumption 3: `y = (x − μ_x)'θ + (η + μ_x'θ)`, "where η + μ_x'θ now constitutes the
    noise". Every bound with σ_η then has this in its place. The new noise has mean zero, as Assumption 3
    asks, only if `μ_x'θ` averages out over the rounds; a mean that all rounds share is a bias that no number
    of rows removes. Centring the rows, or a constant feature, does: `AltGDmin(fit_intercept=True)` centres.

    Args:
        noise: σ_η.
        mean_rewards: μ_x'θ of each round, shape (..., n).

    Examples:
        >>> float(centred_noise(noise=3.0, mean_rewards=[4.0, -4.0]))
        5.0
    """
    square = np.mean(real("mean_rewards", mean_rewards) ** 2, axis=-1)
    return np.sqrt(non_negative("noise", noise) ** 2 + square)
