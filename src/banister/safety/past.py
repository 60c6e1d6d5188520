"""Rows of long ago, kept as triangular factors: what a fit needs of them, and not how many they were.

A period holds consecutive rows `(x, y)` of one task. All that a linear model can learn from them is a factor
`F` of their moments, `F'F = Σ (x − o, 1, y)(x − o, 1, y)'`, in the features' own units, `o` being an origin
near them. Its few rows stand for all: put into a fit's coordinates they are rows like others, whose intercept
is not 1. What else a fit asks of rows (how many, their range, their most common reward, where the baseline
was) is kept beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from banister.data import Float, Int
from banister.safety.frame import Frame
from banister.safety.parts import Parts, triangle

_TOLD = 1e-12  # share of the largest moment below which a direction of a period is rounding


@dataclass(frozen=True, eq=False)
class Start:
    """How rows are made into factors, known from the first of them.

    Attributes:
        origin: (d,) what is taken from features; parts: see `Parts`.
    """

    origin: Float
    parts: Parts | None = None

    @classmethod
    def of(cls, X: Float) -> Start:
        """From rows (n, d); a column that is 0 at times varies as much as it is large: it needs no origin."""
        return cls(np.where((X == 0.0).any(axis=0), 0.0, X[0]), Parts.of(X))

    def factor(self, X: Float, y: Float) -> Float:
        """Of the moments of `(x − origin, 1, y)`."""
        rows = np.empty((len(y), X.shape[1] + 2))
        np.subtract(X, self.origin, out=rows[:, :-2])
        rows[:, -2], rows[:, -1] = 1.0, y
        return reduced(rows, self.parts)


@dataclass(frozen=True, eq=False)
class Period:
    """Rows of one task, in their order, as moments.

    Attributes:
        F: (q, d + 2) a factor of the moments of `(x − origin, 1, y)`.
        n: how many rows.
        first, last: the least and the largest number of their decisions.
        low, high: (d + 1,) the least and largest values of features and of y.
        usual, times: the most common y and how often it came.
        sums: for plays Σ over baselines of (x, 1), (d + 1,); for labels Σ std², (1,).
        tamed: the y that was counted for a wild one, by the decision's number.
    """

    F: Float
    n: int
    first: int
    last: int
    low: Float
    high: Float
    usual: float
    times: int
    sums: Float
    tamed: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, X: Float, y: Float, number: Int, start: Start, sums: Float, tamed: Mapping[int, float]
    ) -> Period:
        """The period of rows (n, d) and their y (n,)."""
        values, counts = np.unique(y, return_counts=True)
        k = int(counts.argmax())
        low, high = (np.append(end(X, axis=0), end(y)) for end in (np.min, np.max))
        return cls(
            start.factor(X, y), len(y), int(number.min()), int(number.max()), low, high,
            float(values[k]), int(counts[k]), sums, tamed,
        )  # fmt: skip

    def joined(self, later: Period, parts: Parts | None = None) -> Period:
        """One period of two; how often the most common y came is a lower bound where the two differ."""
        times = {self.usual: self.times}
        times[later.usual] = times.get(later.usual, 0) + later.times
        usual = max(times, key=lambda value: times[value])
        return Period(
            reduced(np.concatenate([self.F, later.F]), parts), self.n + later.n,
            min(self.first, later.first), max(self.last, later.last),
            np.minimum(self.low, later.low), np.maximum(self.high, later.high),
            usual, times[usual], self.sums + later.sums, {**self.tamed, **later.tamed},
        )  # fmt: skip


def reduced(rows: Float, parts: Parts | None = None) -> Float:
    """A factor with no more rows than columns, quicker where rows are in parts."""
    if len(rows) <= rows.shape[1]:
        return rows
    factor = None if parts is None else parts.reduced(rows)
    return triangle(rows) if factor is None else factor


def without(F: Float, rows: Float) -> Float:
    """A factor of the moments of `F` without some of the rows that it was made of.

    Directions of which hardly anything is left are dropped: what a fit knows of them is then less than it
    could be, never more.
    """
    size = np.abs(F).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    whole, part = F / size, rows / size
    values, vectors = np.linalg.eigh(whole.T @ whole - part.T @ part)
    told = values > _TOLD * max(float(values[-1]), 0.0)
    left: Float = np.sqrt(values[told])[:, None] * vectors[:, told].T * size
    return left


@dataclass(frozen=True, eq=False)
class Past:
    """Periods of many tasks, as a fit reads them.

    Attributes:
        task: (m,) whose each of the rows F (m, d + 2) is.
        origin: (d,).
        of: (g,) whose each period is; n, low, high, usual, times, sums: theirs.
    """

    task: Int
    F: Float
    origin: Float
    of: Int
    n: Float
    low: Float
    high: Float
    usual: Float
    times: Float
    sums: Float

    @classmethod
    def none(cls, dim: int) -> Past:
        """No periods."""
        nobody, nothing = np.zeros(0, dtype=np.int64), np.zeros(0)
        ends, sums = np.zeros((0, dim + 1)), np.zeros((0, dim + 1))
        return cls(
            nobody, np.zeros((0, dim + 2)), np.zeros(dim), nobody, nothing, ends, ends, nothing, nothing, sums
        )

    @classmethod
    def joined(
        cls, periods: Sequence[tuple[int, Period]], origin: Float, retracted: Mapping[int, Sequence[Float]]
    ) -> Past:
        """Periods with their tasks, task by task, without rows that were taken back.

        Args:
            periods: of plays or of labels.
            origin: of all.
            retracted: by task, rows of plays: features, whether it was the baseline (1 or 0), reward.
        """
        if not periods:
            return cls.none(len(origin))
        task, F, n, sums = [], [], [], []
        for t, group in groupby(periods, key=lambda pair: pair[0]):
            own = [p for _, p in group]
            rows, gone = np.concatenate([p.F for p in own]), retracted.get(t, ())
            lost = np.zeros_like(own[0].sums)
            if gone:
                taken = np.array(gone)
                lost = taken[:, -2] @ np.column_stack([taken[:, :-2], np.ones(len(taken))])
                rows = without(
                    rows, np.column_stack([taken[:, :-2] - origin, np.ones(len(taken)), taken[:, -1]])
                )
            task.append(np.full(len(rows), t))
            F.append(rows)
            n += [own[0].n - len(gone), *(p.n for p in own[1:])]
            sums += [own[0].sums - lost, *(p.sums for p in own[1:])]
        every = [p for _, p in periods]
        return cls(
            np.concatenate(task), np.concatenate(F), origin, np.array([t for t, _ in periods]),
            np.array(n, dtype=float),
            np.array([p.low for p in every]), np.array([p.high for p in every]),
            np.array([p.usual for p in every]), np.array([p.times for p in every], dtype=float),
            np.array(sums),
        )  # fmt: skip

    def rows(self, frame: Frame) -> tuple[Float, Float]:
        """The factors' rows in a fit's coordinates, (m, p), and their rewards, (m,)."""
        d = len(self.origin)
        weight = self.F[:, d]
        Z = np.empty((len(self.F), frame.dim))
        Z[:, :d] = (self.F[:, :d] - weight[:, None] * (frame.shift - self.origin)) / frame.scale
        if frame.intercept:
            Z[:, d] = weight
        return Z, self.F[:, d + 1] / frame.reward

    def without_tasks(self, tasks: Int) -> Past:
        """Those of other tasks."""
        return self.of_tasks(np.setdiff1d(self.of, tasks))

    def of_tasks(self, tasks: Int) -> Past:
        """Those of some tasks."""
        rows, mine = np.isin(self.task, tasks), np.isin(self.of, tasks)
        kept = (column[mine] for column in (self.n, self.low, self.high, self.usual, self.times, self.sums))
        return Past(self.task[rows], self.F[rows], self.origin, self.of[mine], *kept)

    def placed(self, place: Int) -> Past:
        """Those of tasks that have a place, by place."""
        kept = self.of_tasks(np.flatnonzero(place >= 0))
        task, of = place[kept.task], place[kept.of]
        rows, mine = np.argsort(task, kind="stable"), np.argsort(of, kind="stable")
        columns = (kept.n, kept.low, kept.high, kept.usual, kept.times, kept.sums)
        return Past(task[rows], kept.F[rows], kept.origin, of[mine], *(column[mine] for column in columns))

    def between(self, first: int, last: int) -> Past:
        """Of those that stand by place, the ones from `first` up to `last`."""
        rows, mine = (slice(*np.searchsorted(a, [first, last])) for a in (self.task, self.of))
        columns = (self.n, self.low, self.high, self.usual, self.times, self.sums)
        return Past(
            self.task[rows], self.F[rows], self.origin, self.of[mine], *(column[mine] for column in columns)
        )

    def corners(self) -> tuple[Int, Float, Float]:
        """Three rows a period that span its range: their tasks, features and y."""
        ends = np.concatenate([self.low, self.high, self.low])
        return np.tile(self.of, 3), ends[:, :-1], ends[:, -1]
