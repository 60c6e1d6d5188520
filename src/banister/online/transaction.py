"""`Transaction`: a ledger's `begin`, `commit` and `roll_back` as a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banister.online.ledger import Ledger


class Transaction:
    """All or nothing; within another one it is part of that."""

    def __init__(self, ledger: Ledger, alone: bool) -> None:
        self._ledger, self._alone = ledger, alone

    def __enter__(self) -> None:
        self._inner = self._ledger.open
        if not self._inner:
            self._ledger.begin(self._alone)

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        if self._inner:
            return
        if failure is None:
            self._ledger.commit()
        else:
            self._ledger.roll_back(failure)
