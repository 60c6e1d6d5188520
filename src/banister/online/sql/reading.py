"""`LedgerReader`: what is asked of a ledger in the same way, whichever database keeps it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from banister.errors import DataFileError
from banister.online.record import DecisionRecord, ModelRecord, TaskRecord

LAST = (1 << 62) - 1  # beyond every link and id


class LedgerReader(ABC):
    """Reads; see `Ledger` for what each operation does. A database says how records of a kind are read."""

    where: str

    @abstractmethod
    def kept(self, key: str) -> str | None:
        """A note of the store."""

    @abstractmethod
    def find_keys(self, keys: Sequence[str]) -> dict[str, DecisionRecord]:
        """Decisions by their callers' keys."""

    @abstractmethod
    def _read(self, kind: type[Any]) -> Iterator[Any]:
        """All records of a kind, in order."""

    @abstractmethod
    def _rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement finds."""

    def find_key(self, key: str) -> DecisionRecord | None:
        return self.find_keys([key]).get(key)

    def tasks(self) -> list[str]:
        tasks = list(self._read(TaskRecord))
        for expected, task in enumerate(tasks):
            if task.code != expected:
                raise DataFileError(f"{self.where} lacks task number {expected}; restore a copy.")
        return [task.label for task in tasks]

    def dim(self) -> int | None:
        first = self._rows("SELECT length(baseline_features) FROM decisions LIMIT 1")
        if first:
            return int(first[0][0]) // 8
        log = self._rows(
            "SELECT length(features) / length(reward) FROM logs WHERE length(reward) > 0 LIMIT 1"
        )
        return int(log[0][0]) if log else None

    def models(self) -> list[ModelRecord]:
        return list(self._read(ModelRecord))

    def versions(self) -> dict[int, int]:
        return dict(self._rows("SELECT version, count(*) FROM decisions GROUP BY version ORDER BY version"))

    def refusals(self) -> dict[str, int]:
        return dict(self._rows("SELECT why, count(*) FROM refusals GROUP BY why"))

    def start(self) -> bytes:
        try:
            return bytes.fromhex(self.kept("start") or "")
        except ValueError:
            return b""
