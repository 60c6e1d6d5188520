"""The engine: one store and the model that serves from it. A call is one transaction, alarms included."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from banister.errors import InputError, ShapeError, UnknownDecisionError
from banister.features.base import Features
from banister.learner.account import Account
from banister.online.call import Call
from banister.online.decision import Decision
from banister.online.door import Request
from banister.online.following import Follower, read_news, repeated
from banister.online.judging import judged
from banister.online.ledger import Ledger, Played
from banister.online.log_blocks import Log
from banister.online.rebuild import rebuild
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    Record,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
)
from banister.online.serving import Serving
from banister.online.settings import Settings
from banister.online.store import Store
from banister.online.waking import settled
from banister.safety.exploration import ConservativeMixture
from banister.safety.promise import check_reward
from banister.safety.reasons import Reason

_DISAGREES = Reason.DISAGREES.value
DUPLICATE, EXPIRED, ACCEPTED, RETRACTED = "duplicate", "expired", "accepted", "retracted"

_log = logging.getLogger("banister.online")


class Engine(Serving):
    """Decides and learns. Not thread-safe: its owner holds a lock.

    Args:
        ledger: open; closed again if the engine cannot be made.
        path: of the model file; None for none.
        settings: None takes the store's own.
        read_only: look at a store that may be served from elsewhere.
    """

    def __init__(
        self, ledger: Ledger, path: Path | None, settings: Settings | None, *, read_only: bool = False
    ) -> None:
        self.path, self.read_only, self.closed = path, read_only, False
        self.store = Store(ledger)
        self._rung: list[AlarmRecord] = []
        self.refit_failure: str | None = None  # why the last refit failed; None if it did not
        try:
            self.settings = settled(ledger, settings, read_only=read_only)
            self.terms = self.settings.terms()
            self.account = None if self.terms is None or not self.terms.counted else Account(self.terms)
            # A call needs the ledger for itself where savings are spent once, whoever else spends.
            self.call, self.call_alone = Call(self, alone=self.account is not None), Call(self, alone=True)
            with ledger.still():
                rebuild(self.store, self.account, strict=not read_only)
                self.store.know_head()
            self._serve_last()
            self.follower = Follower(self) if ledger.shared else None
        except BaseException:
            ledger.close()
            raise

    def _serve_last(self) -> None:
        if self.read_only:
            self.use_last()
            return
        with self.store.ledger.transaction(alone=True):
            if self.store.ledger.head.links != self.store.known.links:
                read_news(self.store, self.account)
            self.use_last()
        self.count_alarms()
        self.store.know_head()

    def check_reward(self, value: float, where: str = "") -> None:
        """An error if a reward is outside the range that every promise of draws rests on."""
        if self.settings.reward_range is not None:
            check_reward(value, self.settings.reward_range, where)

    def check_open(self, dim: int | None = None, *, writing: bool = True) -> None:
        """An error if the bandit was closed, or rows have another number of features than those before."""
        if self.closed:
            raise InputError("This bandit was closed; open its store again with SafeBandit.load.")
        if writing and self.read_only:
            raise InputError("This bandit was opened for reading only; SafeBandit.load opens it for serving.")
        if not writing:  # a transaction looks by itself
            self.store.ledger.check()
        if dim is not None:
            self.check_dim(dim)

    @repeated
    def refresh(self) -> None:
        """Know everything that other processes have written until now."""
        if self.follower is not None:
            with self.call_alone:
                pass

    def check_dim(self, dim: int | None) -> None:
        """An error if rows have another number of features than those before."""
        if dim is not None and self.store.dim not in (None, dim):
            raise ShapeError(f"actions has {dim} features; this bandit works with {self.store.dim}.")

    def before_call(self) -> None:
        """Keep what a call may change, for `after_failure`."""
        self._unseen.clear()
        self._before = self.learner.state(), len(self.store.labels), self._alarmed

    def after_failure(self) -> None:
        """As if the call had not been made."""
        learner, known, self._alarmed = self._before
        self.learner.put_back(learner)
        self.store.drop_tasks(known)
        self._rung.clear()
        for state in reversed(self._unseen):
            self.learner.watch.put_back(state)

    @repeated
    def decide(
        self, request: Request, digest: int, mixture: ConservativeMixture | None, key: str | None = None
    ) -> Decision:
        """Judge, write down, remember; a key that came before gives the decision made then."""
        store = self.store
        with self.call:
            again = None if key is None else store.ledger.find_key(key)
            if again is not None:
                return self.again(again, request, digest)
            self.check_dim(request.actions.shape[1])
            task = store.code_of(request.label)
            record = judged(self, request, task, store.ledger.next_id(), digest, mixture, key)
            store.ledger.add_decision(record)
            if record.reason == _DISAGREES:
                self.note_disagreement(task, record.id, record.id)
        self.open_memory(request.actions.shape[1])
        store.remember(record)
        self._follow(record)
        return Decision.of(record, request.label)

    def _follow(self, record: Record) -> None:
        """Account and alarms follow the ledger: a record whose transaction was committed."""
        if self.account is not None:
            self.post(record)
        if self._rung:
            self.count_alarms()

    def open_memory(self, dim: int) -> None:
        """The memory, made when the first row tells the number of features."""
        if self.store.dim is None:
            self.learner.memory = self.store.open_memory(dim)

    def again(self, record: DecisionRecord, request: Request, digest: int) -> Decision:
        """The decision that was made under this request's key; an error if that was another request."""
        same = self.store.tasks.get(request.label) == record.task and record.baseline == request.baseline
        if not same or record.digest != digest:
            raise InputError(
                f"key={record.key!r} came with another request before, decision {record.id}; give each "
                "request a key of its own."
            )
        return Decision.of(record, request.label)

    def _known(self, number: int) -> Played:
        played = self.store.ledger.find(number)
        if played is None:
            raise self._unknown(number)
        return played

    def known(self, numbers: Sequence[int]) -> dict[int, Played]:
        """What rewards need to know of these decisions; an error if one is not there."""
        found = self.store.ledger.find_many(numbers)
        for number in numbers:
            if number not in found:
                raise self._unknown(number)
        return found

    def _unknown(self, number: int) -> UnknownDecisionError:
        return UnknownDecisionError(
            f"No decision has id {number}; ids run from 1 to {self.store.ledger.last_id} here."
        )

    @repeated
    def reward(self, number: int, value: float, key: str | None = None) -> str:
        """Write down and learn one reward; or refuse it and say why."""
        with self.call:
            played, now = self._known(number), time.time()
            if key is not None and played.key == key:
                return same_reward(played, value)
            why = self.refusal(played, now)
            if why is not None:
                self.refuse(number, now, value, why)
                return why
            record = RewardRecord(number, now, value, key)
            self.store.ledger.add_reward(record)
            learned = [(number, played, value)]
            self.watch_rewards(learned)
        self.store.learn_many(learned)
        self._follow(record)
        return ACCEPTED

    def refusal(self, played: Played, now: float) -> str | None:
        """Why a reward is not taken in; None if it is."""
        if played.retracted:
            return RETRACTED
        if played.reward is not None:
            return DUPLICATE
        limit = self.settings.expire_after
        return EXPIRED if limit is not None and now - played.time > limit else None

    def refuse(self, number: int, now: float, value: float, why: str) -> None:
        """Write down that a reward was not taken in."""
        self.store.ledger.add_refusal(RefusalRecord(number, now, value, why))
        _log.info("refused a reward of decision %d: %s", number, why)

    @repeated
    def retract(self, number: int, why: str) -> str:
        """Take a reward back: it stays in the ledger and is left out of later fits."""
        with self.call:
            played = self._known(number)
            if played.reward is None:
                raise InputError(f"Decision {number} has no reward to take back.")
            if played.retracted:
                return DUPLICATE
            record = RetractionRecord(number, time.time(), why)
            self.store.ledger.add_retraction(record)
        self.post(record)
        assert self.store.memory is not None
        self.store.memory.retract(number, played.task, played.features, played.reward, played.is_baseline)
        _log.info("retracted the reward of decision %d: %s", number, why)
        return RETRACTED

    @repeated
    def warm_start(self, rows: Log, features: Features | None) -> None:
        """Take in logs, all or nothing; the same log is taken in once."""
        self.check_open()
        with self.call_alone:
            self.check_dim(rows.dim)
            if self.store.decisions:
                raise InputError(
                    "warm_start comes before the first decision; this bandit has made "
                    f"{self.store.decisions}."
                )
            codes = [self.store.code_of(label) for label in rows.labels]
            call = self.store.add_logs(time.time(), rows, np.array(codes, dtype=np.int64))
        if call is not None:
            self.store.remember_logs(rows.dim, features, call, len(rows))

    @contextmanager
    def view(self) -> Iterator[Ledger]:
        """The ledger as it is now, for reading away from the lock."""
        if self.read_only:
            yield self.store.ledger
            return
        view = self.store.ledger.snapshot()
        try:
            yield view
        finally:
            view.close()

    def close(self) -> None:
        """Close the ledger."""
        if not self.closed:
            self.closed = True
            self.store.ledger.close()


def same_reward(played: Played, value: float) -> str:
    """The answer to a repetition is the one that was given first."""
    if played.reward != value:
        raise InputError(
            f"key={played.key!r} came with the reward {played.reward!r} before, and now with {value!r}."
        )
    return ACCEPTED
