"""Uplift over the baseline from probabilities alone, with intervals valid whenever one looks.

A draw gave the baseline the probability `π_b > 0`. With any numbers known before the draw, `k` for the
baseline, `m` for what was drawn and `m̄ = Σ_a π_a m_a`,

    Z = [m̄ + (y − m_a)] − [k + [a=b](y − k)/π_b]

has the mean `v − r_b`: what the draw is worth more than the baseline. With `m = k` constant it is
`y − k − [a=b](y−k)/π_b`; with a belief's predictions it is doubly robust: wrong predictions cost width, never
truth. The difference of the mean rewards of the two groups is no substitute. A policy leaves the baseline
more often where it is weak, so the groups differ in who asks; the naive difference can have the wrong sign.

The interval bounds the *sum* of means so far, divided by their number, from both sides by the mixture of
bets of `betting` with x = ±Z and δ/2 each. It holds at all times at once, for changing policies and worlds
(Mineiro 2022; for off-policy bets Karampatziakis, Mineiro and Ramdas 2021). Its width is never 0: it starts
at `log(2/δ)/η` of the largest rate and shrinks as evidence comes.

The rates are fixed relative to the range, from 8/(hi − lo) down by halves, all weighted alike: the scale of a
log is not known beforehand, and nothing of it is thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.errors import InputError, SettingError, ShapeError
from banister.safety._betting_kernels import bet, lower_bound, lower_bounds, running_mean
from banister.solver.kernels import exact as compiled

_RATES = 22  # from 8/range to 4e-6/range: 10^10 rows with a spread of the whole range
_TOP = 8.0
_LOG_WEIGHTS = np.full(_RATES, -np.log(_RATES))
_ROWS, _SUM, _PLAYS, _EARNED = range(4)  # columns of `sums`: all rewards, and the baseline's
_STATE = ("below", "above", "sums")


@dataclass(frozen=True)
class Interval:
    """Mean uplift a decision: an estimate, and bounds that hold at all times with the stated confidence."""

    value: float
    low: float
    high: float
    rows: float


class Uplift:
    """Uplift of every task and of the fleet (the last row), O(1) a reward.

    Args:
        tasks: their number; row T is the fleet.
        low, high: the range of rewards.
        confidence: of each interval, at all times.

    Examples:
        >>> uplift, rng = Uplift(1, low=0.0, high=1.0), np.random.default_rng(0)
        >>> for _ in range(4000):  # the baseline earns 0.2, the rest 0.4; left half of the time: uplift 0.1
        ...     base = rng.random() < 0.5
        ...     uplift.update(0, base, float(rng.random() < (0.2 if base else 0.4)), 0.5, k=0.2)
        >>> seen = uplift.interval(0)
        >>> seen.low < 0.1 < seen.high and seen.low > 0
        True
    """

    def __init__(self, tasks: int, *, low: float, high: float, confidence: float = 0.95) -> None:
        if not (np.isfinite(low) and np.isfinite(high) and low < high and 0.0 < confidence < 1.0):
            raise SettingError(
                f"({low!r}, {high!r}) must be a finite range, the lower end first, and "
                f"confidence={confidence!r} lie between 0 and 1."
            )
        self.low, self.high, self.confidence = low, high, confidence
        self.rates: Float = _TOP / (high - low) * 0.5 ** np.arange(_RATES)
        self.below: Float = np.zeros((tasks + 1, _RATES))
        self.above: Float = np.zeros((tasks + 1, _RATES))
        self.sums: Float = np.zeros((tasks + 1, 4))
        self._one = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=bool), np.zeros((5, 1))

    @property
    def fleet(self) -> int:
        """The row of the fleet."""
        return len(self.sums) - 1

    def grow_to(self, tasks: int) -> None:
        """Make room for new tasks, before the fleet's row."""
        for name in _STATE:
            old = getattr(self, name)
            new = np.zeros((tasks - len(old) + 1, *old.shape[1:]))
            setattr(self, name, np.concatenate([old[:-1], new, old[-1:]]))

    def centre(self, task: int) -> float:
        """The mean reward of a task's baseline so far, drawn towards the fleet's."""
        own, fleet = self.sums[task], self.sums[self.fleet]
        return float(running_mean(own[_PLAYS], own[_EARNED], fleet[_PLAYS], fleet[_EARNED], self.low))

    def update(
        self,
        task: int,
        played_baseline: bool,
        y: float,
        pi_b: float,
        *,
        k: float,
        drawn: float | None = None,
        mean: float | None = None,
    ) -> None:
        """Take in one reward.

        Args:
            task: its row; played_baseline, y, pi_b: what was drawn, its reward, the baseline's probability.
            k: a guess of the baseline's reward, made before the draw.
            drawn, mean: guesses m_a of what was drawn (k where that was the baseline) and `m̄` of the whole
                draw, both or neither; without them both are k.
        """
        if (drawn is None) != (mean is None):
            raise InputError("Give guesses for both what was drawn and the mean of the draw, or for neither.")
        tasks, plays, numbers = self._one
        tasks[0], plays[0] = task, played_baseline
        numbers[:, 0] = y, pi_b, k, np.nan if drawn is None else drawn, k if mean is None else mean
        if not (self.low <= y <= self.high and 0.0 < pi_b <= 1.0):
            self._check(numbers[0], numbers[1])
        numbers[2:] = np.minimum(np.maximum(numbers[2:], self.low), self.high)
        self._add(tasks, plays, numbers)

    def update_many(
        self, task: Int, played_baseline: Bool, y: Float, pi_b: Float, k: Float, drawn: Float, mean: Float
    ) -> None:
        """`update` for rewards (m,) in the order of decisions; `drawn` is NaN where there is no guess."""
        self._check(y, pi_b)
        guesses = [np.clip(g, self.low, self.high) for g in (k, drawn, mean)]
        self._add(task, played_baseline, (y, pi_b, *guesses))

    def _add(self, task: Int, played_baseline: Bool, numbers: Sequence[Float] | Float) -> None:
        ends = self.low, self.high
        _update(self.rates, self.below, self.above, self.sums, task, played_baseline, *numbers, *ends)

    def _check(self, y: Float, pi_b: Float) -> None:
        if not (np.all((y >= self.low) & (y <= self.high)) and np.all((pi_b > 0.0) & (pi_b <= 1.0))):
            raise InputError(
                f"Rewards must lie in the range ({self.low}, {self.high}) and the baseline's probabilities "
                "in (0, 1]; without both there is no interval."
            )

    def interval(self, row: int) -> Interval:
        """Mean uplift of a row so far."""
        n, total = self.sums[row, :_PLAYS]
        if n == 0:
            return Interval(float("nan"), self.low - self.high, self.high - self.low, 0.0)
        odds = np.log(2.0 / (1.0 - self.confidence))
        low = lower_bound(self.below[row], self.rates, _LOG_WEIGHTS, odds) / n
        high = -lower_bound(self.above[row], self.rates, _LOG_WEIGHTS, odds) / n
        return Interval(float(total / n), float(low), float(high), float(n))

    def intervals(self) -> tuple[Float, Float]:
        """Lower and upper ends of `interval` for every row that has a reward."""
        n = np.maximum(self.sums[:, _ROWS], 1.0)
        odds = np.log(2.0 / (1.0 - self.confidence))
        ends = np.empty((2, len(n)))
        lower_bounds(self.below, self.rates, _LOG_WEIGHTS, odds, ends[0])
        lower_bounds(self.above, self.rates, _LOG_WEIGHTS, odds, ends[1])
        return ends[0] / n, -ends[1] / n

    def state(self) -> dict[str, Float]:
        """Everything that changes, as arrays."""
        return {name: getattr(self, name).copy() for name in _STATE}

    def restore(self, state: dict[str, Any]) -> Self:
        """Take over a state, bit for bit."""
        for name in _STATE:
            value = np.array(state[name], dtype=np.float64)
            if value.shape != getattr(self, name).shape:
                raise ShapeError(f"{name} has the shape {value.shape}, not {getattr(self, name).shape}.")
            setattr(self, name, value)
        return self


@compiled
def _update(  # type: ignore[no-untyped-def]
    rates, below, above, sums, task, played_baseline, y, pi_b, k, drawn, mean, low, high
):
    for i in range(task.shape[0]):
        plain = np.isnan(drawn[i])
        m_bar = k[i] if plain else mean[i]
        m_a = k[i] if plain or played_baseline[i] else drawn[i]
        z = contrast(y[i], played_baseline[i], pi_b[i], k[i], m_a, m_bar)
        least, most = _range(pi_b[i], k[i], m_bar, low, high, plain)
        certain = -(1.0 - pi_b[i]) * (high - low)  # leaving with probability p cannot change more than this
        for row in (task[i], sums.shape[0] - 1):
            bet(below[row], rates, z, 0.0, least, certain, 1.0)
            bet(above[row], rates, -z, 0.0, -most, certain, 1.0)
            sums[row, _ROWS] += 1.0
            sums[row, _SUM] += z
            if played_baseline[i]:
                sums[row, _PLAYS] += 1.0
                sums[row, _EARNED] += y[i]


@compiled
def contrast(y, played_baseline, pi_b, k, drawn, mean):  # type: ignore[no-untyped-def]
    """Z of the module."""
    return mean + y - drawn - k - ((y - k) / pi_b if played_baseline else 0.0)


@compiled
def _range(pi_b, k, mean, low, high, plain):  # type: ignore[no-untyped-def]
    """Least and greatest Z; the baseline's own guess is k, other guesses (none if plain) lie in the range."""
    at_low = contrast(low, True, pi_b, k, k, mean)
    at_high = contrast(high, True, pi_b, k, k, mean)
    least, most = min(at_low, at_high), max(at_low, at_high)
    if pi_b < 1.0 and plain:
        least, most = min(least, low - k), max(most, high - k)
    elif pi_b < 1.0:
        least, most = min(least, mean + low - high - k), max(most, mean + high - low - k)
    return least, most
