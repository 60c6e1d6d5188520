"""From a snapshot to the next model."""

from __future__ import annotations

from banister.learner.learner import next_belief
from banister.learner.memory import Snapshot
from banister.online.model import Marks, Model
from banister.online.settings import Settings


def fit(snapshot: Snapshot, n_tasks: int, marks: Marks, last: Model, settings: Settings) -> Model:
    """The next model. A store that was opened again fits the same."""
    belief = next_belief(settings.believer(), snapshot, n_tasks, marks.decisions, last.belief)
    return Model(last.version + 1, belief, marks)
