"""Everything seen, a block of tasks at a time, in the belief's coordinates.

The rows of a block are made where they are used and forgotten again, so that a belief of many tasks needs
little memory beside the data. Rows that QR decompositions have made much smaller are kept, since those cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.safety.factors import Factors
from banister.safety.frame import Frame
from banister.safety.past import Past
from banister.safety.posterior import chunks
from banister.safety.rows import Rows

_SMALLER = 2  # times smaller than the rows: factors worth keeping


class Labels(NamedTuple):
    """Claimed baseline rewards: tasks (m,), raw features (m, d), rewards and their standard errors (m,)."""

    task: Int
    X: Float
    y: Float
    std: Float


class Old(NamedTuple):
    """Plays and labels of long ago, by the place of their tasks."""

    plays: Past
    labels: Past


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of consecutive tasks.

    Attributes:
        of: everything.
        tasks: which.
        row: (n,) where each row stands among all.
    """

    of: Gathered
    tasks: slice
    row: Int

    @property
    def task(self) -> Int:
        """(n,) each row's task, counted from the block's first."""
        task: Int = self.of.task[self.row] - self.tasks.start
        return task

    @cached_property
    def features(self) -> Float:
        """(n, p), in the belief's coordinates."""
        return self.of.frame.rows(self.of.X[self.row])

    @property
    def rewards(self) -> Float:
        """(n,), in the belief's units."""
        return self.of.y[self.row]


class Gathered:
    """Plays of T tasks, every one of which has rows or had some long ago, and labels of some.

    Args:
        frame: the belief's coordinates.
        task, X: (n,), (n, d) plays, raw.
        y: (n,) rewards, in the frame's units; is_baseline: (n,) what was played.
        labels, used: claimed baseline rewards, in the frame's units but for their features, and where those
            stand that count.
        telling: (T,) see `Rows`.
        old: rows of long ago.
    """

    def __init__(
        self,
        frame: Frame,
        task: Int,
        X: Float,
        y: Float,
        is_baseline: Bool,
        labels: Labels,
        used: Int,
        telling: Float,
        old: Old,
    ) -> None:
        self._old = old
        self.frame, self.task, self.X, self.y, self.labels = frame, task, X, y, labels
        self.is_baseline, self.telling, self.n_tasks = is_baseline, telling, len(telling)
        self._plays = _Order(task, np.arange(len(task)), self.n_tasks)
        self._claims = _Order(labels.task[used], used, self.n_tasks)
        self._kept: dict[int, Rows] = {}
        self._whole: Rows | None = None

    def blocks(self, tasks: slice | None = None) -> Iterator[Block]:
        """All tasks, or those from the first of a block up to the last of one, block by block."""
        for block in chunks(self.n_tasks, self.frame.dim**2):
            if tasks is None or tasks.start <= block.start < tasks.stop:
                yield Block(self, block, self._plays.of(block))

    def parts(self, shares: int) -> list[Part]:
        """All tasks in up to so many parts, each of whole blocks."""
        blocks = chunks(self.n_tasks, self.frame.dim**2)
        runs = [run for run in np.array_split(np.arange(len(blocks)), shares) if len(run)]
        return [Part(self, slice(blocks[run[0]].start, blocks[run[-1]].stop)) for run in runs]

    def order(self, tasks: slice) -> Int:
        """Where the rows of consecutive tasks stand, task after task."""
        return self._plays.of(tasks)

    def alone(self, tasks: slice) -> Gathered:
        """Consecutive tasks with nothing of the others."""
        first, row, label = tasks.start, self._plays.of(tasks), self._claims.of(tasks)
        old = (past.between(first, tasks.stop) for past in self._old)
        return Gathered(
            self.frame, self.task[row] - first, self.X[row], self.y[row], self.is_baseline[row],
            Labels(self.labels.task[label] - first, *(column[label] for column in self.labels[1:])),
            np.arange(len(label)), self.telling[tasks],
            Old(*(replace(past, task=past.task - first, of=past.of - first) for past in old)),
        )  # fmt: skip

    def sample(self, tasks: Int) -> Rows:
        """The rows of some tasks (in rising order) as factors; those of all are kept."""
        parts = chunks(len(tasks), self.frame.dim**2)
        rows = Rows.joined([self._some(tasks[part]) for part in parts])
        if len(tasks) == self.n_tasks:
            self._whole = rows
        return rows

    def _some(self, tasks: Int) -> Rows:
        """The rows of a few tasks as factors."""
        place = np.full(self.n_tasks, -1)
        place[tasks] = np.arange(len(tasks))
        row, label = self._plays.of_each(tasks), self._claims.of_each(tasks)
        old = Old(*(past.of_tasks(tasks) for past in self._old))
        Z = self.frame.rows(self.X[row])
        plays = self._factors(place[self.task[row]], Z, self.y[row], old.plays, place, len(tasks))
        return self._rows(plays, label, old.labels, place, self.telling[tasks])

    def rows(self, block: Block) -> Rows:
        """A block's rows as factors."""
        tasks, first = block.tasks, block.tasks.start
        if self._whole is not None:
            return self._whole.of_tasks(tasks)
        if first in self._kept:
            return self._kept[first]
        old = Old(*(past.between(first, tasks.stop) for past in self._old))
        place, T = np.arange(self.n_tasks) - first, tasks.stop - first
        plays = self._factors(block.task, block.features, block.rewards, old.plays, place, T)
        rows = self._rows(plays, self._claims.of(tasks), old.labels, place, self.telling[tasks])
        if _SMALLER * plays.R.size <= block.features.size:
            self._kept[first] = rows
        return rows

    def _factors(self, task: Int, Z: Float, y: Float, past: Past, place: Int, T: int) -> Factors:
        """Of rows of tasks (n,), and of those of long ago, whose tasks' places are given."""
        if len(past.of) == 0:
            return Factors.of(task, Z, y, T)
        old_Z, old_y = past.rows(self.frame)
        whose = place[past.task]
        more = np.bincount(place[past.of], weights=past.n, minlength=T).astype(float)
        more -= np.bincount(whose, minlength=T)
        return Factors.of(np.append(whose, task), np.concatenate([old_Z, Z]), np.append(old_y, y), T, more)

    def _rows(self, plays: Factors, label: Int, past: Past, place: Int, telling: Float) -> Rows:
        """With the labels that stand at `label` and those of long ago, whose tasks' places are given."""
        T, p = len(plays.n), self.frame.dim
        if len(label) == 0 and len(past.of) == 0:
            return Rows(plays, Factors.none(T, p), np.ones(T), telling)
        _, X, y, std = self.labels
        task = place[self.labels.task[label]]
        labels = self._factors(task, self.frame.rows(X[label]), y[label], past, place, T)
        square = np.bincount(task, weights=std[label] ** 2, minlength=T).astype(float)
        square += np.bincount(place[past.of], past.sums[:, 0] / self.frame.reward**2, minlength=T)
        return Rows(plays, labels, np.where(labels.n > 0, square / np.maximum(labels.n, 1.0), 1.0), telling)


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive tasks; sent elsewhere, it takes their rows along and no others."""

    data: Gathered
    tasks: slice

    def blocks(self) -> Iterator[Block]:
        """Its tasks, block by block."""
        return self.data.blocks(self.tasks)

    def __reduce__(self) -> tuple[Any, ...]:
        return Part, (self.data.alone(self.tasks), slice(0, self.tasks.stop - self.tasks.start))


class _Order:
    """Where the rows `row` (n,) of each task stand."""

    def __init__(self, task: Int, row: Int, n_tasks: int) -> None:
        self._order = row[np.argsort(task, kind="stable")]
        self._starts = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=n_tasks))])

    def of(self, tasks: slice) -> Int:
        """The rows of consecutive tasks, task after task."""
        return self._order[self._starts[tasks.start] : self._starts[tasks.stop]]

    def of_each(self, tasks: Int) -> Int:
        """The rows of some tasks, task after task."""
        return np.concatenate([self._order[self._starts[t] : self._starts[t + 1]] for t in tasks])
