"""Where a sum is asked for: every call carries it, so that a worker that was lost needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.data import Float


@dataclass(frozen=True, eq=False)
class Point:
    """The place of `f(B) = Σ_t ω_t min_w (‖y_t − X_t B w‖² + ridge ‖w‖²)` that a call is about.

    Attributes:
        B: (d, r), in the data's coordinates.
        ridge: on the coefficients w.
        weights: ω, one for each task of the pool, or None for ones.
    """

    B: Float
    ridge: float = 0.0
    weights: Float | None = None

    def same(self, other: Point | None) -> bool:
        """Whether workspaces filled at `other` serve here too; weights come in only as sums are made."""
        if other is self or other is None:
            return other is self
        return self.ridge == other.ridge and np.array_equal(self.B, other.B)
