"""Refits, alarms and totals as they happen, as server-sent events."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from banister.errors import BanisterError, ServiceError
from banister.online.ledger import Ledger
from banister.online.record import AlarmRecord, ModelRecord
from banister.safety.gates import EVERY_TASK
from banister.serve.board import Board
from banister.serve.desk import Desk
from banister.serve.schema import to_bytes

_STREAMS = 100  # open at once
_BEHIND = 100  # events that a slow reader may be behind before it is let go
_BEAT = 15.0  # seconds between signs of life, for proxies that cut silent connections
_LOOK = 1.0  # seconds between looks at the store
_RECENT = 50  # refits and alarms that a page begins with

_log = logging.getLogger("banister.serve")


def refit_event(record: ModelRecord) -> dict[str, Any]:
    """A model that began to serve."""
    return {
        "kind": "refit", "time": record.time, "version": record.version, "decisions": record.decisions,
        "rewards": record.rewards,
    }  # fmt: skip


def alarm_event(record: AlarmRecord, labels: list[str]) -> dict[str, Any]:
    """A drift."""
    task = None if record.task == EVERY_TASK else labels[record.task]
    return {
        "kind": "alarm",
        "time": record.time,
        "task": task,
        "version": record.version,
        "after": record.after,
    }


def recent(ledger: Ledger, task: int | None = None) -> list[dict[str, Any]]:
    """The last refits and alarms, newest first; of one task only those that concern it."""
    labels = ledger.tasks()
    alarms = [a for a in ledger.alarms() if task is None or a.task in (task, EVERY_TASK)]
    found = [alarm_event(a, labels) for a in alarms[-_RECENT:]]
    found += [refit_event(m) for m in ledger.models()[-_RECENT:]]
    return sorted(found, key=lambda event: -event["time"])[:_RECENT]


class Hub:
    """Whoever listens gets every event; one that does not keep up is let go."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._listeners)

    def publish(self, kind: str, value: Any) -> None:
        """Tell everyone."""
        text = b"event: " + kind.encode() + b"\ndata: " + to_bytes(value) + b"\n\n"
        for queue in list(self._listeners):
            if queue.qsize() >= _BEHIND:
                self._listeners.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(text)

    def close(self) -> None:
        """End every stream, so that a stop does not wait for them."""
        self._closed = True
        for queue in self._listeners:
            queue.put_nowait(None)

    def listen(self) -> AsyncIterator[bytes]:
        """A stream of events."""
        if len(self._listeners) >= _STREAMS or self._closed:
            raise ServiceError.of(503, f"{_STREAMS} pages are open already; close one, or try again later.")
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._listeners.add(queue)
        return self._stream(queue)

    async def _stream(self, queue: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 2000\n\n"
            while True:
                try:
                    text = await asyncio.wait_for(queue.get(), _BEAT)
                except TimeoutError:
                    text = b": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._listeners.discard(queue)


class Watcher:
    """Looks at the store once a second and tells the hub what is new."""

    def __init__(self, desk: Desk, board: Board, hub: Hub) -> None:
        self._desk, self._board, self._hub = desk, board, hub
        self._shown = 0.0

    async def _counts(self) -> tuple[int, int]:
        """Models and alarms in the store, those of other processes too."""
        held = await self._desk.short(self._desk.bandit.receipt)
        return held.models, held.drifts

    async def run(self) -> None:
        """Until cancelled."""
        self._seen = await self._counts()
        while True:
            await asyncio.sleep(_LOOK)
            try:
                await self._look()
            except BanisterError as reason:  # a store in trouble is told by /readyz; this goes on looking
                _log.warning("the store cannot be looked at: %s", reason)

    async def _look(self) -> None:
        (version, drifts), before = await self._counts(), self._seen
        if (version, drifts) != before:
            events = await self._desk.long(lambda: self._news(*before))
            for event in events:
                self._hub.publish(event["kind"], event)
            if version != before[0]:
                self._desk.metrics.refits.observe(self._desk.bandit._refitter.seconds)
            self._seen = version, drifts
        if len(self._hub):
            summary = await self._board.summary()
            if self._board.trail and self._board.trail[-1].time != self._shown:
                self._shown = self._board.trail[-1].time
                self._hub.publish("status", {**summary, "point": self._board.trail[-1], "time": time.time()})

    def _news(self, version: int, drifts: int) -> list[dict[str, Any]]:
        with self._desk.bandit._view() as (ledger, _):
            labels = ledger.tasks()
            models = [refit_event(m) for m in ledger.models() if m.version > version]
            return models + [alarm_event(a, labels) for a in ledger.alarms(after=drifts)]
