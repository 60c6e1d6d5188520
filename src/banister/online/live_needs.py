"""What a live bandit still needs: rows a task, and the next step, from the requests that it remembers."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from banister.data import Float
from banister.online.advice import TELL, Facts, Step, advise
from banister.online.engine import Engine
from banister.online.needed import EXPLORED, exploring, moment, rows_needed_by
from banister.online.outlook import in_all
from banister.safety.reasons import Reason

_LOOKED_AT = 64  # pairs from which a task's need is told
_DAY = 86400.0
_DIFFERENT = 1e-12  # of a feature's size: less is rounding


class LiveNeeds:
    """Rows until an action that earns `TELL` more than the baseline could be played, if a little is explored.

    A bandit remembers of a request its baseline and one other action. Tasks are judged by the same pairs,
    each with its own doubt. What is needed of the engine is copied at once: the rest takes longer, and needs
    no lock.
    """

    def __init__(self, engine: Engine) -> None:
        tallies = engine.store.tallies
        self._belief, self._alpha = engine.model.belief, engine.settings.alpha
        self._all, self._draws = tallies.pairs.copy(), engine.settings.randomise
        self._asked, self._left = int(tallies.decisions.view.sum()), int(tallies.left.view.sum())
        span = tallies.last - tallies.first
        self._rate = self._asked * _DAY / span if span > 0 else None  # decisions a day so far

    @cached_property
    def _pairs(self) -> Float:
        """(m, 2, d) pairs that differ."""
        pairs = self._all
        apart = np.abs(pairs[:, 0] - pairs[:, 1]) > _DIFFERENT * np.abs(pairs[:, 1])
        return pairs[apart.any(axis=1)][-_LOOKED_AT:]

    @cached_property
    def _design(self) -> Float:
        """The second moment of a row: the baseline, and now and then any action."""
        offered, usual = (moment(self._belief.frame.rows(self._all[:, i])) for i in (0, 1))
        return (1 - EXPLORED) * usual + EXPLORED * offered

    def rows(self, n_tasks: int) -> list[int | None]:
        """Rows that each of the first tasks needs; None if it cannot be told."""
        belief, x, x_b = self._belief, self._pairs[:, 0], self._pairs[:, 1]
        if len(x) == 0 or not belief.known.any():
            return [None] * n_tasks
        level = belief.frame.rows(x_b) @ belief.mean[:n_tasks].T  # (m, tasks)
        share = 1.0 - self._alpha
        contrasts = belief.frame.combinations(x - share * x_b, 1.0 - share)
        heights = (self._alpha + TELL) * np.abs(level.T)
        known = range(min(n_tasks, belief.n_tasks))
        found = rows_needed_by(belief, known, contrasts, heights, self._design)
        return [exploring(rows, belief) for rows in found] + [None] * (n_tasks - len(known))

    def step(self, needs: list[int | None], reasons: dict[str, float]) -> Step:
        """What to do next."""
        left = self._left / self._asked if self._asked else 0.0
        able = sum(reasons.get(r, 0.0) for r in (Reason.CERTIFIED, Reason.TOO_UNCERTAIN, Reason.DRAWN))
        better = max(left, able)
        identical = reasons.get(Reason.IDENTICAL, 0.0)
        known = bool(self._belief.known.any())
        return advise(
            Facts(
                known,
                left,
                better,
                identical,
                None,
                in_all(needs),
                self._rate,
                live=True,
                asked=self._asked,
                draws=self._draws,
            )
        )
