"""The account of draws: what was saved, what still waits for its reward, what leaving the baseline brought.

It is a function of what happened and its order (decisions, rewards, changes, models), so that a store that
is opened again, or audited, has the same account to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy, deepcopy
from typing import NamedTuple

import numpy as np

from banister.data import Float
from banister.safety.betting import Budget
from banister.safety.gates import EVERY_TASK
from banister.safety.promise import Promise, Terms
from banister.safety.uplift import Interval, Uplift

BUDGET, GROWTH, HARM = "budget", "growth", "harm"


class _Waiting(NamedTuple):
    time: float
    task: int
    pi_b: float
    is_baseline: bool


class Allowance(NamedTuple):
    """The largest probability off the baseline that is paid for, what sets it, and savings so far."""

    p: float
    limited_by: str
    savings: float


class Account:
    """Savings and uplift of every task and of the fleet. Not thread-safe: its owner holds a lock.

    Args:
        terms: of the draws; their reward range must be there.
    """

    def __init__(self, terms: Terms) -> None:
        assert terms.reward_range is not None
        low, high = terms.reward_range
        self.terms, self.free = terms, terms.free
        self.budget = Budget(1, terms.budget()) if terms.promise.paid_from_savings else None
        self.uplift = Uplift(1, low=low, high=high, confidence=terms.confidence)
        self.waiting: dict[int, _Waiting] = {}
        self._alarms_before: Float = np.zeros(2)

    def still(self) -> Account:
        """A copy that stays as it is, for reports; it knows nothing of what waits."""
        view = copy(self)
        view.budget, view.uplift, view.waiting = deepcopy(self.budget), deepcopy(self.uplift), {}
        return view

    def make_room(self, task: int) -> None:
        """Rows for a task; twice as many as before, so that new tasks cost little."""
        if task < self.uplift.fleet:
            return
        rows = max(task + 1, 2 * self.uplift.fleet)
        self.uplift.grow_to(rows)
        if self.budget is not None:
            self.budget.grow_to(rows)
            before = self._alarms_before
            self._alarms_before = np.concatenate([before[:-1], np.zeros(rows + 1 - len(before)), before[-1:]])

    def decided(self, number: int, time: float, task: int, pi_b: float, is_baseline: bool) -> None:
        """A draw was made: it waits for its reward."""
        self.make_room(task)
        self._expire(time)
        self.waiting[number] = _Waiting(time, task, pi_b, is_baseline)
        if self.budget is not None:
            self.budget.expose(task, pi_b, self.free)

    def exposed(self) -> Float | None:
        """What waits now, for `undecide`."""
        return None if self.budget is None else self.budget.exposure.copy()

    def undecide(self, numbers: Iterable[int], before: Float | None) -> None:
        """Draws that could not be written down; what waited before is put back exactly."""
        for number in numbers:
            self.waiting.pop(number, None)
        if self.budget is not None and before is not None:
            self.budget.exposure[: len(before) - 1] = before[:-1]
            self.budget.exposure[len(before) - 1 : -1] = 0.0
            self.budget.exposure[-1] = before[-1]

    def rewarded(self, number: int, time: float, value: float) -> None:
        """A reward has come; one of a decision that was no draw tells nothing."""
        self._expire(time)
        draw = self.waiting.pop(number, None)
        if draw is not None:
            self._count(draw, value)

    def changed(self, task: int) -> None:
        """A task, or with `EVERY_TASK` all, is no longer what it was: what it had saved is not spent."""
        if self.budget is None:
            return
        rows = range(self.budget.fleet + 1) if task == EVERY_TASK else (task,)
        for row in rows:
            self.make_room(row if row < self.budget.fleet else 0)
            self.budget.reset(row)

    def corrected(self, task: int) -> None:
        """A reward was taken back: savings that it may have swollen are not spent, the fleet's included."""
        if self.budget is not None:
            self.budget.reset(task)
            self.budget.reset(self.budget.fleet)

    def renewed(self) -> None:
        """A new model serves: what was stopped because it did harm may try again."""
        if self.budget is not None:
            self._alarms_before = self.budget.alarms.copy()

    def stopped(self, task: int) -> bool:
        """Whether draws did harm since this model serves, and nothing else is to be played."""
        if self.terms.on_harm != "stop" or self.budget is None:
            return False
        row = self._row(task)
        return bool(self.budget.alarms[row] > self._alarms_before[row])

    def allowance(self, task: int) -> Allowance:
        """What may be spent on the next draw of a task."""
        budget = self.budget
        assert budget is not None
        self.make_room(task)
        row = self._row(task)
        paid, grown = budget.cap_budget(row), budget.cap_grow(row, self.terms.holdout)
        limit = (paid, BUDGET) if paid <= grown else (grown, GROWTH)
        return Allowance(*limit, max(0.0, budget.bound(row)))

    def harm(self, task: int) -> int:
        """How often recent draws of a task (−1: of the fleet) were found to fall short."""
        if self.budget is None:
            return 0
        return int(self.budget.alarms[self.budget.fleet if task == EVERY_TASK else task])

    def gain(self, task: int) -> Interval:
        """What leaving the baseline has brought a decision of a task (−1: of the fleet), on average."""
        if task != EVERY_TASK:
            self.make_room(task)
        return self.uplift.interval(self.uplift.fleet if task == EVERY_TASK else task)

    def _row(self, task: int) -> int:
        assert self.budget is not None
        return self.budget.fleet if self.terms.promise is Promise.FLEET else task

    def _expire(self, now: float) -> None:
        """Draws that waited too long, oldest first: the worst for what left, the usual for the baseline."""
        limit = self.terms.expire_after
        while limit is not None and self.waiting:
            number, draw = next(iter(self.waiting.items()))
            if not now - draw.time > limit:
                return
            del self.waiting[number]
            self._count(draw, self.usual(draw.task) if draw.is_baseline else self.uplift.low)

    def usual(self, task: int) -> float:
        """The baseline's mean reward so far, a task's drawn towards the fleet's."""
        return self.uplift.centre(task)

    def _count(self, draw: _Waiting, value: float) -> None:
        self.uplift.update(draw.task, draw.is_baseline, value, draw.pi_b, k=self.usual(draw.task))
        if self.budget is not None:
            self.budget.settle(draw.task, draw.pi_b, self.free)
            self.budget.update(draw.task, draw.is_baseline, value, draw.pi_b, free=self.free)
