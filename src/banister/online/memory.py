"""What the next fit is made from, in memory: rewards of what was played, known baseline rewards, tallies.

It holds nothing that the ledger does not, and is rebuilt from it row by row in the same order.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.contract import Outcomes, Requests
from banister.data import Float, Int
from banister.online.drift import EVERY_TASK
from banister.online.span import Span
from banister.safety.evidence import Evidence

_BLOCK = 4096
SAMPLE = 2048  # offered actions kept for the certificate's calibration


class Blocks:
    """Rows that grow by appending and never move: no decision must wait for the copy of a long column."""

    def __init__(self, width: int = 0, dtype: Any = np.float64) -> None:
        self._shape: tuple[int, ...] = (_BLOCK, width) if width else (_BLOCK,)
        self._dtype = dtype
        self._blocks: list[NDArray[Any]] = []
        self.size = 0

    def add(self, value: Any) -> None:
        """One row."""
        place = self.size % _BLOCK
        if place == 0:
            self._blocks.append(np.empty(self._shape, self._dtype))
        self._blocks[-1][place] = value
        self.size += 1

    def extend(self, values: NDArray[Any]) -> None:
        """Many rows."""
        start = 0
        while start < len(values):
            place = self.size % _BLOCK
            if place == 0:
                self._blocks.append(np.empty(self._shape, self._dtype))
            part = values[start : start + _BLOCK - place]
            self._blocks[-1][place : place + len(part)] = part
            self.size += len(part)
            start += len(part)

    def pieces(self, first: int = 0) -> list[NDArray[Any]]:
        """Views of the rows from `first` on, in order; untouched by what is added later."""
        views = [b[: min(_BLOCK, self.size - i * _BLOCK)] for i, b in enumerate(self._blocks)]
        skipped, offset = divmod(first, _BLOCK)
        rest = views[skipped:]
        return [rest[0][offset:], *rest[1:]] if rest else [np.empty((0, *self._shape[1:]), self._dtype)]


class Rows:
    """Rows of task, features, value, standard error and decision number (0 for logs)."""

    def __init__(self, dim: int) -> None:
        self.task, self.number = Blocks(dtype=np.int64), Blocks(dtype=np.int64)
        self.X, self.y, self.std = Blocks(dim), Blocks(), Blocks()

    def __len__(self) -> int:
        return self.y.size

    def add(self, task: int, x: Float, y: float, std: float, number: int) -> None:
        """One row."""
        self.task.add(task)
        self.X.add(x)
        self.y.add(y)
        self.std.add(std)
        self.number.add(number)

    def extend(self, task: Int, X: Float, y: Float, std: Float, number: Int) -> None:
        """Many rows."""
        for column, values in zip(self._columns, (task, X, y, std, number), strict=True):
            column.extend(values)

    @property
    def _columns(self) -> tuple[Blocks, ...]:
        return self.task, self.X, self.y, self.std, self.number

    def pieces(self, first: int = 0) -> list[list[NDArray[Any]]]:
        """Views of task, X, y, std and number, in pieces."""
        return [c.pieces(first) for c in self._columns]


class Tally:
    """One number or vector a task; grows with the tasks."""

    def __init__(self, width: int = 0, dtype: Any = np.float64, fill: float = 0.0) -> None:
        self._fill = fill
        self.view: NDArray[Any] = np.zeros((0, width) if width else 0, dtype=dtype)

    def grow_to(self, size: int) -> None:
        """At least `size` entries, with room for more."""
        if size > len(self.view):
            shape = (max(size, 2 * len(self.view)), *self.view.shape[1:])
            larger = np.full(shape, self._fill, dtype=self.view.dtype)
            larger[: len(self.view)] = self.view
            self.view = larger


class Memory:
    """Rows for fits, the sample of offered actions, and each task's tallies.

    Attributes:
        plays: what was played and earned, in the order in which rewards came.
        labels: baselines whose reward was known, in the order of decisions.
        decisions, certified: (T,) counts.
        moved: (T,) certified decisions that left the baseline since the last drift.
        shift: (T, d) sum of `x − x_b` over those.
        margin: (T,) smallest `lower_bound − floor` of a certified action other than the baseline.
        since: the decision from which a drifted task's rows count; `EVERY_TASK` for all.
        retracted: decisions whose reward was taken back.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.plays, self.labels = Rows(dim), Rows(dim)
        self.decisions, self.certified, self.moved = (Tally(dtype=np.int64) for _ in range(3))
        self.shift, self.margin = Tally(dim), Tally(fill=np.inf)
        self.since: dict[int, int] = {}
        self.retracted: set[int] = set()
        self._offered_task: Int = np.zeros(SAMPLE, dtype=np.int64)
        self._offered: Float = np.zeros((SAMPLE, dim))
        self._sampled = 0

    @staticmethod
    def samples(number: int) -> bool:
        """Whether decision `number` gives an action to the sample: all at first, every eighth later."""
        return number <= SAMPLE or number % 8 == 0

    def offer(self, task: int, x: Float) -> None:
        """Keep an action that was offered; the oldest makes room."""
        place = self._sampled % SAMPLE
        self._offered_task[place], self._offered[place] = task, x
        self._sampled += 1

    def count_task(self, task: int) -> None:
        """Room for the tallies of a task."""
        if task >= len(self.decisions.view):
            for tally in (self.decisions, self.certified, self.moved, self.shift, self.margin):
                tally.grow_to(task + 1)

    def tally(self, task: int, certified: bool, margin: float, step: Float | None) -> None:
        """Count a decision; `step` is `x − x_b` where it left the baseline."""
        self.count_task(task)
        self.decisions.view[task] += 1
        if certified:
            self.certified.view[task] += 1
        if step is not None:
            self.moved.view[task] += 1
            self.shift.view[task] += step
            if margin < self.margin.view[task]:
                self.margin.view[task] = margin

    def start_anew(self, task: int, since: int) -> None:
        """After a drift of a task, or of all: earlier rows no longer count, nor does what was gained then."""
        self.since[task] = max(since, self.since.get(task, 0))
        tasks = slice(None) if task == EVERY_TASK else task
        self.moved.view[tasks] = 0
        self.shift.view[tasks] = 0.0

    def row_counts(self, n_tasks: int) -> Int:
        """Rewards of each task that the next fit will use, (T,)."""
        task, _, _, _, number = self.plays.pieces()
        kept = _after([np.concatenate(task), np.concatenate(number)], self.since, self.retracted)
        return np.bincount(kept[0], minlength=n_tasks)

    def snapshot(self) -> Snapshot:
        """What a fit needs, as it is now; cheap, and untouched by what comes later."""
        n = min(self._sampled, SAMPLE)
        return Snapshot(
            self.plays.pieces(),
            self.labels.pieces(),
            dict(self.since),
            frozenset(self.retracted),
            self._offered_task[:n].copy(),
            self._offered[:n].copy(),
        )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Views of the rows at one moment; turned into evidence away from the lock."""

    plays: list[list[NDArray[Any]]]
    labels: list[list[NDArray[Any]]]
    since: dict[int, int]
    retracted: frozenset[int]
    offered_task: Int
    offered: Float

    def span(self, dim: int) -> Span:
        """The directions that rows or offered actions have."""
        return Span.of([*self.plays[1], *self.labels[1], self.offered], dim)

    def evidence(self, span: Span) -> Evidence:
        """Everything seen, as the certifier wants it, in the span's coordinates."""
        evidence = Evidence()
        task, X, y, std, _ = self._rows(self.labels)
        X = span.reduce(X)
        if len(y):
            evidence.see(Requests(task, X[:, None, :], np.zeros(len(y), dtype=np.int64), y, std))
        # The sample goes last and fills the evidence's own; unknown rewards add no labels.
        n = len(self.offered)
        unknown, first = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
        offered = span.reduce(self.offered)
        evidence.see(Requests(self.offered_task, offered[:, None, :], first, unknown))
        task, X, y, _, _ = self._rows(self.plays, self.retracted)
        evidence.learn(Outcomes(task, span.reduce(X), y))
        return evidence

    def _rows(
        self, pieces: list[list[NDArray[Any]]], retracted: frozenset[int] = frozenset()
    ) -> list[NDArray[Any]]:
        return _after([np.concatenate(column) for column in pieces], self.since, retracted)


def _after(
    columns: list[NDArray[Any]], since: dict[int, int], retracted: Set[int] = frozenset()
) -> list[NDArray[Any]]:
    """Rows (task first, decision number last) without those of drifted tasks from before their change.

    Rows whose reward was taken back are left out too; logged rows have number 0, which no decision has.
    """
    if retracted:
        kept = ~np.isin(columns[-1], np.fromiter(retracted, dtype=np.int64))
        columns = [column[kept] for column in columns]
    if not since:
        return columns
    first = np.full(max(int(columns[0].max(initial=0)), *since) + 1, since.get(EVERY_TASK, 0))
    for task, number in since.items():
        if task != EVERY_TASK:
            first[task] = max(first[task], number)
    keep = columns[-1] >= first[columns[0]]
    return [column[keep] for column in columns]
