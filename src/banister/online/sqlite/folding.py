"""Folding the write-ahead log into the file: in a thread of its own, because it waits for the disk.

SQLite would do it within the commit that fills the log, and that call would wait for two syncs: milliseconds
at best, and more than half a second on a busy disk. Here a call waits for a sync of what was added during the
last fold at most.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path

from banister.online.sqlite import opening

LOG_BYTES = 1 << 25  # of log before it is folded in
LIMIT = 8  # times that: there the commit itself folds, should the thread have failed
_LOOK = 16  # commits between looks at how large the file is
_REWRITTEN = 4  # pages that a commit writes beside those it adds
_PATIENCE = 50  # milliseconds for which writers may wait until readers of an older moment are done


class Folder:
    """Folds one store's log whenever enough has been written.

    Args:
        path: of the ledger, open for writing in this process.
        page: bytes of its pages.
    """

    def __init__(self, path: Path, page: int) -> None:
        self._db = opening.connect(path)
        self._db.execute(f"PRAGMA busy_timeout={_PATIENCE}")
        self._most, self._pages = LOG_BYTES // page, _pages(self._db)
        self._commits = self._frames = 0
        self._due, self._over = threading.Event(), False
        self._thread: threading.Thread | None = None

    def committed(self, db: sqlite3.Connection) -> None:
        """A transaction was committed there."""
        self._commits += 1
        if self._commits % _LOOK:
            return
        pages = _pages(db)
        self._frames += max(0, pages - self._pages) + _LOOK * _REWRITTEN
        self._pages = pages
        if self._frames >= self._most:
            self._frames = 0
            self._fold_soon()

    def _fold_soon(self) -> None:
        self._due.set()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="banister-fold", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while self._due.wait() and not self._over:
            self._due.clear()
            with suppress(sqlite3.Error):  # a disk in trouble is met, and told, by the next commit
                # First all that there is, while others write; then the little that came meanwhile, alone: the
                # log begins anew only where nothing in it is left to fold.
                self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                self._db.execute("PRAGMA wal_checkpoint(FULL)").fetchall()

    def close(self) -> None:
        """End the thread; a fold under way is finished."""
        self._over = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()
        self._db.close()


def _pages(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA page_count").fetchone()[0])
