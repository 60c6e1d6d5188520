"""A whole copy of a ledger, by SQLite's online backup."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from pathlib import Path

from banister.errors import InputError


def save(db: sqlite3.Connection, path: Path) -> None:
    """Copy to a path where nothing is; readable by its owner only."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".tmp")
    os.close(handle)
    try:
        _copy(db, name)
        try:
            os.link(name, path)  # unlike a rename, it never replaces what is there
        except FileExistsError:
            raise InputError(f"There is a file at {str(path)!r} already; choose another path.") from None
    finally:
        os.unlink(name)


def _copy(db: sqlite3.Connection, name: str) -> None:
    target = sqlite3.connect(name, isolation_level=None)
    try:
        db.backup(target)
        target.execute("DELETE FROM meta WHERE key = 'tail'")  # the copy has none
    finally:
        target.close()
