"""`Fresh`: what rewards need to know of decisions made here lately, without a look into the database."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from banister.online.ledger import Played
from banister.online.record import DecisionRecord

_MOST = 4096  # decisions; the oldest makes room


class Fresh:
    """Decisions of this process whose reward has not been asked about; each is given out once."""

    def __init__(self) -> None:
        self._made: dict[int, DecisionRecord] = {}

    def add(self, record: DecisionRecord) -> None:
        """One more, once it is committed."""
        self._made[record.id] = record
        if len(self._made) > _MOST:
            del self._made[next(iter(self._made))]

    def add_many(self, records: Sequence[DecisionRecord]) -> None:
        """The same of many."""
        self._made.update((record.id, record) for record in records[-_MOST:])
        for number in [*islice(self._made, max(0, len(self._made) - _MOST))]:
            del self._made[number]

    def take(self, number: int) -> Played | None:
        """A decision that has no reward from here yet; None if only the database knows."""
        record = self._made.pop(number, None)
        return None if record is None else Played.of(record)

    def clear(self) -> None:
        """Only the database knows."""
        self._made.clear()
