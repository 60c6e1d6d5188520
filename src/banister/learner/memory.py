"""What the next belief is made from: rewards of plays, claimed baseline rewards, a sample of offers."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.contract import Bool
from banister.data import Float, Int
from banister.safety.belief import Seen
from banister.safety.gates import EVERY_TASK

_BLOCK = 4096
SAMPLE = 2048  # offered actions kept, to know what is offered


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


class Table:
    """Columns of rows of one kind: task first, decision number last (0 for logs)."""

    def __init__(self, *columns: Blocks) -> None:
        self.columns = (Blocks(dtype=np.int64), *columns, Blocks(dtype=np.int64))

    def __len__(self) -> int:
        return self.columns[0].size

    def add(self, *values: Any) -> None:
        """One row."""
        for column, value in zip(self.columns, values, strict=True):
            column.add(value)

    def extend(self, *values: NDArray[Any]) -> None:
        """Many rows."""
        for column, part in zip(self.columns, values, strict=True):
            column.extend(part)

    def pieces(self, first: int = 0) -> list[list[NDArray[Any]]]:
        """Views of every column, in pieces."""
        return [c.pieces(first) for c in self.columns]


class Memory:
    """Rows for fits and a sample of offered actions.

    Attributes:
        plays: task, features, reward, whether it was the baseline, the reward claimed for it (or NaN), and
            the decision's number; in the order in which rewards came.
        labels: task, features, claimed reward, its standard error, number; in the order of decisions.
        since: the decision from which a drifted task's rows count; `EVERY_TASK` for all.
        retracted: decisions whose reward was taken back.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.plays = Table(Blocks(dim), Blocks(), Blocks(dtype=np.bool_), Blocks())
        self.labels = Table(Blocks(dim), Blocks(), Blocks())
        self.since: dict[int, int] = {}
        self.retracted: set[int] = set()
        self._offered_task: Int = np.zeros(SAMPLE, dtype=np.int64)
        self._offered: Float = np.zeros((SAMPLE, dim))
        self._sampled = 0

    @staticmethod
    def samples(number: int) -> bool:
        """Whether decision `number` gives an action to the sample: all at first, every eighth later."""
        return number <= SAMPLE or number % 8 == 0

    @staticmethod
    def sampled(number: int, n_actions: int) -> int:
        """Which of its actions decision `number` gives; each in turn, also where every eighth is asked."""
        return (number + number // 8) % n_actions

    def offer(self, task: int, x: Float) -> None:
        """Keep an action that was offered; the oldest makes room."""
        place = self._sampled % SAMPLE
        self._offered_task[place], self._offered[place] = task, x
        self._sampled += 1

    def offer_many(self, task: Int, X: Float) -> None:
        """Keep the last of these."""
        task, X = task[-SAMPLE:], X[-SAMPLE:]
        places = (self._sampled + np.arange(len(task))) % SAMPLE
        self._offered_task[places], self._offered[places] = task, X
        self._sampled += len(task)

    def forget(self, task: int, since: int) -> None:
        """Rows of a task, or of all, from before decision `since` no longer count."""
        self.since[task] = max(since, self.since.get(task, 0))

    def row_counts(self, n_tasks: int) -> Int:
        """Rewards of each task that the next fit will use, (T,)."""
        task, number = (np.concatenate(self.plays.columns[i].pieces()) for i in (0, -1))
        kept: Bool = _kept(task, number, self.since, self.retracted)
        return np.bincount(task[kept], minlength=n_tasks)

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
    """Views of the rows at one moment; joined away from any lock."""

    plays: list[list[NDArray[Any]]]
    labels: list[list[NDArray[Any]]]
    since: dict[int, int]
    retracted: frozenset[int]
    offered_task: Int
    offered: Float

    def seen(self) -> Seen:
        """Everything that counts."""
        task, X, y, is_baseline, claim, _ = self._rows(self.plays, self.retracted)
        label_task, label_X, label, label_std, _ = self._rows(self.labels)
        return Seen(
            task, X, y, is_baseline, claim,
            label_task, label_X, label, label_std, self.offered_task, self.offered,
        )  # fmt: skip

    def _rows(
        self, pieces: list[list[NDArray[Any]]], retracted: Set[int] = frozenset()
    ) -> list[NDArray[Any]]:
        columns = [np.concatenate(column) for column in pieces]
        if not self.since and not retracted:
            return columns
        kept = _kept(columns[0], columns[-1], self.since, retracted)
        return [column[kept] for column in columns]


def _kept(task: Int, number: Int, since: dict[int, int], retracted: Set[int]) -> Bool:
    """Rows without those of drifted tasks from before their change, and without those taken back.

    Logged rows have number 0, which no decision has.
    """
    first = np.full(max(int(task.max(initial=0)), *since, 0) + 1, since.get(EVERY_TASK, 0))
    for t, start in since.items():
        if t != EVERY_TASK:
            first[t] = max(first[t], start)
    kept: Bool = number >= first[task]
    if retracted:
        kept &= ~np.isin(number, np.fromiter(retracted, dtype=np.int64))
    return kept
