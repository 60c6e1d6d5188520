"""Coordinates in which the pooled second moment of the features is the identity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from banister.data import Float, TaskData
from banister.solver.local import as_pool
from banister.solver.pool import Pool

_RIDGE = 1e-6  # of the mean variance: serves directions that the data hardly have; 1e-4 was too much
_SEEN = 10.0  # times the ridge: the designs measured have 77 and more, or 0.2 and less


@dataclass(frozen=True)
class Whitening:
    """`A` with A'CA ≈ I for the pooled second moment C = X'X/N; `inverse` undoes it."""

    A: Float
    inverse: Float

    @property
    def complete(self) -> bool:
        """Whether every direction was whitened, none being lost in the ridge.

        In a direction that the ridge drowned residuals are made small, so that what they hold there does not
        show. `1/‖A‖²` is at most the least variance, and at least a d-th of it.
        """
        level = float(np.sum(self.inverse**2)) / len(self.A)
        return bool(_SEEN * _RIDGE * level * float(np.sum(self.A**2)) <= 1.0)

    @classmethod
    def of(cls, data: TaskData | Pool) -> Whitening:
        """Whiten by (a sample of) the rows."""
        pool = as_pool(data)
        stride = max(1, pool.n_rows // max(100 * pool.dim, 20_000))
        C = pool.second_moment(stride)
        level = max(float(np.trace(C)) / pool.dim, np.finfo(float).tiny)
        upper = cholesky(C + _RIDGE * level * np.eye(pool.dim), check_finite=False)
        return cls(solve_triangular(upper, np.eye(pool.dim), check_finite=False), upper)
