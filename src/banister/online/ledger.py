"""The ledger's interface: everything a store asks of a database, by name. No SQL stands on this side of it.

Rows are only ever added. Each adds to a running hash (`head`). What is added within one `transaction` is
written whole or not at all, and has been committed when the block ends. Ids and codes are given by the ledger
inside the transaction. A ledger that is `shared` has other writers too, see `banister.online.following`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
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
    Record,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
)
from banister.safety.reasons import Reason

Span = tuple[int, int]  # places in the chain: after the first, up to the second


class Overtaken(Exception):  # noqa: N818 - a turn of events that the engine deals with, never an error
    """Another writer changed what this call rests on, or the call needs the ledger alone: make it again."""


def is_urgent(record: Record, before: Head) -> bool:
    """Whether a record changes what other writers may decide, so that none decides without knowing it.

    Alarms and contradicted baseline rewards shut gates, models open them; the first row says how many
    features there are; mixtures are counted. All else may be learned of a little later.
    """
    if isinstance(record, DecisionRecord):
        first = before.decisions + before.logs == 0
        return first or record.action < 0 or record.reason == Reason.DISAGREES
    return isinstance(record, AlarmRecord | ModelRecord | LogRecord)


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

    @classmethod
    def of(cls, record: DecisionRecord) -> Played:
        """A decision that has no reward yet."""
        is_baseline = record.action == record.baseline
        claim = record.high if is_baseline and record.low == record.high else math.nan
        return cls(record.task, record.played, is_baseline, claim, record.time, None, None, False)


class Rewarded(NamedTuple):
    """Rewards with what they were for, in the order in which they came; see `Played`."""

    number: Int
    value: Float
    task: Int
    features: Float
    is_baseline: Bool
    claim: Float


class Decided(NamedTuple):
    """Columns of decisions, in the order of the chain; what memory keeps of `DecisionRecord`."""

    id: tuple[int, ...]
    time: tuple[float, ...]
    task: tuple[int, ...]
    action: tuple[int, ...]
    baseline: tuple[int, ...]
    reason: tuple[str, ...]
    bound: tuple[float, ...]
    floor: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    std: tuple[float, ...]
    baseline_features: tuple[bytes, ...]
    features: tuple[bytes | None, ...]
    offered: tuple[bytes | None, ...]

    @classmethod
    def of(cls, records: Sequence[DecisionRecord]) -> Decided:
        """The columns of at least one record."""
        return cls(*zip(*map(_COLUMNS, records), strict=True))

    def part(self, rows: slice) -> Decided:
        """Some of the rows."""
        return Decided._make(column[rows] for column in self)


_COLUMNS = attrgetter(*Decided._fields)


class Ledger(Protocol):
    """An append-only record of decisions, rewards, alarms and models. Not thread-safe: its owner locks."""

    where: str
    open: bool  # whether a transaction is
    shared: bool  # whether other processes may write too
    gapless: bool  # whether ids count decisions; else some were never used

    @property
    def head(self) -> Head:
        """What there is, the open transaction's own additions included."""

    @property
    def last_id(self) -> int:
        """No decision so far has a larger id; all later ones will, once a transaction is alone."""

    def check(self) -> None:
        """An error if nothing may be written or acknowledged any more: another process, a lost file."""

    def transaction(self, *, alone: bool = False) -> AbstractContextManager[None]:
        """All or nothing; an error inside, or at the commit, leaves ledger and head as they were.

        With `alone` no other writer comes in between, and the head is exact. Without, a shared ledger may
        raise `Overtaken` at any step; the next transaction then is alone.
        """

    def begin(self, alone: bool = False) -> None:
        """The first half of a transaction, for who cannot use a block."""

    def commit(self) -> None:
        """The second half, if all went well."""

    def roll_back(self, failure: BaseException | None = None) -> None:
        """The second half, if not; an error in the database's own words is raised again in ours."""

    def still(self) -> AbstractContextManager[None]:
        """Reads within see one moment, whatever others write."""

    def start_refit(self) -> bool:
        """Claim the right to refit, which one process has at a time and death gives back; False if taken."""

    def end_refit(self) -> None:
        """Give it back."""

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

    def add_rewards(self, records: Iterable[RewardRecord]) -> None:
        """Many accepted rewards, in order."""

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

    def notes(self) -> dict[str, str]:
        """All that was kept."""

    def set_durability(self, durability: str) -> None:
        """Whether a commit survives the machine ("full") or the process ("normal")."""

    def find(self, number: int) -> Played | None:
        """What a reward needs to know of a decision; None if there is none."""

    def find_many(self, numbers: Sequence[int]) -> dict[int, Played]:
        """The same of many decisions, by id; those that are not there are left out."""

    def find_key(self, key: str) -> DecisionRecord | None:
        """The decision that was made under a key."""

    def find_keys(self, keys: Sequence[str]) -> dict[str, DecisionRecord]:
        """The decisions that were made under these keys."""

    def decision(self, number: int) -> DecisionRecord | None:
        """One decision; None if there is none."""

    def last_decisions(self, task: int, most: int) -> list[DecisionRecord]:
        """A task's last decisions, newest first."""

    def tasks(self) -> list[str]:
        """Labels by code; an error where one is missing."""

    def dim(self) -> int | None:
        """The number of features; None before the first row."""

    def decisions(self, version: int | None = None) -> Iterator[DecisionRecord]:
        """All decisions, or one model's, in the order of the chain."""

    def rewarded(self, dim: int) -> Iterator[Rewarded]:
        """All rewards in the order in which they came, in blocks."""

    def rewards(self) -> Iterator[RewardRecord]:
        """All rewards, in the order of their decisions."""

    def retractions(self) -> list[RetractionRecord]:
        """All rewards that were taken back."""

    def retracted_before(self, version: int) -> list[int]:
        """Decisions whose reward had been taken back when this model was written."""

    def alarms(self, after: int = 0) -> list[AlarmRecord]:
        """Drifts numbered above `after`, in order."""

    def logs(self) -> Iterable[LogRecord]:
        """All blocks of logged rows, in order."""

    def model(self, version: int) -> bytes | None:
        """The bytes of a model; None if they were not kept."""

    def models(self) -> list[ModelRecord]:
        """All model versions, in order."""

    def versions(self) -> dict[int, int]:
        """Decisions by model version."""

    def first_with_reason(self, version: int, reason: str, after: int) -> dict[int, int]:
        """For each task with a decision of this version and reason: the first one's id.

        Only decisions after `after` are looked at; a version's own are later than what it was fitted to.
        """

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


class SharedLedger(Ledger, Protocol):
    """A ledger that others write to as well; what came from them is read by its place in the chain."""

    epoch: int  # counts urgent records; a single record is refused if this one is out of date
    alone: bool  # whether the open transaction, or else the last one, has had the ledger alone
    own: int  # records that it added

    def check_begins_with(self, known: Head) -> None:
        """An error unless the ledger still begins with what this process knows of it."""

    def decided(self, span: Span) -> Iterator[Decided]:
        """Decisions of a part of the chain, in blocks."""

    def rewarded(self, dim: int, span: Span = ...) -> Iterator[Rewarded]:
        """Rewards of a part of the chain."""

    def retractions(self, span: Span = ...) -> list[RetractionRecord]:
        """Rewards taken back in a part of the chain."""

    def logs(self, span: Span = ...) -> list[LogRecord]:
        """Blocks of logged rows in a part of the chain."""

    def entries(self, span: Span = ...) -> Iterator[Entry]:
        """Every record of a part of the chain, in its order."""
