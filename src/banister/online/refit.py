"""From a snapshot to the next model."""

from __future__ import annotations

from banister.learner.memory import Snapshot
from banister.online.model import Marks, Model
from banister.online.settings import Settings
from banister.safety.gates import EVERY_TASK


def fit(snapshot: Snapshot, n_tasks: int, marks: Marks, last: Model, settings: Settings) -> Model:
    """The next model. A store that was opened again fits the same."""
    before = None if EVERY_TASK in snapshot.since else last.belief
    belief = settings.believer().believe(snapshot.seen(), n_tasks, marks.decisions, before)
    return Model(last.version + 1, belief, marks)
