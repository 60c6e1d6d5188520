"""The head of the chain: how much a ledger holds, and one hash of all of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from operator import attrgetter
from typing import Any

from banister.errors import InputError
from banister.online.record import (
    HASH_BYTES,
    AlarmRecord,
    DecisionRecord,
    LogRecord,
    ModelRecord,
    Record,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
    TaskRecord,
    chained,
)

# Which count a kind of record adds to.
COUNTS: dict[type[Any], str] = {
    TaskRecord: "tasks",
    DecisionRecord: "decisions",
    RewardRecord: "rewards",
    RefusalRecord: "refusals",
    RetractionRecord: "retractions",
    AlarmRecord: "drifts",
    LogRecord: "logs",
    ModelRecord: "models",
}


@dataclass(slots=True)
class Head:
    """Counts of everything written, and the hash that chains it; changes with every record."""

    hash: bytes
    links: int = 0
    tasks: int = 0
    decisions: int = 0
    rewards: int = 0
    refusals: int = 0
    retractions: int = 0
    drifts: int = 0
    logs: int = 0
    models: int = 0

    def add(self, record: Record, rule: Callable[[bytes, bytes], bytes] = chained) -> bytes:
        """One record more, whose content is given back; `rule` makes a hash of the last one and that."""
        content = record.content()
        self.hash = rule(self.hash, content)
        self.links += 1
        count = COUNTS[type(record)]
        setattr(self, count, getattr(self, count) + 1)
        return content

    def rows(self, records: Sequence[Record]) -> list[tuple[Any, ...]]:
        """Many records more, all of one kind: each one's values, its link and the hash there."""
        if not records:
            return []
        found, link, last = [], self.links, self.hash
        for record in records:
            link, last = link + 1, chained(last, record.content())
            found.append((*record, link, last))
        self.hash, self.links, count = last, link, COUNTS[type(records[0])]
        setattr(self, count, getattr(self, count) + len(records))
        return found

    def state(self) -> tuple[Any, ...]:
        """The head as it is now: `Head(*state)` is its equal."""
        found: tuple[Any, ...] = _STATE(self)
        return found

    def receipt(self) -> Receipt:
        """What to keep elsewhere."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return Receipt(**{**values, "hash": self.hash.hex()})


_STATE = attrgetter(*(f.name for f in fields(Head)))


@dataclass(frozen=True)
class Receipt:
    """What a ledger held at one moment, to be kept where its owner cannot change it.

    Attributes:
        hash: of everything written until then, in hexadecimal.
        links: how many records that is; the other counts say of what kind.
    """

    hash: str
    links: int
    tasks: int
    decisions: int
    rewards: int
    refusals: int
    retractions: int
    drifts: int
    logs: int
    models: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> Receipt:
        """A receipt that was written by `to_dict`."""
        if isinstance(values, cls):
            return values
        names = [f.name for f in fields(cls)]
        if not isinstance(values, dict) or set(values) != set(names) or not _well_formed(values):
            raise InputError(f"receipt={values!r} is no receipt; give what bandit.receipt() returned.")
        return cls(**values)


def _well_formed(values: dict[str, Any]) -> bool:
    text = values["hash"]
    counts = [v for name, v in values.items() if name != "hash"]
    whole = all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in counts)
    return isinstance(text, str) and len(text) == 2 * HASH_BYTES and whole
