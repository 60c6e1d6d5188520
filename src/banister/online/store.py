"""The store: ledger and memory kept in step. What is written first is the ledger; memory follows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banister.data import Float, Int
from banister.online.decision import Decision
from banister.online.door import Request
from banister.online.drift import Alarm
from banister.online.ledger import Ledger
from banister.online.memory import SAMPLE, Memory
from banister.online.model import Marks

_BLOCK = 4096


class Played(NamedTuple):
    """What a reward needs to know of its decision."""

    task: int
    features: Float
    time: float
    reward: float | None


class Store:
    """Everything that was decided and learned. Not thread-safe: its owner holds a lock."""

    def __init__(self, path: Path | None, *, durability: str) -> None:
        self.ledger = Ledger(path, durability=durability)
        self.tasks: dict[str, int] = {}
        self.labels: list[str] = []
        self.memory: Memory | None = None
        self.decisions = self.rewards = self.drifts = self.mixtures = 0

    @property
    def dim(self) -> int | None:
        """d; None before the first row."""
        return None if self.memory is None else self.memory.dim

    @property
    def marks(self) -> Marks:
        """How much there is now."""
        return Marks(self.decisions, self.rewards, self.drifts)

    def open_memory(self, dim: int) -> Memory:
        """The memory, made when the first row tells the number of features."""
        if self.memory is None:
            self.memory = Memory(dim)
        return self.memory

    def add_task(self, label: str) -> int:
        """A new task's code; written at once, or with the open transaction."""
        code = len(self.labels)
        self.ledger.write("INSERT INTO tasks VALUES (?, ?)", code, label)
        self.tasks[label] = code
        self.labels.append(label)
        return code

    def drop_tasks(self, n: int) -> None:
        """Forget tasks beyond the first `n`, whose transaction failed."""
        for label in self.labels[n:]:
            del self.tasks[label]
        del self.labels[n:]

    def row(
        self, d: Decision, task: int, request: Request, digest: int, now: float, keep: bool
    ) -> tuple[Any, ...]:
        """A decision's row in the ledger. SQLite keeps NaN as NULL."""
        actions, number = request.actions, d.id
        offered = actions[number % len(actions)].tobytes() if Memory.samples(number) else None
        played = None if d.action == request.baseline else d.features.tobytes()
        return (
            number, now, task, d.model_version, d.action, request.baseline,
            d.certified, d.reason, d.lower_bound, d.floor,
            request.low, request.high, request.std, len(actions), digest, actions[request.baseline].tobytes(),
            played, offered, actions.tobytes() if keep else None,
        )  # fmt: skip

    def remember(self, d: Decision, task: int, request: Request) -> None:
        """Memory follows the ledger."""
        memory = self.memory
        assert memory is not None
        actions, number = request.actions, d.id
        baseline = actions[request.baseline]
        if request.low == request.high:
            memory.labels.add(task, baseline, request.high, request.std, number)
        if Memory.samples(number):
            memory.offer(task, actions[number % len(actions)])
        step = d.features - baseline if d.certified and d.action != request.baseline else None
        memory.tally(task, d.certified, d.lower_bound - d.floor, step)
        self.decisions = number
        self.mixtures += d.action < 0

    def find(self, number: int) -> Played | None:
        """A decision by its id."""
        found = self.ledger.find(number)
        if found is None:
            return None
        task, baseline, played, when, reward = found
        return Played(task, np.frombuffer(baseline if played is None else played), when, reward)

    def learn(self, number: int, played: Played, value: float) -> None:
        """Memory follows the ledger: one reward more."""
        assert self.memory is not None
        self.memory.plays.add(played.task, played.features, value, 0.0, number)
        self.rewards += 1

    def add_alarm(self, alarm: Alarm, version: int) -> None:
        """Write down a drift, and from where rows count."""
        self.ledger.write(
            "INSERT INTO drifts VALUES (?, ?, ?, ?, ?, ?, ?)",
            self.drifts + 1, time.time(), alarm.task, version, alarm.since, self.decisions, alarm.excess,
        )  # fmt: skip
        self.count_drift(alarm.task, alarm.since)

    def count_drift(self, task: int, since: int) -> None:
        """Memory follows the ledger: rows of a task (or of all) count from a decision on."""
        assert self.memory is not None
        self.drifts += 1
        self.memory.start_anew(task, since)

    def add_logs(self, task: Int, X: Float, y: Float, baseline: Float, baseline_reward: Float) -> None:
        """Rows of the policy in place, written in blocks that carry one time, within the open transaction."""
        now, columns = time.time(), (task, X, y, baseline, baseline_reward)
        for start in range(0, len(y), _BLOCK):
            block = slice(start, start + _BLOCK)
            self.ledger.write(
                "INSERT INTO logs (time, task, features, reward, baseline, baseline_reward) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                now, *(np.ascontiguousarray(a[block]).tobytes() for a in columns),
            )  # fmt: skip

    def remember_logs(self, task: Int, X: Float, y: Float, baseline: Float, baseline_reward: Float) -> None:
        """Memory follows the ledger: logged rows, a sample of them as offered, known baseline rewards."""
        memory = self.open_memory(X.shape[1])
        none = np.zeros(len(y), dtype=np.int64)
        memory.plays.extend(task, X, y, np.zeros(len(y)), none)
        known = ~np.isnan(baseline_reward)
        if known.any():
            memory.labels.extend(
                task[known], baseline[known], baseline_reward[known], np.zeros(known.sum()), none[known]
            )
        for i in range(0, len(y), -(-len(y) // SAMPLE)):
            memory.offer(int(task[i]), X[i])
        if len(self.labels):
            memory.count_task(len(self.labels) - 1)
