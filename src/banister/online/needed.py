"""How many rows a task still needs before half of what looks better than the baseline could be played.

A bound is z standard errors wide. What is asked is the least n at which half of the contrasts `x − f x_b`
have bounds narrower than their heights. One row of a design whose second moment is G (in the belief's
coordinates) adds G/σ² to what is known, so n of them turn the covariance V into `(V⁻¹ + n G/σ²)⁻¹`.
Directions that the design never plays stay as wide as they are: rows of the baseline alone may never be
enough.

Where rows of this design are what V was learned from, the variance that they can remove shrinks as 1/rows:
other tasks' rows come too and teach what is shared, which V and G of one task do not show. On logs of clicks
this came near what was then needed, where the formula asked for several times as much.
"""

from __future__ import annotations

import numpy as np

from banister.data import Float
from banister.safety import _kernels
from banister.safety.belief import Belief

EXPLORED = 0.05  # share of traffic that is advised to be explored: little is lost by it
MOST = 10**9  # rows of one task; who needs more is told that it cannot be told
_STEPS = 60  # halvings of the interval for n: down to single rows


def moment(Z: Float) -> Float:
    """The second moment Z'Z/n of rows (n, p)."""
    return np.asarray(Z.T @ Z / max(len(Z), 1))


def rows_needed(
    belief: Belief, task: int, contrasts: Float, heights: Float, design: Float, had: int = 0
) -> int | None:
    """Rows of the design until half of the contrasts' bounds clear zero; None if that may never be.

    Args:
        belief: that knows V, σ and z of the task.
        task: whose.
        contrasts: (m, p) in the belief's coordinates: an action less what it is compared with.
        heights: (m,) what each contrast is worth, in the belief's unit of rewards.
        design: (p, p) second moment of one row to come.
        had: rows of the same design that the belief has seen of this task; 0 if it has seen another.
    """
    if task >= belief.n_tasks or not belief.known[task] or len(heights) == 0:
        return None
    widths = _Widths(belief, task, contrasts, design, had)

    def enough(n: float) -> bool:
        return bool(np.median(heights - widths.after(n)) >= 0.0)

    if enough(0.0):
        return 0
    if not enough(MOST):
        return None
    low, high = 0.0, np.log2(MOST)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(2.0**middle) else (middle, high)
    return int(np.ceil(2.0**high - 1e-6))


def exploring(rows: int | None, belief: Belief) -> int | None:
    """Rows of a design of which only `EXPLORED` explores: at least two explored ones for each coefficient.

    The formula splits rows like water; where noise is small it would be content with a tenth of an explored
    row. One row fixes a coefficient, a second one shows how far off it is.
    """
    return rows and max(rows, int(np.ceil(2 * belief.frame.dim / EXPLORED)))


class _Widths:
    """How wide the bounds of some contrasts are after n more rows: one eigenproblem, then sums."""

    def __init__(self, belief: Belief, task: int, contrasts: Float, design: Float, had: int) -> None:
        values, vectors = np.linalg.eigh(belief.V[task])
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        told, turn = np.linalg.eigh(root.T @ design @ root / belief.noise[task] ** 2)
        self._told, self._squares = np.maximum(told, 0.0), (contrasts @ root @ turn) ** 2
        own = (contrasts @ belief.away[task]) ** 2 * belief.left
        self._now = self._squares.sum(axis=1)
        self._open = _kernels.UP * np.sqrt((own * own).sum(axis=1))
        self._z, self._had = float(belief.z[task]), had
        self._never = self._squares @ (1.0 / (1.0 + MOST * self._told))

    def after(self, n: float) -> Float:
        """(m,) z standard errors; the allowance for the left-over shrinks as the variance does."""
        if self._had:
            later = self._never + (self._now - self._never) * self._had / (self._had + n)
        else:
            later = self._squares @ (1.0 / (1.0 + n * self._told))
        kept = np.divide(later, self._now, out=np.zeros_like(later), where=self._now > 0)
        return np.asarray(self._z * np.sqrt(later + kept * self._open))
