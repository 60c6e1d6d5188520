"""`Reader`: everything that a ledger in PostgreSQL can be asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from typing import Any

import numpy as np

from banister.errors import DataFileError
from banister.online.head import COUNTS, Head
from banister.online.ledger import Decided, Played, Rewarded, Span
from banister.online.postgres import statements
from banister.online.postgres.connecting import unusable
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    Entry,
    LogRecord,
    RetractionRecord,
    RewardRecord,
)
from banister.online.sql.reading import LAST, LedgerReader

_ALL = (0, LAST)


def _played(row: tuple[Any, ...]) -> Played:
    task, features, *more = row
    return Played(task, np.frombuffer(features), *more)


class Reader(LedgerReader):
    """Reads; see `Ledger` for what each operation does."""

    gapless = False  # an id that was set aside for a process which then died stays unused
    _db: Any

    def __init__(self, db: Any, where: str) -> None:
        self._db, self.where = db, where
        self._cursor = db.cursor(binary=True)
        self.read_head()

    def read_head(self) -> None:
        """Counts, hash, ids and epoch as the database has them."""
        rows = self._rows(statements.HEAD)
        if not rows:
            raise DataFileError(f"{self.where} has lost the head of its chain; restore it from a copy.")
        self._take(rows[0])

    def _take(self, row: tuple[Any, ...]) -> None:
        *counts, self.last_id, self.epoch = row
        self.head = Head(*counts)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except (psycopg.Error, UnicodeError, OverflowError) as reason:
            raise unusable(self.where, reason) from None

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._readable():
            self._show_own()
            found: list[tuple[Any, ...]] = self._cursor.execute(statement, values, prepare=True).fetchall()
            return found

    def _show_own(self) -> None:
        """A read within a transaction sees what that has added."""

    def kept(self, key: str) -> str | None:
        rows = self._rows("SELECT value FROM meta WHERE key = %b::text", key)
        return str(rows[0][0]) if rows else None

    def notes(self) -> dict[str, str]:
        return dict(self._rows("SELECT key, value FROM meta"))

    def find(self, number: int) -> Played | None:
        if not 0 < number <= LAST:
            return None
        rows = self._rows(statements.FIND, number)
        if not rows:
            return None
        return _played(rows[0])

    def find_many(self, numbers: Sequence[int]) -> dict[int, Played]:
        known = [number for number in numbers if 0 < number <= LAST]
        return {row[0]: _played(row[1:]) for row in self._rows(statements.FIND_MANY, known)}

    def find_keys(self, keys: Sequence[str]) -> dict[str, DecisionRecord]:
        found = self._decisions("WHERE key = ANY(%b::text[])", list(keys))
        return {record.key: record for record in found if record.key is not None}

    def decision(self, number: int) -> DecisionRecord | None:
        if not 0 < number <= LAST:
            return None
        return next(iter(self._decisions("WHERE id = %b::bigint", number)), None)

    def last_decisions(self, task: int, most: int) -> list[DecisionRecord]:
        return self._decisions("WHERE task = %b::bigint ORDER BY id DESC LIMIT %b::bigint", task, most)

    def _decisions(self, which: str, *values: Any) -> list[DecisionRecord]:
        columns = statements.COLUMNS[DecisionRecord]
        rows = self._rows(f"SELECT {columns} FROM decisions {which}", *values)
        return [DecisionRecord._make(row) for row in rows]

    def _chained(
        self, kind: type[Any], more: str = "", values: tuple[Any, ...] = (), span: Span = _ALL
    ) -> Iterator[Entry]:
        """Records of one kind in the order of the chain, block by block."""
        after, to = span
        while block := self._rows(statements.reading(kind, more), after, to, *values):
            for link, head, *row in block:
                yield link, head, kind._make(row)
            after = block[-1][0]

    def _read(self, kind: type[Any], more: str = "", *values: Any, span: Span = _ALL) -> Iterator[Any]:
        return (record for _, _, record in self._chained(kind, more, values, span))

    def decisions(self, version: int | None = None) -> Iterator[DecisionRecord]:
        if version is None:
            return self._read(DecisionRecord)
        return self._read(DecisionRecord, "AND version = %b", version)

    def decided(self, span: Span) -> Iterator[Decided]:
        after, to = span
        while block := self._rows(statements.DECIDED, after, to):
            link, *columns = zip(*block, strict=True)
            yield Decided(*columns)
            after = link[-1]

    def rewarded(self, dim: int, span: Span = _ALL) -> Iterator[Rewarded]:
        after, to = span
        while block := self._rows(statements.REWARDED, after, to):
            _, number, value, task, features, is_baseline, claim = zip(*block, strict=True)
            X = np.frombuffer(b"".join(features)).reshape(-1, dim)
            yield Rewarded(
                np.array(number), np.array(value), np.array(task), X, np.array(is_baseline), np.array(claim)
            )
            after = block[-1][0]

    def rewards(self) -> Iterator[RewardRecord]:
        return iter(sorted(self._read(RewardRecord), key=lambda record: record.id))

    def retractions(self, span: Span = _ALL) -> list[RetractionRecord]:
        return list(self._read(RetractionRecord, span=span))

    def retracted_before(self, version: int) -> list[int]:
        before = "SELECT id FROM retractions WHERE link < (SELECT link FROM models WHERE version = %b)"
        return [number for (number,) in self._rows(before, version)]

    def alarms(self, after: int = 0) -> list[AlarmRecord]:
        return list(self._read(AlarmRecord, "AND seq > %b", after))

    def logs(self, span: Span = _ALL) -> list[LogRecord]:
        return list(self._read(LogRecord, span=span))

    def model(self, version: int) -> bytes | None:
        size = self._rows("SELECT size FROM models WHERE version = %b", version)
        parts = self._rows("SELECT bytes FROM model_parts WHERE version = %b ORDER BY part", version)
        data = b"".join(part for (part,) in parts)[: size[0][0] if size else 0]
        return data or None

    def first_with_reason(self, version: int, reason: str, after: int) -> dict[int, int]:
        return dict(
            self._rows(
                "SELECT task, min(id) FROM decisions WHERE id > %b AND version = %b AND reason = %b::text "
                "GROUP BY task",
                after, version, str(reason),
            )
        )  # fmt: skip

    def unrewarded_before(self, time: float) -> int:
        rows = self._rows(
            "SELECT count(*) FROM decisions d WHERE time < %b "
            "AND NOT EXISTS (SELECT 1 FROM rewards r WHERE r.id = d.id)",
            time,
        )
        return int(rows[0][0])

    def entries(self, span: Span = _ALL) -> Iterator[Entry]:
        return merge(*(self._chained(kind, span=span) for kind in COUNTS), key=lambda entry: entry[0])

    def close(self) -> None:
        self._db.close()
