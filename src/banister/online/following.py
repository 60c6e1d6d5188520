"""Following other writers of a shared ledger: memory and gates come to know what they have written.

Memory follows the chain. A record of this process that others' records stand before is not taken in when it
is written, but read back with those, so that rows stand in memory in the order of the chain and every process
fits the same model to them. What is urgent (see `is_urgent`) is known before the next decision, because the
ledger refuses a decision of an older epoch. The rest may wait, until `LAG` records have gathered or `SOON`
seconds have passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from banister.learner.account import Account
from banister.online.ledger import Decided, Overtaken, Rewarded, SharedLedger
from banister.online.posting import post
from banister.online.rebuild import retract, rows_of
from banister.online.record import AlarmRecord
from banister.online.store import Store
from banister.safety.reasons import Reason

if TYPE_CHECKING:
    from banister.online.engine import Engine

# What others have written may wait until so many records have gathered, or until so many seconds have passed:
# read together they cost a tenth of what each would cost alone.
LAG, SOON = 512, 0.25
_DISAGREES = Reason.DISAGREES.value

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
        contradicted: task and id of decisions whose claimed baseline reward contradicted the model.
        rewards: those that the watch has not been shown.
        model: whether there is a new one.
    """

    def __init__(self) -> None:
        self.alarms: list[AlarmRecord] = []
        self.contradicted: list[tuple[int, int]] = []
        self.rewards: list[Rewarded] = []
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
    _read_decisions(store, ledger.decided(span) if head.decisions > known.decisions else (), news)
    if head.rewards > known.rewards:
        for block in ledger.rewarded(memory.dim, span):
            store.learn_block(block)
            news.rewards.append(_unseen(store, block))
    if head.retractions > known.retractions:
        retract(store, ledger.retractions(span))


def _read_decisions(store: Store, blocks: Iterable[Decided], news: News) -> None:
    """In the order of the chain, with the alarms where they rang."""
    waiting = news.alarms[::-1]
    for block in blocks:
        start = 0
        while waiting and (cut := _first_after(block, waiting[-1].after, start)) is not None:
            _remember(store, block.part(slice(start, cut)))
            store.count_alarm(waiting.pop())
            start = cut
        _remember(store, block.part(slice(start, None)))
        shut = zip(block.task, block.id, block.reason, strict=True)
        news.contradicted += [(task, number) for task, number, why in shut if why == _DISAGREES]
    for alarm in reversed(waiting):
        store.count_alarm(alarm)


def _first_after(block: Decided, number: int, start: int) -> int | None:
    """The place of the first decision with a larger id."""
    return next((i for i in range(start, len(block.id)) if block.id[i] > number), None)


def _remember(store: Store, block: Decided) -> None:
    if block.id:
        store.remember_block(block)


def _unseen(store: Store, block: Rewarded) -> Rewarded:
    """Rewards that the watch has not been shown; those of this process it was."""
    new = np.array([number not in store.seen for number in block.number.tolist()])
    store.seen.difference_update(block.number.tolist())
    return Rewarded(*(column[new] for column in block))


class Follower:
    """Keeps one engine in step with a shared ledger; `before`, `inside` and `after` every call."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._store = engine, engine.store
        self._late: list[Rewarded] = []  # rewards of others, for the watch
        self._last = time.monotonic()  # when the last were read

    def before(self) -> None:
        """Outside any transaction: take in what has gathered."""
        store = self._store
        if store.behind and (
            store.ledger.head.links - store.known.links >= LAG or time.monotonic() - self._last > SOON
        ):
            self._catch_up()

    def inside(self) -> None:
        """At the beginning of a transaction; if it is alone, everything is known from here on."""
        ledger = cast(SharedLedger, self._store.ledger)
        if ledger.alone and ledger.head.links != self._store.known.links:
            self._catch_up()

    def show_late(self) -> None:
        """Show others' rewards to the watch; its alarms are written with the open transaction."""
        for rows in self._late:
            self._engine.watch_block(rows)

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
        engine, fresh, self._last = self._engine, self._store.dim is None, time.monotonic()
        news = read_news(self._store, engine.account)
        if fresh and (memory := self._store.memory) is not None:
            engine.learner.memory = memory
        if news.model:
            self._late.clear()  # a new model is compared with every reward that it was not fitted to
            engine.use_last()
        else:
            engine.shut_as_others_did(news.alarms, news.contradicted)
            self._late += news.rewards
