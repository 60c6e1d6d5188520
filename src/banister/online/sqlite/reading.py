"""`SqliteReader`: everything that a ledger in SQLite can be asked."""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from banister.errors import BanisterError, DataFileError
from banister.online.fresh import Fresh
from banister.online.ledger import Played, Rewarded
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    Entry,
    LogRecord,
    RetractionRecord,
    RewardRecord,
)
from banister.online.sql.reading import LAST, LedgerReader
from banister.online.sqlite import opening, statements
from banister.online.sqlite.waiting import Waiting


class SqliteReader(LedgerReader):
    """Reads; see `Ledger` for what each operation does."""

    _db: sqlite3.Connection
    _fresh: Fresh
    _waiting: Waiting

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as reason:
            raise refused(self.where, reason) from None

    @abstractmethod
    def _show_own(self) -> None:
        """A read sees what waits, and what the open transaction has added."""

    def kept(self, key: str) -> str | None:
        rows = self._rows("SELECT value FROM meta WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def notes(self) -> dict[str, str]:
        return dict(self._rows("SELECT key, value FROM meta WHERE key != 'tail'"))  # which is of these files

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._readable():
            self._show_own()
            return self._db.execute(statement, values).fetchall()

    def find(self, number: int) -> Played | None:
        if not 0 < number <= LAST:
            return None
        fresh = self._fresh.take(number)
        if fresh is not None:
            return fresh
        try:
            if self._waiting.concerns(number):
                self._show_own()
            found = self._db.execute(statements.FIND, (number,)).fetchone()
        except sqlite3.Error as reason:
            raise opening.unusable(self.where, reason) from None
        return None if found is None else statements.played(*found)

    def find_many(self, numbers: Sequence[int]) -> dict[int, Played]:
        fresh = {number: self._fresh.take(number) for number in set(numbers)}
        found = {number: played for number, played in fresh.items() if played is not None}
        rest = [number for number in fresh if number not in found and 0 < number <= LAST]
        if rest:
            rows = self._rows(statements.FIND_MANY, json.dumps(rest))
            found.update((row[0], statements.played(*row[1:])) for row in rows)
        return found

    def find_keys(self, keys: Sequence[str]) -> dict[str, DecisionRecord]:
        which = "WHERE key IN (SELECT value FROM json_each(?))"
        with self._readable():
            if any(map(self._waiting.has_key, keys)):
                self._show_own()
            found = list(statements.read(self._db, DecisionRecord, which, json.dumps(keys)))
        return {record.key: record for record in found}

    def decision(self, number: int) -> DecisionRecord | None:
        if not 0 < number <= LAST:
            return None
        found = list(self._read(DecisionRecord, "WHERE id = ?", number))
        return found[0] if found else None

    def last_decisions(self, task: int, most: int) -> list[DecisionRecord]:
        return list(self._read(DecisionRecord, "WHERE task = ? ORDER BY id DESC LIMIT ?", task, most))

    def _read(self, kind: type[Any], more: str = "", *values: Any) -> Iterator[Any]:
        with self._readable():
            self._show_own()
            yield from statements.read(self._db, kind, more, *values)

    def decisions(self, version: int | None = None) -> Iterator[DecisionRecord]:
        if version is None:
            return self._read(DecisionRecord)
        return self._read(DecisionRecord, "WHERE version = ? ORDER BY id", version)

    def rewarded(self, dim: int) -> Iterator[Rewarded]:
        with self._readable():
            self._show_own()
            cursor, last = self._db.execute(statements.REWARDED), 0
            while block := cursor.fetchmany(statements.BLOCK):
                number, value, task, features, is_baseline, claim, link = zip(*block, strict=True)
                last = _in_order(link, last)
                X = np.frombuffer(b"".join(features)).reshape(-1, dim)
                yield Rewarded(
                    np.array(number), np.array(value, dtype=float), np.array(task), X,
                    np.array(is_baseline, dtype=bool), np.array(claim, dtype=float),
                )  # fmt: skip

    def rewards(self) -> Iterator[RewardRecord]:
        return self._read(RewardRecord, "ORDER BY id")

    def retractions(self) -> list[RetractionRecord]:
        return list(self._read(RetractionRecord))

    def retracted_before(self, version: int) -> list[int]:
        before = "SELECT id FROM retractions WHERE link < (SELECT link FROM models WHERE version = ?)"
        return [number for (number,) in self._rows(before, version)]

    def alarms(self, after: int = 0) -> list[AlarmRecord]:
        return list(self._read(AlarmRecord, "WHERE seq > ? ORDER BY seq", after))

    def logs(self) -> Iterator[LogRecord]:
        return self._read(LogRecord)

    def model(self, version: int) -> bytes | None:
        found = self._rows("SELECT size FROM models WHERE version = ?", version)
        size = found[0][0] if found else 0
        data = bytearray()
        with self._readable():
            self._show_own()
            parts = self._db.execute(
                "SELECT bytes FROM model_parts WHERE version = ? AND length(bytes) <= ? ORDER BY part",
                (version, size),
            )
            while len(data) < size and (part := parts.fetchone()):  # whatever else the table was given
                data += part[0]
        return bytes(data[:size]) or None

    def first_with_reason(self, version: int, reason: str, after: int) -> dict[int, int]:
        return dict(
            self._rows(
                "SELECT task, MIN(id) FROM decisions WHERE id > ? AND version = ? AND reason = ? "
                "GROUP BY task",
                after, version, reason,
            )
        )  # fmt: skip

    def unrewarded_before(self, time: float) -> int:
        rows = self._rows(
            "SELECT COUNT(*) FROM decisions WHERE time < ? AND id NOT IN (SELECT id FROM rewards)", time
        )
        return int(rows[0][0])

    def entries(self) -> Iterator[Entry]:
        with self._readable():
            self._show_own()
            yield from statements.entries(self._db)


def _in_order(links: Sequence[int], before: int) -> int:
    """The last of these places in the chain; an error unless they come one after the other."""
    if not (np.diff(np.array(links), prepend=before) > 0).all():
        raise sqlite3.DatabaseError("rewards come in another order than that of their links")
    return links[-1]


def refused(where: str, reason: sqlite3.Error | OverflowError | UnicodeDecodeError) -> BanisterError:
    """The error for what SQLite does not take."""
    if isinstance(reason, OverflowError):
        return DataFileError(f"{where} cannot hold this ({reason}).")
    if isinstance(reason, UnicodeDecodeError):
        return DataFileError(f"{where} is damaged: it holds text that is none; restore it from a copy.")
    return opening.unusable(where, reason)
