"""Rows as a fit sees them: a triangular factor of each task's rows, in the belief's own coordinates.

All that rows `(X, y)` say of a linear model is `R` and `z` with `R'R = X'X`, `R'z = X'y`, and the part of
`y'y` that no θ explains. Up to p rows are their own factor; more are reduced to p by a QR decomposition. So a
fit costs what its tasks and features cost, however long their history is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from banister.data import Float, Int
from banister.safety.pairs import Merged, Pairs


@dataclass(frozen=True, eq=False)
class Factors:
    """Rows of one kind of T tasks; shorter factors are filled up with rows of zeros, which say nothing.

    Attributes:
        R: (T, r, p); z: (T, r).
        rest: (T,) what no θ explains of `yy` (T,) = Σ y².
        n: (T,) the number of rows.
    """

    R: Float
    z: Float
    rest: Float
    yy: Float
    n: Float

    @classmethod
    def of(cls, task: Int, Z: Float, y: Float, n_tasks: int, more: Float | None = None) -> Factors:
        """The factors of rows (n, p) of tasks (n,); `more` (T,) than there are where some stand for many."""
        p = Z.shape[1]
        n = np.bincount(task, minlength=n_tasks)
        r = int(min(n.max(initial=0), p))
        R, z, rest = np.zeros((n_tasks, r, p)), np.zeros((n_tasks, r)), np.zeros(n_tasks)
        order, ends = np.argsort(task, kind="stable"), np.cumsum(n)
        joined = np.concatenate([Z, y[:, None]], axis=1)[order]
        for m in np.unique(n[n > 0]).tolist():
            tasks = np.flatnonzero(n == m)
            rows = joined[(ends[tasks] - m)[:, None] + np.arange(m)]
            if m > p:
                factor: Float = np.asarray(np.linalg.qr(rows, mode="r"))
                rows, rest[tasks] = factor[:, :p], factor[:, p, p] ** 2
            R[tasks, : rows.shape[1]], z[tasks, : rows.shape[1]] = rows[:, :, :p], rows[:, :, p]
        yy = np.bincount(task, weights=y * y, minlength=n_tasks).astype(float)
        return cls(R, z, rest, yy, n.astype(float) if more is None else n + more)

    @classmethod
    def joined(cls, parts: Sequence[Factors]) -> Factors:
        """Those of consecutive tasks, one after the other."""
        r, p = max(part.R.shape[1] for part in parts), parts[0].R.shape[2]
        ends = np.cumsum([len(part.n) for part in parts])
        R, z = np.zeros((ends[-1], r, p)), np.zeros((ends[-1], r))
        for end, part in zip(ends, parts, strict=True):
            first, m = end - len(part.n), part.R.shape[1]
            R[first:end, :m], z[first:end, :m] = part.R, part.z
        rest, yy, n = (np.concatenate(c) for c in zip(*((f.rest, f.yy, f.n) for f in parts), strict=True))
        return cls(R, z, rest, yy, n)

    @classmethod
    def none(cls, n_tasks: int, p: int) -> Factors:
        """No rows."""
        nothing = np.zeros(n_tasks)
        return cls(np.zeros((n_tasks, 0, p)), np.zeros((n_tasks, 0)), nothing, nothing, nothing)

    def of_tasks(self, tasks: Int | slice) -> Factors:
        """Those of some tasks."""
        return Factors(self.R[tasks], self.z[tasks], self.rest[tasks], self.yy[tasks], self.n[tasks])


@dataclass(frozen=True, eq=False)
class Information:
    """Rows in units of their noise: `R` (T, r, p) and `y` (T, r).

    The first `plays` of them come from plays, the others from labels; or, with `pairs`, each from what its
    shares say.
    """

    R: Float
    y: Float
    plays: int
    pairs: Pairs | None = None

    @classmethod
    def of(cls, rows: Merged, noise: Float, label_variance: Float) -> Information:
        """Plays with variances `noise` (T,), labels with `label_variance` (T,)."""
        R, y, pairs = rows.weighed(noise, label_variance)
        return cls(R, y, R.shape[1], pairs)

    def of_tasks(self, tasks: Int | slice) -> Information:
        """That of some tasks."""
        pairs = None if self.pairs is None else Pairs(*(column[tasks] for column in self.pairs))
        return Information(self.R[tasks], self.y[tasks], self.plays, pairs)
