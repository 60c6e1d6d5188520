"""`Call`: one transaction of an engine; what it changed in memory is put back if it fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banister.online.engine import Engine


class Call:
    """A transaction that also puts back what it changed in memory. A class: every call pays for it."""

    __slots__ = ("_alone", "_engine")

    def __init__(self, engine: Engine, alone: bool) -> None:
        self._engine, self._alone = engine, alone

    def __enter__(self) -> None:
        engine = self._engine
        if engine.follower is not None:
            self._enter_shared()
            return
        engine.store.ledger.begin()
        engine.before_call()

    def _enter_shared(self) -> None:
        """The same where others write too: first comes what they have written."""
        engine, follower = self._engine, self._engine.follower
        assert follower is not None
        follower.before()
        engine.store.ledger.begin(self._alone)
        try:
            follower.inside()
        except BaseException as failure:
            engine.store.ledger.roll_back(failure)
            raise
        engine.before_call()
        try:
            follower.show_late()
        except BaseException as failure:
            self.__exit__(type(failure), failure, None)
            raise

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        engine = self._engine
        try:
            if failure is None:
                engine.store.ledger.commit()
            else:
                engine.store.ledger.roll_back(failure)
        except BaseException:
            engine.after_failure()
            raise
        if failure is not None:
            engine.after_failure()
        elif engine.follower is not None:
            engine.follower.after()
