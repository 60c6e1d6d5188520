"""How many rows a task still needs before half of its requests would be certified."""

from __future__ import annotations

import numpy as np

from banister.data import Float
from banister.online.model import Model
from banister.safety import checks
from banister.safety.constraint import Constraint


def rows_needed(
    model: Model,
    constraint: Constraint,
    task: int,
    rows: int,
    sets: list[Float],
    baselines: Float,
    rewards: Float,
) -> int | None:
    """Rows beyond those it has; 0 if there are enough, None if more may not help or it cannot be told.

    A bound `z·se` shrinks as 1/√rows. For each request the estimate's own best action must keep its bound
    above the floor; the rows at which half of the requests do are what is needed. Tasks with too few rows
    to have coefficients of their own need twice the rank, and one more.
    """
    c = model.certificate
    if task >= c.n_tasks:
        return None
    if c.shut[task] == checks.FEW_ROWS:
        return max(2 * c.rank + 1 - rows, 1)
    if c.shut[task] != checks.OPEN or not sets or rows == 0:
        return None
    factors = [
        _factor(model, constraint, task, actions, x, r)
        for actions, x, r in zip(sets, baselines, rewards, strict=True)
    ]
    median = float(np.median(factors))
    return max(0, int(np.ceil(rows * median)) - rows) if np.isfinite(median) else None


def _factor(
    model: Model, constraint: Constraint, task: int, actions: Float, baseline: Float, reward: float
) -> float:
    """By how much rows must grow for this request: (z·se / height of the estimate above the floor)²."""
    c = model.certificate
    theta, V, z = c.theta[task], c.V[task], c.z[task]
    means = actions @ theta
    x, height = actions[int(np.argmax(means))], float(means.max())
    unknown = bool(np.isnan(reward))
    level = float(baseline @ theta) if unknown else reward
    floor = float(constraint.floor(level))
    # Without a baseline reward the floor is estimated too: a multiple of the baseline's estimate.
    step = x - floor / level * baseline if unknown and level != 0 else x
    width = z * float(np.sqrt(max(step @ V @ step, 0.0)))
    return (width / (height - floor)) ** 2 if height > floor else np.inf
