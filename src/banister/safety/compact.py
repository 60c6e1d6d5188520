"""Covariances of many tasks: kept as the rows that they come from, made when they are asked for.

A dense belief holds 2 p² numbers a task, whatever its rows. Beyond `DENSE` numbers only what cannot be made
again is held: a task's rows in units of their noise (r × p, r ≤ p of plays) in few bytes (`stored`), its
left-over variances and its coefficients. Decisions multiply vectors with the rows themselves
(`_matrix_kernels`); whoever asks for the matrices gets what the dense belief makes of such rows, by the same
arithmetic, and `more` of it, so that no variance is below the exact one. The last few made are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from banister.data import Float, Int
from banister.safety import _matrix_kernels
from banister.safety._matrix_kernels import Factored
from banister.safety.factors import Information
from banister.safety.opened import Open
from banister.safety.posterior import ROUNDING, Posterior, Shared
from banister.safety.stored import Stored

DENSE = 2**24  # numbers (128 MB) of all covariances together, up to which they are held as they are
_LAST = 64  # tasks whose matrices are kept: users ask for one task several times in a decision


@dataclass(frozen=True, eq=False)
class Compact:
    """What the covariances of T tasks are made from.

    Attributes:
        blocks: rows of consecutive tasks in units of their noise; only the last has other n.
        dual: (k, p) along which rows were corrected; more: (T,) by what variances are multiplied.
        L: (p, k) shared directions, widened; D: (T, p) left-over variances.
        c: (T, k+1) coefficients; open: what all rows leave open of the shared part.
        place: (all tasks,) where a task stands among the T that have rows, −1 if it has none.
    """

    blocks: list[Stored]
    dual: Float
    more: Float
    L: Float
    D: Float
    c: Float
    open: Open
    place: Int
    _made: dict[int, tuple[Float, Float]] = field(default_factory=dict, repr=False)
    _prepared: dict[int, Factored] = field(default_factory=dict, repr=False)

    def of(self, task: int) -> tuple[Float, Float]:
        """V and `away` of a task, (p, p) each; zeros where nothing is known."""
        made = self._made.get(task)
        if made is None:
            if len(self._made) >= _LAST:
                self._made.clear()
            made = self._made[task] = self._make(int(self.place[task]))
        return made

    def _make(self, t: int) -> tuple[Float, Float]:
        p = len(self.L)
        if t < 0:
            return np.zeros((p, p)), np.zeros((p, p))
        R = self._rows(t)[None]
        post = Posterior(
            Information(R, np.zeros(R.shape[:2]), 0), Shared(np.zeros(p), self.L, self.D[t : t + 1])
        )
        V, away = post.covariance(self.open.of(self.c[t : t + 1]))
        return self.more[t] * V[0], np.sqrt(self.more[t]) * away[0]

    def _rows(self, t: int) -> Float:
        block, i = divmod(t, len(self.blocks[0]))
        return self.blocks[block].one(i, self.dual)

    def factored(self, task: int) -> Factored:
        """The rows of a task that has some, prepared for products with vectors."""
        made = self._prepared.get(task)
        if made is None:
            if len(self._prepared) >= _LAST:
                self._prepared.clear()
            made = self._prepared[task] = self._prepare(int(self.place[task]))
        return made

    def _prepare(self, t: int) -> Factored:
        prepared: Factored = _matrix_kernels.prepare(
            self._rows(t), self._turned, self.D[t], self.c[t], self.open.packed, self.more[t], ROUNDING**2
        )
        return prepared

    @cached_property
    def _turned(self) -> Float:
        """L (k, p) as the kernels read it."""
        return np.ascontiguousarray(self.L.T)

    @property
    def covariances(self) -> PerTask:
        """V by task."""
        return PerTask(self, 0)

    @property
    def away(self) -> PerTask:
        """How an error of what is shared enters each task."""
        return PerTask(self, 1)


@dataclass(frozen=True, eq=False)
class PerTask:
    """One of the two kinds of matrices, taken by task as from an array (T, p, p)."""

    source: Compact
    which: int

    def __len__(self) -> int:
        return len(self.source.place)

    def __getitem__(self, task: int) -> Float:
        return self.source.of(int(task))[self.which]
