"""What a user should know about the data or the solve, in words."""

from __future__ import annotations

import numpy as np

from banister.estimators.base import label_list
from banister.solver import AGREE, Pool, fitted_numbers


def data_notes(data: Pool, rank: int, *, shrunk: bool, intercepts: bool) -> list[str]:
    """Tasks with few rows, more parameters than rows, features that do not vary."""
    notes = []
    few = np.flatnonzero(data.counts < rank)
    if len(few):
        rule = "they lean on the population's mean" if shrunk else "they get the minimum-norm fit"
        who = label_list(data.labels, few)
        notes.append(f"{len(few)} task(s) have fewer rows than the rank {rank} ({who}); {rule}.")
    parameters = fitted_numbers(data.dim, data.n_tasks, rank) + intercepts * data.n_tasks
    if data.n_rows < parameters:
        notes.append(
            f"There are {data.n_rows} rows for {parameters} parameters; do not trust the noise level and the "
            "intervals."
        )
    constant = data.constant_columns()
    if constant and not _is_level(constant, intercepts):
        where = " within every task" if intercepts else ""
        notes.append(f"Feature column(s) {list(constant)[:5]} are constant{where}; they tell nothing apart.")
    return notes


def solve_note(converged: bool, agreed: bool, passes: int) -> str | None:
    """How the solve fell short, if it did."""
    if not converged:
        return (
            f"The solver stopped after {passes} passes before its stopping rule was met; raise max_passes, "
            "lower the rank, or give more rows."
        )
    if not agreed:
        return (
            f"Different starts led to optima that differ by more than {AGREE:g}; the best is kept, but may "
            "be a local one. More rows or another rank would help."
        )
    return None


def _is_level(constant: dict[int, float], intercepts: bool) -> bool:
    """One constant that is not zero is how a user without `fit_intercept` asks for a level."""
    return not intercepts and len(constant) == 1 and 0.0 not in constant.values()
