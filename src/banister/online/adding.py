"""`Adder`: the doors through which records enter a ledger, whichever database keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from banister.online.head import Head
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    LogRecord,
    ModelRecord,
    Record,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
    TaskRecord,
)


class Adder:
    """Adds records; see `Ledger` for what each operation does. A ledger says how one is added, and many."""

    if TYPE_CHECKING:  # a ledger has it; some as a property, some as an attribute

        @property
        def head(self) -> Head: ...

    def _add(self, record: Record) -> None:
        raise NotImplementedError

    def _add_many(self, records: Sequence[Record]) -> None:
        """Records of one kind."""
        for record in records:
            self._add(record)

    def add_task(self, label: str) -> int:
        code = self.head.tasks
        self._add(TaskRecord(code, label))
        return code

    def add_decision(self, record: DecisionRecord) -> None:
        self._add(record)

    def add_decisions(self, records: Iterable[DecisionRecord]) -> None:
        self._add_many(list(records))

    def add_reward(self, record: RewardRecord) -> None:
        self._add(record)

    def add_rewards(self, records: Iterable[RewardRecord]) -> None:
        self._add_many(list(records))

    def add_refusal(self, record: RefusalRecord) -> None:
        self._add(record)

    def add_retraction(self, record: RetractionRecord) -> None:
        self._add(record)

    def add_alarm(self, record: AlarmRecord) -> None:
        self._add(record)

    def add_log(self, record: LogRecord) -> None:
        self._add(record)

    def add_model(self, record: ModelRecord) -> None:
        self._add(record)
