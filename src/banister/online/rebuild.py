"""Memory from the ledger: what opening a store does, row by row in the order in which things happened."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np

from banister.data import Float
from banister.errors import DataFileError
from banister.online.chain import broken
from banister.online.record import AlarmRecord, DecisionRecord, LogRecord
from banister.online.store import Store

_GARBLED = (ValueError, TypeError, IndexError, OverflowError, struct.error)


def rebuild(store: Store, *, strict: bool = True) -> None:
    """Fill a fresh store's memory and counters.

    With `strict` the chain must hold first: a store that was altered is not served from. Without, what can be
    read is read, so that an audit can say what is wrong.
    """
    try:
        problem = broken(store.ledger) if strict else None
        if problem is not None:
            raise DataFileError(f"{store.ledger.where} was altered: {problem} Restore it from a copy.")
        _rebuild(store)
    except _GARBLED as reason:
        if isinstance(reason, DataFileError):
            raise
        raise DataFileError(
            f"{store.ledger.where} holds rows that cannot be read ({reason}); restore it from a copy."
        ) from None


def _rebuild(store: Store) -> None:
    for code, label in enumerate(store.ledger.tasks()):
        store.know_task(label, code)
    dim = store.ledger.dim()
    if dim is None:
        return
    if not dim > 0:
        raise DataFileError(f"{store.ledger.where} has rows without features; restore it from a copy.")
    memory = store.open_memory(dim)
    remember_blocks(store, store.ledger.logs(), dim)
    _decisions(store, dim)
    _rewards(store, dim)
    memory.retracted.update(r.id for r in store.ledger.retractions())


def remember_blocks(store: Store, blocks: list[LogRecord], dim: int) -> None:
    """All blocks of a call at once: the sample of offered actions is taken over all of its rows."""
    for call in _by_call(blocks):
        task = np.frombuffer(b"".join(b.task for b in call), dtype=np.int64)
        if ((task < 0) | (task >= len(store.labels))).any():
            raise DataFileError(f"{store.ledger.where} has logged rows of tasks that it does not name.")
        X, usual = (_joined(call, name).reshape(-1, dim) for name in ("features", "baseline"))
        y, known = (_joined(call, name) for name in ("reward", "baseline_reward"))
        store.remember_logs(task, X, y, usual, known)


def _by_call(blocks: list[LogRecord]) -> Iterator[list[LogRecord]]:
    calls: dict[bytes, list[LogRecord]] = {}
    for block in blocks:
        calls.setdefault(block.call, []).append(block)
    return iter(calls.values())


def _joined(call: list[LogRecord], name: str) -> Float:
    return np.frombuffer(b"".join(getattr(block, name) for block in call))


def _decisions(store: Store, dim: int) -> None:
    alarms = store.ledger.alarms()[::-1]
    for record in store.ledger.decisions():
        _alarms_before(store, alarms, record.id)
        _check(store, record, dim)
        store.remember(record)
    _alarms_before(store, alarms, store.ledger.last_id + 1)


def _check(store: Store, record: DecisionRecord, dim: int) -> None:
    """Sizes that memory is about to trust."""
    vectors = [v for v in (record.baseline_features, record.features, record.offered) if v is not None]
    if not 0 <= record.task < len(store.labels) or any(len(v) != 8 * dim for v in vectors):
        raise DataFileError(
            f"{store.ledger.where}: decision {record.id} names task {record.task} or features that are not "
            "there; restore it from a copy."
        )


def _rewards(store: Store, dim: int) -> None:
    for block in store.ledger.rewarded(dim):
        store.learn_block(block)


def _alarms_before(store: Store, alarms: list[AlarmRecord], number: int) -> None:
    """Alarms that rang before a decision; the list is used up from its end."""
    while alarms and alarms[-1].after < number:
        alarm = alarms.pop()
        if not -1 <= alarm.task < len(store.labels):
            raise DataFileError(f"{store.ledger.where} has an alarm of a task that it does not name.")
        store.count_alarm(alarm)
