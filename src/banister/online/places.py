"""Where a store is kept: nowhere, in files, or in a database; and the ledger that is there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from banister.errors import InputError
from banister.online import files
from banister.online.ledger import Ledger
from banister.online.postgres.place import PostgresPlace, is_url, read_place
from banister.online.sqlite.ledger import SqliteLedger

Place = Path | PostgresPlace | None


def check_place(path: Any) -> Place:
    """A path in a folder that exists, a database, or None."""
    return read_place(path) if is_url(path) else files.check_path(path)


def existing(path: Any) -> Place:
    """A place where a store should be; that of a file must be."""
    place = check_place(path)
    if not isinstance(place, PostgresPlace) and (place is None or not files.ledger_path(place).exists()):
        raise files.missing(path)
    return place


def model_path(place: Place) -> Path | None:
    """Where the model file goes; a database has none."""
    return place if isinstance(place, Path) else None


def open_ledger(place: Place, *, create: bool, read_only: bool, lock: threading.RLock) -> Ledger:
    """The ledger at a place, for the owner of this lock."""
    if isinstance(place, PostgresPlace):
        from banister.online.postgres.ledger import PostgresLedger

        return PostgresLedger.read_only(place) if read_only else PostgresLedger(place, create=create)
    if place is None:
        return SqliteLedger(None)
    path = files.ledger_path(place)
    return SqliteLedger.read_only(path) if read_only else SqliteLedger(path, lock)


def save_ledger(ledger: Ledger, place: Path | PostgresPlace) -> None:
    """Ledger and model at another place; nothing is left behind if that fails."""
    if isinstance(place, PostgresPlace):
        from banister.online.postgres.copying import copy_to_database

        copy_to_database(ledger, place)
        return
    target = files.ledger_path(place)
    if target.exists() or place.exists():
        raise InputError(f"There is a store at {str(place)!r} already; choose another path or remove it.")
    ledger.save(target)
    models = ledger.models()
    data = ledger.model(models[-1].version) if models else None
    if data is not None:
        try:
            files.write_atomically(place, data)
        except BaseException:
            target.unlink()
            raise
