"""Where tests keep a store: in files, and in PostgreSQL if BANISTER_TEST_POSTGRES names a database."""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from typing import Any

import pytest

from banister import SafeBandit

URL = os.environ.get("BANISTER_TEST_POSTGRES", "")
needs_postgres = pytest.mark.skipif(not URL, reason="no PostgreSQL: set BANISTER_TEST_POSTGRES to its URL")

BOTH = ["files", pytest.param("postgres", marks=needs_postgres)]


def new_url() -> str:
    """A store that nobody else uses."""
    return f"{URL}{'&' if '?' in URL else '?'}store=test_{secrets.token_hex(8)}"


def drop(url: str) -> None:
    """Remove a store."""
    db, name = connected(url)
    db.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")
    db.close()


def connected(url: str) -> tuple[Any, str]:
    """A plain connection to a store's tables, as somebody with a shell has it, and the store's name."""
    import psycopg

    from banister.online.postgres.place import read_place

    place = read_place(url)
    db = psycopg.connect(place.url, autocommit=True)
    db.execute(f"SET search_path TO {place.store}")
    return db, place.store


def tamper(place: Any, statement: str, *values: Any) -> None:
    """What somebody with a shell could do to the ledger of a store that is being served from."""
    if "://" not in str(place):
        db = sqlite3.connect(f"{place}.ledger")
        db.execute(statement, values)
        db.commit()
        db.close()
        return
    db, _ = connected(str(place))
    db.execute(_in_postgres(statement), values)
    db.close()


def _in_postgres(statement: str) -> str:
    statement = re.sub(r"zeroblob\(((?:\w|\(\w+\))+)\)", r"decode(repeat('00', \1), 'hex')", statement)
    statement = re.sub(r"x'([0-9a-f]+)'", r"'\\x\1'", statement)
    statement = statement.replace("certified = 0", "certified = false")
    return statement.replace("% ", "%% ").replace("?", "%s") if "?" in statement else statement


class Failing:
    """A connection or cursor on which one statement fails, once."""

    def __init__(self, db: Any, part: str, failure: Exception) -> None:
        self._db, self._part, self._failure, self.failed = db, part, failure, False

    def execute(self, statement: str, *values: Any, **more: Any) -> Any:
        if self._part in statement and not self.failed:
            self.failed = True
            raise self._failure
        return self._db.execute(statement, *values, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


class FullDisk:
    """A tail whose next record meets a full disk, once."""

    def __init__(self, tail: Any) -> None:
        self._tail, self.failed = tail, False

    def append(self, *values: Any) -> None:
        if self.failed:
            self._tail.append(*values)
            return
        self.failed, own = True, self._tail.handle
        self._tail.handle = os.open("/dev/full", os.O_RDWR)
        try:
            self._tail.append(*values)
        finally:
            os.close(self._tail.handle)
            self._tail.handle = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tail, name)


def break_once(bandit: SafeBandit, part: str) -> Any:
    """The disk is full for the next statement that has this part; in files, for the next single record."""
    ledger: Any = bandit._engine.store.ledger
    if ledger.shared:
        import psycopg

        ledger._cursor = broken = Failing(ledger._cursor, part, psycopg.errors.DiskFull("disk is full"))
        return broken
    if ledger._tail is not None and part in ("INSERT INTO rewards", "INSERT INTO decisions"):
        ledger._tail = full = FullDisk(ledger._tail)
        return full
    broken = Failing(ledger._db, part, sqlite3.OperationalError("disk is full"))
    ledger._db = ledger._writer._db = broken
    return broken
