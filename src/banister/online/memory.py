"""What the next fit is made from, in memory: rewards of what was played, known baseline rewards, tallies.

It holds nothing that the ledger does not, and is rebuilt from it row by row in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.contract import Outcomes, Requests
from banister.data import Float, Int
from banister.online.drift import EVERY_TASK
from banister.safety.evidence import Evidence

SAMPLE = 2048  # offered actions kept for the certificate's calibration


class Column:
    """Rows that grow by appending, one or many; earlier views stay valid."""

    def __init__(self, width: int = 0, dtype: Any = np.float64) -> None:
        self._rows: NDArray[Any] = np.zeros((64, width) if width else 64, dtype=dtype)
        self.size = 0

    def _reserve(self, more: int) -> None:
        if self.size + more > len(self._rows):
            larger = np.zeros(
                (max(self.size + more, 2 * len(self._rows)), *self._rows.shape[1:]), self._rows.dtype
            )
            larger[: self.size] = self._rows[: self.size]
            self._rows = larger

    def add(self, value: Any) -> None:
        """One row."""
        if self.size == len(self._rows):
            self._reserve(1)
        self._rows[self.size] = value
        self.size += 1

    def extend(self, values: NDArray[Any]) -> None:
        """Many rows."""
        self._reserve(len(values))
        self._rows[self.size : self.size + len(values)] = values
        self.size += len(values)

    def grow_to(self, size: int, fill: Any = 0) -> None:
        """At least `size` rows; new ones hold `fill`."""
        if size > self.size:
            self._reserve(size - self.size)
            self._rows[self.size : size] = fill
            self.size = size

    @property
    def view(self) -> NDArray[Any]:
        """The rows so far."""
        return self._rows[: self.size]


class Rows:
    """Rows of task, features, value, standard error and decision number (0 for logs)."""

    def __init__(self, dim: int) -> None:
        self.task, self.number = Column(dtype=np.int64), Column(dtype=np.int64)
        self.X, self.y, self.std = Column(dim), Column(), Column()

    def add(self, task: int, x: Float, y: float, std: float, number: int) -> None:
        """One row."""
        self.task.add(task)
        self.X.add(x)
        self.y.add(y)
        self.std.add(std)
        self.number.add(number)

    def extend(self, task: Int, X: Float, y: Float, std: Float, number: Int) -> None:
        """Many rows."""
        for column, values in zip(self._columns, (task, X, y, std, number), strict=True):
            column.extend(values)

    @property
    def _columns(self) -> tuple[Column, ...]:
        return self.task, self.X, self.y, self.std, self.number

    def views(self) -> list[NDArray[Any]]:
        """Views of all rows: task, X, y, std, number."""
        return [c.view for c in self._columns]


class Memory:
    """Rows for fits, the sample of offered actions, and each task's tallies.

    Attributes:
        plays: what was played and earned, in the order in which rewards came.
        labels: baselines whose reward was known, in the order of decisions.
        decisions, certified: (T,) counts.
        moved: (T,) certified decisions that left the baseline.
        shift: (T, d) sum of `x − x_b` over those.
        margin: (T,) smallest `lower_bound − floor` of a certified action other than the baseline.
        since: the decision from which a drifted task's rows count; `EVERY_TASK` for all.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.plays, self.labels = Rows(dim), Rows(dim)
        self.decisions, self.certified, self.moved = (Column(dtype=np.int64) for _ in range(3))
        self.shift, self.margin = Column(dim), Column()
        self.since: dict[int, int] = {}
        self._offered_task: Int = np.zeros(SAMPLE, dtype=np.int64)
        self._offered: Float = np.zeros((SAMPLE, dim))
        self._sampled = 0

    @staticmethod
    def samples(number: int) -> bool:
        """Whether decision `number` gives an action to the sample: all at first, every eighth later."""
        return number <= SAMPLE or number % 8 == 0

    def offer(self, task: int, x: Float) -> None:
        """Keep an action that was offered; the oldest makes room."""
        place = self._sampled % SAMPLE
        self._offered_task[place], self._offered[place] = task, x
        self._sampled += 1

    def count_task(self, task: int) -> None:
        """Room for the tallies of a task."""
        if task >= self.decisions.size:
            for column in (self.decisions, self.certified, self.moved, self.shift):
                column.grow_to(task + 1)
            self.margin.grow_to(task + 1, np.inf)

    def tally(self, task: int, certified: bool, margin: float, step: Float | None) -> None:
        """Count a decision; `step` is `x − x_b` where it left the baseline."""
        self.count_task(task)
        self.decisions.view[task] += 1
        if certified:
            self.certified.view[task] += 1
        if step is not None:
            self.moved.view[task] += 1
            self.shift.view[task] += step
            if margin < self.margin.view[task]:
                self.margin.view[task] = margin

    def rows_of(self, task: int) -> int:
        """Rewards of a task that the next fit will use."""
        first = max(self.since.get(task, 0), self.since.get(EVERY_TASK, 0))
        return int(np.sum((self.plays.task.view == task) & (self.plays.number.view >= first)))

    def snapshot(self) -> Snapshot:
        """What a fit needs, as it is now; cheap, and untouched by what comes later."""
        n = min(self._sampled, SAMPLE)
        return Snapshot(
            self.plays.views(),
            self.labels.views(),
            dict(self.since),
            self._offered_task[:n].copy(),
            self._offered[:n].copy(),
        )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Views of the rows at one moment; turned into evidence away from the lock."""

    plays: list[NDArray[Any]]
    labels: list[NDArray[Any]]
    since: dict[int, int]
    offered_task: Int
    offered: Float

    def evidence(self) -> Evidence:
        """Everything seen, as the certifier wants it."""
        evidence = Evidence()
        task, X, y, std, _ = _after(self.labels, self.since)
        if len(y):
            evidence.see(Requests(task, X[:, None, :], np.zeros(len(y), dtype=np.int64), y, std))
        # The sample goes last and fills the evidence's own; unknown rewards add no labels.
        n = len(self.offered)
        unknown, first = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
        evidence.see(Requests(self.offered_task, self.offered[:, None, :], first, unknown))
        task, X, y, _, _ = _after(self.plays, self.since)
        evidence.learn(Outcomes(task, X, y))
        return evidence


def _after(views: list[NDArray[Any]], since: dict[int, int]) -> list[NDArray[Any]]:
    """Rows without those of drifted tasks from before their change."""
    if not since:
        return views
    first = np.full(max(int(views[0].max(initial=0)), *since) + 1, since.get(EVERY_TASK, 0))
    for task, number in since.items():
        if task != EVERY_TASK:
            first[task] = max(first[task], number)
    keep = views[4] >= first[views[0]]
    return [v[keep] for v in views]
