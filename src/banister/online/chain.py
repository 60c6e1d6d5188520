"""Is the ledger what was written? The chain is followed from its start, record by record.

A hash says that nothing was changed, removed or put in another place since. It is no signature: who can write
to the ledger can also write a new chain. A receipt that is kept elsewhere shows that too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from banister.online.head import COUNTS, Head, Receipt
from banister.online.ledger import Ledger
from banister.online.record import (
    DecisionRecord,
    ModelRecord,
    RetractionRecord,
    RewardRecord,
    chained,
    chained_at_first,
)

FIRST_LINKS = "first_links"  # the note that says how many links are of the first rule
_DIGITS = 18  # of the largest number of links there may be

_NOUNS = {
    "tasks": "task {0}", "decisions": "decision {0}", "rewards": "a reward for decision {0}",
    "refusals": "a refused reward for decision {0}", "retractions": "a retraction for decision {0}",
    "drifts": "alarm {0}", "logs": "block {0} of logged rows", "models": "model {0}",
}  # fmt: skip


def broken(ledger: Ledger) -> str | None:
    """The first thing that is wrong, in words; None if the chain holds."""
    return next(problems(ledger), None)


def problems(ledger: Ledger, receipts: Sequence[Receipt] = ()) -> Iterator[str]:
    """Everything that is wrong with the chain, in words."""
    head = Head(ledger.start())
    waiting = sorted((r for r in receipts if r.links), key=lambda r: r.links)
    state, first = _Order(ledger.gapless), first_links(ledger)
    for link, kept, record in ledger.entries():
        if link != head.links + 1:
            yield f"After link {head.links} comes link {link}: {_of(record)} does not stand where it was put."
            head.links = link - 1
        head.add(record, chained_at_first if link <= first else chained)
        if head.hash != kept:
            yield f"Link {link}, {_of(record)}, is not what was written."
            head.hash = kept  # so that one change is one problem
        yield from state.problems(record, head)
        while waiting and waiting[0].links <= head.links:
            yield from _against(waiting.pop(0), head)
    yield from _at_the_end(ledger.head, head)
    yield from _shorter(waiting, head)


def first_links(ledger: Ledger) -> int:
    """How many links were made by the first chains' rule: receipts of that time still hold for them."""
    text = ledger.kept(FIRST_LINKS) or ""
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else 0


def _shorter(waiting: list[Receipt], head: Head) -> Iterator[str]:
    for receipt in waiting:
        yield (
            f"A receipt names {receipt.links} records ({receipt.decisions} decisions, {receipt.rewards} "
            f"rewards); the ledger has {head.links}: what came last was removed."
        )


def _against(receipt: Receipt, head: Head) -> Iterator[str]:
    if receipt != head.receipt():
        yield (
            f"The first {receipt.links} records are not those that a receipt was given for: it names "
            f"{receipt.decisions} decisions and {receipt.rewards} rewards, there are {head.decisions} and "
            f"{head.rewards}, or with other values."
        )


def _at_the_end(kept: Head, found: Head) -> Iterator[str]:
    for kind in _NOUNS:
        missing = getattr(kept, kind) - getattr(found, kind)
        if missing:
            there = getattr(found, kind)
            yield f"{missing} {kind} are missing: {there + missing} were written, {there} are there."
    if (kept.links, kept.hash) != (found.links, found.hash):
        yield f"The chain ends at link {found.links}; its head says {kept.links}, or another hash."


class _Order:
    """What must come before what."""

    def __init__(self, gapless: bool) -> None:
        self._version, self._gapless = 0, gapless
        self._last_id = 0

    def problems(self, record: Any, head: Head) -> Iterator[str]:
        if isinstance(record, DecisionRecord):
            if record.version < self._version:
                yield f"Decision {record.id} was made by an older model than the one before it."
            if self._gapless and record.id != head.decisions:
                yield f"Decision {record.id} stands where decision {head.decisions} should."
            self._last_id = max(self._last_id, record.id)
            self._version = max(self._version, record.version)
        elif isinstance(record, (RewardRecord, RetractionRecord)) and not 0 < record.id <= self._last_id:
            yield f"There is {_of(record)}, which is not in the ledger."
        elif isinstance(record, ModelRecord):
            counts = head.decisions, head.rewards, head.drifts
            if (record.decisions, record.rewards, record.drifts) != counts:
                yield f"Model {record.version} was made when there were other rows than those before it."


def _of(record: Any) -> str:
    return _NOUNS[COUNTS[type(record)]].format(record[0])
