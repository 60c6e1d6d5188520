"""The store: ledger and memory kept in step. What is written first is the ledger; memory follows."""

from __future__ import annotations

import numpy as np

from banister.data import Float, Int
from banister.learner.memory import SAMPLE, Memory
from banister.online.head import Head
from banister.online.ledger import Ledger, Played, Rewarded
from banister.online.model import Marks
from banister.online.record import AlarmRecord, DecisionRecord, LogRecord, digest_of
from banister.online.tallies import Tallies

_BLOCK = 4096


class Store:
    """Everything that was decided and learned. Not thread-safe: its owner holds a lock."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.tasks: dict[str, int] = {}
        self.labels: list[str] = []
        self.memory: Memory | None = None
        self.tallies = Tallies(0)
        self.decisions = self.rewards = self.drifts = self.mixtures = 0
        self.know_head()
        # Of a shared ledger only: whether others' records wait to be read, this process's own among them; and
        # decisions of those whose reward the watch was shown when it came.
        self.behind = False
        self.seen: set[int] = set()

    def know_head(self) -> None:
        """Memory has everything up to the ledger's head."""
        self.known = Head(*self.ledger.head.state())

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
            self.memory, self.tallies = Memory(dim), Tallies(dim)
        return self.memory

    def code_of(self, label: str) -> int:
        """A task's code; a new task is written with the open transaction."""
        code = self.tasks.get(label)
        return self.know_task(label, self.ledger.add_task(label)) if code is None else code

    def know_task(self, label: str, code: int) -> int:
        """Memory follows the ledger: one task more."""
        self.tasks[label] = code
        self.labels.append(label)
        return code

    def drop_tasks(self, n: int) -> None:
        """Forget tasks beyond the first `n`, whose transaction failed."""
        for label in self.labels[n:]:
            del self.tasks[label]
        del self.labels[n:]

    def remember(self, record: DecisionRecord) -> None:
        """Memory follows the ledger: one decision more, made now or read back."""
        memory, task = self.memory, record.task
        if self.behind:
            return
        assert memory is not None
        baseline = record.baseline_vector
        if record.low == record.high:
            memory.labels.add(task, baseline, record.high, record.std, record.id)
        if record.offered is not None:
            memory.offer(task, np.frombuffer(record.offered))
        step = record.played - baseline if record.moved else None
        self.tallies.count(task, record.bound - record.floor, step)
        self.decisions += 1
        self.mixtures += record.action < 0

    def learn(self, number: int, played: Played, value: float) -> None:
        """Memory follows the ledger: one reward more."""
        assert self.memory is not None
        if self.behind:
            self.seen.add(number)
            return
        self.memory.plays.add(played.task, played.features, value, played.is_baseline, played.claim, number)
        self.rewards += 1

    def learn_block(self, block: Rewarded) -> None:
        """Memory follows the ledger: many rewards, in the order of the chain."""
        assert self.memory is not None
        self.memory.plays.extend(
            block.task, block.features, block.value, block.is_baseline, block.claim, block.number
        )
        self.rewards += len(block.number)

    def count_alarm(self, alarm: AlarmRecord) -> None:
        """Memory follows the ledger: rows of a task (or of all) count from a decision on."""
        assert self.memory is not None
        self.drifts += 1
        self.memory.forget(alarm.task, alarm.since)
        self.tallies.start_anew(alarm.task)

    def add_logs(
        self, now: float, task: Int, X: Float, y: Float, baseline: Float, baseline_reward: Float
    ) -> bool:
        """Rows of the policy in place, in blocks, within the open transaction; False if they were there."""
        columns = [np.ascontiguousarray(a) for a in (task, X, y, baseline, baseline_reward)]
        call = digest_of(b"".join(a.tobytes() for a in columns))
        if any(block.call == call for block in self.ledger.logs()):
            return False
        for start in range(0, len(y), _BLOCK):
            blobs = [a[start : start + _BLOCK].tobytes() for a in columns]
            self.ledger.add_log(LogRecord._make((self.ledger.head.logs + 1, now, *blobs, call)))
        return True

    def remember_logs(self, task: Int, X: Float, y: Float, baseline: Float, baseline_reward: Float) -> None:
        """Memory follows the ledger: logged rows, a sample of them as offered, known baseline rewards."""
        memory = self.open_memory(X.shape[1])
        none = np.zeros(len(y), dtype=np.int64)
        is_baseline = (baseline == X).all(axis=1)
        claim = np.where(is_baseline, baseline_reward, np.nan)
        memory.plays.extend(task, X, y, is_baseline, claim, none)
        known = ~np.isnan(baseline_reward)
        if known.any():
            memory.labels.extend(
                task[known], baseline[known], baseline_reward[known], np.zeros(known.sum()), none[known]
            )
        rows = slice(0, len(y), max(1, -(-len(y) // SAMPLE)))
        memory.offer_many(task[rows], X[rows])
        if len(self.labels):
            self.tallies.make_room(len(self.labels) - 1)
