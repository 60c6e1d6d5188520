"""From a snapshot to the next model."""

from __future__ import annotations

import numpy as np

from banister.online.memory import Snapshot
from banister.online.model import Marks, Model, served
from banister.online.settings import Settings
from banister.safety import checks
from banister.safety.certificate import Certificate


def fit(
    snapshot: Snapshot, n_tasks: int, dim: int, marks: Marks, last: Model, settings: Settings
) -> Model | None:
    """The next model; None where the fit settles nothing and the last model has open gates, which then stay.

    Randomness follows from the seed and what has been seen, so a store that was opened again fits the same.
    """
    span, certifier = snapshot.span(dim), settings.certifier()
    seen = dim if span.Q is None else span.Q.shape[1]
    certifier.restore({k: a for k, a in last.warm.items() if not k.startswith("basis_") or len(a) == seen})
    if last.version and last.certificate.drifted:
        certifier.forget()
    if seen == 0:
        return Model(last.version + 1, Certificate.closed(n_tasks, dim, checks.REGIME), {}, marks)
    rng = np.random.default_rng([settings.seed, marks.rewards, marks.decisions])
    new = certifier.certify(snapshot.evidence(span), n_tasks, seen, marks.decisions, rng)
    if new.undecided and last.certificate.opened:
        return None
    return Model(last.version + 1, served(span.restore(new)), certifier.state(), marks)
