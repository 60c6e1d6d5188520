"""`Call`: one transaction of an engine; what it changed in memory is put back if it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banister.online.engine import Engine


class Call:
    """A transaction that also puts back what it changed in memory. A class: every call pays for it."""

    __slots__ = ("_alone", "_before", "_engine", "_transaction")

    def __init__(self, engine: Engine, alone: bool) -> None:
        self._engine, self._alone = engine, alone

    def __enter__(self) -> None:
        ledger, follower = self._engine.store.ledger, self._engine.follower
        self._transaction = ledger.transaction(alone=self._alone)
        if follower is None:
            self._before = self._engine.before_call()
            self._transaction.__enter__()
            return
        follower.before()
        self._transaction.__enter__()
        try:
            follower.inside()
            self._before = self._engine.before_call()
        except BaseException as failure:
            self._transaction.__exit__(type(failure), failure, None)
            raise
        try:
            follower.show_late()
        except BaseException as failure:
            self.__exit__(type(failure), failure, None)
            raise

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        try:
            self._transaction.__exit__(kind, failure, trace)
        except BaseException:
            self._engine.after_failure(self._before)
            raise
        if failure is not None:
            self._engine.after_failure(self._before)
        elif self._engine.follower is not None:
            self._engine.follower.after()
