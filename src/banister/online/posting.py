"""From the ledger's records to the account of draws: the same when a store is served, opened and audited."""

from __future__ import annotations

from typing import Any

from banister.learner.account import Account
from banister.online.ledger import Ledger
from banister.online.record import AlarmRecord, DecisionRecord, ModelRecord, RetractionRecord, RewardRecord


def account_of(ledger: Ledger, account: Account) -> None:
    """Bring a fresh account up to date."""
    for _, _, record in ledger.entries():
        post(account, record, ledger)


def post(account: Account, record: Any, ledger: Ledger) -> None:
    """One record more, in the order of the chain; those that say nothing of draws change nothing."""
    if isinstance(record, DecisionRecord):
        _decided(account, record)
    elif isinstance(record, RewardRecord):
        account.rewarded(record.id, record.time, record.value)
    elif isinstance(record, AlarmRecord):
        account.changed(record.task)
    elif isinstance(record, ModelRecord):
        account.renewed()
    elif isinstance(record, RetractionRecord):
        played = ledger.find(record.id)
        if played is not None:
            account.corrected(played.task)


def _decided(account: Account, record: DecisionRecord) -> None:
    odds = record.odds
    if odds is not None:
        is_baseline = record.action == record.baseline
        account.decided(record.id, record.time, record.task, float(odds[record.baseline]), is_baseline)
