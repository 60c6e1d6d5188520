"""From older stores to today's, in one transaction.

The first release kept no common order of decisions, rewards and alarms, so the chain takes kind after kind.
Model bytes are not read, only hashed: whether this version can still replay them is another matter.

The first chains had another rule. Their links stay as they are, and the store notes how many there are: what
they prove, they still prove, and receipts of that time hold. Their triggers are dropped: now each transaction
brings the head up to date itself.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from typing import Any

from banister import __version__
from banister.online.chain import FIRST_LINKS
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    LogRecord,
    ModelRecord,
    Record,
    RefusalRecord,
    RewardRecord,
    TaskRecord,
    digest_of,
)
from banister.online.sqlite.schema import SCHEMA, TABLES, TRIGGERS
from banister.online.sqlite.statements import Writer, start_of

_OLD = ("tasks", "decisions", "rewards", "refused", "drifts", "logs", "models")
_FIRST_FORMAT = 1  # of the first release's model bytes


def migrate(db: sqlite3.Connection, version: int) -> None:
    """Bring a store with an older schema up to date, within the open transaction."""
    notes = {"schema": str(SCHEMA), "banister": __version__}
    if version == 1:
        _chain(db)
    else:
        for trigger in TRIGGERS:
            db.execute(f"DROP TRIGGER {trigger.split()[2]}")
    if version == 2:
        notes[FIRST_LINKS] = str(db.execute("SELECT links FROM head").fetchone()[0])
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", notes.items())


def _chain(db: sqlite3.Connection) -> None:
    """The first release's rows, in today's tables."""
    for table in _OLD:
        db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in TABLES:
        db.execute(statement)
    start = start_of(db)
    db.execute("INSERT INTO head VALUES (1, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0)", (start,))
    writer = Writer(db)
    for record in _records(db):
        writer.add(record)
    writer.keep_head()
    for table in _OLD:
        db.execute(f"DROP TABLE old_{table}")


def _records(db: sqlite3.Connection) -> Iterator[Record]:
    for row in db.execute("SELECT code, label FROM old_tasks ORDER BY code"):
        yield TaskRecord(*row)
    yield from _logs(db)
    for row in db.execute("SELECT * FROM old_decisions ORDER BY id"):
        yield _decision(row)
    for row in db.execute("SELECT id, time, value FROM old_rewards ORDER BY seq"):
        yield RewardRecord._make((*row, None))
    for row in db.execute("SELECT decision, time, value, why FROM old_refused ORDER BY seq"):
        yield RefusalRecord(*row)
    for row in db.execute("SELECT * FROM old_drifts ORDER BY seq"):
        yield AlarmRecord(*row)
    for row in db.execute("SELECT version, time, size FROM old_models ORDER BY version"):
        yield _model(db, *row)


def _decision(row: tuple[Any, ...]) -> DecisionRecord:
    judged = [math.nan if v is None else v for v in row[8:12]]
    certain = (1.0, None, None, None)
    return DecisionRecord._make((*row[:6], bool(row[6]), row[7], *judged, row[12], *certain, *row[13:], None))


def _logs(db: sqlite3.Connection) -> Iterator[LogRecord]:
    """Blocks of one call carried one time."""
    columns = "task, features, reward, baseline, baseline_reward"
    for (time,) in db.execute("SELECT time FROM old_logs GROUP BY time ORDER BY MIN(seq)").fetchall():
        statement = f"SELECT seq, {columns} FROM old_logs WHERE time = ? ORDER BY seq"
        rows = db.execute(statement, (time,)).fetchall()
        call = digest_of(b"".join(b"".join(column) for column in list(zip(*rows, strict=True))[1:]))
        for seq, *blobs in rows:
            yield LogRecord._make((seq, time, *blobs, call))


def _model(db: sqlite3.Connection, version: int, time: float, size: int) -> ModelRecord:
    parts = db.execute("SELECT bytes FROM model_parts WHERE version = ? ORDER BY part", (version,)).fetchall()
    data = b"".join(part for (part,) in parts)[:size]
    counts = [
        db.execute(f"SELECT COUNT(*) FROM old_{table}").fetchone()[0]
        for table in ("decisions", "rewards", "drifts")
    ]  # what the chain has before it, which is everything
    return ModelRecord(version, time, _FIRST_FORMAT, size, digest_of(data) if data else None, *counts)
