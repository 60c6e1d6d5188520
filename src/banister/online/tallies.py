"""What is counted of every task's decisions, for reports; rebuilt from the ledger like all in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, Int
from banister.safety.gates import EVERY_TASK

_COUNTED = ("decisions", "left", "moved", "shift", "margin")  # of every task
_PAIRS = 1024  # requests whose baseline and one other action are kept, to tell how many rows are needed


class Tally:
    """One number or vector a task; grows with the tasks."""

    def __init__(self, width: int = 0, dtype: Any = np.float64, fill: float = 0.0) -> None:
        self._fill = fill
        self.view: NDArray[Any] = np.zeros((0, width) if width else 0, dtype=dtype)

    def grow_to(self, size: int) -> None:
        """At least `size` entries, with room for more."""
        if size > len(self.view):
            shape = (max(size, 2 * len(self.view)), *self.view.shape[1:])
            larger = np.full(shape, self._fill, dtype=self.view.dtype)
            larger[: len(self.view)] = self.view
            self.view = larger

    def still(self) -> Tally:
        """A copy that stays as it is."""
        kept = copy(self)
        kept.view = self.view.copy()
        return kept


class Tallies:
    """Counts of every task.

    Attributes:
        decisions: (T,) requests answered; left: (T,) those that left the baseline.
        moved: (T,) of those, the ones since the last drift; shift: (T, d) the sum of `x − x_b` over them.
        margin: (T,) smallest `lower_bound − floor` of a decision that left.
        reasons: decisions by task and reason; a text, since stores of older versions have others.
        first, last: times of the first and the last decision.
    """

    def __init__(self, dim: int) -> None:
        self.decisions, self.left, self.moved = (Tally(dtype=np.int64) for _ in range(3))
        self.shift, self.margin = Tally(dim), Tally(fill=np.inf)
        self.reasons: Counter[tuple[int, str]] = Counter()
        self.first = self.last = 0.0
        self._pairs, self._paired = np.zeros((_PAIRS if dim else 0, 2, dim)), 0

    def still(self, tasks: int) -> Tallies:
        """A copy that stays as it is, with room for so many tasks."""
        if tasks:
            self.make_room(tasks - 1)
        view = copy(self)
        for name in _COUNTED:
            setattr(view, name, getattr(self, name).still())
        view.reasons = self.reasons.copy()
        view._pairs = self._pairs.copy()
        return view

    def make_room(self, task: int) -> None:
        """Room for a task."""
        if task >= len(self.decisions.view):
            for name in _COUNTED:
                getattr(self, name).grow_to(task + 1)

    @property
    def pairs(self) -> Float:
        """(m, 2, d) an offered action and the baseline of the same request, of the latest requests."""
        return self._pairs[: min(self._paired, _PAIRS)]

    def pair(self, offered: Float, baseline: Float) -> None:
        """Keep an offered action beside its baseline; the oldest pair makes room."""
        place = self._pairs[self._paired % _PAIRS]
        place[0], place[1] = offered, baseline
        self._paired += 1

    def explain_many(self, task: Sequence[int], reason: Sequence[str], time: Sequence[float]) -> None:
        """Count why decisions are what they are, and when they were made; at least one."""
        self.reasons.update(zip(task, reason, strict=True))
        self.first, self.last = self.first or time[0], time[-1]

    def count_many(self, task: Int, margin: Float, moved: Int, steps: Float) -> None:
        """Count decisions in order; `moved` are the places of those that left the baseline, by `steps`."""
        self.make_room(int(task.max()))
        np.add.at(self.decisions.view, task, 1)
        left = task[moved]
        np.add.at(self.left.view, left, 1)
        np.add.at(self.moved.view, left, 1)
        for t, step in zip(left.tolist(), steps, strict=True):  # for rows quicker than `np.add.at`
            self.shift.view[t] += step
        np.fmin.at(self.margin.view, left, margin[moved])

    def start_anew(self, task: int) -> None:
        """After a drift of a task, or of all: what was gained before no longer counts."""
        tasks = slice(None) if task == EVERY_TASK else task
        self.moved.view[tasks] = 0
        self.shift.view[tasks] = 0.0
