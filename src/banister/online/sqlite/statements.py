"""Writing and reading records: the statements, one of each kind, and the head that follows them."""

from __future__ import annotations

import math
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import chain
from typing import Any

import numpy as np

from banister.online.head import Head
from banister.online.ledger import Played
from banister.online.record import (
    HASH_BYTES,
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

BLOCK = 4096  # rows read at once

# Table, and the column that follows the order of writing: the primary key where there is one, else a sort.
PLACES: dict[type[Any], tuple[str, str]] = {
    TaskRecord: ("tasks", "code"),
    DecisionRecord: ("decisions", "id"),
    RewardRecord: ("rewards", "link"),
    RefusalRecord: ("refusals", "link"),
    RetractionRecord: ("retractions", "link"),
    AlarmRecord: ("drifts", "seq"),
    LogRecord: ("logs", "seq"),
    ModelRecord: ("models", "version"),
}
COLUMNS = {kind: ", ".join(kind._fields) for kind in PLACES}
INSERT = {
    kind: f"INSERT INTO {table} ({COLUMNS[kind]}, link, head) VALUES (?, ?{', ?' * len(kind._fields)})"
    for kind, (table, _) in PLACES.items()
}
TOGETHER = 25  # rows that one statement adds; between statements the interpreter may go to another thread
INSERT_TOGETHER = {
    kind: f"{start} VALUES {', '.join(['(' + rest] * TOGETHER)}"
    for kind, (start, rest) in ((kind, text.split(" VALUES (")) for kind, text in INSERT.items())
}
_COUNTS = "hash, links, tasks, decisions, rewards, refusals, retractions, drifts, logs, models"
_KEEP_HEAD = f"UPDATE head SET {_COUNTS.replace(',', ' = ?,')} = ?"

# What a reward needs to know of its decision: whose it was, what was played, and whether it has come before.
_WHAT = """
d.task, COALESCE(d.features, d.baseline_features), d.action = d.baseline,
CASE WHEN d.action = d.baseline AND d.low = d.high THEN d.high END
"""
FIND = f"""
SELECT {_WHAT}, d.time, r.value, r.key, t.id
FROM decisions d LEFT JOIN rewards r ON r.id = d.id LEFT JOIN retractions t ON t.id = d.id WHERE d.id = ?
"""
FIND_MANY = FIND.replace("SELECT", "SELECT d.id,").replace("= ?", "IN (SELECT value FROM json_each(?))")
# Rewards alone are brought into their order, and each looks its decision up: with its features in the sort, a
# store of millions is copied to the disk to be sorted. LIMIT keeps SQLite from dropping the order, CROSS JOIN
# from turning the loops round.
REWARDED = f"""
SELECT r.id, r.value, {_WHAT}, r.link
FROM (SELECT id, value, link FROM rewards ORDER BY link LIMIT -1) r CROSS JOIN decisions d ON d.id = r.id
"""


def start_of(db: sqlite3.Connection) -> bytes:
    """Where the chain starts; drawn now if the store is older than chains."""
    found = db.execute("SELECT value FROM meta WHERE key = 'start'").fetchone()
    if found is None:
        start = secrets.token_bytes(HASH_BYTES)
        db.execute("INSERT INTO meta VALUES ('start', ?)", (start.hex(),))
        return start
    return bytes.fromhex(found[0])


def insert(db: sqlite3.Connection, kind: type[Any], rows: Sequence[tuple[Any, ...]]) -> None:
    """Rows of one kind, each with its link and head.

    Whatever SQLite does is done without the interpreter, which others take at once and give back late: for
    each row by itself, a batch waits for a fit or for the network a hundred times.
    """
    whole = len(rows) - len(rows) % TOGETHER
    for first in range(0, whole, TOGETHER):
        db.execute(INSERT_TOGETHER[kind], list(chain.from_iterable(rows[first : first + TOGETHER])))
    if whole < len(rows):
        db.executemany(INSERT[kind], rows[whole:])


class Writer:
    """Links records to the head and adds them; `keep_head` brings the database's own head up to it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.head = self.read_head()
        self._written, self._kept = self.head.state(), self.head.links

    def read_head(self) -> Head:
        """The head as the database has it."""
        found = self._db.execute(f"SELECT {_COUNTS} FROM head").fetchone()
        if found is None:
            raise sqlite3.DatabaseError("the table head is empty")
        return Head(*found)

    def link(self, record: Record) -> tuple[bytes, tuple[Any, ...]]:
        """One record more: what is hashed of it, and the values of its row."""
        head = self.head
        content = head.add(record)
        return content, (*record, head.links, head.hash)

    def add_many(self, records: Sequence[Record]) -> None:
        """Many records of one kind, within an open transaction."""
        insert(self._db, type(records[0]), self.head.rows(records))

    def add(self, record: Record) -> None:
        """One record, within an open transaction."""
        _, values = self.link(record)
        self._db.execute(INSERT[type(record)], values)

    def keep_head(self) -> None:
        """The database's head is this one; a transaction without records leaves it alone."""
        if self.head.links != self._kept:
            self._db.execute(_KEEP_HEAD, self.head.state())
            self._kept = self.head.links

    def committed(self) -> None:
        """The head that a later failure falls back to is this one."""
        self._written = self.head.state()

    def fall_back(self) -> None:
        """Forget what was added since the last commit."""
        self.head, self._kept = Head(*self._written), -1


def played(
    task: int, features: bytes, is_baseline: int, claim: float | None, when: float, reward: float | None,
    key: str | None, retracted: int | None,
) -> Played:  # fmt: skip
    """What a reward needs to know of its decision, from its columns."""
    claimed = math.nan if claim is None else claim
    vector = np.frombuffer(features)
    return Played(task, vector, bool(is_baseline), claimed, when, reward, key, retracted is not None)


def decision(row: tuple[Any, ...]) -> DecisionRecord:
    """A decision from its columns; SQLite keeps NaN as NULL."""
    judged = [math.nan if v is None else v for v in row[8:12]]
    return DecisionRecord._make((*row[:6], bool(row[6]), row[7], *judged, *row[12:]))


def read(db: sqlite3.Connection, kind: type[Any], more: str = "", *values: Any) -> Iterator[Any]:
    """Records of one kind; `more` is the rest of the statement."""
    build = decision if kind is DecisionRecord else kind._make
    table, order = PLACES[kind]
    cursor = db.execute(f"SELECT {COLUMNS[kind]} FROM {table} {more or 'ORDER BY ' + order}", values)
    while block := cursor.fetchmany(_at_once(kind)):
        yield from map(build, block)


def _at_once(kind: type[Any]) -> int:
    """How many records are read together; a block of a log is thousands of rows by itself."""
    return 1 if kind is LogRecord else BLOCK


def entries(db: sqlite3.Connection) -> Iterator[Entry]:
    """Every record with its place in the chain and the head kept with it, in the order of the chain."""
    return merge(*(_chained(db, kind) for kind in PLACES), key=lambda entry: entry[0])


def _chained(db: sqlite3.Connection, kind: type[Any]) -> Iterator[Entry]:
    build = decision if kind is DecisionRecord else kind._make
    table, order = PLACES[kind]
    cursor = db.execute(f"SELECT link, head, {COLUMNS[kind]} FROM {table} ORDER BY {order}")
    while block := cursor.fetchmany(_at_once(kind)):
        for link, head, *row in block:
            yield link, head, build(tuple(row))
