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
        names = ["x", "y", *(f"more{i}" for i in range(len(kinds))), "number"]
        self._row = np.dtype(
            list(zip(names, [(np.float64, (dim,)), np.float64, *kinds, np.int64], strict=True)), align=True
        )
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
        task, *columns = (np.concatenate(pieces) for pieces in self._inbox.pieces())
        if self._start is None:
            self._start = Start.of(columns[0])
        self._inbox = self._table()
        order = np.argsort(task, kind="stable")
        rows = np.empty(len(task), self._row)
        for name, column in zip(self._row.names or (), columns, strict=True):
            rows[name] = column[order]
        task, packed = task[order], rows.view(_packed(self._row))
        starts = np.flatnonzero(np.r_[True, task[1:] != task[:-1]])
        places = [*starts.tolist(), len(task)]
        with one_thread():  # so that a journal filled again on another machine has the same bits
            for t, start, stop in zip(task[starts].tolist(), places, places[1:], strict=False):
                if t not in self._files:
                    self._files[t] = _File(t, self._dim, self._row)
                self._files[t].append(packed[start:stop], self._fold)

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
    """One task's rows, with room to grow, and its periods with their ages."""

    def __init__(self, task: int, dim: int, row: np.dtype[Any]) -> None:
        self.block = max(_LATEST, 2 * (dim + 2))  # a period of fewer rows is hardly smaller than they are
        self.limit = 2 * self.block + int(self.block * (task * _GOLDEN % 1.0))
        self.periods: list[tuple[int, Period]] = []
        self._row, self._size = row, 0
        self._packed: NDArray[Any] = np.empty(0, _packed(row))
        self._columns: Columns | None = None  # made once: a look at 10,000 files is to take milliseconds

    def rows(self) -> Columns:
        """Views of the columns."""
        if self._columns is None:
            rows = self._packed[: self._size].view(self._row)
            self._columns = [rows[name] for name in self._row.names or ()]
        return self._columns

    def append(self, packed: NDArray[Any], fold: Callable[[_File], None]) -> None:
        """More rows; `fold` whenever there are as many as the file may hold."""
        start, n = 0, len(packed)
        while start < n:
            stop = min(start + self.limit - self._size, n)
            self._write(packed[start:stop])
            start = stop
            if self._size == self.limit:
                fold(self)

    def _write(self, packed: NDArray[Any]) -> None:
        size = self._size + len(packed)
        if size > len(self._packed):
            self._packed = _grown(self._packed[: self._size], max(size, min(2 * self._size, self.limit)))
        self._packed[self._size : size] = packed
        self._size, self._columns = size, None

    def keep(self, rows: Bool, period: Period, parts: Parts | None) -> None:
        """Keep some of the rows, in place of the others a period; periods of the same age are joined."""
        kept = np.flatnonzero(rows)
        self.limit = len(kept) + self.block
        self._packed = _grown(self._packed[kept], self.limit)
        self._size, self._columns = len(kept), None
        self.periods.append((0, period))
        while len(self.periods) > 1 and self.periods[-2][0] == self.periods[-1][0]:
            (age, earlier), (_, later) = self.periods[-2:]
            self.periods[-2:] = [(age + 1, earlier.joined(later, parts))]


def _packed(row: np.dtype[Any]) -> np.dtype[Any]:
    """The same bytes without names, which are copied at once: most files get a row or two at a time."""
    return np.dtype((np.void, row.itemsize))


def _grown(rows: NDArray[Any], capacity: int) -> NDArray[Any]:
    """With room for more; a copy, so that views of the old one stay as they are."""
    larger = np.empty(capacity, rows.dtype)
    larger[: len(rows)] = rows
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
