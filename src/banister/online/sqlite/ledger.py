"""`SqliteLedger`: the ledger in one SQLite file, in write-ahead mode; without a path, in memory.

One process writes, and holds the guard's lock. Readers open snapshots of their own and disturb nobody.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from banister.errors import DataFileError, InputError, ModelFileError
from banister.online.adding import Adder
from banister.online.fresh import Fresh
from banister.online.guard import Guard
from banister.online.head import Head
from banister.online.record import (
    DecisionRecord,
    Record,
)
from banister.online.sqlite import opening, statements
from banister.online.sqlite.migrate import migrate
from banister.online.sqlite.reading import SqliteReader, refused
from banister.online.sqlite.schema import SCHEMA
from banister.online.transaction import Transaction

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}
_LOG_BYTES = 1 << 24  # of write-ahead log before it is folded in, which costs two syncs
_PAGE = 2048  # bytes: every commit writes whole pages, of the record and of the head
_COMPANIONS = ("", "-wal", "-shm")


class SqliteLedger(SqliteReader, Adder):
    """Tables in a file of their own; see `Ledger` for what each operation does."""

    shared, gapless = False, True

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.where = str(path) if path else "the ledger in memory"
        self._guard = Guard(path) if path else None
        self.open, self._fresh = False, Fresh()
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

    @property
    def head(self) -> Head:
        return self._writer.head

    def check(self) -> None:
        if self._guard is not None:
            self._guard.check()

    def set_durability(self, durability: str) -> None:
        # "FULL" syncs the file at every commit, "NORMAL" when the write-ahead log is folded in.
        self._db.execute(f"PRAGMA synchronous={_SYNCHRONOUS[durability]}")

    def transaction(self, *, alone: bool = False) -> Transaction:
        return Transaction(self, alone)

    def still(self) -> AbstractContextManager[None]:
        return nullcontext()

    def start_refit(self) -> bool:
        return True

    def end_refit(self) -> None:
        pass

    def begin(self, alone: bool = False) -> None:
        # SQLite hears of a transaction with its second statement: one needs none.
        if self._guard is not None:
            self._guard.check()
        self.open = True
        self._only: Record | None = None
        self._begun = False

    def _begin_now(self) -> None:
        """A transaction that is more than one statement."""
        if self.open and not self._begun:
            self._db.execute("BEGIN IMMEDIATE")
            self._begun = True
            if self._only is not None:
                self._db.execute(*self._statement)

    def commit(self) -> None:
        try:
            if self._begun:
                self._db.execute("COMMIT")
            elif self._only is not None:
                self._db.execute(*self._statement)
        except (sqlite3.Error, OverflowError) as reason:
            self.roll_back(reason)
        self.open = False
        self._writer.committed()
        if isinstance(self._only, DecisionRecord):
            self._fresh.add(self._only)

    def roll_back(self, failure: BaseException | None = None) -> None:
        self.open = False
        self._writer.fall_back()
        if self._begun:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
        if isinstance(failure, (sqlite3.Error, OverflowError)):
            raise refused(self.where, failure) from None

    @property
    def last_id(self) -> int:
        return self._writer.head.decisions

    def next_id(self) -> int:
        return self._writer.head.decisions + 1

    def _add(self, record: Record) -> None:
        assert self.open, "records are added within a transaction"
        statement = self._writer.link(record)
        if self._only is None and not self._begun:
            self._only, self._statement = record, statement
            return
        self._begin_now()
        self._db.execute(*statement)

    def _add_many(self, records: Sequence[Record]) -> None:
        assert self.open, "records are added within a transaction"
        if records:
            self._begin_now()
            self._db.executemany(*self._writer.link_many(records))

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

    def _show_own(self) -> None:
        """A read within a transaction sees what that has added."""
        if self.open and self._only is not None:
            self._begin_now()

    def snapshot(self) -> SqliteLedger:
        view = object.__new__(type(self))
        view.path, view.where, view._guard, view.open = None, self.where, None, False
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
        view.path, view.where, view._guard, view.open = None, str(path), None, False
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
