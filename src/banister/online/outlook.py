"""What every task of a dry run still needs: its contrasts, how far heights can be believed, rows to come."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from banister.data import Float
from banister.online.advice import TELL
from banister.online.logs import LogRows
from banister.online.needed import EXPLORED, exploring, moment, rows_needed
from banister.safety.belief import Belief
from banister.safety.constraint import Constraint

_LOOKED_AT = 64  # requests of a task from which its needs are told
_OFFERED = 4096  # requests whose offers tell what exploring would play
_REPEATED = 0.2  # of its size that an advantage must have by another model too; less is noise


@dataclass(frozen=True)
class TaskOutlook:
    """One task.

    Attributes:
        task: its label.
        rows: fitted; requests: judged.
        left: share of them that would leave the baseline; reasons: share of each reason.
        rows_needed: rows like those fitted until half of what looks better would be played; 0 if it is now,
            None if they may never be enough.
        rows_exploring: the same if a small share of rows plays an action drawn at random.
    """

    task: str
    rows: int
    requests: int
    left: float
    reasons: dict[str, float]
    rows_needed: int | None
    rows_exploring: int | None

    @property
    def reason(self) -> str:
        """Why most of the rest stays; "certified" where nothing stays."""
        rest = {r: s for r, s in self.reasons.items() if r != "certified"}
        return max(rest, key=rest.__getitem__) if rest else "certified"


@dataclass(frozen=True, eq=False)
class _Wishes:
    """What a task's requests would gain by: contrasts with their heights by the model that chooses, and by
    one that has not seen the same rewards; `level` is what the baseline earns. In the belief's units."""

    contrasts: Float
    heights: Float
    again: Float
    level: Float


class Needs:
    """Rows that tasks need, by two beliefs: the one that chooses and one of the judged rows."""

    def __init__(self, belief: Belief, valuer: Belief, constraint: Constraint, first: LogRows) -> None:
        self.belief, self.valuer, self.constraint, self.first = belief, valuer, constraint, first
        self._wishes: dict[int, _Wishes] = {}

    def look(self, task: int, sets: list[Float], baselines: Float, rewards: Float) -> None:
        """Take in a task's requests."""
        if task >= self.belief.n_tasks or not self.belief.known[task]:
            return
        picked = range(0, len(sets), max(1, -(-len(sets) // _LOOKED_AT)))
        found = [self._wish(task, sets[i], baselines[i], float(rewards[i])) for i in picked]
        rows = [f for f in found if f is not None]
        if rows:
            self._wishes[task] = _Wishes(*(np.array(column) for column in zip(*rows, strict=True)))

    def _wish(self, t: int, actions: Float, x_b: Float, reward: float) -> tuple[Any, ...] | None:
        """The best other action of a request, less the floor's share of the baseline."""
        other = actions[(actions != x_b).any(axis=1)]
        if len(other) == 0:
            return None
        belief, unit = self.belief, self.belief.frame.reward
        means = belief.predict(t, other)
        x = other[int(np.argmax(means))]
        unknown = bool(np.isnan(reward))
        level = float(belief.predict(t, x_b[None])[0]) if unknown else reward
        floor = float(self.constraint.floor(level))
        # Without a baseline reward the floor is estimated too: a multiple of the baseline's estimate.
        share = floor / level if unknown and level != 0 else 0.0
        fixed = 0.0 if unknown else floor
        again = np.nan
        if self.valuer.known.any() and self.valuer.known[t]:
            both = self.valuer.predict(t, np.stack([x, x_b]))
            again = both[0] - share * both[1] - fixed
        height = float(means.max()) - share * level * unknown - fixed
        z = belief.frame.combinations(x - share * x_b, 1.0 - share)
        return z, height / unit, again / unit, level / unit

    @cached_property
    def believed(self) -> float:
        """How large true heights are beside estimated ones; what looks best is partly luck.

        Two estimates with independent errors have the product `true²` on average, so their regression is the
        share of the squares that is true, and its root that of the size.
        """
        pairs = [(w.heights, w.again) for w in self._wishes.values()]
        if not pairs:
            return 0.0
        ours, theirs = (np.concatenate(side) for side in zip(*pairs, strict=True))
        both = (ours > 0) & ~np.isnan(theirs)
        squares = float(ours[both] @ ours[both])
        share = float(ours[both] @ theirs[both]) / squares if squares > 0 else 0.0
        return float(np.sqrt(np.clip(share, 0.0, 1.0)))

    @property
    def better(self) -> float:
        """Share of requests whose best other action looks better than the baseline."""
        looks = [w.heights > self.constraint.room(w.level) for w in self._wishes.values()]
        return float(np.mean(np.concatenate(looks))) if looks else 0.0

    def rows(self, task: int) -> int | None:
        """Rows like those fitted until half of what looks better clears its bound."""
        wishes = self._wishes.get(task)
        if wishes is None:
            return None
        assumed, good = self._assumed(wishes), wishes.heights > self.constraint.room(wishes.level)
        believed = self.believed
        if believed < _REPEATED or not good.any():
            good = np.ones_like(good)
        heights = assumed if believed < _REPEATED else believed * wishes.heights
        had = int(np.sum(self.first.task == task))
        return rows_needed(self.belief, task, wishes.contrasts[good], heights[good], self._logged, had)

    def rows_exploring(self, task: int) -> int | None:
        """Rows, a few of them explored, until an action that is `TELL` better than the baseline clears."""
        wishes = self._wishes.get(task)
        if wishes is None:
            return None
        rows = rows_needed(self.belief, task, wishes.contrasts, self._assumed(wishes), self._explored)
        return exploring(rows, self.belief)

    def _assumed(self, wishes: _Wishes) -> Float:
        """The height above its floor of an action that earns `TELL` more than the baseline."""
        return self.constraint.room(wishes.level) + TELL * np.abs(wishes.level)

    @cached_property
    def _logged(self) -> Float:
        """The second moment of a row as logged; of all tasks, since one has few rows of each kind."""
        return moment(self.belief.frame.rows(self.first.X))

    @cached_property
    def _explored(self) -> Float:
        """The same for the baseline and a little of everything on offer."""
        first, frame = self.first, self.belief.frame
        usual = moment(frame.rows(first.baseline))
        if first.actions is None:
            return usual
        some = range(0, len(first), max(1, len(first) // _OFFERED))
        offered = np.concatenate([first.actions[i] for i in some])
        return (1 - EXPLORED) * usual + EXPLORED * moment(frame.rows(offered))


def in_all(needs: list[int | None]) -> int | None:
    """The sum over the tasks that can be told; None where half of them cannot."""
    told = [n for n in needs if n is not None]
    return sum(told) if 2 * len(told) > len(needs) else None


def shares(codes: list[str]) -> dict[str, float]:
    """How often each reason came, the most frequent first."""
    return {str(reason): n / len(codes) for reason, n in Counter(codes).most_common()}
