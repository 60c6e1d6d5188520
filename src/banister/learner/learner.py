"""One learner for trials and for life: `decide`, `learn`, `refit`, `forget`.

It knows tasks and decisions by number and holds what follows from them: a belief, gates and a watch over the
belief, and the rows from which the next belief is made. Names, ledgers, clocks and threads are the
application's; truth and score are the trial's.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.learner.memory import Memory, Snapshot
from banister.safety import _kernels
from banister.safety._matrix_kernels import Matrices
from banister.safety.belief import Belief
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.gates import EVERY_TASK, Gates
from banister.safety.reasons import CERTIFIED, DISAGREES, DRIFT, NEW_TASK, NO_DATA, OPEN
from banister.safety.watch import Alarm, Watch

_RARELY = 0.02  # share of requests that stay
_FEW = 3  # tasks whose claims contradict a belief before all are taken to have changed
_SHARE = 0.05  # and this share of those known: one bound in thousands fails by chance
_APART = 10  # decisions a contradiction, at most: a change of all soon shows, wrong numbers come now and then


class Verdicts(NamedTuple):
    """For each request: the action or −1 for the baseline, its bound, the floor, the code of the reason."""

    chosen: Int
    bound: Float
    floor: Float
    code: Int


class Learner:
    """Beliefs about tasks, and what they allow. Not thread-safe: its owner holds a lock.

    Args:
        constraint: the floor.
        believer: how beliefs are made.
        memory: the rows that its beliefs are made from.
    """

    def __init__(self, constraint: Constraint, believer: Believer, memory: Memory) -> None:
        self.constraint, self.believer, self.memory = constraint, believer, memory
        self._task, self._index = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._low, self._high, self._std = np.zeros(1), np.zeros(1), np.zeros(1)
        nothing = np.zeros(1, dtype=np.int64)
        self._one = Verdicts(nothing, np.zeros(1), np.zeros(1), nothing.copy())
        self.use(Belief.none(0, memory.dim))

    def use(self, belief: Belief) -> None:
        """Serve from this belief: gates open where it knows a task, and its watch begins."""
        self.belief, self.gates, self.watch = belief, Gates.of(belief), Watch(belief)
        self._disagreed: dict[int, int] = {}
        self._asked = self._kept = 0
        b, c = belief, self.constraint
        self._means = c.literal, c.alpha, b.frame.shift, b.frame.scale, b.frame.reward, b.mean
        self._dense, self._doubts = b.dense, (b.left, b.z, b.labelled, b.label_error)

    @property
    def settled(self) -> bool:
        """Whether more rows would change little: hardly a request stayed at its baseline."""
        return self._asked > 0 and self._kept <= _RARELY * self._asked

    @property
    def shut(self) -> bool:
        """Whether most requests stayed at their baseline for want of certainty."""
        return 2 * self._kept > self._asked

    def unknown_task(self) -> int:
        """Why a task that this belief has never seen stays at its baseline."""
        return NEW_TASK if self.belief.known.any() else NO_DATA

    def decide(
        self, task: Int, actions: Float, index: Int, baseline: Float, low: Float, high: Float, std: Float
    ) -> Verdicts:
        """Verdicts on requests (m, K, d) in turn; `baseline` (m, d) and `index` are the baselines'."""
        m = len(task)
        out = Verdicts(
            np.full(m, -1), np.full(m, np.nan), self.constraint.floor(high), np.full(m, self.unknown_task())
        )
        self.gates.codes = self.gates.codes.copy()  # compiled code shuts gates on its way
        known = task < len(self.gates.codes)
        columns = (task, actions, baseline, index, low, high, std)
        if not self.gates.any_open:
            out.code[known] = self.gates.codes[task[known]]
        elif known.all():
            self._judge(columns, out)
        elif known.any():
            part = Verdicts(out.chosen[known], out.bound[known], out.floor[known], out.code[known])
            self._judge(tuple(c[known] for c in columns), part)
            for whole, some in zip(out, part, strict=True):
                whole[known] = some
        self._count(m, int((out.code != CERTIFIED).sum()))
        return out

    def _judge(self, columns: tuple[Any, ...], out: Verdicts) -> None:
        """Verdicts on requests of known tasks; task by task where covariances are kept as rows."""
        if self._dense is not None:
            self._judge_by(self._dense, columns, out)
            return
        task = columns[0]
        if len(task) == 1 and self.gates.is_open(task[0]):
            self._judge_by(self.belief.matrices(task[0]), columns, out)
            return
        shut = self.gates.codes[task] != OPEN
        out.code[shut] = self.gates.codes[task[shut]]
        for t in np.unique(task[~shut]).tolist():
            mine = np.flatnonzero(task == t)
            part = Verdicts(out.chosen[mine], out.bound[mine], out.floor[mine], out.code[mine])
            self._judge_by(self.belief.matrices(t), tuple(column[mine] for column in columns), part)
            for whole, some in zip(out, part, strict=True):
                whole[mine] = some

    def _judge_by(self, matrices: Matrices, columns: tuple[Any, ...], out: Verdicts) -> None:
        """With the matrices of all tasks, or those of the one task that requests are of."""
        _kernels.judge(*columns, *self._means, matrices, *self._doubts, self.gates.codes, *out)

    def _count(self, asked: int, kept: int) -> None:
        self._asked += asked
        self._kept += kept

    def decide_one(
        self, task: int, actions: Float, baseline: int, low: float, high: float, std: float
    ) -> tuple[int, float, float, int]:
        """The verdict on one request with actions (K, d), as `decide` gives it; quick, with no new arrays."""
        codes = self.gates.codes
        if task >= len(codes) or codes[task] != OPEN:
            code = int(codes[task]) if task < len(codes) else self.unknown_task()
            self._count(1, 1)
            return -1, math.nan, float(_kernels.floor_of(high, self.constraint.alpha, self._means[0])), code
        self._task[0], self._index[0] = task, baseline
        self._low[0], self._high[0], self._std[0] = low, high, std
        columns = (
            self._task, actions[None], actions[baseline : baseline + 1], self._index,
            self._low, self._high, self._std,
        )  # fmt: skip
        self._judge(columns, self._one)
        out = self._one
        why = int(out.code[0])
        if why == DISAGREES:
            codes[task] = OPEN  # as it was, for who has kept these codes
            self.gates.shut(task, DISAGREES)
        self._count(1, why != CERTIFIED)
        return int(out.chosen[0]), float(out.bound[0]), float(out.floor[0]), why

    def disagreed(self, task: int, number: int) -> Alarm | None:
        """A claimed baseline reward contradicted the belief at decision `number`: the task has changed.

        Where that happens to many tasks in short order, all have. Each task is said once a belief. The
        claim itself is not learned from: it may be a wrong number, and if not, the next ones say the same.
        """
        if task in self._disagreed or not self.gates.any_open:
            return None
        since = number + 1
        self._disagreed = {**self._disagreed, task: since}
        few = max(_FEW, math.ceil(_SHARE * int(self.belief.known.sum())))
        latest = sorted(self._disagreed.values())[-few:]
        many = len(latest) == few and since - latest[0] <= _APART * few
        whose = EVERY_TASK if many else task
        self.forget(whose, since)
        return Alarm(whose, since, float(len(self._disagreed)))

    def learn(
        self, task: int, x: Float, y: float, is_baseline: bool, claim: float, number: int
    ) -> list[Alarm]:
        """Take in the reward of decision `number`; alarms shut gates and are returned."""
        self.memory.plays.add(task, x, y, is_baseline, claim, number)
        return self.check(task, x, y, number)

    def check(self, task: int, x: Float, y: float, number: int) -> list[Alarm]:
        """Compare a reward that the belief has not seen with it."""
        alarms = self.watch.see(task, x, y, number)
        return self._rung(alarms) if alarms else alarms

    def check_many(self, task: Int, X: Float, y: Float, number: Int) -> list[Alarm]:
        """The same of many, in turn."""
        return self._rung(self.watch.see_many(task, X, y, number))

    def _rung(self, alarms: list[Alarm]) -> list[Alarm]:
        """Each shuts gates from where its change began."""
        alarms = [self._dated(alarm) for alarm in alarms]
        for alarm in alarms:
            self.forget(alarm.task, alarm.since)
        return alarms

    def _dated(self, alarm: Alarm) -> Alarm:
        """A claim that contradicted the belief dates a change better than noisy rewards do."""
        return alarm._replace(since=max(alarm.since, self._disagreed.get(alarm.task, 0)))

    def learn_many(
        self, task: Int, X: Float, y: Float, is_baseline: Bool, claim: Float, number: Int
    ) -> list[Alarm]:
        """Take in many rewards."""
        self.memory.plays.extend(task, X, y, is_baseline, claim, number)
        return self.check_many(task, X, y, number)

    def forget(self, task: int, since: int) -> None:
        """A task, or with `EVERY_TASK` all, has changed at decision `since`: shut, and learn anew."""
        self.gates.shut(task, DRIFT)
        self.memory.forget(task, since)

    def state(self) -> tuple[Any, ...]:
        """What deciding and alarms may change besides the watch, to be handed to `put_back`.

        Nothing is copied: changes make new objects.
        """
        return self.gates.codes, self._disagreed, self.memory.since, self._asked, self._kept

    def put_back(self, state: tuple[Any, ...]) -> None:
        """As it was."""
        self.gates.codes, self._disagreed, self.memory.since, self._asked, self._kept = state

    def refit(self, n_tasks: int, decisions: int) -> None:
        """A new belief from everything that counts."""
        self.use(next_belief(self.believer, self.memory.snapshot(), n_tasks, decisions, self.belief))


def next_belief(believer: Believer, snapshot: Snapshot, n_tasks: int, decisions: int, last: Belief) -> Belief:
    """The belief that follows from a snapshot; after a change of all tasks the last one is no start."""
    before = None if EVERY_TASK in snapshot.since else last
    return believer.believe(snapshot.seen(), n_tasks, decisions, before)
