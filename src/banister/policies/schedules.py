"""When an epoch ends and the model is estimated again.

A schedule answers one question: after `done` (rounds, or rows: any count), at which count does the next epoch
end? A policy with its own schedule asks for `schedule.next(done) - seen` rounds at once and refits when the
count is reached; `lengths` turns a schedule into the fixed epochs of a trial.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from banister.errors import SettingError


class Schedule(Protocol):
    """The ends of epochs, as counts of rounds."""

    def next(self, done: int) -> int:
        """The end of the epoch that begins when `done` rounds are behind us; more than `done`."""


@dataclass(frozen=True)
class PaperSchedule:
    """Algorithm 1, line 1: `M = ⌈log2 log2 N⌉`, epoch m ends at `G_m = N^{1−2^{−m}}`, the last at N.

    Fractions are rounded down, and an epoch that would be empty is left out (only for N < 4). After the
    horizon every N rounds are an epoch.

    Examples:
        >>> lengths(PaperSchedule(200), 200)
        [14, 39, 147]
    """

    horizon: int

    def __post_init__(self) -> None:
        _check_count("horizon", self.horizon)

    @property
    def ends(self) -> list[int]:
        """`G_1, ..., G_M`."""
        n = self.horizon
        epochs = math.ceil(math.log2(math.log2(n))) if n > 2 else 1
        return [*(math.floor(n ** (1.0 - 2.0**-m)) for m in range(1, epochs)), n]

    def next(self, done: int) -> int:
        """See `Schedule.next`."""
        later = (end for end in self.ends if end > done)
        return next(later, (done // self.horizon + 1) * self.horizon)


@dataclass(frozen=True)
class EqualSchedule:
    """Every epoch has the same number of rounds; the paper's experiments use 50.

    Examples:
        >>> lengths(EqualSchedule(50), 200)
        [50, 50, 50, 50]
    """

    rounds: int = 50

    def __post_init__(self) -> None:
        _check_count("rounds", self.rounds)

    def next(self, done: int) -> int:
        """See `Schedule.next`."""
        return (done // self.rounds + 1) * self.rounds


@dataclass(frozen=True)
class DoublingSchedule:
    """Each epoch is twice as long as the one before; needs no horizon.

    Examples:
        >>> lengths(DoublingSchedule(25), 200)
        [25, 50, 100, 25]
    """

    first: int = 25

    def __post_init__(self) -> None:
        _check_count("first", self.first)

    def next(self, done: int) -> int:
        """See `Schedule.next`: epoch k ends at `first · (2^k − 1)`."""
        k = (done // self.first + 1).bit_length()
        return self.first * ((1 << k) - 1)


@dataclass(frozen=True)
class GrowthSchedule:
    """Refit whenever the data have grown by a share since the last fit: the certified policy's own schedule.

    A fit takes milliseconds and nearly all regret is paid before the first certified action, so the first
    tries come after a handful of rounds.

    Args:
        first: rounds before the first fit.
        share: growth since the last fit that calls for another.

    Examples:
        >>> schedule, done = GrowthSchedule(first=4, share=0.5), [0]
        >>> for _ in range(6):
        ...     done.append(schedule.next(done[-1]))
        >>> done
        [0, 4, 6, 9, 14, 21, 32]
    """

    first: int = 5
    share: float = 0.5

    def __post_init__(self) -> None:
        _check_count("first", self.first)
        if not 0.0 < self.share < math.inf:
            raise SettingError(f"share={self.share!r} must be a positive share of growth, such as 0.5.")

    def next(self, done: int) -> int:
        """See `Schedule.next`; here `done` is the count at the last fit, 0 before the first."""
        return max(self.first, done + 1, math.ceil(done * (1.0 + self.share)))


def lengths(schedule: Schedule, horizon: int) -> list[int]:
    """The lengths of a schedule's epochs over a horizon; the last one is cut short at the horizon."""
    _check_count("horizon", horizon)
    ends = [0]
    while ends[-1] < horizon:
        ends.append(min(schedule.next(ends[-1]), horizon))
    return [later - earlier for earlier, later in pairwise(ends)]


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise SettingError(f"{name}={value!r} must be a whole number of rounds, at least 1.")
