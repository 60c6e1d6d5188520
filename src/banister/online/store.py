"""The store: ledger and memory kept in step. What is written first is the ledger; memory follows.

Decisions and rewards wait until `_TOGETHER` have come, or until somebody looks: taking in many together costs
a fraction of what each would cost alone, and gives the same memory to the last bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from banister.data import Float, Int
from banister.errors import DataFileError
from banister.features.base import Features
from banister.learner.memory import SAMPLE, Memory
from banister.online.head import Head
from banister.online.ledger import Decided, Ledger, Played, Rewarded
from banister.online.log_blocks import Log, Rows, read_block
from banister.online.model import Marks
from banister.online.record import HASH_BYTES, MIXTURE, AlarmRecord, DecisionRecord, LogRecord
from banister.online.tallies import Tallies

_TOGETHER = 256  # decisions or rewards that wait: so few calls take them in that tails do not show it


def _matrix(rows: Sequence[bytes]) -> Float:
    """(m, d) from the bytes of each row."""
    return np.frombuffer(b"".join(rows)).reshape(len(rows), -1) if rows else np.zeros((0, 0))


class Store:
    """Everything that was decided and learned. Not thread-safe: its owner holds a lock."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.tasks: dict[str, int] = {}
        self.labels: list[str] = []
        self._memory: Memory | None = None
        self.dim: int | None = None  # d; None before the first row
        self._tallies = Tallies(0)
        self._made: list[DecisionRecord] = []  # decisions and rewards that wait to be taken in
        self._learned: list[tuple[int, Played, float]] = []
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
    def memory(self) -> Memory | None:
        """Rows for fits, with everything that has come; None before the first row."""
        self._take_in()
        return self._memory

    @property
    def tallies(self) -> Tallies:
        """What reports count, with everything that has come."""
        self._take_in()
        return self._tallies

    @property
    def plays(self) -> int:
        """How many rewards there are, with logged ones."""
        return 0 if self._memory is None else len(self._memory.plays) + len(self._learned)

    @property
    def marks(self) -> Marks:
        """How much there is now."""
        return Marks(self.decisions, self.rewards, self.drifts)

    def open_memory(self, dim: int) -> Memory:
        """The memory, made when the first row tells the number of features."""
        if self._memory is None:
            self._memory, self._tallies, self.dim = Memory(dim), Tallies(dim), dim
        return self._memory

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
        if self.behind:
            return
        self._made.append(record)
        self.decisions += 1
        self.mixtures += record.action < 0
        if len(self._made) == _TOGETHER:
            self._take_in()

    def remember_many(self, records: Sequence[DecisionRecord]) -> None:
        """Memory follows the ledger: many decisions more, in order."""
        if self.behind:
            return
        self._made += records
        self.decisions += len(records)
        self.mixtures += sum(r.action < 0 for r in records)
        if len(self._made) >= _TOGETHER:
            self._take_in()

    def _take_in(self) -> None:
        """What waits, in the order in which it came."""
        if self._made:
            made, self._made = self._made, []
            self._take_in_decisions(Decided.of(made))
        if self._learned:
            learned, self._learned = self._learned, []
            self._take_in_rewards(learned)

    def remember_block(self, block: Decided) -> None:
        """Memory follows the ledger: decisions read back by column."""
        self._take_in()
        self._take_in_decisions(block)
        self.decisions += len(block.id)
        self.mixtures += sum(action < 0 for action in block.action)

    def _take_in_decisions(self, block: Decided) -> None:
        task, action = np.array(block.task), np.array(block.action)
        baseline = _matrix(block.baseline_features)
        self._remember_labels(block, task, baseline)
        self._remember_offers(block, task, baseline)
        moved = np.flatnonzero((action != np.array(block.baseline)) & (action != MIXTURE))
        played = _matrix([block.features[i] or b"" for i in moved.tolist()]).reshape(-1, baseline.shape[1])
        margin = np.array(block.bound) - np.array(block.floor)
        self._tallies.count_many(task, margin, moved, played - baseline[moved])
        self._tallies.explain_many(block.task, block.reason, block.time)

    def _remember_labels(self, block: Decided, task: Int, baseline: Float) -> None:
        known = np.array(block.low) == np.array(block.high)
        columns = (np.array(c)[known] for c in (block.high, block.std, block.id))
        assert self._memory is not None
        self._memory.labels.extend(task[known], baseline[known], *columns)

    def _remember_offers(self, block: Decided, task: Int, baseline: Float) -> None:
        some = [i for i, row in enumerate(block.offered) if row is not None]
        offered = _matrix([block.offered[i] or b"" for i in some]).reshape(-1, baseline.shape[1])
        assert self._memory is not None
        for first in range(0, len(some), SAMPLE):  # of more than that the sample would keep only the last
            self._memory.offer_many(task[some[first : first + SAMPLE]], offered[first : first + SAMPLE])
        for row, i in zip(offered, some, strict=True):
            self._tallies.pair(row, baseline[i])

    def learn_many(self, rewards: Sequence[tuple[int, Played, float]]) -> None:
        """Memory follows the ledger: many rewards more, in order."""
        if self.behind:
            self.seen.update(number for number, _, _ in rewards)
            return
        self._learned += rewards
        self.rewards += len(rewards)
        if len(self._learned) >= _TOGETHER:
            self._take_in()

    def _take_in_rewards(self, rewards: Sequence[tuple[int, Played, float]]) -> None:
        number, played, value = zip(*rewards, strict=True)
        task, features, is_baseline, claim, *_ = zip(*played, strict=True)
        columns = (np.array(c) for c in (number, value, task, features, is_baseline, claim))
        self._add_plays(Rewarded(*columns))

    def learn_block(self, block: Rewarded) -> None:
        """Memory follows the ledger: many rewards, in the order of the chain."""
        self._take_in()
        self._add_plays(block)
        self.rewards += len(block.number)

    def _add_plays(self, block: Rewarded) -> None:
        assert self._memory is not None
        self._memory.plays.extend(
            block.task, block.features, block.value, block.is_baseline, block.claim, block.number
        )

    def count_alarm(self, alarm: AlarmRecord) -> None:
        """Memory follows the ledger: rows of a task (or of all) count from a decision on."""
        memory, tallies = self.memory, self.tallies
        assert memory is not None
        self.drifts += 1
        memory.forget(alarm.task, alarm.since)
        tallies.start_anew(alarm.task)

    def add_logs(self, now: float, rows: Log, codes: Int) -> bytes | None:
        """Write rows of the policy in place, in blocks, within the open transaction.

        Args:
            now: the time.
            rows: read twice: to know them, then to write them.
            codes: of their tasks, by their place in the log's labels.

        Returns:
            The fingerprint that they go by; None if they were there.
        """
        call = fingerprint(rows, codes)
        if call in {block.call for block in self.ledger.logs()}:
            return None
        for block in rows.blocks():
            task = codes[block.task].tobytes()
            blobs = task, block.features, block.y.tobytes(), block.baseline, block.baseline_reward.tobytes()
            self.ledger.add_log(LogRecord._make((self.ledger.head.logs + 1, now, *blobs, call)))
        return call

    def remember_logs(
        self, dim: int, features: Features | None, call: bytes | None = None, rows: int | None = None
    ) -> None:
        """Memory follows the ledger: logged rows, a sample of them as offered, known baseline rewards.

        Of one call or of all; block by block, so that no log has to fit into memory twice. Who knows how many
        rows a call has spares reading them all to count them.
        """
        sizes: Counter[bytes] = Counter()
        if call is not None and rows is not None:
            sizes[call] = rows
        else:
            for record in self.ledger.logs():
                sizes[record.call] += len(record.reward) // 8
        done: Counter[bytes] = Counter()
        for record in self.ledger.logs():
            if call in (None, record.call):
                block = read_block(record, dim, features)
                self._check_tasks(block.task)
                self._remember_block(block, done[record.call], max(1, -(-sizes[record.call] // SAMPLE)))
                done[record.call] += len(block.y)

    def _check_tasks(self, task: Int) -> None:
        if ((task < 0) | (task >= len(self.labels))).any():
            raise DataFileError(f"{self.ledger.where} has logged rows of tasks that it does not name.")

    def _remember_block(self, rows: Rows, before: int, stride: int) -> None:
        """One block; `before` rows of its call came earlier, and every `stride`-th joins the sample."""
        memory = self.open_memory(rows.X.shape[1])
        none = np.zeros(len(rows.y), dtype=np.int64)
        claim = np.where(rows.is_baseline, rows.baseline_reward, np.nan)
        memory.plays.extend(rows.task, rows.X, rows.y, rows.is_baseline, claim, none)
        known = ~np.isnan(rows.baseline_reward)
        if known.any():
            memory.labels.extend(
                rows.task[known], rows.known_baselines, rows.baseline_reward[known], np.zeros(known.sum()),
                none[known],
            )  # fmt: skip
        some = slice(-before % stride, None, stride)
        memory.offer_many(rows.task[some], rows.X[some])
        if len(self.labels):
            self.tallies.make_room(len(self.labels) - 1)


def fingerprint(rows: Log, codes: Int) -> bytes:
    """A hash of a whole log, by which it is known when it comes again."""
    whole = blake2b(digest_size=HASH_BYTES)
    for block in rows.blocks():
        for part in (codes[block.task], block.y, block.baseline_reward):
            whole.update(part.tobytes())
        whole.update(block.features)
        whole.update(block.baseline)
    return whole.digest()
