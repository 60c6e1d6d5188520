"""`SqliteLedger`: the ledger in one SQLite file, in write-ahead mode; without a path, in memory.

One process writes, and holds the guard's lock. A call that adds a single decision or reward is acknowledged
once it stands in the tail; such records wait there until many of them are written to the tables together, or
until somebody reads. Every other call is a transaction of SQLite, which takes along what waits.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

from banister.errors import BanisterError, DataFileError
from banister.online.adding import Adder
from banister.online.fresh import Fresh
from banister.online.guard import Guard
from banister.online.head import Head
from banister.online.record import DecisionRecord, Record
from banister.online.sqlite import opening, statements
from banister.online.sqlite.catching_up import ahead, wait_for
from banister.online.sqlite.folding import LIMIT, LOG_BYTES, Folder
from banister.online.sqlite.migrate import migrate
from banister.online.sqlite.reading import SqliteReader, refused
from banister.online.sqlite.saving import save
from banister.online.sqlite.schema import SCHEMA
from banister.online.sqlite.tail import Tail, following, read_tail, tail_path
from banister.online.sqlite.waiting import Waiting
from banister.online.transaction import Transaction

_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}
_PAGE = 8192  # bytes: rows of a hundred features share a page, and many are written together
_COMPANIONS = ("", "-wal", "-shm", "-tail")
_SOON = 0.2  # seconds until what waits is moved even if nothing more comes, for readers elsewhere


class SqliteLedger(SqliteReader, Adder):
    """Tables in a file of their own; see `Ledger` for what each operation does.

    Args:
        path: None for memory.
        lock: its owner's, which whoever calls holds; with it, what waits is moved when nobody calls, too.
    """

    shared, gapless = False, True

    def __init__(self, path: Path | None, lock: threading.RLock | None = None) -> None:
        self.path = path
        self.where = str(path) if path else "the ledger in memory"
        self._guard = Guard(path) if path else None
        self.open, self._closed = False, False
        self._fresh, self._waiting = Fresh(), Waiting()
        self._tail: Tail | None = None
        self._folder: Folder | None = None
        self._lock = lock
        self._timer: threading.Timer | None = None
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
                if self.path is not None:
                    self._open_tail(db, self.path)
                    self._folder = Folder(self.path, _page(db))
        except BaseException:
            db.close()
            raise
        return db

    def _open_tail(self, db: sqlite3.Connection, path: Path) -> None:
        """Take in what a tail has that the tables lack; then begin it anew, or a new one."""
        assert self._guard is not None
        self._guard.watch("")
        self._log_handle, place = self._guard.watch("-wal"), tail_path(path)
        found = db.execute("SELECT value FROM meta WHERE key = 'tail'").fetchone()
        name = None if found is None else str(found[0])
        data = read_tail(place, name)
        if data is not None:
            self._take_in(db, following(data, self._writer.head, place))
        if name is not None:
            self._tail = Tail.again(place, bytes.fromhex(name))
        else:
            self._tail = Tail.made(place)
            db.execute("INSERT INTO meta VALUES ('tail', ?)", (self._tail.name,))
        self._guard.watch("-tail")

    def _take_in(self, db: sqlite3.Connection, records: Sequence[Record]) -> None:
        """Records of a tail, into the tables and onto the disk."""
        db.execute("BEGIN IMMEDIATE")
        for record in records:
            self._writer.add(record)
        self._writer.keep_head()
        db.execute("COMMIT")
        self._writer.committed()
        os.fsync(self._log_handle)

    def _clean_up(self, fresh: bool) -> None:
        """A store that could not be made leaves nothing behind."""
        if fresh and self.path is not None:
            for end in _COMPANIONS:
                Path(f"{self.path}{end}").unlink(missing_ok=True)
        if self._tail is not None:
            self._tail.close()
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
        if self._tail is not None:
            self._tail.durable = durability == "full"

    def transaction(self, *, alone: bool = False) -> Transaction:
        return Transaction(self, alone)

    def still(self) -> AbstractContextManager[None]:
        return nullcontext()

    def start_refit(self) -> bool:
        return True

    def end_refit(self) -> None:
        pass

    def begin(self, alone: bool = False) -> None:
        # SQLite hears of a transaction with its second record: a single one may wait.
        if self._guard is not None:
            self._guard.check()
        self.open = True
        self._only: Record | None = None
        self._made: list[DecisionRecord] = []
        self._begun = False

    def _begin_now(self) -> None:
        """A transaction of SQLite, which takes along what waits."""
        if self.open and not self._begun:
            self._db.execute("BEGIN IMMEDIATE")
            self._begun = True
            self._waiting.insert(self._db)
            if self._only is not None:
                self._db.execute(statements.INSERT[type(self._only)], self._values)

    def commit(self) -> None:
        try:
            if self._only is not None and not self._begun:
                self._commit_one(self._only)
            if self._begun:
                self._finish()
        except (sqlite3.Error, OverflowError, DataFileError) as reason:
            self.roll_back(reason)
            raise
        self.open = False
        self._writer.committed()
        if isinstance(self._only, DecisionRecord):
            self._fresh.add(self._only)
        if self._made:
            self._fresh.add_many(self._made)
        if self._folder is not None and self._begun:
            self._folder.committed(self._db)

    def _commit_one(self, record: Record) -> None:
        """Into the tail, if it may wait there; else SQLite has to take it."""
        tail, content = self._tail, self._content
        if not self._waiting.takes(record) or (tail is not None and not tail.has_room(content)):
            self._begin_now()
            return
        if tail is not None:
            tail.append(content, self._writer.head)
            self._move_soon()
        self._waiting.add(record, self._values)

    def _finish(self) -> None:
        self._writer.keep_head()
        self._db.execute("COMMIT")
        self._waiting.clear()
        if self._tail is not None and self._tail.used:
            with suppress(OSError):  # then it stays full, and every call is a transaction
                os.fsync(self._log_handle)
                self._tail.begin_anew()

    def roll_back(self, failure: BaseException | None = None) -> None:
        self.open = False
        self._writer.fall_back()
        if self._begun:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
        if isinstance(failure, (sqlite3.Error, OverflowError)):
            raise refused(self.where, failure) from None

    def move(self) -> None:
        """What waits is in the tables when this returns."""
        if self.open:
            self._begin_now()
        elif len(self._waiting):
            with self.transaction():
                self._begin_now()

    def _move_soon(self) -> None:
        if self._lock is not None and self._timer is None:
            self._timer = threading.Timer(_SOON, self._move_now)
            self._timer.daemon = True
            self._timer.start()

    def _move_now(self) -> None:
        """In a thread of its own, while nobody calls."""
        assert self._lock is not None
        with self._lock:
            self._timer = None
            if not self._closed:
                with suppress(BanisterError):  # the next call meets it too, and says so
                    self.move()

    @property
    def last_id(self) -> int:
        return self._writer.head.decisions

    def next_id(self) -> int:
        return self._writer.head.decisions + 1

    def _add(self, record: Record) -> None:
        assert self.open, "records are added within a transaction"
        content, values = self._writer.link(record)
        if self._only is None and not self._begun:
            self._only, self._content, self._values = record, content, values
            return
        self._begin_now()
        self._db.execute(statements.INSERT[type(record)], values)

    def _add_many(self, records: Sequence[Record]) -> None:
        assert self.open, "records are added within a transaction"
        if records:
            self._begin_now()
            self._writer.add_many(records)
            self._made += [record for record in records if isinstance(record, DecisionRecord)]

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
        if len(self._waiting) or (self.open and self._only is not None):
            self.move()

    def snapshot(self) -> SqliteLedger:
        self.move()
        with self._readable():
            return self._view(self.where, self.path, self._db)

    @classmethod
    def read_only(cls, path: Path) -> SqliteLedger:
        """A view of a store that another process may be serving from."""
        link = ahead(path)
        if link:
            with suppress(BanisterError):  # unless somebody serves
                cls(path).close()
            wait_for(path, link)
        try:
            view = cls._view(str(path), path)
        except (sqlite3.Error, OverflowError, UnicodeDecodeError) as reason:
            raise refused(str(path), reason) from None
        return view

    @classmethod
    def _view(cls, where: str, path: Path | None, source: sqlite3.Connection | None = None) -> SqliteLedger:
        """One moment, held until the view is closed; a store of unknown origin is checked."""
        view = object.__new__(cls)
        view.path, view.where, view._guard, view._tail, view._folder = None, where, None, None, None
        view.open, view._closed = False, False
        view._fresh, view._waiting = Fresh(), Waiting()
        view._db = db = _copied(source) if path is None and source else opening.connect(path, read_only=True)
        try:
            db.execute("BEGIN")
            if source is None:
                opening.check_current(db, where)
            view._writer = statements.Writer(db)
        except BaseException:
            db.close()
            raise
        return view

    def save(self, path: Path) -> None:
        with self._readable():
            save(self._db, path)

    def close(self) -> None:
        self._closed = True
        if self._guard is None or self._guard.own_process:
            settled = self._settled()
            if self._folder is not None:
                self._folder.close()
            self._db.close()
            if self._tail is not None and settled:
                self._tail.remove()
        if self._guard is not None:
            self._guard.release()

    def _settled(self) -> bool:
        """Whether the tables have everything, and say so; else the tail is read when the store is opened."""
        if self._tail is None:
            return False
        try:
            with self.transaction():
                self._do("DELETE FROM meta WHERE key = 'tail'")
            os.fsync(self._log_handle)
        except (BanisterError, OSError):
            return False
        return True


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
    db.execute(f"PRAGMA wal_autocheckpoint={LIMIT * LOG_BYTES // _page(db)}")
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


def _page(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA page_size").fetchone()[0])


def _copied(db: sqlite3.Connection) -> sqlite3.Connection:
    """A database in memory has one connection only; its snapshot is a copy."""
    copy = opening.connect(None)
    db.backup(copy)
    return copy
