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
- `pending="range"` takes u = hi: the theorem as it stands. `pending="mean"` takes for u an upper bound, by
  the same betting, on the mean reward of baselines played so far. Then requests that wait are assumed to be
  no more valuable on average than those before. With rewards far below hi it opens much earlier (the
  benchmark of promises has both).
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

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.errors import InputError, SettingError, ShapeError
from banister.safety import _budget_kernels as _b
from banister.safety._betting_kernels import log_mean, lower_bound, lower_bounds
from banister.safety._budget_kernels import LOG_WEIGHTS, RATES

PUSH = 1.0  # see `Budget.cap_grow`
_LOG_TERM = 6.0  # ℓ: log(1/δ) and the price of the mixture, about


@dataclass(frozen=True, kw_only=True)
class BudgetSettings:
    """What does not change while a budget is kept.

    Attributes:
        alpha: the share of the baseline's reward that may be risked.
        low, high: the range of rewards.
        delta: the probability with which a row's promise may fail.
        pending: what bounds the baseline where a reward is still to come: "range" or "mean".
        window: decisions of a row that the brake remembers; None: all.
        alarm: the level of the test for recent harm, at most so many false alarms a decision of a row; 0
            turns it off.
    """

    alpha: float
    low: float
    high: float
    delta: float = 0.05
    pending: Literal["range", "mean"] = "range"
    window: float | None = None
    alarm: float = 1e-3  # at 0.01 a fleet that stood still lost savings, at 1e-5 a flip cost twice as much

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0 or not 0.0 < self.delta < 1.0 or not 0.0 <= self.alarm < 1.0:
            raise SettingError(
                f"alpha={self.alpha!r}, delta={self.delta!r}, alarm={self.alarm!r} must lie between 0 and 1."
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

    Attributes:
        rates: (J,) the bets' rates, 0 until they are set.
        wealth, recent, harm, upper: (T + 1, J) logarithms; see the module.
        sums: (T + 1, 12) what else is counted; see `_budget_kernels`.
        alarms: (T + 1,) how often recent harm was found.

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
        self.sums: Float = np.zeros((rows, _b.COLUMNS))
        self.alarms: Float = np.zeros(rows)
        self._odds = -math.log(settings.delta)
        self._one = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=bool), np.zeros((4, 1))

    @property
    def fleet(self) -> int:
        """The row of the fleet."""
        return len(self.sums) - 1

    @property
    def exposure(self) -> Float:
        """(T + 1, 2) draws beyond their free shares that wait for rewards: their number, and Σp."""
        return self.sums[:, _b.EXPOSED : _b.EXPOSURE + 1]

    @property
    def ready(self) -> bool:
        """Whether the rates are set; until then nothing counts and only free draws may be made."""
        return bool(self.rates[0] > 0.0)

    def centre(self, row: int) -> float:
        """k: the running mean of the baseline's rewards, a task's drawn towards the fleet's."""
        return float(_b.centre(self.sums, row, self.settings.low))

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
        s, (tasks, plays, numbers) = self.settings, self._one
        if not (0 <= task < self.fleet and s.low <= y <= s.high and 0.0 < pi_b <= 1.0):
            self._check(np.array([task]), np.array([y]), np.array([pi_b]))
        tasks[0], plays[0] = task, played_baseline
        numbers[:, 0] = y, pi_b, control, s.alpha if free is None else free
        self._add(tasks, plays, *numbers)

    def update_many(
        self, task: Int, played_baseline: Bool, y: Float, pi_b: Float, control: Float, free: Float
    ) -> None:
        """`update` for rewards (m,) in the order of their decisions."""
        self._check(task, y, pi_b)
        self._add(task, played_baseline, y, pi_b, control, free)

    def _add(
        self, task: Int, played_baseline: Bool, y: Float, pi_b: Float, control: Float, free: Float
    ) -> None:
        s = self.settings
        keep = 1.0 if s.window is None else 1.0 - 1.0 / s.window
        alarm = -math.log(s.alarm) if s.alarm > 0.0 else math.inf
        _b.update(
            self.rates, LOG_WEIGHTS, self.wealth, self.recent, self.harm, self.upper, self.sums, self.alarms,
            task, played_baseline, y, pi_b, control, free, s.alpha, s.low, s.high, keep, alarm,
        )  # fmt: skip

    def expose(self, task: int, pi_b: float, free: float) -> None:
        """Note a draw whose reward is still to come; `free` is its free share."""
        _b.expose(self.sums, task, 1.0 - pi_b, free, 1.0)

    def settle(self, task: int, pi_b: float, free: float) -> None:
        """A draw that was noted by `expose` waits no longer: its reward came, or never will."""
        _b.expose(self.sums, task, 1.0 - pi_b, free, -1.0)

    def bound(self, row: int) -> float:
        """B: the savings of a row are at least this, at all times, with probability 1 − δ."""
        return self._low(self.wealth[row]) if self.ready else 0.0

    def bounds(self) -> Float:
        """`bound` of every row."""
        out = np.zeros(len(self.sums))
        if self.ready:
            lower_bounds(self.wealth, self.rates, LOG_WEIGHTS, self._odds, out)
        return out

    def usable(self, row: int) -> float:
        """What may be spent: the bound, or what recent decisions show where that is less; never below 0."""
        return max(0.0, min(self.bound(row), self._low(self.recent[row]))) if self.ready else 0.0

    def most(self, row: int) -> float:
        """u: what the baseline is worth at most where a reward is still to come."""
        s, plays = self.settings, self.sums[row, _b.HEARD]
        if s.pending == "range" or plays == 0:
            return s.high
        return float(min(s.high, (self.sums[row, _b.CENTRED] - self._low(self.upper[row])) / plays))

    def cap_budget(self, row: int) -> float:
        """The largest probability off the baseline that the row's budget pays for; 0 if none."""
        s, x, u = self.settings, self.sums[row], self.most(row)
        left = self.usable(row) - _b.cost(x[_b.EXPOSED], x[_b.EXPOSURE], u, s.alpha, s.low)
        return float(_b.affordable(left, u, s.alpha, s.low))

    def cap_grow(self, row: int, holdout: float, push: float = PUSH) -> float:
        """The largest probability at which the bound is expected to keep growing, at most 1 − holdout.

        The bound is near `S − √(2 ℓ Q)`, Q the sum of squares `(W−c)²`. A draw with probability p adds the
        drift to S and `σ² v(p)`, `v(p) = p + (p−α)²/(1−p)`, to Q, so the bound grows while
        `σ² v(p) ≤ drift · √(2Q/ℓ)`; the drift is the mean W so far, `push` multiplies it. A comparison
        between 90 % and 10 % is so noisy that the budget would shrink while rewards rise; this holds p back
        until Q can bear it. It is a matter of speed, not of safety.
        """
        x, fleet = self.sums[row], self.sums[self.fleet]
        if x[_b.COUNTED] == 0:
            return 0.0
        drift = max(x[_b.SAVED] / x[_b.COUNTED], 0.5 * self.settings.alpha * abs(self.centre(row)))
        noise = max(fleet[_b.SPREAD] / fleet[_b.N], 1e-300)
        limit = push * drift * np.sqrt(2.0 * x[_b.SQUARES] / _LOG_TERM) / noise
        return float(_b.largest_share(limit, self.settings.alpha, 1.0 - holdout))

    def reset(self, row: int) -> None:
        """Spend nothing that was saved before now (the world has changed)."""
        self.recent[row] = 0.0
        self.harm[row] = 0.0

    def harmed(self, row: int) -> float:
        """Logarithm of the evidence that recent draws of the row fell below their floors."""
        return float(log_mean(self.harm[row], LOG_WEIGHTS))

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
                raise ShapeError(
                    f"{name} of a saved budget has shape {value.shape}, not {getattr(budget, name).shape}; "
                    "its arrays come from different budgets."
                )
            setattr(budget, name, value)
        return budget

    def grow_to(self, tasks: int) -> None:
        """Make room for new tasks, before the fleet's row."""
        for name in _STATE[1:]:
            old = getattr(self, name)
            new = np.zeros((tasks - self.fleet, *old.shape[1:]))
            setattr(self, f"_{name}", np.concatenate([old[:-1], new, old[-1:]]))
        for name in _STATE[1:]:
            setattr(self, name, self.__dict__.pop(f"_{name}"))

    def _low(self, log_wealth: Float) -> float:
        return float(lower_bound(log_wealth, self.rates, LOG_WEIGHTS, self._odds))

    def _check(self, task: Int, y: Float, pi_b: Float) -> None:
        s = self.settings
        bad = np.flatnonzero(~((y >= s.low) & (y <= s.high)))
        if len(bad):
            raise InputError(
                f"Reward {y[bad[0]]} at place {bad[0]} is outside the range ({s.low}, {s.high}), which must "
                "hold every reward for the promise to mean anything; give a wider one, or cut rewards to it."
            )
        if not np.all((pi_b > 0.0) & (pi_b <= 1.0)):
            raise InputError(
                "The baseline's probability must lie in (0, 1] in every draw whose reward counts."
            )
        if not np.all((task >= 0) & (task < self.fleet)):
            raise InputError(f"Task rows go from 0 to {self.fleet - 1}; {task.tolist()[:5]} do not all.")


_STATE = ("rates", "wealth", "recent", "harm", "upper", "sums", "alarms")
