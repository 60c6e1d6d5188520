"""The frame: units in which a belief is held, so that scales of features and rewards never matter.

Every column is divided by its root mean square over what was *offered*, rewards by theirs over what was
earned, and an intercept is added unless a feature is constant already. A column that hardly varies around a
large mean is centred first, or its effect would be taken to be as small as its variation beside its mean. A
belief lives in these coordinates from its fit to its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from banister.data import Float

_CONSTANT = 1e-10  # of a column's largest size: a smaller range is rounding, not variation
_OFFSET = 3.0  # standard deviations: a column whose mean is further from 0 is centred; 0/1 columns are not
_NEGLIGIBLE = 1e-13  # of the largest column's: in no unit is a feature this much smaller than another real


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of a belief.

    Attributes:
        scale: (d,) what each feature is divided by, after `shift` (d,) was taken from it.
        intercept: whether a column of ones follows the features.
        reward: what rewards are divided by.
    """

    scale: Float
    intercept: bool
    reward: float = 1.0
    shift: Float = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        if len(self.shift) == 0:
            object.__setattr__(self, "shift", np.zeros(len(self.scale)))

    @classmethod
    def of(cls, offered: Float, played: Float, rewards: Float) -> Frame:
        """The frame of actions offered (n, d), actions played (m, d) and their rewards (m,).

        Examples:
            >>> frame = Frame.of(np.array([[3.0, 1e6], [-3.0, 2e6]]), np.zeros((0, 2)), np.array([2.0]))
            >>> frame.scale[0], frame.intercept, frame.reward
            (np.float64(3.0), True, 2.0)
        """
        shown = offered if len(offered) else played
        shift = _offsets(shown)
        scale = _rms(shown - shift)
        flat = scale == 0.0
        if flat.any():
            scale[flat] = _rms(np.concatenate([offered[:, flat], played[:, flat]]) - shift[flat])
        scale[scale <= _NEGLIGIBLE * scale.max(initial=0.0)] = 1.0
        low, high = _range(offered, played)
        size = np.maximum(np.abs(low), np.abs(high))
        constant = (high - low <= _CONSTANT * size) & (size > 0)
        reward = float(_rms(rewards[:, None])[0])
        return cls(scale, not bool(constant.any()), reward if reward > 0 else 1.0, shift)

    @property
    def dim(self) -> int:
        """The number of coordinates."""
        return len(self.scale) + self.intercept

    @property
    def units(self) -> Float:
        """(p,) what a coefficient of one is worth in the users' units: rewards per unit of the feature."""
        return self.reward / np.concatenate([self.scale, np.ones(int(self.intercept))])

    def rows(self, X: Float) -> Float:
        """Features (..., d) in these coordinates, (..., p)."""
        return self.combinations(X, 1.0)

    def combinations(self, X: Float, weight: float) -> Float:
        """Sums of features (..., d) whose weights add up to `weight`: 1 for actions, 0 for differences."""
        Z = np.empty((*X.shape[:-1], self.dim))
        np.divide(X - weight * self.shift, self.scale, out=Z[..., : len(self.scale)])
        if self.intercept:
            Z[..., -1] = weight
        return Z


def _offsets(X: Float) -> Float:
    """The mean of each column that hardly varies around it, else 0; constant columns are levels and stay."""
    if len(X) == 0:
        return np.zeros(X.shape[1])
    size = np.abs(X).max(axis=0)
    safe = np.where(size > 0, size, 1.0)
    scaled = X / safe
    mean, spread = scaled.mean(axis=0), scaled.std(axis=0)
    varies = np.ptp(scaled, axis=0) > _CONSTANT
    offsets: Float = np.where(varies & (np.abs(mean) > _OFFSET * spread), mean * safe, 0.0)
    return offsets


def _range(*parts: Float) -> tuple[Float, Float]:
    """The least and the largest value of each column in all parts together; 0 where there are no rows."""
    some = [X for X in parts if len(X)]
    if not some:
        return np.zeros(parts[0].shape[1]), np.zeros(parts[0].shape[1])
    return np.min([X.min(axis=0) for X in some], axis=0), np.max([X.max(axis=0) for X in some], axis=0)


def _rms(X: Float) -> Float:
    """The root mean square of each column, without overflow."""
    size = np.abs(X).max(axis=0, initial=0.0)
    safe = np.where(size > 0, size, 1.0)
    squares = np.mean((X / safe) ** 2, axis=0) if len(X) else np.zeros(X.shape[1])
    rms: Float = size * np.sqrt(squares)
    return rms
