"""`SqliteLedger`: the ledger in one SQLite file, in write-ahead mode; without a path, in memory.

One process writes, and holds the guard's lock. Readers open snapshots of their own and disturb nobody.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from banister.errors import BanisterError, DataFileError, InputError, ModelFileError
from banister.online.fresh import Fresh
from banister.online.guard import Guard
from banister.online.head import Head
from banister.online.ledger import Played, Rewarded
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    Entry,
    LogRecord,
    ModelRecord,
    Record,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
    TaskRecord,
)
from banister.online.sqlite import opening, statements
from banister.online.sqlite.migrate import migrate
from banister.online.sqlite.schema import SCHEMA

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}
_LOG_BYTES = 1 << 24  # of write-ahead log before it is folded in, which costs two syncs
_PAGE = 2048  # bytes: every commit writes whole pages, of the record and of the head
_COMPANIONS = ("", "-wal", "-shm")


class SqliteLedger:
    """Tables in a file of their own; see `Ledger` for what each operation does."""

    shared, gapless = False, True

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.where = str(path) if path else "the ledger in memory"
        self._guard = Guard(path) if path else None
        self._open, self._fresh = False, Fresh()
        fresh = path is None or not path.exists()
        try:
            self._db = self._opened(fresh)
        except BaseException:
            self._clean_up(fresh)
            raise

    def _opened(self, fresh: bool) -> sqlite3.Connection:
        with self._readable():
            if fresh and self.path is not None:
                _make(self.path)
            db = opening.connect(self.path)
        try:
            with self._readable():
                _prepare(db, self.where, fresh)
                self._writer = statements.Writer(db)
            if self._guard is not None:
                self._guard.watch()
        except BaseException:
            db.close()
            raise
        return db

    def _clean_up(self, fresh: bool) -> None:
        """A store that could not be made leaves nothing behind."""
        if fresh and self.path is not None:
            for end in _COMPANIONS:
                Path(f"{self.path}{end}").unlink(missing_ok=True)
        if self._guard is not None:
            self._guard.release()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as reason:
            raise _refused(self.where, reason) from None

    @property
    def head(self) -> Head:
        return self._writer.head

    def check(self) -> None:
        if self._guard is not None:
            self._guard.check()

    @property
    def in_transaction(self) -> bool:
        """Whether one is open."""
        return self._open

    def set_durability(self, durability: str) -> None:
        # "FULL" syncs the file at every commit, "NORMAL" when the write-ahead log is folded in.
        self._db.execute(f"PRAGMA synchronous={_SYNCHRONOUS[durability]}")

    def transaction(self, *, alone: bool = False) -> _Transaction:
        return _Transaction(self)

    def still(self) -> AbstractContextManager[None]:
        return nullcontext()

    def start_refit(self) -> bool:
        return True

    def end_refit(self) -> None:
        pass

    def begin(self) -> None:
        """The first half of a transaction. SQLite hears of it with its second statement: one needs none."""
        self.check()
        self._open = True
        self._only: Record | None = None
        self._begun = False

    def _begin_now(self) -> None:
        """A transaction that is more than one statement."""
        if self._open and not self._begun:
            self._db.execute("BEGIN IMMEDIATE")
            self._begun = True
            if self._only is not None:
                self._db.execute(*self._statement)

    def commit(self) -> None:
        """The second half, if all went well."""
        try:
            if self._begun:
                self._db.execute("COMMIT")
            elif self._only is not None:
                self._db.execute(*self._statement)
        except (sqlite3.Error, OverflowError) as reason:
            self.roll_back()
            raise _refused(self.where, reason) from None
        self._open = False
        self._writer.committed()
        if isinstance(self._only, DecisionRecord):
            self._fresh.add(self._only)

    def roll_back(self) -> None:
        """The second half, if not."""
        self._open = False
        self._writer.fall_back()
        with suppress(sqlite3.Error):
            self._db.execute("ROLLBACK")

    @property
    def last_id(self) -> int:
        return self.head.decisions

    def next_id(self) -> int:
        return self.head.decisions + 1

    def _add(self, record: Record) -> None:
        assert self._open, "records are added within a transaction"
        statement = self._writer.link(record)
        if self._only is None and not self._begun:
            self._only, self._statement = record, statement
            return
        self._begin_now()
        self._db.execute(*statement)

    def _add_many(self, records: Sequence[Record]) -> None:
        """Records of one kind."""
        assert self._open, "records are added within a transaction"
        if records:
            self._begin_now()
            self._db.executemany(*self._writer.link_many(records))

    def add_task(self, label: str) -> int:
        code = self.head.tasks
        self._add(TaskRecord(code, label))
        return code

    def add_decision(self, record: DecisionRecord) -> None:
        self._add(record)

    def add_decisions(self, records: Iterable[DecisionRecord]) -> None:
        self._add_many(list(records))

    def add_reward(self, record: RewardRecord) -> None:
        self._add(record)

    def add_rewards(self, records: Iterable[RewardRecord]) -> None:
        self._add_many(list(records))

    def add_refusal(self, record: RefusalRecord) -> None:
        self._add(record)

    def add_retraction(self, record: RetractionRecord) -> None:
        self._add(record)

    def add_alarm(self, record: AlarmRecord) -> None:
        self._add(record)

    def add_log(self, record: LogRecord) -> None:
        self._add(record)

    def add_model(self, record: ModelRecord) -> None:
        self._add(record)

    def add_part(self, version: int, part: int, data: bytes) -> None:
        self._do("INSERT OR REPLACE INTO model_parts VALUES (?, ?, ?)", version, part, data)

    def forget_model(self, version: int) -> None:
        self._do("DELETE FROM model_parts WHERE version = ?", version)

    def keep(self, key: str, value: str) -> None:
        self._do("INSERT OR REPLACE INTO meta VALUES (?, ?)", key, value)

    def _do(self, statement: str, *values: Any) -> None:
        """A change that is no record."""
        with self.transaction():
            self._begin_now()
            self._db.execute(statement, values)

    def kept(self, key: str) -> str | None:
        rows = self._rows("SELECT value FROM meta WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    def notes(self) -> dict[str, str]:
        return dict(self._rows("SELECT key, value FROM meta"))

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._readable():
            self._show_own()
            return self._db.execute(statement, values).fetchall()

    def _show_own(self) -> None:
        """A read within a transaction sees what that has added."""
        if self._open and self._only is not None:
            self._begin_now()

    def find(self, number: int) -> Played | None:
        if not 0 < number < 1 << 62:
            return None
        fresh = self._fresh.take(number)
        if fresh is not None:
            return fresh
        try:
            self._show_own()
            found = self._db.execute(statements.FIND, (number,)).fetchone()
        except sqlite3.Error as reason:
            raise opening.unusable(self.where, reason) from None
        return None if found is None else statements.played(*found)

    def find_many(self, numbers: Sequence[int]) -> dict[int, Played]:
        for number in numbers:
            self._fresh.take(number)  # a reward of it may be written now
        known = json.dumps([number for number in numbers if 0 < number < 1 << 62])
        return {row[0]: statements.played(*row[1:]) for row in self._rows(statements.FIND_MANY, known)}

    def find_key(self, key: str) -> DecisionRecord | None:
        return self.find_keys([key]).get(key)

    def find_keys(self, keys: Sequence[str]) -> dict[str, DecisionRecord]:
        which = "WHERE key IN (SELECT value FROM json_each(?))"
        return {record.key: record for record in self._read(DecisionRecord, which, json.dumps(keys))}

    def decision(self, number: int) -> DecisionRecord | None:
        if not 0 < number < 1 << 62:
            return None
        found = list(self._read(DecisionRecord, "WHERE id = ?", number))
        return found[0] if found else None

    def last_decisions(self, task: int, most: int) -> list[DecisionRecord]:
        return list(self._read(DecisionRecord, "WHERE task = ? ORDER BY id DESC LIMIT ?", task, most))

    def tasks(self) -> list[str]:
        tasks = list(self._read(TaskRecord))
        for expected, task in enumerate(tasks):
            if task.code != expected:
                raise DataFileError(f"{self.where} lacks task number {expected}; restore a copy.")
        return [task.label for task in tasks]

    def dim(self) -> int | None:
        first = self._rows("SELECT LENGTH(baseline_features) FROM decisions LIMIT 1")
        if first:
            return int(first[0][0]) // 8
        log = self._rows("SELECT LENGTH(features) / LENGTH(reward) FROM logs WHERE LENGTH(reward) LIMIT 1")
        return int(log[0][0]) if log else None

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
            cursor = self._db.execute(statements.REWARDED)
            while block := cursor.fetchmany(statements.BLOCK):
                number, value, task, features, is_baseline, claim = zip(*block, strict=True)
                X = np.frombuffer(b"".join(features)).reshape(-1, dim)
                yield Rewarded(
                    np.array(number), np.array(value, dtype=float), np.array(task), X,
                    np.array(is_baseline, dtype=bool), np.array(claim, dtype=float),
                )  # fmt: skip

    def rewards(self) -> Iterator[RewardRecord]:
        return self._read(RewardRecord, "ORDER BY id")

    def retractions(self) -> list[RetractionRecord]:
        return list(self._read(RetractionRecord))

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

    def models(self) -> list[ModelRecord]:
        return list(self._read(ModelRecord))

    def versions(self) -> dict[int, int]:
        return dict(self._rows("SELECT version, COUNT(*) FROM decisions GROUP BY version ORDER BY version"))

    def first_with_reason(self, version: int, reason: str) -> dict[int, int]:
        return dict(
            self._rows(
                "SELECT task, MIN(id) FROM decisions WHERE version = ? AND reason = ? GROUP BY task",
                version, reason,
            )
        )  # fmt: skip

    def refusals(self) -> dict[str, int]:
        return dict(self._rows("SELECT why, COUNT(*) FROM refusals GROUP BY why"))

    def unrewarded_before(self, time: float) -> int:
        rows = self._rows(
            "SELECT COUNT(*) FROM decisions WHERE time < ? AND id NOT IN (SELECT id FROM rewards)", time
        )
        return int(rows[0][0])

    def entries(self) -> Iterator[Entry]:
        with self._readable():
            yield from statements.entries(self._db)

    def start(self) -> bytes:
        try:
            return bytes.fromhex(self.kept("start") or "")
        except ValueError:
            return b""

    def snapshot(self) -> SqliteLedger:
        view = object.__new__(type(self))
        view.path, view.where, view._guard, view._open = None, self.where, None, False
        view._fresh = Fresh()
        with self._readable():
            view._db = opening.connect(self.path, read_only=True) if self.path else _copied(self._db)
            view._db.execute("BEGIN")  # one moment, held until the view is closed
            view._writer = statements.Writer(view._db)
        return view

    @classmethod
    def read_only(cls, path: Path) -> SqliteLedger:
        """A view of a store that another process may be serving from."""
        view = object.__new__(cls)
        view.path, view.where, view._guard, view._open = None, str(path), None, False
        view._fresh = Fresh()
        with view._readable():
            view._db = opening.connect(path, read_only=True)
            try:
                view._db.execute("BEGIN")
                if opening.check(view._db, view.where) != SCHEMA:
                    raise ModelFileError(
                        f"{path} was written by an older version; open it once with SafeBandit.load, which "
                        "brings it up to date."
                    )
                view._writer = statements.Writer(view._db)
            except BaseException:
                view._db.close()
                raise
        return view

    def save(self, path: Path) -> None:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".tmp")
        os.close(handle)
        try:
            with self._readable():
                target = sqlite3.connect(name)
                try:
                    self._db.backup(target)
                finally:
                    target.close()
            try:
                os.link(name, path)  # unlike a rename, it never replaces what is there
            except FileExistsError:
                raise InputError(f"There is a file at {str(path)!r} already; choose another path.") from None
        finally:
            os.unlink(name)

    def close(self) -> None:
        if self._guard is None or self._guard.own_process:
            self._db.close()
        if self._guard is not None:
            self._guard.release()


class _Transaction:
    """All or nothing; within another one it is part of that. A class, because every call pays for it."""

    __slots__ = ("_inner", "_ledger")

    def __init__(self, ledger: SqliteLedger) -> None:
        self._ledger = ledger

    def __enter__(self) -> None:
        self._inner = self._ledger.in_transaction
        if not self._inner:
            self._ledger.begin()

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        if self._inner:
            return
        if failure is None:
            self._ledger.commit()
            return
        self._ledger.roll_back()
        if isinstance(failure, (sqlite3.Error, OverflowError)):
            raise _refused(self._ledger.where, failure) from None


def _refused(where: str, reason: sqlite3.Error | OverflowError | UnicodeDecodeError) -> BanisterError:
    """The error for what SQLite does not take."""
    if isinstance(reason, OverflowError):
        return DataFileError(f"{where} cannot hold this ({reason}).")
    if isinstance(reason, UnicodeDecodeError):
        return DataFileError(f"{where} is damaged: it holds text that is none; restore it from a copy.")
    return opening.unusable(where, reason)


def _make(path: Path) -> None:
    try:
        opening.make_file(path)
    except OSError as reason:
        raise DataFileError(
            f"{path} cannot be made ({reason}): check the folder, its space and its permissions."
        ) from None


def _prepare(db: sqlite3.Connection, where: str, fresh: bool) -> None:
    """Tables that are this version's, made or brought up to date in one transaction."""
    if fresh:
        db.execute(f"PRAGMA page_size={_PAGE}")
    version = 0 if fresh else opening.check(db, where)
    db.execute("PRAGMA journal_mode=WAL")
    page = db.execute("PRAGMA page_size").fetchone()[0]
    db.execute(f"PRAGMA wal_autocheckpoint={_LOG_BYTES // page}")
    db.execute("BEGIN IMMEDIATE")
    try:
        if fresh:
            opening.create(db)
        elif version < SCHEMA:
            migrate(db, version)
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _copied(db: sqlite3.Connection) -> sqlite3.Connection:
    """A database in memory has one connection only; its snapshot is a copy."""
    copy = opening.connect(None)
    db.backup(copy)
    return copy
