"""Opening a SQLite file that may be anything: damaged, hostile, older, newer, or not there yet."""

from __future__ import annotations

import os
import secrets
import sqlite3
from pathlib import Path
from urllib.parse import quote

from banister import __version__
from banister.errors import BanisterError, DataFileError, ModelFileError
from banister.online.record import HASH_BYTES
from banister.online.sqlite.schema import ALL, FIRST, META, SCHEMA, TRIGGERS

_LONGEST = 1 << 28  # bytes of one value; the largest that is written is one request's whole action set
_PATIENCE = 1.0  # seconds to wait for somebody else's lock, such as a shell that writes

_LIST = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"


def make_file(path: Path) -> None:
    """An empty file that only its owner may read; SQLite gives its companions the same rights."""
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    os.close(handle)


def connect(path: Path | None, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection that runs nothing which the file itself brings along."""
    if path is None:
        place, uri = ":memory:", False
    else:
        place, uri = f"file:{quote(str(path))}?mode={'ro' if read_only else 'rw'}", True
    # Autocommit: transactions are begun by name.
    db = sqlite3.connect(
        place, uri=uri, isolation_level=None, check_same_thread=False, timeout=_PATIENCE, cached_statements=64
    )
    db.execute("PRAGMA trusted_schema=OFF")
    db.execute("PRAGMA cell_size_check=ON")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
    return db


def create(db: sqlite3.Connection) -> None:
    """All tables, and where the chain starts: at random, so that no two stores share a head."""
    for statement in ALL:
        db.execute(statement)
    start = secrets.token_bytes(HASH_BYTES)
    notes = {"schema": str(SCHEMA), "banister": __version__, "start": start.hex()}
    db.executemany("INSERT INTO meta VALUES (?, ?)", notes.items())
    db.execute("INSERT INTO head VALUES (1, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0)", (start,))


def check(db: sqlite3.Connection, where: str) -> int:
    """The schema's version, once the file is whole and holds the tables of that version and nothing else."""
    found = sorted(_plain(sql) for (sql,) in db.execute(_LIST))
    if _plain(META) not in found:
        raise DataFileError(f"{where} cannot be used: it is no ledger; restore it from a copy.")
    version = _version(db, where)
    expected = FIRST if version == 1 else ALL if version == SCHEMA else (*ALL, *TRIGGERS)
    if found != sorted(_plain(sql) for sql in expected):
        raise DataFileError(
            f"{where} has tables, views or triggers that Banister did not make, or lacks its own; restore it "
            "from a copy."
        )
    damage = db.execute("PRAGMA quick_check(1)").fetchone()[0]
    if damage != "ok":
        raise DataFileError(f"{where} is damaged ({damage}); restore it from a copy.")
    return version


def check_current(db: sqlite3.Connection, where: str) -> None:
    """An error if the file is not whole, or an older version's, which whoever only reads cannot bring up."""
    if check(db, where) != SCHEMA:
        raise ModelFileError(
            f"{where} was written by an older version; open it once with SafeBandit.load, which brings it up "
            "to date."
        )


def _version(db: sqlite3.Connection, where: str) -> int:
    notes = dict(db.execute("SELECT key, value FROM meta WHERE key IN ('schema', 'banister')"))
    text = str(notes.get("schema", ""))
    if text in map(str, range(1, SCHEMA + 1)):
        return int(text)
    if text.isdecimal() and len(text) < 6 and int(text) > SCHEMA:
        maker = notes.get("banister", "a later version")
        raise ModelFileError(
            f"{where} has schema version {text!r}; Banister {__version__} reads up to {SCHEMA}: "
            f"it was written by {maker}. Install that version or a later one: pip install -U banister."
        )
    raise ModelFileError(f"{where} has schema version {text!r}, which nobody has written; restore a copy.")


def _plain(sql: str) -> str:
    return " ".join(str(sql).split()).replace("( ", "(").replace(" )", ")")


def unusable(where: str, reason: sqlite3.Error) -> BanisterError:
    """The error for whatever SQLite says."""
    text = str(reason)
    hint = "it is damaged, or no ledger; restore it from a copy."
    if "locked" in text:
        hint = "another process holds it; stop that one first."
    elif any(sign in text for sign in ("full", "readonly", "unable to open", "disk I/O")):
        hint = "check the folder, its space and its permissions."
    return DataFileError(f"{where} cannot be used ({text}): {hint}")
