"""One decision from its features to its bound, and one task's past, as the ledger has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from banister.data import Float
from banister.errors import ModelFileError, UnknownDecisionError, UnknownTaskError
from banister.features.arms import Arms
from banister.online.bandit import SafeBandit
from banister.online.ledger import Ledger
from banister.online.model import Model
from banister.online.record import MIXTURE, DecisionRecord
from banister.safety.belief import Belief
from banister.serve.events import recent

_FEATURES = 12  # that are spelled out, those that matter most first
_DECISIONS = 200  # of a task's past


@dataclass(frozen=True)
class Estimate:
    """What a model expects of an action."""

    value: float
    error: float


def explained(bandit: SafeBandit, number: int) -> dict[str, Any]:
    """A decision's row, what its model expects of what was played and of the baseline, and why."""
    with bandit._view() as (ledger, _):
        record = ledger.decision(number)
        if record is None:
            raise UnknownDecisionError(f"No decision has id {number}.")
        return {
            **_row(bandit, record, ledger),
            "task": ledger.tasks()[record.task],
            **_by_model(bandit, ledger, record),
        }


def _row(bandit: SafeBandit, record: DecisionRecord, ledger: Ledger) -> dict[str, Any]:
    """What is written down of a decision, and of its reward."""
    hidden = {"task", "baseline_features", "features", "offered", "actions", "digest", "probabilities"}
    own = {name: value for name, value in record._asdict().items() if name not in hidden}
    if record.probabilities is not None:
        own["probabilities"] = np.frombuffer(record.probabilities).tolist()
    played = ledger.find(record.id)
    assert played is not None, "a record that was read can be found"
    return {
        **own,
        **_arms(bandit, record),
        "left": record.action != record.baseline,
        "reward": played.reward,
        "retracted": played.retracted,
    }


def _arms(bandit: SafeBandit, record: DecisionRecord) -> dict[str, str]:
    """The names of what was played and of the baseline, where rows tell them."""
    if not isinstance(bandit.features, Arms) or record.action == MIXTURE:
        return {}
    played, usual = bandit.features.named(np.array([record.played, record.baseline_vector]))
    return {"arm": played, "usual_arm": usual}


def _by_model(bandit: SafeBandit, ledger: Ledger, record: DecisionRecord) -> dict[str, Any]:
    """Estimates of the model that decided; none where it knew nothing of the task, or was not kept."""
    belief = _belief(ledger, record.version)
    if belief is None or record.task >= belief.n_tasks or not belief.known[record.task]:
        return {"played": None, "usual": None, "ahead": None, "quantile": None, "features": []}
    x, xb, t = record.played, record.baseline_vector, record.task
    return {
        "played": Estimate(*belief.contrast(t, x, 1.0)),
        "usual": Estimate(*belief.contrast(t, xb, 1.0)),
        "ahead": Estimate(*belief.contrast(t, x - xb)),
        "quantile": float(belief.z[t]),
        "features": _features(belief, t, x, xb, _names(bandit, len(x))),
    }


def _belief(ledger: Ledger, version: int) -> Belief | None:
    data = ledger.model(version) if version else None
    if data is None:
        return None
    try:
        return Model.from_bytes(data, f"model {version}")[0].belief
    except ModelFileError:  # of an older format
        return None


def _features(belief: Belief, t: int, x: Float, xb: Float, names: list[str]) -> list[dict[str, Any]]:
    """What each feature adds to the estimates; the rows of the played action add up to its estimate."""
    weights = belief.mean[t] * belief.frame.reward
    own, usual = belief.frame.rows(x) * weights, belief.frame.rows(xb) * weights
    labels = [*names, "level"] if belief.frame.intercept else names
    matter = np.argsort(-np.maximum(np.abs(own), np.abs(usual)), kind="stable")[:_FEATURES]
    values = [*x.tolist(), 1.0]
    return [
        {"name": labels[j], "value": values[j], "played": float(own[j]), "usual": float(usual[j])}
        for j in matter.tolist()
        if own[j] or usual[j]
    ]


def _names(bandit: SafeBandit, dim: int) -> list[str]:
    made = bandit.features
    return list(made.feature_names) if made is not None else [f"feature {j}" for j in range(dim)]


def past(bandit: SafeBandit, label: str) -> dict[str, Any]:
    """A task's last decisions, newest first, and the refits and alarms that concern it."""
    with bandit._view() as (ledger, _):
        labels = ledger.tasks()
        if label not in labels:
            raise UnknownTaskError(f"No task is called {label!r}.")
        task = labels.index(label)
        rows = [_row(bandit, record, ledger) for record in ledger.last_decisions(task, _DECISIONS)]
        return {"task": label, "decisions": rows, "events": recent(ledger, task)}
