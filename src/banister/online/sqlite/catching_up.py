"""Looking at a store whose last records stand in its tail: they are in the tables a moment later."""

from __future__ import annotations

import logging
import sqlite3
import time
from pathlib import Path

from banister.online.sqlite import opening
from banister.online.sqlite.tail import last_link, tail_path

_PATIENCE = 2.0  # seconds: ten times what a process that serves takes, unless it is stuck
_PAUSE = 0.02  # seconds between two looks

_log = logging.getLogger("banister.online")


def ahead(ledger: Path) -> int:
    """The last link that stands in the tail, if the tables lack it; else 0."""
    last = last_link(tail_path(ledger))
    return last if last and last > _links(ledger) else 0


def wait_for(ledger: Path, link: int) -> None:
    """Until the process that serves has moved a link into the tables."""
    end = time.monotonic() + _PATIENCE
    while _links(ledger) < link:
        if time.monotonic() > end:
            _log.warning("%s: records up to %d wait in the tail, and nobody moves them", ledger, link)
            return
        time.sleep(_PAUSE)


def _links(ledger: Path) -> int:
    """How many links the tables have; what cannot be read has to be told by who opens it."""
    try:
        db = opening.connect(ledger, read_only=True)
        try:
            return int(db.execute("SELECT links FROM head").fetchone()[0])
        finally:
            db.close()
    except (sqlite3.Error, TypeError, ValueError):
        return 1 << 62
