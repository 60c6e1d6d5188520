"""The board: the status as it was a moment ago, its trail over time, and tasks sorted and searched.

A status looks at every task while decisions wait. So it is taken rarely: at most once in `refresh` seconds,
and never for more than a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, fields
from typing import Any

from banister.errors import InputError
from banister.online.status import Status, TaskStatus
from banister.serve.desk import Desk
from banister.serve.schema import TasksQuery, totals

_RARELY = 20.0  # seconds between statuses for each second that one takes
_POINTS = 600  # of the trail; when it is full every second one is dropped
_COLUMNS = {f.name for f in fields(TaskStatus)}


@dataclass(frozen=True)
class Earned:
    """What the fleet earns above the baseline a decision, and whether the interval holds at any time."""

    value: float | None
    low: float | None
    high: float | None
    anytime: bool


@dataclass(frozen=True)
class Point:
    """One moment of the trail."""

    time: float
    decisions: int
    left: float
    value: float | None
    low: float | None
    high: float | None


class Board:
    """Statuses, taken rarely and shown often."""

    def __init__(self, desk: Desk, refresh: float) -> None:
        self._desk, self._refresh = desk, refresh
        self._status: Status | None = None
        self._next = 0.0
        self._taking = asyncio.Lock()
        self.trail: list[Point] = []
        self._spacing = 0.0

    async def status(self) -> Status:
        """The status now, or a moment ago; who asks while one is being taken waits for that one."""
        async with self._taking:
            if self._status is None or time.monotonic() >= self._next:
                begin = time.monotonic()
                self._status = await self._desk.long(self._desk.bandit.status)
                now = time.monotonic()
                self._next = now + max(self._refresh, _RARELY * (now - begin))
                self._desk.metrics.looked(self._status)
                self._remember(self._status)
            return self._status

    def _remember(self, status: Status) -> None:
        now, found = time.time(), earned(status)
        if self.trail and now - self.trail[-1].time < self._spacing:
            return
        self.trail.append(Point(now, status.decisions, status.left, found.value, found.low, found.high))
        if len(self.trail) > _POINTS:
            self._spacing = 2.0 * max(self._spacing, self._refresh)
            self.trail = self.trail[::2]

    async def summary(self) -> dict[str, Any]:
        """Totals, what the fleet earns above the baseline, and gates by reason."""
        status = await self.status()
        gates = Counter(task.gate for task in status.tasks)
        return {
            **totals(status),
            "earned": earned(status),
            "gates": dict(gates.most_common()),
            "time": time.time(),
        }

    async def tasks(self, query: TasksQuery) -> dict[str, Any]:
        """A page of tasks."""
        status = await self.status()
        return await self._desk.long(lambda: page(status.tasks, query))


def earned(status: Status) -> Earned:
    """The fleet's measured gain where draws tell one; else the model's opinion of decisions that left.

    The second is no more than tasks' estimates weighted by how often each left the baseline, between the
    weighted ends of their intervals. It holds if the model does, for one look at one time.
    """
    value, low, high = (getattr(status, name, None) for name in ("gain", "gain_low", "gain_high"))
    if value is not None:
        return Earned(value, low, high, True)
    told = [t for t in status.tasks if t.uplift is not None]
    total = sum(t.decisions for t in status.tasks)
    if not told or not total:
        return Earned(None, None, None, False)

    def mean(name: str) -> float:
        return float(sum(t.moved * getattr(t, name) for t in told) / total)

    return Earned(mean("uplift"), mean("uplift_low"), mean("uplift_high"), False)


def page(tasks: list[TaskStatus], query: TasksQuery) -> dict[str, Any]:
    """Tasks that match, in order; those without the value that is sorted by come last."""
    if query.sort not in _COLUMNS:
        raise InputError(f"sort={query.sort!r} is no column; there are {', '.join(sorted(_COLUMNS))}.")
    wanted = query.search.casefold()
    found = [t for t in tasks if wanted in t.task.casefold() and (not query.gate or t.gate == query.gate)]
    known = [t for t in found if getattr(t, query.sort) is not None]
    known.sort(key=lambda t: getattr(t, query.sort), reverse=query.order == "down")
    ordered = known + [t for t in found if getattr(t, query.sort) is None]
    return {"total": len(ordered), "tasks": ordered[query.offset : query.offset + query.limit]}
