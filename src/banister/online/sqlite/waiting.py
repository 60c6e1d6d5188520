"""`Waiting`: decisions and rewards that were acknowledged and are not in the tables yet."""

from __future__ import annotations

import sqlite3
from typing import Any

from banister.online.record import DecisionRecord, Record, RewardRecord
from banister.online.sqlite.statements import insert

_MOST = 256  # records: so few are moved in a millisecond or two, and share the cost of a commit
_KINDS = DecisionRecord, RewardRecord


class Waiting:
    """Rows by kind; the tables have no order of kinds, since each row carries its link."""

    def __init__(self) -> None:
        self._rows: dict[type[Any], list[tuple[Any, ...]]] = {kind: [] for kind in _KINDS}
        self._ids: set[int] = set()
        self._keys: set[str] = set()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def takes(self, record: Record) -> bool:
        """Whether one more may wait."""
        return self._count < _MOST and type(record) in _KINDS

    def add(self, record: Any, values: tuple[Any, ...]) -> None:
        """One more, with the values of its row."""
        self._rows[type(record)].append(values)
        self._ids.add(record.id)
        if record.key is not None:
            self._keys.add(record.key)
        self._count += 1

    def concerns(self, number: int) -> bool:
        """Whether the tables do not know all of a decision."""
        return number in self._ids

    def has_key(self, key: str) -> bool:
        """Whether a decision or a reward with this key waits."""
        return key in self._keys

    def insert(self, db: sqlite3.Connection) -> None:
        """Into the tables, within an open transaction."""
        for kind, rows in self._rows.items():
            if rows:
                insert(db, kind, rows)

    def clear(self) -> None:
        """They are in the tables."""
        for rows in self._rows.values():
            rows.clear()
        self._ids.clear()
        self._keys.clear()
        self._count = 0
