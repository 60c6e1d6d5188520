"""`Looking`: what a bandit can be asked. Status, receipt, audit, export, and a copy; nothing changes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from banister.errors import InputError
from banister.features.base import Features
from banister.online import files
from banister.online.audit import Audit, audit
from banister.online.engine import Engine
from banister.online.head import Receipt
from banister.online.ledger import Ledger
from banister.online.places import check_place, save_ledger
from banister.online.settings import Settings
from banister.online.status import Status, completed, look


class Looking:
    """Looks at an engine's store, under the lock only as long as it has to."""

    settings: Settings
    features: Features | None
    _engine: Engine
    _lock: threading.RLock

    @property
    def version(self) -> int:
        """The version of the model that serves; 0 before the first."""
        return self._engine.model.version

    def status(self) -> Status:
        """Where every task stands, and totals."""
        with self._lock:
            self._engine.check_open(writing=False)
            self._engine.refresh()
            found = look(self._engine)
        return completed(found)

    def receipt(self) -> Receipt:
        """What the ledger holds now: counts, and one hash of everything. Keep it elsewhere, for an audit."""
        with self._lock:
            self._engine.check_open(writing=False)
            self._engine.refresh()
            return self._engine.store.ledger.head.receipt()

    def audit(self, receipt: Receipt | dict[str, Any] | None = None) -> Audit:
        """Is the ledger what was written, and does each decision follow from the model that made it?

        Decisions go on meanwhile. With a receipt: does the ledger still begin with what it was given for?
        """
        given = [] if receipt is None else [Receipt.from_dict(receipt)]
        with self._view() as (ledger, now):
            return audit(ledger, self.settings, [*given, now])

    def export(self, path: str | Path) -> int:
        """Write decisions and their rewards to a .parquet file; the number of rows.

        With arms there are their names, places and the encoded contexts, ready for off-policy tools. A path
        that ends in .vw is written for Vowpal Wabbit (`--cb`): rewarded decisions, costs for rewards.
        """
        from banister.online.export import export

        place = files.check_path(path)
        if place is None:
            raise InputError("export needs a path, such as 'decisions.parquet'.")
        with self._view() as (ledger, _):
            return export(ledger, place, self.features)

    @contextmanager
    def _view(self) -> Iterator[tuple[Ledger, Receipt]]:
        """The ledger as it is now, to be read without the lock, and what this process knows it to hold."""
        with ExitStack() as stack:
            with self._lock:
                self._engine.check_open(writing=False)
                ledger = stack.enter_context(self._engine.view())
                now = self._engine.store.ledger.head.receipt()
            yield ledger, now

    def save(self, path: str | Path) -> None:
        """Write model and ledger to another place, to be opened with `load`; decisions go on meanwhile.

        The place may be a path or a URL, whichever of the two the store itself has.
        """
        place = check_place(path)
        with self._lock:
            self._engine.check_open(writing=False)
            if place is None or place == self._engine.path:
                raise InputError(
                    "save needs a path other than the store's own, which is kept up to date anyway."
                )
        with self._view() as (ledger, _):
            save_ledger(ledger, place)
