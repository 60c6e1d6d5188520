"""The ledger: an append-only record in SQLite of every decision, reward and model.

One file, in write-ahead mode, locked by the process that serves from it. Every call is one transaction, and
has been committed when it returns. Without a path the same tables live in memory.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from banister.errors import DataFileError, ModelFileError
from banister.online.schema import FIND_DECISION, INSERT_DECISION, SCHEMA, TABLES

_PART = 1 << 20  # bytes of a model written at once, so that decisions wait for milliseconds only
_SYNCHRONOUS = {"normal": "NORMAL", "full": "FULL"}


class Ledger:
    """Tables and the few statements that use them; not thread-safe, its owner holds a lock."""

    def __init__(self, path: Path | None, *, durability: str = "normal") -> None:
        self.path = path
        self.where = str(path) if path else "the ledger in memory"
        with self._readable():
            self._db = self._connect()
        self.set_durability(durability)

    def set_durability(self, durability: str) -> None:
        """ "full" syncs the file at every commit, "normal" when the write-ahead log is folded in."""
        self._db.execute(f"PRAGMA synchronous={_SYNCHRONOUS[durability]}")

    def _connect(self) -> sqlite3.Connection:
        # Autocommit: a statement alone is a transaction of its own. `begin` makes larger ones.
        db = sqlite3.connect(
            str(self.path or ":memory:"), isolation_level=None, check_same_thread=False, timeout=0.2,
            cached_statements=64,
        )  # fmt: skip
        try:
            if self.path is not None:
                db.execute("PRAGMA locking_mode=EXCLUSIVE")
                db.execute("PRAGMA journal_mode=WAL")
            db.execute("BEGIN IMMEDIATE")
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name='meta'").fetchone():
                for statement in TABLES.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA),))
            db.execute("COMMIT")
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as reason:
            hint = "it is damaged, or no ledger; restore it from a copy."
            if "locked" in str(reason):
                hint = "another process serves from it; stop that one first, or ask it."
            elif "full" in str(reason) or "readonly" in str(reason) or "unable to open" in str(reason):
                hint = "check the folder, its space and its permissions."
            raise DataFileError(f"{self.where} cannot be used ({reason}): {hint}") from None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        with self._readable():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def check_schema(self) -> None:
        """An error if the ledger was written by a version that this one cannot read."""
        found = self.meta("schema")
        if found != str(SCHEMA):
            raise ModelFileError(
                f"{self.where} has schema version {found!r}; this version of banister reads {SCHEMA}."
            )

    def meta(self, key: str) -> str | None:
        """A value that was kept."""
        rows = self.rows("SELECT value FROM meta WHERE key = ?", key)
        return rows[0][0] if rows else None

    def set_meta(self, key: str, value: Any) -> None:
        """Keep a value as JSON."""
        with self._readable():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Everything a query gives."""
        with self._readable():
            return self._db.execute(statement, values).fetchall()

    def stream(self, statement: str, *values: Any, size: int = 4096) -> Iterator[list[tuple[Any, ...]]]:
        """What a query gives, in blocks, for tables larger than memory."""
        with self._readable():
            cursor = self._db.execute(statement, values)
            while block := cursor.fetchmany(size):
                yield block

    def write(self, statement: str, *values: Any) -> None:
        """One statement; a transaction of its own unless one is open."""
        try:
            self._db.execute(statement, values)
        except sqlite3.Error:
            with self._readable():
                raise

    def add_decision(self, row: tuple[Any, ...]) -> None:
        """One decision; committed when this returns, unless a transaction is open."""
        try:
            self._db.execute(INSERT_DECISION, row)
        except sqlite3.Error:
            with self._readable():
                raise

    def add_decisions(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Many decisions, within an open transaction."""
        with self._readable():
            self._db.executemany(INSERT_DECISION, rows)

    def find(self, number: int) -> tuple[Any, ...] | None:
        """(task, baseline features, features or None, time, reward or None) of a decision, or None."""
        if not 0 < number < 1 << 62:
            return None
        try:
            found: tuple[Any, ...] | None = self._db.execute(FIND_DECISION, (number,)).fetchone()
        except sqlite3.Error:
            with self._readable():
                raise
        return found

    def add_reward(self, number: int, seq: int, now: float, value: float) -> None:
        """One reward."""
        self.write("INSERT INTO rewards VALUES (?, ?, ?, ?)", number, seq, now, value)

    def backup(self, path: Path) -> None:
        """A whole copy at another place."""
        with self._readable():
            target = sqlite3.connect(str(path))
            try:
                self._db.backup(target)
            finally:
                target.close()

    def close(self) -> None:
        """Give the file back."""
        self._db.close()

    def parts_of(self, version: int, data: bytes) -> Iterator[tuple[int, int, bytes]]:
        """A model's bytes, cut into rows; each may be written in a transaction of its own."""
        for part, start in enumerate(range(0, len(data), _PART)):
            yield version, part, data[start : start + _PART]

    def add_part(self, row: tuple[int, int, bytes]) -> None:
        """Part of a model, which does not count until `finish_model`; a crash may leave one behind."""
        self.write("INSERT OR REPLACE INTO model_parts VALUES (?, ?, ?)", *row)

    def finish_model(self, version: int, size: int) -> None:
        """The model is whole: from this commit on it is the one that serves."""
        self.write("INSERT INTO models VALUES (?, ?, ?)", version, time.time(), size)

    def forget_model(self, version: int) -> None:
        """Drop a model's bytes; its row stays."""
        self.write("DELETE FROM model_parts WHERE version = ?", version)

    def model(self, version: int) -> bytes | None:
        """The bytes of a model; None if they were not kept."""
        size = self.rows("SELECT size FROM models WHERE version = ?", version)
        parts = self.rows("SELECT bytes FROM model_parts WHERE version = ? ORDER BY part", version)
        data = b"".join(part for (part,) in parts)[: size[0][0] if size else 0]
        return data or None

    def last_version(self) -> int:
        """The version of the model that serves; 0 before the first."""
        found = self.rows("SELECT MAX(version) FROM models")[0][0]
        return int(found or 0)
