"""A dry run: what would happen on logs of the policy in place, before going live.

The first part of the log (in its order) stands for what is known on the first day: a model is fitted to it.
The rest stands for the days after: each of its rows is a request, and what was played is the baseline unless
the log names another. Choices are made by the first part's model and valued by a model of the rest, which has
not seen what they were chosen by.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.errors import InputError
from banister.online.decision import REASONS
from banister.online.judge import Judge
from banister.online.logs import LogRows
from banister.online.memory import Memory
from banister.online.model import Marks, Model
from banister.online.needed import rows_needed
from banister.online.off_policy import Estimate, direct, doubly_robust, inverse_propensity, self_normalised
from banister.online.refit import fit
from banister.online.settings import Settings
from banister.safety.certificate import Certificate
from banister.safety.constraint import Constraint

_CANDIDATES = 10  # actions a request is given where the log does not say what was on offer


@dataclass(frozen=True)
class TaskOutlook:
    """One task: rows fitted, requests judged, share certified, why not, and rows still needed (or None)."""

    task: str
    rows: int
    requests: int
    certified: float
    reason: str
    rows_needed: int | None


@dataclass(frozen=True)
class DryRun:
    """What a dry run found.

    Attributes:
        rows: fitted; `requests` were judged.
        certified: share of requests with a certified action.
        moved: share that would leave the baseline.
        candidates: "logged" action sets, or "drawn" from the task's own log where it does not say.
        earned: mean logged reward of the judged requests.
        uplift: estimates of the mean gain over the logged policy, each labelled by its method.
        at_risk: tasks that the model does not fit.
        tasks: one entry a task.
    """

    rows: int
    requests: int
    certified: float
    moved: float
    candidates: str
    earned: float
    uplift: list[Estimate]
    at_risk: list[str]
    tasks: list[TaskOutlook]

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.rows} rows fitted, {self.requests} requests judged ({self.candidates} action sets)",
            f"certified {self.certified:.0%}, leaves the baseline {self.moved:.0%}",
        ]
        lines += [f"uplift {e.value:.4g} [{e.low:.4g}, {e.high:.4g}] ({e.method})" for e in self.uplift]
        return "\n".join(lines + [f"at risk: {', '.join(self.at_risk)}"] * bool(self.at_risk))


def dry_run(rows: LogRows, settings: Settings, *, share: float = 0.5) -> DryRun:
    """Fit the first `share` of the log, judge the rest.

    Args:
        rows: of the log, as `read_logs` gives them.
        settings: of the bandit that would go live.
        share: of the rows, in their order, to fit.
    """
    if not 0 < share < 1:
        raise InputError(f"share={share!r} must lie strictly between 0 and 1.")
    cut = int(share * len(rows))
    if not 0 < cut < len(rows):
        raise InputError(f"A log of {len(rows)} rows is too short to be cut at {share:.0%}.")
    first, rest = rows.part(slice(None, cut)), rows.part(slice(cut, None))
    model, judge_of_value = (_fitted(part, settings) for part in (first, rest))
    played = _play(model, rest, settings)
    return _report(first, rest, model, judge_of_value, settings.constraint, played)


def _fitted(rows: LogRows, settings: Settings) -> Model:
    memory, n = Memory(rows.X.shape[1]), len(rows)
    none = np.zeros(n, dtype=np.int64)
    memory.plays.extend(rows.task, rows.X, rows.y, np.zeros(n), none)
    known = ~np.isnan(rows.baseline_reward)
    memory.labels.extend(
        rows.task[known],
        rows.baseline[known],
        rows.baseline_reward[known],
        np.zeros(known.sum()),
        none[known],
    )
    for i in range(0, n, -(-n // 2048)):
        memory.offer(int(rows.task[i]), rows.X[i])
    marks = Marks(n, n, 0)
    model = fit(memory.snapshot(), len(rows.labels), memory.dim, marks, Model.none(memory.dim), settings)
    assert model is not None  # there is no last model that could stay
    return model


@dataclass(frozen=True, eq=False)
class _Played:
    """What would have been played: features (m, d), whether certified, codes, and the action sets."""

    features: Float
    certified: Any
    code: Int
    sets: list[Float]
    bound: Float


def _play(model: Model, rest: LogRows, settings: Settings) -> _Played:
    judge, sets = Judge(model, settings.constraint), _sets(rest, settings.seed)
    features, certified, codes, bounds = rest.baseline.copy(), np.zeros(len(rest), dtype=bool), [], []
    for i, actions in enumerate(sets):
        baseline = int(np.argmax((actions == rest.baseline[i]).all(axis=1)))
        reward = float(rest.baseline_reward[i])
        chosen, bound, _, code = judge.one(int(rest.task[i]), actions, baseline, reward, reward, 0.0)
        certified[i] = chosen >= 0
        if chosen >= 0:
            features[i] = actions[chosen]
        codes.append(code)
        bounds.append(bound)
    return _Played(features, certified, np.array(codes), sets, np.array(bounds))


def _sets(rest: LogRows, seed: int) -> list[Float]:
    """Logged action sets; else what was played and a few other actions that the task's log holds."""
    if rest.actions is not None:
        return rest.actions
    rng, own = np.random.default_rng(seed), {}
    for t in np.unique(rest.task):
        own[int(t)] = np.unique(rest.X[rest.task == t], axis=0)
    sets = []
    for t, x in zip(rest.task.tolist(), rest.X, strict=True):
        others = own[t][rng.integers(len(own[t]), size=_CANDIDATES - 1)]
        sets.append(np.vstack([x, others]))
    return sets


def _report(
    first: LogRows, rest: LogRows, model: Model, valuer: Model, constraint: Constraint, played: _Played
) -> DryRun:
    moved = (played.features != rest.baseline).any(axis=1)
    outlooks = [
        _outlook(t, label, first, rest, model, constraint, played) for t, label in enumerate(rest.labels)
    ]
    misfits = ("fallback:task-misfit", "fallback:baseline-disagrees", "fallback:drift")
    return DryRun(
        len(first),
        len(rest),
        float(played.certified.mean()),
        float(moved.mean()),
        "drawn" if rest.actions is None else "logged",
        float(rest.y.mean()),
        _uplifts(rest, model, valuer, played),
        [o.task for o in outlooks if o.reason in misfits],
        outlooks,
    )


def _uplifts(rest: LogRows, model: Model, valuer: Model, played: _Played) -> list[Estimate]:
    """The model's opinion always; estimates from the rewards themselves where probabilities were logged."""
    fresh = valuer.certificate.opened
    c = valuer.certificate if fresh else model.certificate
    step = played.features - rest.X
    gain = np.einsum("nd,nd->n", step, c.theta[rest.task])
    label = (
        "direct, by a model of the judged rows" if fresh else "direct, by the model that chose: optimistic"
    )
    estimates = [direct(gain, _spread(c, rest.task, step), label)]
    if rest.propensity is not None:
        y, p = rest.y, rest.propensity
        same: Bool = (played.features == rest.X).all(axis=1)
        theta = model.certificate.theta[rest.task]
        q_old = np.einsum("nd,nd->n", rest.X, theta)
        q_new = np.einsum("nd,nd->n", played.features, theta)
        earned = float(y.mean())
        estimates.append(inverse_propensity(y, p, same).minus(earned))
        if same.any():
            estimates.append(self_normalised(y, p, same).minus(earned))
        estimates.append(doubly_robust(y, p, same, q_old, q_new).minus(earned))
    return estimates


def _spread(c: Certificate, task: Int, step: Float) -> float:
    """Standard error of the mean gain. Tasks share a representation, so their errors are taken to add up."""
    total = 0.0
    for t in np.unique(task):
        if t < len(c.V):
            g = step[task == t].sum(axis=0)
            total += float(np.sqrt(max(g @ c.V[t] @ g, 0.0)))
    return total / len(task)


def _outlook(
    t: int, label: str, first: LogRows, rest: LogRows, model: Model, constraint: Constraint, played: _Played
) -> TaskOutlook:
    own, n = rest.task == t, int(np.sum(first.task == t))
    share = float(played.certified[own].mean()) if own.any() else 0.0
    codes = Counter(played.code[own & ~played.certified].tolist())
    reason = REASONS[codes.most_common(1)[0][0]] if codes else "certified"
    sets = [played.sets[i] for i in np.flatnonzero(own)]
    needed = rows_needed(model, constraint, t, n, sets, rest.baseline[own], rest.baseline_reward[own])
    return TaskOutlook(label, n, int(own.sum()), share, reason, needed)
