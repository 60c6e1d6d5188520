"""Where every task stands: rows, share certified, what it is thought to gain, what keeps its gate shut."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

from banister.data import Float, Int
from banister.learner.account import Account
from banister.learner.memory import Snapshot
from banister.online.advice import Step
from banister.online.engine import Engine
from banister.online.live_needs import LiveNeeds
from banister.online.off_policy import Estimate
from banister.online.outlook import in_all
from banister.online.tables import plain_numbers, status_table
from banister.online.tallies import Tallies
from banister.safety.belief import Belief
from banister.safety.gates import EVERY_TASK
from banister.safety.reasons import OPEN, REASONS

_Z = 1.959963984540054


@dataclass(frozen=True)
class TaskStatus:
    """One task.

    Attributes:
        task: its label.
        rows: rewards the next fit will use.
        decisions: requests answered; left: share of them that left the baseline.
        moved: decisions that left it since the last drift.
        uplift: what each of those is thought to earn above the baseline, by the model that serves; or None.
        uplift_low, uplift_high: its 95 % interval.
        gain, gain_low, gain_high: what a decision earned above the baseline on average, measured from draws
            without a model; the interval holds at all times at the bandit's confidence. None without draws.
        saved: what the task, or with the promise "fleet" the fleet, has certainly earned beyond the share of
            its baseline that was promised; harmed: how often its draws were found to fall short.
        worst_margin: the least by which a bound cleared its floor; None if no decision left the baseline.
        gate: "open", or why it is shut now.
        reasons: share of its decisions by reason, the most frequent first.
        rows_needed: rows, a few of them explored, until an action that earns half as much again as the
            baseline could be told; 0 if it could be now, None if it cannot be said.
    """

    task: str
    rows: int
    decisions: int
    left: float
    moved: int
    uplift: float | None
    uplift_low: float | None
    uplift_high: float | None
    worst_margin: float | None
    gate: str
    reasons: dict[str, float]
    rows_needed: int | None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    saved: float | None = None
    harmed: int = 0


@dataclass(frozen=True)
class Status:
    """A whole bandit.

    Attributes:
        model_version: that serves; `rank` is its number of shared directions, 0 if none was found; `claims`
            says what was found about claimed baseline rewards.
        decisions, rewards: counts; `pending` decisions still wait, `expired` ones waited too long.
        duplicates, late: rewards that were refused.
        retracted: accepted rewards that were taken back.
        drifts: alarms so far.
        wild: rewards far outside all others, which fits count as the largest or smallest usual one.
        refit_failure: why the last refit failed, while the model before it serves on; None if it did not.
        tasks: one entry a task, in order of appearance.
        uplift: what decisions that left the baseline are thought to earn above it, with a 95 % interval;
            None if none did.
        reasons: share of decisions by reason; rows_needed: in all, None where it cannot be said.
        next: what to do now.
        promise: what is guaranteed, in a sentence.
        gain, gain_low, gain_high: of the fleet, as for a task.
        harmed: how often draws of the fleet were found to fall short.

    Examples:
        >>> import numpy as np
        >>> from banister import SafeBandit
        >>> bandit = SafeBandit(alpha=0.1, refits="manual", seed=0)
        >>> d = bandit.decide("store-17", np.eye(3), baseline=1)
        >>> status = bandit.status()
        >>> status.decisions, status.pending, status["store-17"].gate
        (1, 1, 'no-data')
    """

    model_version: int
    rank: int
    claims: str
    decisions: int
    rewards: int
    pending: int
    expired: int
    duplicates: int
    late: int
    retracted: int
    drifts: int
    wild: int
    refit_failure: str | None
    tasks: list[TaskStatus]
    uplift: Estimate | None
    reasons: dict[str, float]
    rows_needed: int | None
    next: Step
    promise: str
    gain: float | None
    gain_low: float | None
    gain_high: float | None
    harmed: int

    @property
    def left(self) -> float:
        """Share of decisions that left the baseline."""
        total = sum(t.decisions for t in self.tasks)
        return sum(t.left * t.decisions for t in self.tasks) / total if total else 0.0

    def __getitem__(self, task: str) -> TaskStatus:
        return next(t for t in self.tasks if t.task == task)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"left": self.left, **plain_numbers(asdict(self))}

    def __str__(self) -> str:
        return status_table(self)


@dataclass(frozen=True, eq=False)
class Look:
    """What a status is made of, copied at one moment: while it is taken decisions wait, afterwards not.

    Attributes:
        status: without its tasks, and without what follows from them.
        belief, gates, unknown: that serves; by task, and of tasks it has never seen, why a gate is shut.
        labels, tallies, account: of every task.
        memory: rows; None before the first.
        needs: tells what is needed.
    """

    status: Status
    belief: Belief
    gates: Int
    unknown: int
    labels: list[str]
    tallies: Tallies
    account: Account | None
    memory: Snapshot | None
    needs: LiveNeeds


def look(engine: Engine) -> Look:
    """The status now but for what takes longer; see `completed`."""
    store, belief, account = engine.store, engine.model.belief, engine.account
    refused, memory = store.ledger.refusals(), store.memory
    waiting, expired = store.decisions - store.rewards, _expired(engine)
    needs, tallies = LiveNeeds(engine), store.tallies.still(len(store.labels))
    reasons = _shares(_total(tallies.reasons))
    found = Status(
        engine.model.version, belief.rank, str(belief.claims), store.decisions, store.rewards,
        waiting - expired, expired, refused.get("duplicate", 0), refused.get("expired", 0),
        0 if memory is None else len(memory.retracted), store.drifts, 0, engine.refit_failure, [],
        None, reasons, None, needs.step([], reasons),
        engine.settings.sentence(), *_gain(account, EVERY_TASK),
        0 if account is None else account.harm(EVERY_TASK),
    )  # fmt: skip
    return Look(
        found, belief, engine.learner.gates.codes.copy(), engine.learner.unknown_task(), list(store.labels),
        tallies, None if account is None else account.still(), None if memory is None else memory.snapshot(),
        needs,
    )  # fmt: skip


def completed(seen: Look) -> Status:
    """The whole status: its tasks, wild rewards and rows needed. It needs no lock: decisions go on."""
    if seen.memory is None:
        return seen.status
    n = len(seen.labels)
    needed, rows = seen.needs.rows(n), seen.memory.row_counts(n).tolist()
    reasons, none = _by_task(seen.tallies.reasons), Counter[str]()
    tasks = [
        _task(seen, t, rows[t], _shares(reasons.get(t, none)), more)
        for t, more in zip(range(n), needed, strict=True)
    ]
    step = seen.needs.step(needed, seen.status.reasons)
    return replace(
        seen.status, tasks=tasks, uplift=_uplift(tasks), wild=seen.memory.wild(), rows_needed=in_all(needed),
        next=step,
    )  # fmt: skip


def _expired(engine: Engine) -> int:
    limit = engine.settings.expire_after
    if limit is None:
        return 0
    return engine.store.ledger.unrewarded_before(time.time() - limit)


def _shares(found: Counter[str]) -> dict[str, float]:
    """Shares of decisions by reason."""
    total = found.total()
    return {reason: n / total for reason, n in found.most_common()}


def _total(reasons: Counter[tuple[int, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, reason), n in reasons.items():
        found[reason] += n
    return found


def _by_task(reasons: Counter[tuple[int, str]]) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for (task, reason), n in reasons.items():
        found.setdefault(task, Counter())[reason] = n
    return found


def _uplift(tasks: list[TaskStatus]) -> Estimate | None:
    """The mean over all decisions that left; tasks share a model, so their errors are taken to add up."""
    told = [t for t in tasks if t.uplift is not None]
    n = sum(t.moved for t in told)
    if not n:
        return None
    low, value, high = (
        sum(t.moved * getattr(t, name) for t in told) / n for name in ("uplift_low", "uplift", "uplift_high")
    )
    return Estimate(value, low, high, "the model that serves", float(n))


def _task(seen: Look, t: int, rows: int, reasons: dict[str, float], needed: int | None) -> TaskStatus:
    tallies = seen.tallies
    decisions, moved = int(tallies.decisions.view[t]), int(tallies.moved.view[t])
    low, value, high = _interval(seen.belief, t, moved, tallies.shift.view[t])
    margin = float(tallies.margin.view[t])
    return TaskStatus(
        seen.labels[t], rows, decisions, tallies.left.view[t] / decisions if decisions else 0.0, moved,
        value, low, high, margin if math.isfinite(margin) else None, _gate(seen, t), reasons, needed,
        *_gain(seen.account, t), *_savings(seen.account, t),
    )  # fmt: skip


def _gain(account: Account | None, task: int) -> tuple[float | None, float | None, float | None]:
    """Measured uplift and its interval; None before the first reward of a draw."""
    found = None if account is None else account.gain(task)
    return (None, None, None) if found is None or not found.rows else (found.value, found.low, found.high)


def _savings(account: Account | None, task: int) -> tuple[float | None, int]:
    if account is None or account.budget is None:
        return None, 0
    return account.allowance(task).savings, account.harm(task)


def _interval(
    belief: Belief, t: int, moved: int, shift: Float
) -> tuple[float | None, float | None, float | None]:
    """Mean gain over the baseline of decisions that left it, by the belief that serves."""
    if not moved or t >= belief.n_tasks or not belief.known[t]:
        return None, None, None
    value, spread = belief.contrast(t, shift / moved)
    return value - _Z * spread, value, value + _Z * spread


def _gate(seen: Look, t: int) -> str:
    code = int(seen.gates[t]) if t < len(seen.gates) else seen.unknown
    return "open" if code == OPEN else REASONS[code].removeprefix("fallback:")
