"""`Decision`: what is played for one request, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from banister.data import Float
from banister.online.record import DecisionRecord
from banister.safety.promise import Promise

_DECISION = Promise.DECISION.value


class Decision(NamedTuple):
    """One decision; every field but `features` and `arm` is also in the ledger's row.

    Attributes:
        id: name it when the reward arrives.
        task: whose decision it is.
        action: index into the actions given; −1 with `features` for a mixture (only with `mixing=True`).
        features: (d,) what is played.
        certified: whether it leaves the baseline because a lower confidence bound clears the floor.
        lower_bound: that bound; NaN without one. Where the baseline reward is unknown it bounds how far the
            action, or the draw, is above the floor, and `floor` is 0. With the promises "task" and "fleet" it
            is what was certainly saved so far, and `floor` is 0 as well.
        floor: the least an action may be expected to earn; NaN where that is unknown.
        reason: `certified`; `drawn` for a draw that may leave the baseline; or why the baseline is played
            (`safety.reasons.Reason`): `kept:…` behind an open gate, `fallback:…` behind a shut one.
        model_version: the model that decided; 0 before the first.
        arm: the name of what is played, where the bandit makes features of named actions.
        probability: with which this action was drawn; 1 for a decision without chance.
        probabilities: (K,) of all actions; None without chance.
        promise: "decision", "task" or "fleet": what it was decided under.
        limited_by: what kept the probability off the baseline from being larger: "committee" (nothing more is
            wished for), "free share", "budget", "growth", "decision", "holdout", "harm" or "gate".

    Examples:
        >>> from banister import SafeBandit
        >>> d = SafeBandit(refits="manual").decide("store-17", [[1.0, 0.0], [0.0, 1.0]], baseline=1)
        >>> d.task, d.action, d.certified, d.reason, d.model_version
        ('store-17', 1, False, 'fallback:no-data', 0)
    """

    id: int
    task: str
    action: int
    features: Float
    certified: bool
    lower_bound: float
    floor: float
    reason: str
    model_version: int
    arm: str | None = None
    probability: float = 1.0
    probabilities: Float | None = None
    promise: str = _DECISION
    limited_by: str | None = None

    @classmethod
    def of(cls, record: DecisionRecord, label: str) -> Decision:
        """What an application is told of a record."""
        return cls(
            record.id, label, record.action, record.played.copy(), record.certified, record.bound,
            record.floor, record.reason, record.version, None, record.probability,
            None if record.probabilities is None else record.odds, record.promise or _DECISION,
            record.limited_by,
        )  # fmt: skip

    @classmethod
    def of_many(cls, records: Sequence[DecisionRecord], labels: Sequence[str]) -> list[Decision]:
        """The same of records with equally many features, whose rows are read together."""
        whole = bytearray().join(r.baseline_features if r.features is None else r.features for r in records)
        rows = np.frombuffer(whole).reshape(len(records), -1)
        return [
            cls(
                r.id, label, r.action, row, r.certified, r.bound, r.floor, r.reason, r.version, None,
                r.probability, r.odds, r.promise or _DECISION, r.limited_by,
            )
            for r, label, row in zip(records, labels, rows, strict=True)
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: NaN becomes None."""
        return {
            **self._asdict(),
            "features": np.asarray(self.features).tolist(),
            "lower_bound": _or_none(self.lower_bound),
            "floor": _or_none(self.floor),
            "probabilities": None if self.probabilities is None else self.probabilities.tolist(),
        }


def _or_none(value: float) -> float | None:
    return None if value != value else value
