"""The frame: units in which a belief is held, so that scales of features and rewards never matter.

Every column is divided by its root mean square over what was *offered*, rewards by theirs over what was
earned, and an intercept is added unless a feature is constant already. A belief lives in these coordinates
from its fit to its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.data import Float

_CONSTANT = 1e-10  # of a column's largest size: a smaller range is rounding, not variation
_NEGLIGIBLE = 1e-13  # of the largest column's: in no unit is a feature this much smaller than another real


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates of a belief.

    Attributes:
        scale: (d,) what each feature is divided by.
        intercept: whether a column of ones follows the features.
        reward: what rewards are divided by.
    """

    scale: Float
    intercept: bool
    reward: float = 1.0

    @classmethod
    def of(cls, offered: Float, played: Float, rewards: Float) -> Frame:
        """The frame of actions offered (n, d), actions played (m, d) and their rewards (m,).

        Examples:
            >>> frame = Frame.of(np.array([[3.0, 1e6], [-3.0, 2e6]]), np.zeros((0, 2)), np.array([2.0]))
            >>> frame.scale[0], frame.intercept, frame.reward
            (np.float64(3.0), True, 2.0)
        """
        both = np.concatenate([offered, played])
        scale = _rms(offered) if len(offered) else _rms(played)
        scale = np.where(scale > 0, scale, _rms(both))
        scale[scale <= _NEGLIGIBLE * scale.max(initial=0.0)] = 1.0
        size = np.abs(both).max(axis=0, initial=0.0)
        constant = (np.ptp(both, axis=0) <= _CONSTANT * size) & (size > 0) if len(both) else np.zeros(0, bool)
        reward = float(_rms(rewards[:, None])[0])
        return cls(scale, not bool(constant.any()), reward if reward > 0 else 1.0)

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
        Z = np.empty((*X.shape[:-1], self.dim))
        np.divide(X, self.scale, out=Z[..., : len(self.scale)])
        if self.intercept:
            Z[..., -1] = 1.0
        return Z


def _rms(X: Float) -> Float:
    """The root mean square of each column, without overflow."""
    size = np.abs(X).max(axis=0, initial=0.0)
    safe = np.where(size > 0, size, 1.0)
    squares = np.mean((X / safe) ** 2, axis=0) if len(X) else np.zeros(X.shape[1])
    rms: Float = size * np.sqrt(squares)
    return rms
