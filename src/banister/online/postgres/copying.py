"""A whole copy of any ledger into a database: how a store moves from files to PostgreSQL."""

from __future__ import annotations

from itertools import islice
from typing import Any

from banister.errors import InputError
from banister.online.head import COUNTS
from banister.online.ledger import Ledger
from banister.online.postgres import statements
from banister.online.postgres.connecting import connect, exists, prepare, unusable
from banister.online.postgres.place import PostgresPlace

_OF_TABLES = ("schema", "tail")  # notes of the tables that a store leaves, not of what it holds


def copy_to_database(source: Ledger, place: PostgresPlace) -> None:
    """Every record with its link and hash, what is kept beside them, and the models; all or nothing."""
    import psycopg

    db = connect(place)
    try:
        with db.transaction():
            if exists(db, place):
                raise InputError(f"There is a store at {place} already; give another store= in the URL.")
            prepare(db, place, create=True)
            _copy(source, db.cursor(binary=True))
    except (psycopg.Error, UnicodeError) as reason:
        raise unusable(place, reason) from None
    finally:
        db.close()


def _copy(source: Ledger, cursor: Any) -> None:
    notes = [(key, value) for key, value in source.notes().items() if key not in _OF_TABLES]
    cursor.executemany(statements.KEEP, notes)
    entries = source.entries()
    while block := list(islice(entries, statements.BLOCK)):
        for kind in COUNTS:
            rows = [(*record, link, head) for link, head, record in block if type(record) is kind]
            cursor.executemany(statements.INSERT[kind], rows)
    for record in source.models():
        data = source.model(record.version)
        if data is not None:
            cursor.execute("INSERT INTO model_parts VALUES (%b, 0, %b)", (record.version, data))
    cursor.execute(statements.SET_HEAD, (*source.head.state(), source.last_id, 0))
