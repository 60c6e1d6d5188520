"""The ledger's interface: everything a store asks of a database, by name. No SQL stands on this side of it.

Rows are only ever added. Each adds to a running hash (`head`). What is added within one `transaction` is
written whole or not at all, and has been committed when the block ends. Ids and codes are given by the ledger
inside the transaction, so that several writers could share one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from banister.contract import Bool
from banister.data import Float, Int
from banister.online.head import Head
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    Entry,
    LogRecord,
    ModelRecord,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
)


class Played(NamedTuple):
    """What a reward needs to know of its decision.

    Attributes:
        task: its code.
        features: (d,) what was played.
        is_baseline: whether that was the baseline; claim: the reward claimed for it, NaN if none.
        time: when.
        reward, key: the accepted reward and the key it came with; None before it came.
        retracted: whether it was taken back.
    """

    task: int
    features: Float
    is_baseline: bool
    claim: float
    time: float
    reward: float | None
    key: str | None
    retracted: bool


class Rewarded(NamedTuple):
    """Rewards with what they were for, in the order in which they came; see `Played`."""

    number: Int
    value: Float
    task: Int
    features: Float
    is_baseline: Bool
    claim: Float


class Ledger(Protocol):
    """An append-only record of decisions, rewards, alarms and models. Not thread-safe: its owner locks."""

    where: str

    @property
    def head(self) -> Head:
        """What there is, the open transaction's own additions included."""

    def check(self) -> None:
        """An error if nothing may be written or acknowledged any more: another process, a lost file."""

    def transaction(self) -> AbstractContextManager[None]:
        """All or nothing; an error inside, or at the commit, leaves ledger and head as they were."""

    def next_id(self) -> int:
        """The id of the decision that the open transaction may write next."""

    def add_task(self, label: str) -> int:
        """A new task; its code."""

    def add_decision(self, record: DecisionRecord) -> None:
        """One decision."""

    def add_decisions(self, records: Iterable[DecisionRecord]) -> None:
        """Many decisions, in order."""

    def add_reward(self, record: RewardRecord) -> None:
        """An accepted reward."""

    def add_refusal(self, record: RefusalRecord) -> None:
        """A refused reward."""

    def add_retraction(self, record: RetractionRecord) -> None:
        """A reward taken back."""

    def add_alarm(self, record: AlarmRecord) -> None:
        """A drift."""

    def add_log(self, record: LogRecord) -> None:
        """A block of logged rows."""

    def add_part(self, version: int, part: int, data: bytes) -> None:
        """Part of a model, which does not count until `add_model`; a crash may leave one behind."""

    def add_model(self, record: ModelRecord) -> None:
        """The model is whole: from this commit on it is the one that serves."""

    def forget_model(self, version: int) -> None:
        """Drop a model's bytes; its record stays."""

    def keep(self, key: str, value: str) -> None:
        """Keep a small text under a name; it is no part of the chain."""

    def kept(self, key: str) -> str | None:
        """A text that was kept."""

    def set_durability(self, durability: str) -> None:
        """Whether a commit survives the machine ("full") or the process ("normal")."""

    def find(self, number: int) -> Played | None:
        """What a reward needs to know of a decision; None if there is none."""

    def find_key(self, key: str) -> DecisionRecord | None:
        """The decision that was made under a key."""

    def decision(self, number: int) -> DecisionRecord | None:
        """One decision; None if there is none."""

    def last_decisions(self, task: int, most: int) -> list[DecisionRecord]:
        """A task's last decisions, newest first."""

    def tasks(self) -> list[str]:
        """Labels by code; an error where one is missing."""

    def dim(self) -> int | None:
        """The number of features; None before the first row."""

    def decisions(self, version: int | None = None) -> Iterator[DecisionRecord]:
        """All decisions, or one model's, in order."""

    def rewarded(self, dim: int) -> Iterator[Rewarded]:
        """All rewards in the order in which they came, in blocks."""

    def rewards(self) -> Iterator[RewardRecord]:
        """All rewards, in the order of their decisions."""

    def retractions(self) -> list[RetractionRecord]:
        """All rewards that were taken back."""

    def alarms(self, after: int = 0) -> list[AlarmRecord]:
        """Drifts numbered above `after`, in order."""

    def logs(self) -> list[LogRecord]:
        """All blocks of logged rows, in order."""

    def model(self, version: int) -> bytes | None:
        """The bytes of a model; None if they were not kept."""

    def models(self) -> list[ModelRecord]:
        """All model versions, in order."""

    def versions(self) -> dict[int, int]:
        """Decisions by model version."""

    def first_with_reason(self, version: int, reason: str) -> dict[int, int]:
        """For each task with a decision of this version and reason: the first one's id."""

    def refusals(self) -> dict[str, int]:
        """Refused rewards by why."""

    def unrewarded_before(self, time: float) -> int:
        """Decisions from before a time that have no reward."""

    def entries(self) -> Iterator[Entry]:
        """Every record in the order of writing, with its place in the chain and the head kept with it."""

    def start(self) -> bytes:
        """The hash that the chain begins with."""

    def snapshot(self) -> Ledger:
        """A view of everything committed so far, for reading only; writers go on meanwhile. Close it."""

    def save(self, path: Path) -> None:
        """A whole copy at a path where nothing is."""

    def close(self) -> None:
        """Give everything back."""
