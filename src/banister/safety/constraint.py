"""The floor: the least an action may be expected to earn, given what the policy in place earns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from banister.data import Float
from banister.errors import SettingError


@dataclass(frozen=True)
class Constraint:
    """An action may be expected to earn no less than a share of the baseline reward.

    The paper asks for `(1−α) r_b`. For a negative `r_b` that forbids the baseline itself, so the floor here
    is `r_b − α|r_b|`; both are the same where `r_b ≥ 0`. Either floor rises with `r_b`.

    Args:
        alpha: the share of the baseline reward that may be risked, strictly between 0 and 1.
        literal: use the paper's `(1−α) r_b` whatever the sign of `r_b`.

    Examples:
        >>> Constraint(0.25).floor([4.0, -4.0])
        array([ 3., -5.])
        >>> Constraint(0.25, literal=True).floor([4.0, -4.0])
        array([ 3., -3.])
    """

    alpha: float
    literal: bool = False

    def __post_init__(self) -> None:
        if not _is_number(self.alpha) or not 0.0 < self.alpha < 1.0:
            raise SettingError(
                f"alpha={self.alpha!r} is not a share of the baseline reward that may be risked; give a "
                "number strictly between 0 and 1."
            )

    @property
    def factors(self) -> tuple[float, ...]:
        """The floor is the smallest of `factor · r_b` over these factors."""
        return (1.0 - self.alpha,) if self.literal else (1.0 - self.alpha, 1.0 + self.alpha)

    def room(self, baseline_reward: ArrayLike) -> Float:
        """How far the floor lies below each baseline reward: α|r_b|, or α r_b if `literal`."""
        reward = np.asarray(baseline_reward, dtype=float)
        return self.alpha * (reward if self.literal else np.abs(reward))

    def floor(self, baseline_reward: ArrayLike) -> Float:
        """The floor for each baseline reward; NaN where the reward is NaN.

        For a reward that is only known to lie between two bounds, the floor of the upper one is safe: the
        floor rises with the reward (the paper's last remark).
        """
        return np.asarray(baseline_reward, dtype=float) - self.room(baseline_reward)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
