"""`Serving`: the model that an engine serves from, the gates that were shut under it, and its alarms."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banister.learner.account import Account
from banister.learner.drawer import Drawer
from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.online.ledger import Played, Rewarded
from banister.online.model import Model
from banister.online.posting import post
from banister.online.record import AlarmRecord, Record
from banister.online.settings import Settings
from banister.online.store import Store
from banister.online.waking import last_model
from banister.safety.gates import EVERY_TASK
from banister.safety.promise import Terms
from banister.safety.reasons import DISAGREES, DRIFT, Reason
from banister.safety.watch import Alarm

_log = logging.getLogger("banister.online")


class Serving:
    """One store and the model that serves from it; what the model's rewards and requests say against it."""

    store: Store
    path: Path | None
    read_only: bool
    settings: Settings
    terms: Terms | None
    account: Account | None
    _rung: list[AlarmRecord]  # alarms of the open transaction

    def use_last(self) -> None:
        """Serve from the ledger's last model."""
        path = None if self.read_only else self.path
        model, self.outdated = last_model(self.store.ledger, path, self.settings, self.store.dim or 1)
        self.use(model)
        self.attempt = self.store.ledger.kept("attempt")

    def use(self, model: Model) -> None:
        """Serve from this model, and shut again what was shut while it served before or was being fitted.

        Alarms that ring are written within the open transaction.
        """
        self.model = model
        memory = self.store.memory or Memory(self.store.dim or 1)
        self.learner = Learner(self.settings.constraint, self.settings.believer(), memory)
        self.learner.use(model.belief)
        self.drawer = (
            None if self.terms is None else Drawer(self.terms, self.learner, self.account, model.version)
        )
        self._alarmed: frozenset[int] = frozenset()
        self._unseen: list[Any] = []  # what the watch knew before the rewards of this call
        if model.version:
            self._shut_again()
            self._watch_again()

    def serving(self) -> tuple[Any, ...]:
        """What `use` changes, to put back with `serve_again` if the swap cannot be written."""
        return self.model, self.learner, self.drawer, self.learner.state(), self._alarmed

    def serve_again(self, before: tuple[Any, ...]) -> None:
        """Serve from the model before, as it was; what the new one would have forgotten counts again."""
        self.model, self.learner, self.drawer, state, self._alarmed = before
        self.learner.put_back(state)
        self._rung.clear()

    def _shut_again(self) -> None:
        """Gates that were shut while this model was being fitted, or served before the store was closed.

        In the order in which it happened: an alarm for all tasks leaves gates as they are that were shut.
        """
        ledger, version, gates = self.store.ledger, self.model.version, self.learner.gates
        alarms = ledger.alarms(after=self.model.marks.drifts)
        self._alarmed = frozenset(alarm.task for alarm in alarms if alarm.version == version)
        first = ledger.first_with_reason(version, Reason.DISAGREES, self.model.marks.decisions)
        events = [(number, 0, task) for task, number in first.items()]
        events += [(alarm.after, 1, alarm.task) for alarm in alarms]
        for _, is_alarm, task in sorted(events):
            if is_alarm or gates.is_open(task):
                gates.shut(task, DRIFT if is_alarm else DISAGREES)
        for task, number in sorted(first.items(), key=lambda item: item[1]):
            self.note_disagreement(task, number, number)

    def shut_as_others_did(self, alarms: list[AlarmRecord], contradicted: list[tuple[int, int]]) -> None:
        """What other processes noted while this model serves them all: facts, which are in the ledger.

        `contradicted` has task and id of decisions whose claimed baseline reward contradicted the model.
        """
        for task, number in contradicted:
            if self.learner.gates.is_open(task):
                self.learner.gates.shut(task, DISAGREES)
            self.learner.disagreed(task, number)
        by_claim = {number for _, number in contradicted}
        for alarm in alarms:
            self.learner.gates.shut(alarm.task, DRIFT)
            self._alarmed = self._alarmed | {alarm.task}
            if alarm.since not in by_claim:
                self.learner.watch.silence(alarm.task)

    def note_disagreement(self, task: int, number: int, after: int) -> None:
        """A baseline reward contradicted the model at decision `number`; `after` is the last one judged."""
        alarm = self.learner.disagreed(task, number)
        if alarm is not None:
            self._sound(alarm, after)

    def _watch_again(self) -> None:
        """Compare every reward that the model was not fitted to with it, but for those taken back before it.

        One that is taken back later has been seen by then, and is seen again when the store is opened.
        """
        memory = self.store.memory
        if memory is None or not self.settings.drift_guard:
            return
        gone = self.store.ledger.retracted_before(self.model.version)
        for *rows, number in self._unfitted(memory):
            stay = np.isin(number, gone, invert=True)
            for alarm in self.learner.check_many(*(c[stay] for c in (*rows, number))):
                self._sound(alarm, self.store.ledger.last_id)

    def _unfitted(self, memory: Memory) -> Iterator[tuple[Any, ...]]:
        """Rewards that the model was not fitted to: those since its snapshot, or by the ledger at opening."""
        if memory.plays.tail is not None:
            task, X, y, _, _, number = memory.plays.tail.pieces()
            yield from zip(task, X, y, number, strict=True)
            return
        skipped = self.model.marks.rewards
        for rows in self.store.ledger.rewarded(memory.dim):
            yield tuple(c[skipped:] for c in (rows.task, rows.features, rows.value, rows.number))
            skipped = max(skipped - len(rows.number), 0)

    def _sound(self, alarm: Alarm, after: int) -> None:
        """Write an alarm down, once."""
        if alarm.task not in self._alarmed:
            self._alarmed = self._alarmed | {alarm.task}
            self.add_alarm(alarm, self.model.version, after)

    def add_alarm(self, alarm: Alarm, version: int, after: int) -> None:
        """Write an alarm with the open transaction; memory learns of it from `count_alarms`."""
        if self.read_only:
            return
        ledger = self.store.ledger
        record = AlarmRecord(
            ledger.head.drifts + 1, time.time(), alarm.task, version, alarm.since, after, alarm.excess
        )
        ledger.add_alarm(record)
        self._rung.append(record)

    def count_alarms(self) -> None:
        """Memory follows the ledger: alarms whose transaction was committed."""
        for alarm in self._rung:
            self.store.count_alarm(alarm)
            self.post(alarm)
            whose = "every task" if alarm.task == EVERY_TASK else repr(self.store.labels[alarm.task])
            _log.warning(
                "drift of %s after decision %d: rows count from decision %d on, under model %d",
                whose, alarm.after, alarm.since, alarm.version,
            )  # fmt: skip
        self._rung.clear()

    def post(self, record: Record) -> None:
        """The account follows the ledger: a record whose transaction was committed."""
        if self.account is not None:
            post(self.account, record, self.store.ledger)

    def watch_rewards(self, rewards: Sequence[tuple[int, Played, float]]) -> None:
        """Show rewards to the guard; its alarms are written with the open transaction."""
        if not self.settings.drift_guard:
            return
        self._unseen.append(self.learner.watch.state([played.task for _, played, _ in rewards]))
        for alarm in self._compared(rewards):
            self._sound(alarm, self.store.ledger.last_id)

    def _compared(self, rewards: Sequence[tuple[int, Played, float]]) -> list[Alarm]:
        """Alarms of rewards, in turn; one alone is spared the arrays."""
        if len(rewards) < 2:
            each = (self.learner.check(p.task, p.features, value, number) for number, p, value in rewards)
            return [alarm for alarms in each for alarm in alarms]
        numbers, played_all, values = zip(*rewards, strict=True)
        task, X = np.array([p.task for p in played_all]), np.stack([p.features for p in played_all])
        return self.learner.check_many(task, X, np.array(values), np.array(numbers))

    def watch_block(self, rows: Rewarded) -> None:
        """Show rewards of other processes to the guard, in the order of the chain."""
        if self.settings.drift_guard:
            self._unseen.append(self.learner.watch.state(np.unique(rows.task).tolist()))
            for alarm in self.learner.check_many(rows.task, rows.features, rows.value, rows.number):
                self._sound(alarm, self.store.ledger.last_id)
