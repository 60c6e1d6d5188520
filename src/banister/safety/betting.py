"""Budgets by betting: what a task has certainly saved so far, with no model, at every moment.

**What is bounded.** Decision i is a draw: the baseline with probability `π_b`, known and never 0, otherwise
something else. `v_i` is the draw's expected reward and `r_i` the baseline's, both given the request and the
past. With `f_i = 1−α` (`1+α` while the baseline's mean looks negative) the *savings* are
`S_n = Σ_{i≤n} (v_i − f_i r_i)`. The promise of a task, or of the fleet, is `S_n ≥ 0` at all n. It implies
`Σ v_i ≥ Σ (r_i − α|r_i|)`, as `f r ≥ r − α|r|` for either factor.

**Theorem.** Let rewards lie in [lo, hi]. Let `k_i`, `c_i`, `f_i`, `π_i` be known before decision i is drawn
(*predictable*), and `W_i = y_i − f_i (k_i + [a_i=b](y_i − k_i)/π_i)`. Then `E[W_i | past] = v_i − f_i r_i`
whatever k_i is: k only takes noise away. For a rate η > 0 and a bet `λ_i ≤ η` with `λ_i (c_i − W_i) < 1`
always,

    E[(1 + λ_i (W_i − c_i)) · exp(λ_i c_i + (η − λ_i) m_i) | past]
      = (1 + λ_i (μ_i − c_i)) exp(λ_i c_i + (η − λ_i) m_i) ≤ exp(λ_i μ_i + (η − λ_i) m_i) ≤ exp(η μ_i),

where `μ_i = v_i − f_i r_i` and `m_i ≤ μ_i` is certain from the range alone, since `1 + x ≤ e^x`. So
`exp(C_j − η_j S_n)`, `C_j` the sum of the logarithms, is a non-negative supermartingale that starts at 1, and
so is its mean over rates with weights fixed beforehand. By Ville's inequality it stays below 1/δ for ever
with probability 1 − δ, and on that event the root `B_n` of `Σ_j w_j exp(C_j − η_j B) = 1/δ` is at most `S_n`
at *all* n at once. Sums of changing means are bounded, so requests, beliefs and probabilities may change at
any time (Mineiro 2022; betting after Waudby-Smith and Ramdas 2024).

**How the promise follows.** A draw that leaves the baseline with probability p lowers S by at most
`p (u − lo) − α|u|` if the baseline is worth at most u. A draw beyond its free share (see `draw.free_share`,
where S cannot fall) is allowed only while B, less the same for every draw whose reward has not come, pays for
it. So `S_n ≥ 0` at all n with probability 1 − δ: for each task on its own at its δ, and for the fleet at
its own. It is not a statement about all tasks at once; divide δ by their number for that.

**The rates** are fixed once, when the fleet's first rewards have shown a scale. A draw at the free share
saves `α|k|` a decision with a variance of `α σ²`, so that `η = |k|/σ²` is the rate that first shows savings;
the grid starts at four times that and halves, with weights that peak three steps below the top and keep a
tail of small rates for long runs. Evidence before that moment is thrown away, which is allowed since until
then nothing but free draws are made: S is at least 0 there. Units cancel.

**Where it departs.**
- `pending="range"` takes u = hi: the theorem as it stands. `pending="mean"` takes for u an upper bound, by the
  same betting, on the mean reward of baselines played so far. Then requests that wait are assumed to be no
  more valuable on average than those before. With rewards far below hi it opens much earlier (the benchmark
  of promises has both).
- Rewards must be given in the order of decisions, or late for reasons that have nothing to do with their
  size. If clicks arrive at once and their absence after a week, hold rewards back and give them in order.
- A reward that never comes counts as `lo` if something else than the baseline was played, and as k if it was
  the baseline: the promise then is about rewards completed in this way.
- Two brakes can only lower what may be spent, and so need no theorem. `recent` is the same evidence with a
  memory of `window` decisions; `harm` is a sequential test that recent draws fall below their floors (an
  e-detector, Shin, Ramdas and Rinaldo 2023: at most one false alarm in 1/δ decisions on average). An alarm
  wipes `recent`, so that what an old world saved cannot be spent in a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from banister.data import Float
from banister.errors import InputError, SettingError, ShapeError
from banister.safety import _betting_kernels as _k

RATES = 14  # the smallest is 2^-13 of the largest, enough for 10^7 times the decisions of the first savings
_TOP = 4.0  # largest rate over |k|/σ²
_PEAK, _WIDTH, _TAIL = 3.0, 2.0, 0.02  # weights exp(−½((j−3)/2)²) + 0.02: flat near the useful rates
_TRUST = 20.0  # a task's running mean counts the fleet's as this many of its own rewards
_SEEN = 10.0  # rewards that stand out (Kish's effective number of squared deviations) before rates are set

# Columns of `sums`: all rewards (number, Σ(y−k)², Σ(y−k)⁴); those of the baseline (number, Σy); what counted
# as evidence (number, ΣW, Σ(W−c)²); the baseline's among these (number, Σk); pending (number, Σp).
_COLUMNS = 12
(_N, _SPREAD, _SPREAD2, _PLAYS, _EARNED, _COUNTED, _SAVED, _SQUARES, _HEARD, _CENTRED, _EXPOSED, _EXPOSURE) = (
    range(_COLUMNS)
)


@dataclass(frozen=True, kw_only=True)
class BudgetSettings:
    """What does not change while a budget is kept.

    Attributes:
        alpha: the share of the baseline's reward that may be risked.
        low, high: the range of rewards.
        delta: the probability with which a row's promise may fail.
        pending: what bounds the baseline where a reward is still to come: "range" or "mean".
        window: decisions of a row that the brake remembers; None: all.
        alarm: the level of the test for recent harm; 0 turns it off.
    """

    alpha: float
    low: float
    high: float
    delta: float = 0.05
    pending: Literal["range", "mean"] = "range"
    window: float | None = None
    alarm: float = 0.01

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0 or not 0.0 < self.delta < 1.0 or not 0.0 <= self.alarm < 1.0:
            raise SettingError(
                f"alpha={self.alpha!r}, delta={self.delta!r} and alarm={self.alarm!r} must lie between 0 and 1."
            )
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise SettingError(
                f"The reward range ({self.low!r}, {self.high!r}) is not a range; give two finite numbers, "
                "the lower first."
            )
        if self.pending not in ("range", "mean"):
            raise SettingError(f"pending={self.pending!r} is not known; choose 'range' or 'mean'.")
        if self.window is not None and not self.window >= 1:
            raise SettingError(f"window={self.window!r} must be at least 1 decision, or None.")


class Budget:
    """What every task, and the fleet (the last row), has certainly saved; one reward at a time.

    Args:
        tasks: their number T; rows 0 … T−1 are tasks and row T is the fleet.
        settings: what does not change.

    Examples:
        >>> budget = Budget(1, BudgetSettings(alpha=0.1, low=0.0, high=1.0))
        >>> rng = np.random.default_rng(0)
        >>> for _ in range(2000):  # everything is worth 0.3, so S grows by 0.03 a decision
        ...     budget.update(0, rng.random() < 0.9, float(rng.random() < 0.3), 0.9)
        >>> 30.0 < budget.bound(0) < 60.0
        True
    """

    def __init__(self, tasks: int, settings: BudgetSettings) -> None:
        rows = tasks + 1
        self.settings = settings
        self.rates: Float = np.zeros(RATES)
        self.wealth: Float = np.zeros((rows, RATES))
        self.recent: Float = np.zeros((rows, RATES))
        self.harm: Float = np.zeros((rows, RATES))
        self.upper: Float = np.zeros((rows, RATES))
        self.sums: Float = np.zeros((rows, _COLUMNS))
        self.alarms: Float = np.zeros(rows)

    @property
    def fleet(self) -> int:
        """The row of the fleet."""
        return len(self.sums) - 1

    @property
    def ready(self) -> bool:
        """Whether the rates are set; until then nothing counts and only free draws may be made."""
        return bool(self.rates[0] > 0.0)

    def centre(self, row: int) -> float:
        """k: the running mean of the baseline's rewards, a task's drawn towards the fleet's."""
        return float(_centre(self.sums, row, self.settings.low))

    def expose(self, task: int, pi_b: float, free: float) -> None:
        """Note a draw whose reward is still to come; `free` is its free share."""
        _expose(self.sums, task, 1.0 - pi_b, free, 1.0)

    def update(
        self,
        task: int,
        played_baseline: bool,
        y: float,
        pi_b: float,
        *,
        control: float = np.nan,
        free: float | None = None,
    ) -> None:
        """Take in the reward of a draw.

        Args:
            task: its row.
            played_baseline: whether the baseline was drawn.
            y: the reward, inside the range.
            pi_b: the probability that the baseline had.
            control: a prediction of the baseline's reward made before the draw; NaN: the running mean.
            free: the draw's free share; None: α.
        """
        s = self.settings
        if not s.low <= y <= s.high:
            raise InputError(
                f"Reward {y!r} of task row {task} is outside the range ({s.low}, {s.high}); the promise needs a "
                "range that holds every reward. Give a wider one, or cut rewards at its ends."
            )
        if not 0.0 < pi_b <= 1.0:
            raise InputError(f"pi_b={pi_b!r}: the baseline must have had a probability in (0, 1].")
        if not 0 <= task < self.fleet:
            raise InputError(f"Task row {task} does not exist; there are {self.fleet} tasks.")
        keep = 1.0 if s.window is None else 1.0 - 1.0 / s.window
        share = s.alpha if free is None else free
        _update(
            self.rates, _LOG_WEIGHTS, self.wealth, self.recent, self.harm, self.upper, self.sums, self.alarms,
            task, played_baseline, y, pi_b, control, share, s.alpha, s.low, s.high, keep,
            -np.log(s.alarm) if s.alarm > 0 else np.inf,
        )  # fmt: skip
        if not self.ready:
            self._set_rates()

    def settle(self, task: int, pi_b: float, free: float) -> None:
        """A draw that was noted by `expose` is pending no longer."""
        _expose(self.sums, task, 1.0 - pi_b, free, -1.0)

    def expire(self, task: int, played_baseline: bool, pi_b: float, *, free: float | None = None) -> None:
        """The reward will never come: the worst for what left the baseline, the usual for the baseline."""
        y = float(np.clip(self.centre(task), self.settings.low, self.settings.high))
        self.update(task, played_baseline, y if played_baseline else self.settings.low, pi_b, free=free)

    def bound(self, row: int) -> float:
        """B: the savings of a row are at least this, at all times, with probability 1 − δ."""
        if not self.ready:
            return 0.0
        odds = -np.log(self.settings.delta)
        return float(_k.lower_bound(self.wealth[row], self.rates, _LOG_WEIGHTS, odds))

    def usable(self, row: int) -> float:
        """What may be spent: the bound, or what recent decisions show where that is less; never below 0."""
        if not self.ready:
            return 0.0
        odds = -np.log(self.settings.delta)
        recent = _k.lower_bound(self.recent[row], self.rates, _LOG_WEIGHTS, odds)
        return max(0.0, min(self.bound(row), float(recent)))

    def most(self, row: int) -> float:
        """u: what the baseline is worth at most where a reward is still to come."""
        s = self.settings
        plays = self.sums[row, _HEARD]
        if s.pending == "range" or plays == 0:
            return s.high
        odds = -np.log(s.delta)
        fall = _k.lower_bound(self.upper[row], self.rates, _LOG_WEIGHTS, odds)
        return float(min(s.high, (self.sums[row, _CENTRED] - fall) / plays))

    def pending(self, row: int) -> float:
        """What the draws that wait for their rewards may cost the row at most."""
        u, s = self.most(row), self.settings
        cost = self.sums[row, _EXPOSURE] * (u - s.low) - self.sums[row, _EXPOSED] * s.alpha * abs(u)
        return float(max(cost, 0.0))

    def cap_budget(self, row: int) -> float:
        """The largest probability off the baseline that the row's budget pays for; 0 if none."""
        u, s = self.most(row), self.settings
        left = self.usable(row) - self.pending(row)
        if left <= 0.0:
            return 0.0
        return float(min(1.0, (left + s.alpha * abs(u)) / max(u - s.low, 1e-300)))

    def cap_grow(self, row: int, holdout: float, push: float = 1.0) -> float:
        """The largest probability at which the bound is expected to keep growing, at most 1 − holdout.

        The bound is near `S − √(2 ℓ Q)`, Q the sum of squares `(W−c)²`. A draw with probability p adds the
        drift to S and `σ² v(p)`, `v(p) = p + (p−α)²/(1−p)`, to Q, so it grows while
        `σ² v(p) ≤ drift · √(2Q/ℓ)`. A comparison between 90 % and 10 % is so noisy that the budget would
        shrink while rewards rise; this holds p back until Q can bear it. It is a matter of speed, not of
        safety.
        """
        x = self.sums[row]
        if x[_COUNTED] == 0:
            return 0.0
        drift = max(x[_SAVED] / x[_COUNTED], 0.5 * self.settings.alpha * abs(self.centre(row)))
        noise = max(self.sums[self.fleet, _SPREAD] / max(self.sums[self.fleet, _N], 1.0), 1e-300)
        limit = push * drift * np.sqrt(2.0 * x[_SQUARES] / _LOG_TERM) / noise
        return float(_largest_share(limit, self.settings.alpha, 1.0 - holdout))

    def reset(self, row: int) -> None:
        """Spend nothing that was saved before now (the world has changed)."""
        self.recent[row] = 0.0
        self.harm[row] = 0.0

    def harmed(self, row: int) -> float:
        """log evidence that recent draws of the row fell below their floors."""
        return float(_k.log_mean(self.harm[row], _LOG_WEIGHTS))

    def state(self) -> dict[str, Float]:
        """Everything that changes, as arrays."""
        return {name: getattr(self, name).copy() for name in _STATE}

    @classmethod
    def from_state(cls, settings: BudgetSettings, state: dict[str, Any]) -> Self:
        """The budget that `state` came from, bit for bit."""
        budget = cls(len(state["sums"]) - 1, settings)
        for name in _STATE:
            value = np.array(state[name], dtype=np.float64)
            if value.shape != getattr(budget, name).shape:
                raise ShapeError(f"{name} of a saved budget has the shape {value.shape}; it belongs elsewhere.")
            setattr(budget, name, value)
        return budget

    def grow_to(self, tasks: int) -> None:
        """Make room for new tasks before the fleet's row."""
        extra = tasks - self.fleet
        for name in _STATE[1:]:
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old[:-1], np.zeros((extra, *old.shape[1:])), old[-1:]]))

    def _set_rates(self) -> None:
        x = self.sums[self.fleet]
        if x[_SPREAD2] <= 0.0 or x[_SPREAD] ** 2 / x[_SPREAD2] < _SEEN:
            return
        variance = x[_SPREAD] / x[_N]
        top = max(_TOP * abs(self.centre(self.fleet)) / variance, 0.5 / np.sqrt(variance))
        self.rates[:] = top * 0.5 ** np.arange(RATES)


_STATE = ("rates", "wealth", "recent", "harm", "upper", "sums", "alarms")
_LOG_TERM = 6.0  # log(1/δ) and the price of the mixture, about


def log_weights(n: int) -> Float:
    """Logarithms of the weights of n rates."""
    w = np.exp(-0.5 * ((np.arange(n) - _PEAK) / _WIDTH) ** 2) + _TAIL
    weights: Float = np.log(w / w.sum())
    return weights


_LOG_WEIGHTS = log_weights(RATES)


@_k.compiled
def _centre(sums, row, low):  # type: ignore[no-untyped-def]
    last = sums.shape[0] - 1
    fleet = low if sums[last, _PLAYS] == 0.0 else sums[last, _EARNED] / sums[last, _PLAYS]
    if row == last:
        return fleet
    return (sums[row, _EARNED] + _TRUST * fleet) / (sums[row, _PLAYS] + _TRUST)


@_k.compiled
def _expose(sums, task, p, free, sign):  # type: ignore[no-untyped-def]
    if p <= free:
        return
    for row in (task, sums.shape[0] - 1):
        sums[row, _EXPOSED] += sign
        sums[row, _EXPOSURE] += sign * p


@_k.compiled
def _update(  # type: ignore[no-untyped-def]
    rates, weights, wealth, recent, harm, upper, sums, alarms, task, played_baseline, y, pi_b, control, free,
    alpha, low, high, keep, alarm,
):  # fmt: skip
    """One reward for the task's row and for the fleet's; both use the task's k."""
    k = control if control == control else _centre(sums, task, low)
    k = min(max(k, low), high)
    factor = 1.0 - alpha if k >= 0.0 else 1.0 + alpha
    w = _k.saving(y, played_baseline, pi_b, k, factor)
    least, most = _k.range_of_saving(pi_b, k, factor, low, high)
    centre = alpha * abs(k)
    p = 1.0 - pi_b
    certain = 0.0 if p <= free else min(alpha * abs(high) - p * (high - low), 0.0)
    for row in (task, sums.shape[0] - 1):
        if rates[0] > 0.0:
            _k.bet(wealth[row], rates, w, centre, least, certain, 1.0)
            _k.bet(recent[row], rates, w, centre, least, certain, keep)
            _k.suspect(harm[row], rates, w, most)
            if played_baseline:
                _k.bet(upper[row], rates, k - y, 0.0, k - high, k - high, 1.0)
                sums[row, _HEARD] += 1.0
                sums[row, _CENTRED] += k
            if _k.log_mean(harm[row], weights) > alarm:
                alarms[row] += 1.0
                harm[row, :] = 0.0
                recent[row, :] = 0.0
            sums[row, _COUNTED] += 1.0
            sums[row, _SAVED] += w
            sums[row, _SQUARES] += (w - centre) ** 2
        e2 = (y - k) ** 2
        sums[row, _N] += 1.0
        sums[row, _SPREAD] += e2
        sums[row, _SPREAD2] += e2 * e2
        if played_baseline:
            sums[row, _PLAYS] += 1.0
            sums[row, _EARNED] += y


@_k.compiled
def _largest_share(limit, alpha, most):  # type: ignore[no-untyped-def]
    """The largest p in [α, most] with `p + (p−α)²/(1−p) ≤ limit`, α if none.

    Times 1 − p it is linear: `p(1−2α) + α² ≤ limit (1−p)`.
    """
    p = (limit - alpha * alpha) / (limit + 1.0 - 2.0 * alpha)
    return min(max(p, alpha), most)
