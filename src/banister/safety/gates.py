"""Gates: which tasks may leave the baseline now, and why not. They change while a belief serves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.data import Int
from banister.safety.belief import Belief
from banister.safety.reasons import DRIFT, NEW_TASK, NO_DATA, OPEN

EVERY_TASK = -1


@dataclass(eq=False)
class Gates:
    """`codes` (T,): `reasons.OPEN`, or the reason why a task stays at its baseline.

    A change makes new codes, so that who has kept the old ones can put them back.
    """

    codes: Int

    @classmethod
    def of(cls, belief: Belief) -> Gates:
        """Open for every task that the belief knows."""
        nothing = not belief.known.any()
        shut = NO_DATA if nothing else NEW_TASK
        return cls(np.where(belief.known, OPEN, shut))

    @property
    def any_open(self) -> bool:
        """Whether some task may leave the baseline."""
        return bool((self.codes == OPEN).any())

    def is_open(self, task: int) -> bool:
        """Whether this task may."""
        return task < len(self.codes) and bool(self.codes[task] == OPEN)

    def shut(self, task: int, reason: int = DRIFT) -> None:
        """Shut one gate, or with `EVERY_TASK` all that are open."""
        codes = self.codes.copy()
        if task == EVERY_TASK:
            codes[codes == OPEN] = reason
        elif task < len(codes):
            codes[task] = reason
        self.codes = codes
