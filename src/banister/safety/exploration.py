"""Conservative exploration: the mixture `(1−ρ)x_b + ρζ` of the baseline and a random direction.

How far it may leave the baseline (Lemma l8). With `ζ ~ N(0, I)`, `ζ'θ_t ≥ −c` for all plays at once with
probability at least 1 − δ, where `c = ‖θ_t‖ √(2 log(plays/δ))`. The mixture then earns at least
`(1−ρ) r_b − ρ c`, and this clears the floor `r_b − α|r_b|` exactly when

    ρ (r_b + c) ≤ α |r_b|.

* `r_b > 0`: `ρ ≤ α r_b / (r_b + c)`, the paper's formula.
* `−c < r_b < 0`: `ρ ≤ α |r_b| / (c − |r_b|)`. The paper's formula would be negative here; leaving a losing
  baseline is gain, so the bound is looser than for `+|r_b|`.
* `r_b ≤ −c`: a random direction is no worse than the baseline, any ρ will do.
* literal floor and `r_b < 0`: the baseline itself is below the floor, no small ρ helps: ρ = 0.

If only `r_l ≤ r_b ≤ r_h` is known, the bound must hold for the worst reward in between. The right-hand side
falls towards `r_b = 0` from both sides, so the worst is the one nearest to zero: 0 when the interval holds
zero, which makes ρ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.contract import Choices, Requests
from banister.data import Float
from banister.errors import SettingError
from banister.safety.constraint import Constraint
from banister.safety.norm_guess import NormGuess
from banister.safety.reasons import Reason

# Theorem l9 and T5 ask for ρ in [0, 0.25] ∪ [0.75, 1]; a safe ρ is taken from the part next to the baseline.
MAX_RHO = 0.25


@dataclass(frozen=True, kw_only=True)
class ConservativeMixture:
    """How the baseline is left while nothing is certified.

    Args:
        plays: how many mixtures may be played in all, rounds × tasks; the union bound counts them.
        rho: one ρ for every request, or None for Lemma l8's per request. A constant is not safe: where
            `r_b` is small it overshoots the floor.
        norm_bound: a bound on `‖θ_t‖`, one number or one per task. None: `estimate_norm_bound`, which leans
            on assumptions that Lemma l8 does not need.
        delta: the probability with which Lemma l8 may fail, over all plays together.
        mixing: False where a mixture cannot be played (a catalogue): exploring then plays the baseline.
        reward_bounds: `(r_l, r_h)` for requests whose baseline reward is unknown; without it their ρ is 0.
    """

    plays: int
    rho: float | None = None
    norm_bound: float | Float | None = None
    delta: float = 0.01
    mixing: bool = True
    reward_bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.rho is not None and not (0.0 <= self.rho <= MAX_RHO or 1.0 - MAX_RHO <= self.rho <= 1.0):
            raise SettingError(
                f"rho={self.rho!r} is outside [0, 0.25] ∪ [0.75, 1], where the first epoch's estimate is "
                "well conditioned; give a value inside, or None to choose it per request."
            )
        if not 0.0 < self.delta < 1.0:
            raise SettingError(f"delta={self.delta!r} must be a probability strictly between 0 and 1.")
        if self.plays < 1:
            raise SettingError(f"plays={self.plays!r} must be at least 1: rounds × tasks.")
        if self.norm_bound is not None and not np.all(np.asarray(self.norm_bound) >= 0):
            raise SettingError(f"norm_bound={self.norm_bound!r} must not be negative or NaN.")

    def choose(self, requests: Requests, constraint: Constraint, rng: np.random.Generator) -> Choices:
        """A mixture for each request; the baseline where ρ is 0."""
        if not self.mixing:
            return Choices.of_baseline(requests, Reason.EXPLORE)
        reach = self._reach(requests)
        rho = self._rho(requests, constraint, reach)
        features = rng.standard_normal((len(requests), requests.dim))  # ζ, drawn for every row: one stream
        features *= rho[:, None]
        features += (1.0 - rho)[:, None] * requests.baseline_features()
        return self._explain(requests, constraint, features, rho, reach)

    def largest_rho(self, requests: Requests, constraint: Constraint) -> float:
        """The largest ρ that `choose` plays for these requests; 0 where it plays baselines."""
        if not self.mixing or len(requests) == 0:
            return 0.0
        return float(self._rho(requests, constraint, self._reach(requests)).max())

    def _explain(
        self, requests: Requests, constraint: Constraint, features: Float, rho: Float, reach: Float
    ) -> Choices:
        m = len(requests)
        reward = requests.baseline_reward
        risk = np.zeros(m)  # ρc, and 0 rather than 0·∞ where ρ is 0
        np.multiply(rho, reach, out=risk, where=rho > 0)
        return Choices(
            features,
            np.where(rho > 0, -1, requests.baseline_index()),
            np.zeros(m, dtype=bool),
            (1.0 - rho) * reward - risk,
            constraint.floor(reward),
            np.full(m, Reason.EXPLORE, dtype=object),
        )

    def _reach(self, requests: Requests) -> Float:
        norm = self.norm_bound
        if norm is None:
            norm = estimate_norm_bound(requests, delta=self.delta)
        per_row = norm[requests.task] if np.ndim(norm) else np.full(len(requests), norm)  # type: ignore[index]
        return np.asarray(per_row, dtype=float) * self._deviations

    @property
    def _deviations(self) -> float:
        return float(np.sqrt(2.0 * np.log(self.plays / self.delta)))

    def _rho(self, requests: Requests, constraint: Constraint, reach: Float) -> Float:
        if self.rho is not None:
            return np.full(len(requests), self.rho)
        spread = self._deviations * np.asarray(requests.baseline_reward_std)
        low, high = requests.baseline_reward - spread, requests.baseline_reward + spread
        if self.reward_bounds is not None:
            low = np.where(np.isnan(low), self.reward_bounds[0], low)
            high = np.where(np.isnan(high), self.reward_bounds[1], high)
        return lemma_rho(constraint, low, high, reach)


def lemma_rho(constraint: Constraint, low: Float, high: Float, reach: Float) -> Float:
    """Lemma l8's largest safe ρ for baseline rewards between `low` and `high`, at most 0.25.

    Args:
        constraint: the floor to clear.
        low, high: (m,) bounds on the baseline reward, equal where it is known; NaN where nothing is (ρ = 0).
        reach: (m,) `c = ‖θ_t‖ √(2 log(plays/δ))`, the most a random direction is expected to lose.

    Examples:
        >>> r = np.array([1.0, -1.0, 0.0, np.nan])
        >>> lemma_rho(Constraint(0.2), r, r, np.full(4, 3.0))
        array([0.05, 0.1 , 0.  , 0.  ])
    """
    worst = np.clip(0.0, low, high)  # the reward in the interval that is nearest to zero
    room = np.maximum(constraint.room(worst), 0.0)  # below zero where the paper's floor forbids the baseline
    slope = np.maximum(worst + reach, 0.0)
    rho = np.where(room > 0, MAX_RHO, 0.0)
    capped = room < MAX_RHO * slope
    np.divide(room, slope, out=rho, where=capped)
    return np.where(np.isnan(worst) | np.isnan(reach), 0.0, rho)


def estimate_norm_bound(requests: Requests, *, delta: float = 0.01) -> Float:
    """A cautious guess at `‖θ_t‖` from the baseline rewards reported in requests, shape (tasks seen,).

    See `banister.safety.norm_guess` for its assumptions. Tasks without a known baseline reward get ∞, which
    turns exploration off.
    """
    guess = NormGuess(int(requests.task.max(initial=-1)) + 1, delta=delta)
    guess.see(requests)
    return guess.bound()
