"""Promises: what is guaranteed, on which assumptions, at which confidence; and the terms of draws."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from banister.errors import InputError, SettingError
from banister.safety.betting import BudgetSettings
from banister.safety.draw import LEAVE, SEARCH, free_share

ON_HARM = ("free", "stop")
_LEAST_HOLDOUT = 0.01  # a comparison with less of the baseline is a hundred times noisier than an even one


class Promise(StrEnum):
    """What a bandit guarantees."""

    DECISION = "decision"
    TASK = "task"
    FLEET = "fleet"

    @property
    def paid_from_savings(self) -> bool:
        """Whether it is kept by evidence about totals, without a model."""
        return self is not Promise.DECISION

    @property
    def usual_holdout(self) -> float:
        """The baseline's share if none is asked for.

        The fleet's many rewards bear a smaller one: 0.05 captures 0.04 to 0.06 more than 0.1, a task's 0.00.
        """
        return {Promise.DECISION: 0.0, Promise.TASK: 0.1, Promise.FLEET: 0.05}[self]

    @property
    def search(self) -> float:
        """How widely the committee is asked where to go instead of the baseline.

        A task on its own has few rewards, and asked narrowly stays with the first action that looked well:
        real ratings captured .66 with 0.2 and .74 with 0.5 (two seeds). The fleet's cap on single
        decisions holds a wide draw back: with 0.5 items captured .25 instead of .37 in the first 16,000
        decisions (one seed).
        """
        return SEARCH if self is Promise.TASK else LEAVE


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What draws must keep to.

    Attributes:
        promise: what is guaranteed.
        alpha: the share of the baseline's reward that may be risked.
        confidence: with which it is guaranteed.
        reward_range: (lo, hi), which holds every reward; None if there is no such range.
        holdout: the baseline's share of draws that never vanishes.
        seed: of the store; committees and draws follow from it.
        on_harm: what a task falls back to where its draws fell short: "free", what the range alone makes
            safe; or "stop", the baseline until the next model serves.
        expire_after: seconds after which a missing reward counts as the worst one; None: it waits for ever.
    """

    promise: Promise
    alpha: float
    confidence: float
    reward_range: tuple[float, float] | None
    holdout: float
    seed: int
    on_harm: Literal["free", "stop"] = "free"
    expire_after: float | None = None

    def __post_init__(self) -> None:
        if self.reward_range is not None:
            check_range(self.reward_range)
        if self.on_harm not in ON_HARM:
            raise SettingError(f"on_harm={self.on_harm!r} must be 'free' or 'stop'.")
        if not 0.0 <= self.holdout < 1.0:
            raise SettingError(f"holdout={self.holdout!r} must be a share, at least 0 and below 1.")
        if self.promise.paid_from_savings and self.reward_range is None:
            raise SettingError(
                f"promise={self.promise.value!r} needs reward_range=(lowest, highest): what a task has saved "
                "is measured from rewards, and a reward without bounds could undo it at one stroke."
            )
        if self.promise.paid_from_savings and self.holdout < _LEAST_HOLDOUT:
            raise SettingError(
                f"holdout={self.holdout!r} must be at least {_LEAST_HOLDOUT} with promise="
                f"{self.promise.value!r}: without plays of the baseline nothing can be compared with it."
            )

    @property
    def free(self) -> float:
        """The probability off the baseline that the range of rewards alone makes safe; 0 without a range."""
        if self.reward_range is None:
            return 0.0
        return free_share(self.alpha, self.reward_range[0], r_b_high=self.reward_range[1])

    @property
    def measured(self) -> bool:
        """Whether every draw leaves a trace from which the uplift can be measured."""
        return self.reward_range is not None and self.holdout > 0.0

    @property
    def counted(self) -> bool:
        """Whether an account is kept of draws and their rewards."""
        return self.promise.paid_from_savings or self.measured

    def budget(self) -> BudgetSettings:
        """How savings are counted; the fleet's use the mean of baselines for those that wait."""
        assert self.reward_range is not None
        low, high = self.reward_range
        return BudgetSettings(
            alpha=self.alpha, low=low, high=high, delta=1.0 - self.confidence,
            pending="mean" if self.promise is Promise.FLEET else "range",
        )  # fmt: skip

    def sentence(self) -> str:
        """The promise in one plain sentence."""
        share, sure = f"{1.0 - self.alpha:.0%}", f"{self.confidence:.0%}"
        if self.promise is Promise.DECISION:
            return (
                f"With {sure} confidence over all decisions together, and if rewards are linear in the "
                f"features, every decision is expected to earn at least {share} of what the baseline would."
            )
        whose, more = "each task", ""
        if self.promise is Promise.FLEET:
            whose = "the fleet of all tasks together"
            more = ", and if requests that wait for rewards are worth no more on average than those before"
        return (
            f"With {sure} confidence, at all times and without any model, {whose} is expected to have earned "
            f"in total at least {share} of what the baseline would have, if rewards stay in "
            f"{self.reward_range} and come late for reasons other than their size{more}."
        )


def check_reward(value: float, bounds: tuple[float, float] | None, where: str = "") -> None:
    """An error if a reward is outside the range that every promise of draws rests on."""
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        raise InputError(
            f"{where}reward={value!r} is outside reward_range={bounds}, which holds every reward; cut it "
            "to the range, or start with a wider one."
        )


def check_range(given: Any) -> tuple[float, float]:
    """Two finite numbers, the lower first."""
    try:
        low, high = (float(v) for v in given)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if isinstance(given, str) or not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise SettingError(
            f"reward_range={given!r} must be two finite numbers, the lowest and the highest reward there is."
        )
    return low, high
