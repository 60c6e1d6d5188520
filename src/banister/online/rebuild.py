"""Memory from the ledger: what opening a store does, row by row in the order in which things happened."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from banister.errors import DataFileError, ModelFileError
from banister.features.base import Features
from banister.features.loading import load_features
from banister.learner.account import Account
from banister.online.chain import broken
from banister.online.ledger import Ledger
from banister.online.log_blocks import FEATURES
from banister.online.posting import account_of
from banister.online.record import AlarmRecord, DecisionRecord, RetractionRecord, digest_of
from banister.online.store import Store

_GARBLED = (ValueError, TypeError, IndexError, OverflowError, struct.error)


def rebuild(store: Store, account: Account | None = None, *, strict: bool = True) -> None:
    """Fill a fresh store's memory and counters, and the account of its draws.

    With `strict` the chain must hold first: a store that was altered is not served from. Without, what can be
    read is read, so that an audit can say what is wrong.
    """
    try:
        problem = broken(store.ledger) if strict else None
        if problem is not None:
            raise DataFileError(f"{store.ledger.where} was altered: {problem} Restore it from a copy.")
        _rebuild(store)
        if account is not None:
            account_of(store.ledger, account)
        if strict:
            _check_models(store)
    except _GARBLED as reason:
        if isinstance(reason, (DataFileError, ModelFileError)):
            raise
        raise DataFileError(
            f"{store.ledger.where} holds rows that cannot be read ({reason}); restore it from a copy."
        ) from None


def _check_models(store: Store) -> None:
    """Every model that was kept is the one that was written: an audit needs the old ones too."""
    for record in store.ledger.models():
        data = store.ledger.model(record.version)
        if data is not None and digest_of(data) != record.digest:
            raise ModelFileError(f"{store.ledger.where}: model {record.version} was altered; restore a copy.")


def _rebuild(store: Store) -> None:
    for code, label in enumerate(store.ledger.tasks()):
        store.know_task(label, code)
    dim, features = rows_of(store.ledger)
    if dim is None:
        return
    if not dim > 0:
        raise DataFileError(f"{store.ledger.where} has rows without features; restore it from a copy.")
    store.open_memory(dim)
    store.remember_logs(dim, features)
    _decisions(store, dim)
    _rewards(store, dim)
    retract(store, store.ledger.retractions())


def rows_of(ledger: Ledger) -> tuple[int | None, Features | None]:
    """How many features a row has, None before the first; and what makes rows of contexts."""
    dim, text = ledger.dim(), ledger.kept(FEATURES)
    features = None if text is None else load_features(text)
    if dim is not None and features is not None and features.learned:
        dim = features.dim  # logged rows may be kept in a shorter form
    return dim, features


def retract(store: Store, records: Iterable[RetractionRecord]) -> None:
    """Memory follows the ledger: rewards that were taken back."""
    for record in records:
        played = store.ledger.find(record.id)
        if played is not None and played.reward is not None and store.memory is not None:
            store.memory.retract(record.id, played.task, played.features, played.reward, played.is_baseline)


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
