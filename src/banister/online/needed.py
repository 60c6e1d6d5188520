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

from collections.abc import Sequence
from typing import Any

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.safety import _kernels
from banister.safety.belief import Belief

EXPLORED = 0.05  # share of traffic that is advised to be explored: little is lost by it
MOST = 10**9  # rows of one task; who needs more is told that it cannot be told
_ROUNDING = 1e-6  # of a row
_AT_ONCE = 256  # tasks looked at together; bounds the memory beside the belief


def moment(Z: Float) -> Float:
    """The second moment Z'Z/n of rows (n, p)."""
    return np.asarray(Z.T @ Z / max(len(Z), 1))


def rows_needed(
    belief: Belief, task: int, contrasts: Float, heights: Float, design: Float, had: int = 0
) -> int | None:
    """`rows_needed_by` of one task, with heights (m,)."""
    return rows_needed_by(belief, [task], contrasts, heights[None], design, had)[0]


def rows_needed_by(
    belief: Belief, tasks: Sequence[int], contrasts: Float, heights: Float, design: Float, had: int = 0
) -> list[int | None]:
    """Rows of the design until half of the contrasts' bounds clear zero; None for a task that may never be.

    Args:
        belief: that knows V, σ and z of the tasks.
        tasks: whose.
        contrasts: (m, p) in the belief's coordinates: an action less what it is compared with.
        heights: (tasks, m) what each contrast is worth to each, in the belief's unit of rewards.
        design: (p, p) second moment of one row to come.
        had: rows of the same design that the belief has seen of a task; 0 if it has seen another.
    """
    found: list[int | None] = [None] * len(tasks)
    told = [i for i, t in enumerate(tasks) if t < belief.n_tasks and belief.known[t]]
    for first in range(0, len(told) if heights.shape[1] else 0, _AT_ONCE):
        some = told[first : first + _AT_ONCE]
        widths = _Widths(belief, [tasks[i] for i in some], contrasts, design, had)
        for i, n in zip(some, _least(widths, heights[some]).tolist(), strict=True):
            found[i] = None if n > MOST else n
    return found


def _least(widths: _Widths, heights: Float) -> Int:
    """For each task the least n at which half of the bounds clear zero; more than `MOST` if none does."""

    def enough(n: Any) -> Bool:
        return np.asarray(np.median(heights - widths.after(n), axis=1) >= 0.0)

    low, high = np.full(len(heights), -1), np.full(len(heights), MOST + 1)  # at `high` it is enough, or never
    high[enough(np.full(len(low), float(MOST)))] = MOST
    high[enough(np.zeros(len(low)))] = 0
    while (open_ := (high <= MOST) & (high - low > 1)).any():
        middle = (low + high) // 2
        fine = enough(middle + _ROUNDING)
        high, low = np.where(open_ & fine, middle, high), np.where(open_ & ~fine, middle, low)
    return high


def exploring(rows: int | None, belief: Belief) -> int | None:
    """Rows of a design of which only `EXPLORED` explores: at least four explored ones for each coefficient.

    The formula splits rows like water; where noise is small it would be content with a tenth of an explored
    row. One row fixes a coefficient, a second one shows how far off it is, and how loud rewards are along it
    counts as known only after a few more.
    """
    return rows and max(rows, int(np.ceil(4 * belief.frame.dim / EXPLORED)))


class _Widths:
    """How wide the bounds of some contrasts are after n more rows: an eigenproblem a task, then sums."""

    def __init__(
        self, belief: Belief, tasks: Sequence[int], contrasts: Float, design: Float, had: int
    ) -> None:
        values, vectors = np.linalg.eigh(np.stack([belief.V[t] for t in tasks]))
        root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
        noise = belief.noise[tasks][:, None, None]
        with np.errstate(over="ignore", invalid="ignore"):
            shown = root.transpose(0, 2, 1) @ design @ root / noise**2
        told, turn = np.linalg.eigh(np.where(np.isfinite(shown), shown, 0.0))  # what overflows shows nothing
        self._told, self._squares = np.maximum(told, 0.0), (contrasts @ root @ turn) ** 2
        own = (contrasts @ np.stack([belief.away[t] for t in tasks])) ** 2 * belief.left
        self._now = self._squares.sum(axis=2)
        self._open = _kernels.UP * np.sqrt((own * own).sum(axis=2))
        self._z, self._had = belief.z[tasks][:, None], had
        self._never = self._left(np.full(len(tasks), float(MOST)))

    def _left(self, n: Float) -> Float:
        """(tasks, m) variances after n (tasks,) more rows."""
        kept = 1.0 / (1.0 + n[:, None] * self._told)
        return np.asarray((self._squares @ kept[:, :, None])[:, :, 0])

    def after(self, n: Float) -> Float:
        """(tasks, m) z standard errors; the allowance for the left-over shrinks as the variance does."""
        if self._had:
            later = self._never + (self._now - self._never) * (self._had / (self._had + n))[:, None]
        else:
            later = self._left(n)
        kept = np.divide(later, self._now, out=np.zeros_like(later), where=self._now > 0)
        return np.asarray(self._z * np.sqrt(later + kept * self._open))
