"""How many rows a task still needs before half of its requests would leave the baseline."""

from __future__ import annotations

import numpy as np

from banister.data import Float
from banister.safety.belief import Belief
from banister.safety.constraint import Constraint


def rows_needed(
    belief: Belief,
    constraint: Constraint,
    task: int,
    rows: int,
    sets: list[Float],
    baselines: Float,
    rewards: Float,
) -> int | None:
    """Rows beyond those it has; 0 if there are enough, None if more may not help or it cannot be told.

    A bound `z·se` shrinks as 1/√rows. For each request the estimate's own best action must keep its bound
    above the floor; the rows at which half of the requests do are what is needed.
    """
    if task >= belief.n_tasks or not belief.known[task] or not sets or rows == 0:
        return None
    factors = [
        _factor(belief, constraint, task, actions, x, r)
        for actions, x, r in zip(sets, baselines, rewards, strict=True)
    ]
    median = float(np.median(factors))
    return max(0, int(np.ceil(rows * median)) - rows) if np.isfinite(median) else None


def _factor(
    belief: Belief, constraint: Constraint, task: int, actions: Float, baseline: Float, reward: float
) -> float:
    """By how much rows must grow for this request: (z·se / height of the estimate above the floor)²."""
    means = belief.predict(task, actions)
    x, height = actions[int(np.argmax(means))], float(means.max())
    unknown = bool(np.isnan(reward))
    level = float(belief.predict(task, baseline[None])[0]) if unknown else reward
    floor = float(constraint.floor(level))
    # Without a baseline reward the floor is estimated too: a multiple of the baseline's estimate.
    share = floor / level if unknown and level != 0 else 0.0
    spread = belief.contrast(task, x - share * baseline, 1.0 - share)[1]
    return (float(belief.z[task]) * spread / (height - floor)) ** 2 if height > floor else np.inf
