"""From a snapshot to the next model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from banister.errors import FitError
from banister.learner.learner import next_belief
from banister.learner.memory import Snapshot
from banister.online.model import Marks, Model
from banister.online.settings import Settings
from banister.safety.belief import Belief
from banister.solver import Workers


def fit(
    snapshot: Snapshot, n_tasks: int, marks: Marks, last: Model, settings: Settings, workers: Workers
) -> Model:
    """The next model. A store that was opened again fits the same, and so do other workers."""
    believer = replace(settings.believer(), workers=workers)
    belief = next_belief(believer, snapshot, n_tasks, marks.decisions, last.belief)
    _check_finite(belief)
    return Model(last.version + 1, belief, marks)


def _check_finite(belief: Belief) -> None:
    """A model that holds NaN or infinity would be written and could never be read back."""
    for name, value in vars(belief).items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
            raise FitError(f"A fit gave {name} that is not finite; rewards or features of absurd size do so.")
