"""Rows of one kind, for years: the latest of each task as they came, older ones as periods.

Rows are taken in as they come and filed by task: the first `_FIRST` together, later ones `_FILED` at a time.
A task's file that has grown long enough gives its oldest rows to a period (`safety.past`), and periods of
equal age are joined, so that a file holds some rows and a handful of periods, however long its history is.
When that happens depends on the order of the rows and on nothing else: a journal that is filled again from
the same rows is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.contract import Bool
from banister.data import Float
from banister.learner.blocks import Blocks, Table
from banister.safety.parts import Parts
from banister.safety.past import Period, Start
from banister.safety.wild import tame
from banister.solver.threads import one_thread

_FIRST = 4096  # rows that tell where factors start and which features are in parts
_FILED = 256  # rows that are filed at once: few enough that hardly more than one file is folded by one call
_LATEST = 400  # rows of a task that stay rows: those that pairs are compared of, and what is usual
_GOLDEN = 0.6180339887498949  # multiples of it spread evenly: not all tasks' files shall be long at once

Columns = list[NDArray[Any]]


class Journal:
    """Rows: task first, features, y, further columns, decision number last (0 for logs).

    Args:
        dim: d.
        kinds: types of the further columns.
        sums: of the rows (X, y, further columns) that a period keeps.
        stays: of the further columns, which rows are not given to a period; None: any may be.
    """

    def __init__(
        self,
        dim: int,
        kinds: tuple[Any, ...],
        sums: Callable[..., Float],
        stays: Callable[..., Bool] | None,
    ) -> None:
        self._dim, self._kinds, self._sums, self._stays = dim, kinds, sums, stays
        self._start: Start | None = None
        self._inbox = self._table()
        self._files: dict[int, _File] = {}
        self._size = 0
        self.tail: Table | None = None

    def _table(self) -> Table:
        block = self._filed
        further = (Blocks(dtype=kind, block=block) for kind in self._kinds)
        return Table(Blocks(self._dim, block=block), Blocks(block=block), *further, block=block)

    @property
    def _filed(self) -> int:
        """How many rows are filed at once."""
        return _FIRST if self._start is None else _FILED

    def __len__(self) -> int:
        """How many rows there ever were."""
        return self._size

    def start_tail(self) -> None:
        """Keep the rows that come from now on in `tail`, in their order, until it is set to None."""
        self.tail = self._table()

    def add(self, *values: Any) -> None:
        """One row."""
        self._inbox.add(*values)
        self._size += 1
        if self.tail is not None:
            self.tail.add(*values)
        if len(self._inbox) == self._filed:
            self._file()

    def extend(self, *values: NDArray[Any]) -> None:
        """Many rows."""
        if self.tail is not None:
            self.tail.extend(*values)
        start, n = 0, len(values[0])
        self._size += n
        while start < n:
            stop = min(start + self._filed - len(self._inbox), n)
            self._inbox.extend(*(v[start:stop] for v in values))
            start = stop
            if len(self._inbox) == self._filed:
                self._file()

    def _file(self) -> None:
        """The inbox's rows to their tasks' files."""
        columns = [np.concatenate(pieces) for pieces in self._inbox.pieces()]
        if self._start is None:
            self._start = Start.of(columns[1])
        self._inbox = self._table()
        order = np.argsort(columns[0], kind="stable")
        task, *rest = (column[order] for column in columns)
        starts = np.flatnonzero(np.r_[True, task[1:] != task[:-1]])
        with one_thread():  # so that a journal filled again on another machine has the same bits
            for start, stop in zip(starts, [*starts[1:], len(task)], strict=True):
                self._file_of(int(task[start]), rest).append([c[start:stop] for c in rest], self._fold)

    def _file_of(self, task: int, columns: Columns) -> _File:
        """A task's file, made when its first rows come; `columns` are of the kinds that it keeps."""
        if task not in self._files:
            self._files[task] = _File(task, self._dim, [column[:0] for column in columns])
        return self._files[task]

    def _fold(self, file: _File) -> None:
        """The oldest rows of a file become a period."""
        assert self._start is not None
        X, y, *more, number = file.rows()
        folded = np.arange(len(y)) < len(y) - file.block
        if self._stays is not None:
            folded &= ~self._stays(*more)
        tamed = tame(np.zeros(len(y), dtype=np.int64), y)
        if tamed.left_out.any() or not folded.any():  # such rows are in no fit; perhaps they are taken back
            file.limit += file.block
            return
        wild, old = folded & tamed.wild, X[folded]
        period = Period.of(
            old, tamed.y[folded], number[folded], self._start,
            self._sums(old, y[folded], *(column[folded] for column in more)),
            dict(zip(number[wild].tolist(), tamed.y[wild].tolist(), strict=True)),
        )  # fmt: skip
        file.keep(~folded, period, self._start.parts)

    def view(self) -> View:
        """Everything as it is now; cheap, and untouched by what comes later."""
        ordered = sorted(self._files.items())
        files = [(t, file.rows()) for t, file in ordered]
        periods = [(t, p) for t, file in ordered for _, p in file.periods]
        origin = np.zeros(self._dim) if self._start is None else self._start.origin
        return View(self._inbox.pieces(), files, periods, origin)


class _File:
    """One task's rows: columns with room to grow, and its periods with their ages."""

    def __init__(self, task: int, dim: int, empty: Columns) -> None:
        self.block = max(_LATEST, 2 * (dim + 2))  # a period of fewer rows is hardly smaller than they are
        self.limit = 2 * self.block + int(self.block * (task * _GOLDEN % 1.0))
        self.periods: list[tuple[int, Period]] = []
        self._columns, self._size = empty, 0
        self._rows: Columns | None = None  # views, made once: a look at 10,000 files is to take milliseconds

    def rows(self) -> Columns:
        """Views of the columns."""
        if self._rows is None:
            self._rows = [column[: self._size] for column in self._columns]
        return self._rows

    def append(self, columns: Columns, fold: Callable[[_File], None]) -> None:
        """More rows; `fold` whenever there are as many as the file may hold."""
        start, n = 0, len(columns[0])
        while start < n:
            stop = min(start + self.limit - self._size, n)
            self._write([column[start:stop] for column in columns])
            start = stop
            if self._size == self.limit:
                fold(self)

    def _write(self, columns: Columns) -> None:
        size = self._size + len(columns[0])
        if size > len(self._columns[0]):
            room = max(size, min(2 * self._size, self.limit))
            self._columns = [_grown(c[: self._size], room) for c in self._columns]
        for own, new in zip(self._columns, columns, strict=True):
            own[self._size : size] = new
        self._size, self._rows = size, None

    def keep(self, rows: Bool, period: Period, parts: Parts | None) -> None:
        """Keep some of the rows, in place of the others a period; periods of the same age are joined."""
        kept = np.flatnonzero(rows)
        self.limit = len(kept) + self.block
        self._columns = [_grown(column[kept], self.limit) for column in self.rows()]
        self._size, self._rows = len(kept), None
        self.periods.append((0, period))
        while len(self.periods) > 1 and self.periods[-2][0] == self.periods[-1][0]:
            (age, earlier), (_, later) = self.periods[-2:]
            self.periods[-2:] = [(age + 1, earlier.joined(later, parts))]


def _grown(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    """With room for more; a copy, so that views of the old one stay as they are."""
    larger = np.empty((capacity, *column.shape[1:]), dtype=column.dtype)
    larger[: len(column)] = column
    return larger


@dataclass(frozen=True, eq=False)
class View:
    """A journal at one moment: rows that are not filed, each file's rows, and periods with their tasks."""

    inbox: list[Columns]
    files: list[tuple[int, Columns]]
    periods: list[tuple[int, Period]]
    origin: Float

    def rows(self, *which: int) -> Columns:
        """Columns whole, all if none is named: filed rows task by task, then the others as they came."""
        n = len(self.inbox)
        return [self._column(i % n) for i in (which or range(n))]

    def _column(self, i: int) -> NDArray[Any]:
        if i == 0:
            sizes = [len(columns[0]) for _, columns in self.files]
            filed = [np.repeat(np.array([t for t, _ in self.files], dtype=np.int64), sizes)]
        else:
            filed = [columns[i - 1] for _, columns in self.files]
        return np.concatenate([*filed, *self.inbox[i]])

    def numbers(self) -> NDArray[Any]:
        """The decisions whose rows are here as rows."""
        return np.concatenate([*(columns[-1] for _, columns in self.files), *self.inbox[-1]])
