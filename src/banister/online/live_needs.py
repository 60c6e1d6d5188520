"""What a live bandit still needs: rows a task, and the next step, from the requests that it remembers."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from banister.data import Float
from banister.online.advice import TELL, Facts, Step, advise
from banister.online.engine import Engine
from banister.online.needed import EXPLORED, exploring, moment, rows_needed
from banister.online.outlook import in_all
from banister.safety.reasons import Reason

_LOOKED_AT = 64  # pairs from which a task's need is told
_DAY = 86400.0
_DIFFERENT = 1e-12  # of a feature's size: less is rounding


class LiveNeeds:
    """Rows until an action that earns `TELL` more than the baseline could be played, if a little is explored.

    A bandit remembers of a request its baseline and one other action. Tasks are judged by the same pairs,
    each with its own doubt.
    """

    def __init__(self, engine: Engine) -> None:
        self._belief, self._alpha = engine.model.belief, engine.settings.alpha
        self._tallies, self._draws = engine.store.tallies, engine.settings.randomise

    @cached_property
    def _pairs(self) -> Float:
        """(m, 2, d) pairs that differ."""
        pairs = self._tallies.pairs
        apart = np.abs(pairs[:, 0] - pairs[:, 1]) > _DIFFERENT * np.abs(pairs[:, 1])
        return pairs[apart.any(axis=1)][-_LOOKED_AT:]

    @cached_property
    def _design(self) -> Float:
        """The second moment of a row: the baseline, and now and then any action."""
        offered, usual = (moment(self._belief.frame.rows(self._tallies.pairs[:, i])) for i in (0, 1))
        return (1 - EXPLORED) * usual + EXPLORED * offered

    def rows(self, task: int) -> int | None:
        """Rows that a task needs; None if it cannot be told."""
        belief = self._belief
        if task >= belief.n_tasks or not belief.known[task] or len(self._pairs) == 0:
            return None
        x, x_b = self._pairs[:, 0], self._pairs[:, 1]
        level = belief.predict(task, x_b) / belief.frame.reward
        share = 1.0 - self._alpha
        contrasts = belief.frame.combinations(x - share * x_b, 1.0 - share)
        heights = (self._alpha + TELL) * np.abs(level)
        return exploring(rows_needed(belief, task, contrasts, heights, self._design), belief)

    def step(self, needs: list[int | None], reasons: dict[str, float]) -> Step:
        """What to do next."""
        asked = int(self._tallies.decisions.view.sum())
        left = int(self._tallies.left.view.sum()) / asked if asked else 0.0
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
                self.rate,
                live=True,
                asked=asked,
                draws=self._draws,
            )
        )

    @property
    def rate(self) -> float | None:
        """Decisions a day so far."""
        span = self._tallies.last - self._tallies.first
        return self._tallies.decisions.view.sum() * _DAY / span if span > 0 else None
