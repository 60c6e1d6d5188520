"""Where every task stands: rows, share certified, what it is thought to gain, what keeps its gate shut."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from banister.online.decision import REASONS
from banister.online.engine import Engine
from banister.online.memory import Memory
from banister.online.model import Model
from banister.safety import checks

_Z = 1.959963984540054


@dataclass(frozen=True)
class TaskStatus:
    """One task.

    Attributes:
        task: its label.
        rows: rewards the next fit will use.
        decisions: requests answered.
        certified: share of them that a certificate allowed.
        moved: decisions that left the baseline.
        uplift: what each of those is thought to earn above the baseline, by the model that serves; or None.
        uplift_low, uplift_high: its 95 % interval.
        worst_margin: the least by which a bound cleared its floor; None if no decision left the baseline.
        gate: "open", or why it is shut now.
    """

    task: str
    rows: int
    decisions: int
    certified: float
    moved: int
    uplift: float | None
    uplift_low: float | None
    uplift_high: float | None
    worst_margin: float | None
    gate: str


@dataclass(frozen=True)
class Status:
    """A whole bandit.

    Attributes:
        model_version: that serves; `rank` is its number of shared directions, 0 if none was found.
        decisions, rewards: counts; `pending` decisions still wait, `expired` ones waited too long.
        duplicates, late: rewards that were refused.
        retracted: accepted rewards that were taken back.
        drifts: alarms so far.
        tasks: one entry a task, in order of appearance.
    """

    model_version: int
    rank: int
    decisions: int
    rewards: int
    pending: int
    expired: int
    duplicates: int
    late: int
    retracted: int
    drifts: int
    tasks: list[TaskStatus]

    def __getitem__(self, task: str) -> TaskStatus:
        return next(t for t in self.tasks if t.task == task)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        head = (
            f"model {self.model_version} (rank {self.rank}): {self.decisions} decisions, {self.rewards} "
            f"rewards, {self.pending} pending, {self.expired} expired, {self.duplicates} duplicates, "
            f"{self.drifts} drifts"
        )
        lines = [
            f"  {t.task}: {t.rows} rows, {t.certified:.0%} certified, {_uplift(t)}, {t.gate}"
            for t in self.tasks
        ]
        return "\n".join([head, *lines])


def _uplift(t: TaskStatus) -> str:
    return (
        "no uplift yet"
        if t.uplift is None
        else f"uplift {t.uplift:.3g} [{t.uplift_low:.3g}, {t.uplift_high:.3g}]"
    )


def status_of(engine: Engine) -> Status:
    """The status now."""
    store, model = engine.store, engine.model
    refused = store.ledger.refusals()
    retracted = store.memory.retracted if store.memory is not None else set()
    waiting, expired = store.decisions - store.rewards, _expired(engine)
    tasks = [] if store.memory is None else _tasks(store.memory, model, store.labels)
    return Status(
        model.version, model.certificate.rank, store.decisions, store.rewards, waiting - expired, expired,
        refused.get("duplicate", 0), refused.get("expired", 0), len(retracted), store.drifts, tasks,
    )  # fmt: skip


def _expired(engine: Engine) -> int:
    limit = engine.settings.expire_after
    if limit is None:
        return 0
    return engine.store.ledger.unrewarded_before(time.time() - limit)


def _tasks(memory: Memory, model: Model, labels: list[str]) -> list[TaskStatus]:
    rows = memory.row_counts(len(labels)).tolist()
    return [_task(memory, model, t, label, rows[t]) for t, label in enumerate(labels)]


def _task(memory: Memory, model: Model, t: int, label: str, rows: int) -> TaskStatus:
    memory.count_task(t)
    decisions, moved = int(memory.decisions.view[t]), int(memory.moved.view[t])
    low, value, high = _interval(memory, model, t, moved)
    margin = float(memory.margin.view[t])
    return TaskStatus(
        label,
        rows,
        decisions,
        memory.certified.view[t] / decisions if decisions else 0.0,
        moved,
        value,
        low,
        high,
        margin if math.isfinite(margin) else None,
        _gate(model, t),
    )


def _interval(
    memory: Memory, model: Model, t: int, moved: int
) -> tuple[float | None, float | None, float | None]:
    """Mean gain over the baseline of decisions that left it, `g'θ̂_t ± z √(g'V_t g)`, g their mean step."""
    c = model.certificate
    if not moved or t >= len(c.V) or not c.V[t].any():
        return None, None, None
    g = memory.shift.view[t] / moved
    value, spread = float(g @ c.theta[t]), _Z * float(np.sqrt(max(g @ c.V[t] @ g, 0.0)))
    return value - spread, value, value + spread


def _gate(model: Model, t: int) -> str:
    code = int(model.certificate.shut[t]) if t < model.certificate.n_tasks else model.unknown_task()
    return "open" if code == checks.OPEN else REASONS[code].removeprefix("fallback:")
