"""The desk: the one place where requests meet the bandit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from banister.data import Float
from banister.errors import InputError, ServiceError
from banister.features.baseline import place
from banister.online import raw
from banister.online.bandit import SafeBandit
from banister.online.decision import Decision
from banister.serve.metrics import Metrics
from banister.serve.schema import DecisionBatch, DecisionRequest, RewardRequest, action_sets

T = TypeVar("T")
Offers = tuple[Any, list[Any], dict[int, list[str]]]
_THREADS = 4  # that look: at statuses, tasks and decisions
_NUMBERS = 1 << 24  # of a batch's actions, 128 MB: few bytes of contexts or common actions can mean many


class Desk:
    """Calls a bandit without keeping the event loop waiting for long.

    A decision takes a fraction of a millisecond, less than handing it to a thread would, so it is made at
    once if nobody holds the bandit's lock. Otherwise, and where a call may wait for a disk, a network or a
    fit, a thread makes it. So do batches: while one is judged by compiled code and written by SQLite, which
    leave the interpreter to others, the next is read and the last is answered.
    """

    def __init__(self, bandit: SafeBandit, metrics: Metrics) -> None:
        self.bandit, self.metrics = bandit, metrics
        settings = bandit.settings
        self._quick = settings.durability == "normal" and settings.refits != "inline" and _is_embedded(bandit)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="banister-serve")
        # The bandit decides one thing at a time. Threads that wait for it would take the interpreter from the
        # one that works, at each of its calls into compiled code: half of the decisions a second.
        self._line = ThreadPoolExecutor(1, thread_name_prefix="banister-line")
        # One at a time, in one thread: fits and audits must not keep others from looking, and what they
        # allocate is given back to one place, not to one for each thread.
        self._heavy = ThreadPoolExecutor(1, thread_name_prefix="banister-heavy")

    async def short(self, work: Callable[[], T]) -> T:
        """A call of some milliseconds at most."""
        lock = self.bandit._lock
        if not self._quick or not lock.acquire(blocking=False):
            return await self.in_line(work)
        try:
            return work()
        finally:
            lock.release()

    async def in_line(self, work: Callable[[], T]) -> T:
        """A call that changes the store, after those that came before it."""
        return await asyncio.get_running_loop().run_in_executor(self._line, work)

    async def long(self, work: Callable[[], T]) -> T:
        """A call that may take longer; what has begun is finished even if the caller goes away."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    async def heavy(self, work: Callable[[], T]) -> T:
        """A fit or an audit."""
        return await asyncio.get_running_loop().run_in_executor(self._heavy, work)

    async def decide(self, request: DecisionRequest, numbers: Float) -> Decision:
        """One decision; `numbers` are those that came beside the request."""
        arguments = request.arguments(action_sets([request], numbers)[0])
        made = await self.short(lambda: self.bandit.decide(**arguments))
        self.metrics.decided([made], _left(made, request))
        return made

    async def decide_many(self, batch: DecisionBatch, numbers: Float) -> list[Decision]:
        """Decisions in order, in one transaction."""
        made = await self.in_line(lambda: self._decide_many(batch, numbers))
        self.metrics.decided(made, sum(map(_left, made, batch.requests)))
        return made

    def _decide_many(self, batch: DecisionBatch, numbers: Float) -> list[Decision]:
        requests = batch.requests
        sets = action_sets(requests, numbers, batch)
        sets, baselines, names = self._all_raw(requests) or self._offers(requests, sets)
        made = self.bandit.decide_many(
            [r.task for r in requests],
            sets,
            baselines=baselines,
            baseline_rewards=_rewards([r.baseline_reward for r in requests]),
            baseline_reward_std=[r.baseline_reward_std for r in requests],
            keys=[r.key for r in requests],
        )
        return [raw.named(d, names[i]) if i in names else d for i, d in enumerate(made)] if names else made

    def _all_raw(self, requests: list[DecisionRequest]) -> Offers | None:
        """Contexts that offer everything, all at once; None if there are others, or one is at fault."""
        features = self.bandit.features
        if features is None or not all(_is_plain(r) for r in requests):
            return None
        names = features.names
        _check_room(len(requests) * len(names) * features.dim)
        try:
            baselines = [place(r.baseline, names) for r in requests]
            sets = features.stacked([r.context for r in requests])
        except InputError:
            return None
        return sets, baselines, dict.fromkeys(range(len(requests)), names)

    def _offers(self, requests: list[DecisionRequest], sets: Any) -> Offers:
        """Actions and baselines of all requests; and by place the names of what contexts offer."""
        baselines: list[Any] = [r.baseline for r in requests]
        names: dict[int, list[str]] = {}
        asked = [i for i, (r, a) in enumerate(zip(requests, sets, strict=True)) if _is_raw(r, a)]
        rows = list(sets) if asked else sets
        size = sum(a.size for a in sets if isinstance(a, np.ndarray))
        for i in asked:
            _check_room(size)
            r = requests[i]
            try:
                own = raw.offer(self.bandit, rows[i], r.context, r.offered, r.baseline)
            except InputError as reason:
                raise type(reason)(f"request {i}: {reason}") from None
            rows[i], baselines[i], names[i] = own
            size += own[0].size
        _check_room(size)
        return _together(rows), baselines, names

    async def reward(self, request: RewardRequest) -> str:
        """One reward."""
        outcome = await self.short(lambda: self.bandit.reward(request.id, request.reward, key=request.key))
        self.metrics.rewarded([request.id], [outcome])
        return outcome

    async def reward_many(self, requests: list[RewardRequest]) -> list[str]:
        """Rewards in order, in one transaction."""
        outcomes = await self.in_line(lambda: self._reward_many(requests))
        self.metrics.rewarded([r.id for r in requests], outcomes)
        return outcomes

    def _reward_many(self, requests: list[RewardRequest]) -> list[str]:
        ids, rewards = [r.id for r in requests], [r.reward for r in requests]
        return self.bandit.reward_many(ids, rewards, keys=[r.key for r in requests])

    def close(self) -> None:
        """Finish what has begun, then give the store back."""
        self._heavy.shutdown(wait=True)
        self._line.shutdown(wait=True)
        self._pool.shutdown(wait=True)
        self.bandit.close()


def _is_embedded(bandit: SafeBandit) -> bool:
    """Whether the ledger is on this machine, so that a commit takes microseconds."""
    from banister.online.sqlite.ledger import SqliteLedger

    return isinstance(bandit._engine.store.ledger, SqliteLedger)


def _check_room(size: int) -> None:
    if size > _NUMBERS:
        raise ServiceError.of(
            413, f"All actions of a batch together may have {_NUMBERS} numbers; send it in parts."
        )


def _together(sets: Any) -> Any:
    """Actions that all requests have in common as one array, which is checked once."""
    first = sets[0] if isinstance(sets, list) and sets else None
    if isinstance(first, np.ndarray) and all(actions is first for actions in sets):
        return np.repeat(first[None], len(sets), axis=0)
    return sets


def _is_raw(request: DecisionRequest, actions: Any) -> bool:
    """Whether the bandit is to make the features of what a request offers."""
    return actions is None or request.context is not None or request.offered is not None


def _is_plain(request: DecisionRequest) -> bool:
    """Whether it has a context, and nothing else that says what is offered."""
    return request.context is not None and (request.actions, request.shape, request.offered) == (None,) * 3


def _left(made: Decision, request: DecisionRequest) -> bool:
    played = made.arm if isinstance(request.baseline, str) else made.action
    return played != request.baseline


def _rewards(given: list[Any]) -> list[Any]:
    """m numbers, NaN where unknown; or (m, 2) bounds if one of them is an interval."""
    nan = float("nan")
    known = [nan if r is None else r for r in given]
    if any(isinstance(r, tuple) for r in known):
        return [list(r) if isinstance(r, tuple) else [r, r] for r in known]
    return known
