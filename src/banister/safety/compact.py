"""Covariances of many tasks: kept as the rows that they come from, made when they are asked for.

A dense belief holds 2 p² numbers a task, whatever its rows. Beyond `DENSE` numbers only what cannot be made
again is held: a task's rows in units of their noise (r × p, r ≤ p of plays) in few bytes (`stored`), its
left-over variances and its coefficients. Decisions multiply vectors with the rows themselves
(`_row_kernels`); whoever asks for the matrices gets the same as matrices. All of it is `more` than the rows
say, so that no variance is below the exact one. The last few made are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from banister.data import Float, Int
from banister.safety._row_kernels import Coded
from banister.safety.opened import Open
from banister.safety.posterior import ROUNDING, symmetric
from banister.safety.stored import Stored

DENSE = 2**24  # numbers (128 MB) of all covariances together, up to which they are held as they are
_LAST = 64  # tasks whose matrices are kept: users ask for one task several times in a decision


@dataclass(frozen=True, eq=False)
class Compact:
    """What the covariances of T tasks are made from.

    Attributes:
        blocks: rows of consecutive tasks in units of their noise; only the last has other n.
        dual: (k, p) along which rows were corrected; more: (T,) by what variances are multiplied; tied: (T,)
            how far rows are from diagonal (`stored`).
        L: (p, k) shared directions, widened; D: (T, p) left-over variances.
        c: (T, k+1) coefficients; open: what all rows leave open of the shared part.
        place: (all tasks,) where a task stands among the T that have rows, −1 if it has none.
    """

    blocks: list[Stored]
    dual: Float
    more: Float
    tied: Float
    L: Float
    D: Float
    c: Float
    open: Open
    place: Int
    _made: dict[int, tuple[Float, Float]] = field(default_factory=dict, repr=False)

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
        V, away = _matrices(self._rows(t), self.L, self.D[t], self.open.of(self.c[t : t + 1])[0])
        return self.more[t] * V, np.sqrt(self.more[t]) * away

    def _rows(self, t: int) -> Float:
        block, i = divmod(t, self._size)
        return self.blocks[block].one(i, self.dual)

    def coded(self, task: int) -> Coded:
        """A task that has rows as it is stored, for kernels that multiply with vectors."""
        t = self.place[task]
        block, i = divmod(t, self._size)
        rows = self.blocks[block]
        return Coded(
            rows.codes[i], rows.step[i], rows.fix[i], self.dual, self._turned, self.D[t], self.c[t],
            self.open.packed, self.more[t], self.tied[t], ROUNDING**2,
        )  # fmt: skip

    @cached_property
    def _size(self) -> int:
        """Tasks of a block."""
        return len(self.blocks[0])

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


def _matrices(R: Float, L: Float, D: Float, opened: Float) -> tuple[Float, Float]:
    """V and `away` from a task's rows; the formulas of `_row_kernels` for all x at once."""
    share = 1 / (1 + (R * R) @ D)
    P, RL = share[:, None] * R * D, R @ L
    m = np.linalg.solve(np.eye(L.shape[1]) + RL.T @ (share[:, None] * RL), L.T - RL.T @ P)
    e = P + share[:, None] * (RL @ m)
    away = np.eye(len(D)) - e.T @ R
    V = (away * D) @ away.T + m.T @ m + e.T @ e + away @ opened @ away.T
    np.einsum("ii->i", V)[...] += ROUNDING**2 * (D + (L**2).sum(axis=1))
    return symmetric(V), away


@dataclass(frozen=True, eq=False)
class PerTask:
    """One of the two kinds of matrices, taken by task as from an array (T, p, p)."""

    source: Compact
    which: int

    def __len__(self) -> int:
        return len(self.source.place)

    def __getitem__(self, task: int) -> Float:
        return self.source.of(int(task))[self.which]
