"""Following other writers of a shared ledger: memory and gates come to know what they have written.

Memory follows the chain. A record of this process that others' records stand before is not taken in when it
is written, but read back with those, so that rows stand in memory in the order of the chain and every process
fits the same model to them. What is urgent (see `is_urgent`) is known before the next decision, because the
ledger refuses a decision of an older epoch. The rest may wait, until `LAG` records have gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from banister.learner.account import Account
from banister.online.ledger import Overtaken, Played, Rewarded, SharedLedger
from banister.online.posting import post
from banister.online.rebuild import retract, rows_of
from banister.online.record import AlarmRecord, DecisionRecord
from banister.online.store import Store
from banister.safety.reasons import Reason

if TYPE_CHECKING:
    from banister.online.engine import Engine

LAG = 64  # records of others that may wait: read together they cost a tenth of what each would cost alone

_Result = TypeVar("_Result")


def repeated(method: Callable[..., _Result]) -> Callable[..., _Result]:
    """Make a call again that another writer overtook; the second time it has the ledger alone."""

    @wraps(method)
    def whole(*args: Any, **kwargs: Any) -> _Result:
        try:
            return method(*args, **kwargs)
        except Overtaken:
            return method(*args, **kwargs)

    return whole


class News:
    """What the store has just come to know: for gates and watch.

    Attributes:
        alarms: drifts that others noted.
        contradicted: decisions whose claimed baseline reward contradicted the model.
        rewards: decision, what was played, and the reward.
        model: whether there is a new one.
    """

    def __init__(self) -> None:
        self.alarms: list[AlarmRecord] = []
        self.contradicted: list[DecisionRecord] = []
        self.rewards: list[tuple[int, Played, float]] = []
        self.model = False


def read_news(store: Store, account: Account | None) -> News:
    """Bring the store's memory, and the account of draws, up to the head that its ledger knows."""
    ledger, news = cast(SharedLedger, store.ledger), News()
    head, known = ledger.head, store.known
    ledger.check_begins_with(known)
    if head.tasks > len(store.labels):
        for code, label in enumerate(ledger.tasks()[len(store.labels) :], start=len(store.labels)):
            store.know_task(label, code)
    store.behind = False
    dim = rows_of(ledger)[0] if store.dim is None else store.dim
    if dim is not None:
        store.open_memory(dim)
        _read_rows(store, ledger, news)
    if account is not None:
        for _, _, record in ledger.entries((known.links, head.links)):
            post(account, record, ledger)
    news.model = head.models > known.models
    store.know_head()
    return news


def _read_rows(store: Store, ledger: SharedLedger, news: News) -> None:
    head, known, memory = ledger.head, store.known, store.memory
    span = known.links, head.links
    assert memory is not None
    if head.logs > known.logs:
        features = rows_of(ledger)[1]
        for call in dict.fromkeys(block.call for block in ledger.logs(span)):
            store.remember_logs(memory.dim, features, call)
    if head.drifts > known.drifts:
        news.alarms = ledger.alarms(after=known.drifts)
    _read_decisions(store, ledger.decisions(span=span) if head.decisions > known.decisions else (), news)
    if head.rewards > known.rewards:
        for block in ledger.rewarded(memory.dim, span):
            store.learn_block(block)
            news.rewards += _unseen(store, block)
    if head.retractions > known.retractions:
        retract(store, ledger.retractions(span))


def _read_decisions(store: Store, records: Iterable[DecisionRecord], news: News) -> None:
    """In the order of the chain, with the alarms where they rang."""
    waiting = news.alarms[::-1]
    for record in records:
        while waiting and waiting[-1].after < record.id:
            store.count_alarm(waiting.pop())
        store.remember(record)
        if record.reason == Reason.DISAGREES:
            news.contradicted.append(record)
    for alarm in reversed(waiting):
        store.count_alarm(alarm)


def _unseen(store: Store, block: Rewarded) -> Iterator[tuple[int, Played, float]]:
    """Rewards that the watch has not been shown; those of this process it was."""
    rows = zip(*(c.tolist() for c in (block.number, block.task, block.is_baseline, block.claim, block.value)),
               strict=True)  # fmt: skip
    for (number, task, is_baseline, claim, value), x in zip(rows, block.features, strict=True):
        if number in store.seen:
            store.seen.discard(number)
        else:
            yield number, Played(task, x, is_baseline, claim, math.nan, value, None, False), value


class Follower:
    """Keeps one engine in step with a shared ledger; `before`, `inside` and `after` every call."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._store = engine, engine.store
        self._late: list[tuple[int, Played, float]] = []  # rewards of others, for the watch

    def before(self) -> None:
        """Outside any transaction: take in what has gathered."""
        store = self._store
        if store.behind and store.ledger.head.links - store.known.links >= LAG:
            self._catch_up()

    def inside(self) -> None:
        """At the beginning of a transaction; if it is alone, everything is known from here on."""
        ledger = cast(SharedLedger, self._store.ledger)
        if ledger.alone and ledger.head.links != self._store.known.links:
            self._catch_up()

    def show_late(self) -> None:
        """Show others' rewards to the watch; its alarms are written with the open transaction."""
        if self._late:
            self._engine.watch_rewards(self._late)

    def after(self) -> None:
        """The transaction is committed."""
        if self._late:
            self._late.clear()
            self._engine.count_alarms()
        store = self._store
        if store.ledger.head.links == store.known.links + cast(SharedLedger, store.ledger).own:
            store.know_head()
        else:
            store.behind = True

    def _catch_up(self) -> None:
        engine, fresh = self._engine, self._store.dim is None
        news = read_news(self._store, engine.account)
        if fresh and (memory := self._store.memory) is not None:
            engine.learner.memory = memory
        if news.model:
            self._late.clear()  # a new model is compared with every reward that it was not fitted to
            engine.use_last()
        else:
            engine.shut_as_others_did(news.alarms, news.contradicted)
            self._late += news.rewards
