"""What the next belief is made from: rewards of plays, claimed baseline rewards, a sample of offers."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banister.contract import Bool
from banister.data import Float, Int
from banister.learner.journal import Journal, View
from banister.safety.gates import EVERY_TASK
from banister.safety.past import Past, Period
from banister.safety.seen import PAIRED, Seen
from banister.safety.wild import tame

SAMPLE = 2048  # offered actions kept, to know what is offered


class Retracted(NamedTuple):
    """A play whose reward was taken back: its task, features and reward, and whether it was the baseline."""

    task: int
    x: Float
    y: float
    is_baseline: bool


class Memory:
    """Rows for fits and a sample of offered actions.

    Attributes:
        plays: task, features, reward, whether it was the baseline, the reward claimed for it (or NaN), and
            the decision's number; in the order in which rewards came.
        labels: task, features, claimed reward, its standard error, number; in the order of decisions.
        since: the decision from which a drifted task's rows count; `EVERY_TASK` for all.
        retracted: plays whose reward was taken back, by the decision's number.
    """

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.plays = Journal(dim, (np.bool_, np.float64), _of_baselines, _paired)
        self.labels = Journal(dim, (np.float64,), _squares, None)
        self.since: dict[int, int] = {}
        self.retracted: dict[int, Retracted] = {}
        self._offered_task: Int = np.zeros(SAMPLE, dtype=np.int64)
        self._offered: Float = np.zeros((SAMPLE, dim))
        self._sampled = 0

    @staticmethod
    def samples(number: int) -> bool:
        """Whether decision `number` gives an action to the sample: all at first, every eighth later."""
        return number <= SAMPLE or number % 8 == 0

    @staticmethod
    def sampled(number: int, n_actions: int) -> int:
        """Which of its actions decision `number` gives; each in turn, also where every eighth is asked."""
        return (number + number // 8) % n_actions

    def offer(self, task: int, x: Float) -> None:
        """Keep an action that was offered; the oldest makes room."""
        place = self._sampled % SAMPLE
        self._offered_task[place], self._offered[place] = task, x
        self._sampled += 1

    def offer_many(self, task: Int, X: Float) -> None:
        """Keep the last of these."""
        task, X = task[-SAMPLE:], X[-SAMPLE:]
        places = (self._sampled + np.arange(len(task))) % SAMPLE
        self._offered_task[places], self._offered[places] = task, X
        self._sampled += len(task)

    def forget(self, task: int, since: int) -> None:
        """Rows of a task, or of all, from before decision `since` no longer count."""
        self.since = {**self.since, task: max(since, self.since.get(task, 0))}

    def retract(self, number: int, task: int, x: Float, y: float, is_baseline: bool) -> None:
        """The reward of decision `number` no longer counts."""
        self.retracted[number] = Retracted(task, x, y, is_baseline)

    def snapshot(self) -> Snapshot:
        """What a fit needs, as it is now; cheap, and untouched by what comes later."""
        n = min(self._sampled, SAMPLE)
        return Snapshot(
            self.plays.view(),
            self.labels.view(),
            self.since,
            dict(self.retracted),
            self._offered_task[:n].copy(),
            self._offered[:n].copy(),
        )


def _of_baselines(X: Float, y: Float, is_baseline: Bool, claim: Float) -> Float:
    """Σ over baselines of (x, 1)."""
    return np.append(X[is_baseline].sum(axis=0), is_baseline.sum())


def _paired(is_baseline: Bool, claim: Float) -> Bool:
    """The latest played baselines with a claim: pairs of them are compared whenever claims are judged."""
    which = is_baseline & np.isfinite(claim)
    which[np.flatnonzero(which)[:-PAIRED]] = False
    return which


def _squares(X: Float, y: Float, std: Float) -> Float:
    """Σ std²."""
    return np.array([std @ std])


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The rows at one moment; joined away from any lock."""

    plays: View
    labels: View
    since: dict[int, int]
    retracted: dict[int, Retracted]
    offered_task: Int
    offered: Float

    def seen(self) -> Seen:
        """Everything that counts, wild rewards tamed."""
        plays = self.rows()
        tamed = tame(plays[0], plays[2])
        plays[2] = tamed.y
        past = self.past()
        if tamed.left_out.any():
            lost = np.unique(plays[0][tamed.left_out])
            plays, past = [column[~tamed.left_out] for column in plays], past.without_tasks(lost)
        task, X, y, is_baseline, claim, _ = plays
        label_task, label_X, label, label_std, _ = self._kept(self.labels.rows())
        labels = [(t, p) for t, p in self.labels.periods if p.first >= self._since(t)]
        return Seen(
            task, X, y, is_baseline, claim,
            label_task, label_X, label, label_std, self.offered_task, self.offered,
            past if len(past.of) else None,
            Past.joined(labels, self.labels.origin, {}) if labels else None,
        )  # fmt: skip

    def rows(self) -> list[NDArray[Any]]:
        """The columns of plays that count, with rewards as they came."""
        return self._kept(self.plays.rows(), self.retracted.keys())

    def row_counts(self, n_tasks: int) -> Int:
        """Rewards of each task that a fit uses, (T,)."""
        task, _ = self._kept(self.plays.rows(0, -1), self.retracted.keys())
        periods, gone = self.periods()
        counts = np.bincount(task, minlength=n_tasks)
        for t, period in periods:
            counts[t] += period.n
        for t in gone.keys() & {t for t, _ in periods}:
            counts[t] -= len(gone[t])
        return counts

    def wild(self) -> int:
        """How many rewards a fit counts as less than they are; see `safety.wild`."""
        task, y, _ = self._kept(self.plays.rows(0, 2, -1), self.retracted.keys())
        folded = sum(len(period.tamed.keys() - self.retracted) for _, period in self.periods()[0])
        return int(tame(task, y).wild.sum()) + folded

    def past(self) -> Past:
        """Plays of long ago that count."""
        periods, gone = self.periods()
        return Past.joined(periods, self.plays.origin, gone)

    def periods(self) -> tuple[list[tuple[int, Period]], dict[int, list[Float]]]:
        """Periods of plays that count, and the rows to be taken out of them because they were taken back.

        A period that began before a change of its task is dropped whole. So is one of which it is not known
        whether a row that was taken back is in it or in one that was dropped.
        """
        kept = [(t, p) for t, p in self.plays.periods if p.first >= self._since(t)]
        gone: dict[int, list[Float]] = {}
        live = set() if not self.retracted else set(self.plays.numbers().tolist())
        for number, (task, x, y, is_baseline) in self.retracted.items():
            mine = [p for t, p in self.plays.periods if t == task and p.first <= number <= p.last]
            if number in live or not mine:
                continue
            if all(p.first >= self._since(task) for p in mine):
                counted = next((p.tamed[number] for p in mine if number in p.tamed), y)
                gone.setdefault(task, []).append(np.r_[x, is_baseline, counted])
            else:
                kept = [(t, p) for t, p in kept if p not in mine]
        return kept, gone

    def _since(self, task: int) -> int:
        return max(self.since.get(EVERY_TASK, 0), self.since.get(task, 0))

    def _kept(self, columns: list[NDArray[Any]], retracted: Set[int] = frozenset()) -> list[NDArray[Any]]:
        """Rows without those of drifted tasks from before their change, and without those taken back.

        Logged rows have number 0, which no decision has.
        """
        if not self.since and not retracted:
            return columns
        task, number = columns[0], columns[-1]
        first = np.array([self._since(t) for t in range(int(task.max(initial=-1)) + 1)], dtype=np.int64)
        kept: Bool = number >= first[task]
        if retracted:
            kept &= ~np.isin(number, np.fromiter(retracted, dtype=np.int64))
        return [column[kept] for column in columns]
