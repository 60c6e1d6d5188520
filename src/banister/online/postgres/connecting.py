"""Connections to PostgreSQL, what is settled for each, and what its errors mean here."""

from __future__ import annotations

import secrets
from typing import Any

from banister import __version__
from banister.errors import BanisterError, DataFileError, ModelFileError, StoreError
from banister.extras import need
from banister.online.postgres.place import PostgresPlace
from banister.online.postgres.schema import CONTENT, SCHEMA, TABLES, expected
from banister.online.record import HASH_BYTES

EXTRA = {"psycopg": "postgres"}

_PATIENCE = 30_000  # ms to wait for the head, which others hold for milliseconds; a refit's swap for longer
_STUCK = 60_000  # ms after which the database takes the head back from a process that stands still
_CONNECTING = 10  # seconds


def connect(place: PostgresPlace, *, read_only: bool = False) -> Any:
    """A connection in autocommit mode: transactions are begun by name."""
    need(EXTRA)
    import psycopg
    from psycopg.types.numeric import FloatBinaryDumper, Int8BinaryDumper

    try:
        db = psycopg.connect(
            place.url, autocommit=True, connect_timeout=_CONNECTING, prepare_threshold=0,
            application_name="banister",
        )  # fmt: skip
    except (psycopg.Error, UnicodeError) as reason:
        raise DataFileError(
            f"{place} cannot be reached ({_words(reason)}); check the URL, the server and its permissions."
        ) from None
    # One type for every whole number and every float, so that one prepared statement serves all values.
    db.adapters.register_dumper(int, Int8BinaryDumper)
    db.adapters.register_dumper(float, FloatBinaryDumper)
    db.execute(f"SET search_path TO {place.store}, pg_catalog")
    # A commit is acknowledged before it is on disk: a crash of the server may lose the last moments, one of a
    # process never. With durability "full" a second one waits for the disk, when the head is free again.
    db.execute("SET synchronous_commit = off")
    db.execute(f"SET lock_timeout = {_PATIENCE}")
    db.execute(f"SET idle_in_transaction_session_timeout = {0 if read_only else _STUCK}")
    return db


def prepare(db: Any, place: PostgresPlace, *, create: bool) -> None:
    """Tables that are this version's, made now if there are none and `create` says so."""
    with db.transaction():
        # Two processes that start at once: the second one waits here, and finds the tables.
        db.execute("SELECT pg_advisory_xact_lock(hashtextextended('banister ' || %s, 0))", (place.store,))
        if exists(db, place):
            _check(db, place)
        elif create:
            _create(db, place)
        else:
            raise ModelFileError(f"There is no store at {place}; SafeBandit(path=...) makes one.")


def exists(db: Any, place: PostgresPlace) -> bool:
    """Whether there is a store at this place."""
    return db.execute("SELECT to_regclass(%s)", (f"{place.store}.meta",)).fetchone()[0] is not None


def _create(db: Any, place: PostgresPlace) -> None:
    """All tables, and where the chain starts: at random, so that no two stores share a head."""
    db.execute(f"CREATE SCHEMA IF NOT EXISTS {place.store}")
    for statement in TABLES:
        db.execute(statement)
    start = secrets.token_bytes(HASH_BYTES)
    notes = {"schema": str(SCHEMA), "banister": __version__, "start": start.hex()}
    db.cursor().executemany("INSERT INTO meta VALUES (%s, %s)", list(notes.items()))
    db.execute("INSERT INTO head VALUES (1, %s, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)", (start,))


def _check(db: Any, place: PostgresPlace) -> None:
    notes = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('schema', 'banister')").fetchall())
    version = str(notes.get("schema", ""))
    if version.isdecimal() and len(version) < 6 and int(version) > SCHEMA:
        raise ModelFileError(
            f"{place} has schema version {version!r}; Banister {__version__} reads up to {SCHEMA}: it was "
            f"written by {notes.get('banister', 'a later version')}. Install that version or a later one: "
            "pip install -U banister."
        )
    if version != str(SCHEMA):
        raise ModelFileError(f"{place} has schema version {version!r}, which nobody has written.")
    found = {row[0] for row in db.execute(CONTENT, [place.store] * 4).fetchall()}
    if found != expected():
        raise DataFileError(
            f"{place} has tables, views, functions or triggers that Banister did not make, or lacks its own "
            f"({', '.join(sorted(found ^ expected())[:3])}); restore it from a copy."
        )


def unusable(where: Any, reason: Exception) -> BanisterError:
    """The error for whatever the database says."""
    import psycopg

    if isinstance(reason, psycopg.errors.LockNotAvailable):
        return StoreError(f"{where}: another process holds the head of the ledger; find out which, and why.")
    if (getattr(reason, "sqlstate", None) or "").startswith("53"):
        return DataFileError(
            f"{where} cannot be used ({_words(reason)}): check the server's space and memory."
        )
    if isinstance(reason, psycopg.OperationalError | psycopg.InterfaceError):
        return StoreError(
            f"{where}: the connection was lost ({_words(reason)}). Whether this call was written is not "
            "known: make it again with the same key=; the next call connects anew."
        )
    if isinstance(reason, psycopg.DataError | UnicodeError | OverflowError):
        return DataFileError(f"{where} cannot hold this ({_words(reason)}).")
    return DataFileError(f"{where} cannot be used ({_words(reason)}): it is damaged, or may not be written.")


def _words(reason: Exception) -> str:
    """The first line; the others are the statement's."""
    return str(reason).strip().split("\n")[0]
