"""A dry run: what would happen on logs of the policy in place, before going live.

The first part of the log (in its order) stands for what is known on the first day: a model is fitted to it.
The rest stands for the days after: each of its rows is a request, and what was played is the baseline unless
the log names another. Choices are made by the first part's model and valued by a model of the rest, which has
not seen what they were chosen by.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.errors import InputError
from banister.learner.learner import Learner
from banister.learner.memory import SAMPLE, Memory
from banister.online.advice import Facts, Step, advise
from banister.online.logs import LogRows
from banister.online.off_policy import Estimate, direct, doubly_robust, inverse_propensity, self_normalised
from banister.online.outlook import Needs, TaskOutlook, in_all, shares
from banister.online.settings import Settings
from banister.online.tables import dry_run_table, plain_numbers
from banister.safety.belief import Belief
from banister.safety.labels import Claims
from banister.safety.reasons import REASONS, Reason

_CANDIDATES = 10  # actions a request is given where the log does not say what was on offer


@dataclass(frozen=True)
class DryRun:
    """What a dry run found.

    Attributes:
        left: share of requests that would leave the baseline.
        gain: what that is expected to earn above the baseline, a request; None where nothing leaves.
        gains: the same by every method that the log allows; `gain` is the last of them.
        rows: fitted; requests: judged.
        earned: mean logged reward of the judged requests.
        candidates: "logged" action sets, or "drawn" from the task's own log where it does not say.
        reasons: share of requests by reason, the most frequent first.
        rows_needed: rows like those fitted, in all, until half of what looks better would be played; None
            if they may never be enough.
        at_risk: tasks that the model does not fit.
        tasks: one entry a task.
        next: what to do now.
        claims: what was found about claimed baseline rewards.

    Examples:
        >>> import numpy as np
        >>> from banister import SafeBandit
        >>> x = np.random.default_rng(0).standard_normal((200, 2))
        >>> logs = {"task": ["north", "south"] * 100, "f0": x[:, 0], "f1": x[:, 1], "reward": x.sum(axis=1)}
        >>> found = SafeBandit(alpha=0.1, seed=0).dry_run(logs)
        >>> found.rows, found.requests, found.candidates
        (100, 100, 'drawn')
    """

    left: float
    gain: Estimate | None
    gains: list[Estimate]
    rows: int
    requests: int
    earned: float
    candidates: str
    reasons: dict[str, float]
    rows_needed: int | None
    at_risk: list[str]
    tasks: list[TaskOutlook]
    next: Step
    claims: str = str(Claims.NONE)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: a bound that is not there is None."""
        return dict(plain_numbers(asdict(self)))

    def __str__(self) -> str:
        return dry_run_table(self)


def dry_run(rows: LogRows, settings: Settings, *, share: float = 0.5, rate: float | None = None) -> DryRun:
    """Fit the first `share` of the log, judge the rest.

    Args:
        rows: of the log, as `read_logs` gives them.
        settings: of the bandit that would go live.
        share: of the rows, in their order, to fit.
        rate: rows a day, to tell how long a need takes.
    """
    if not 0 < share < 1:
        raise InputError(f"share={share!r} must lie strictly between 0 and 1.")
    cut = int(share * len(rows))
    if not 0 < cut < len(rows):
        raise InputError(f"A log of {len(rows)} rows is too short to be cut at {share:.0%}.")
    first, rest = rows.part(slice(None, cut)), rows.part(slice(cut, None))
    learner, valuer = (_fitted(part, settings) for part in (first, rest))
    played = _play(learner, rest, settings)
    needs = Needs(learner.belief, valuer.belief, settings.constraint, first)
    return _report(first, rest, needs, played, rate, settings.randomise)


def _fitted(rows: LogRows, settings: Settings) -> Learner:
    """A learner that knows these rows and nothing else."""
    memory, n = Memory(rows.X.shape[1]), len(rows)
    none = np.zeros(n, dtype=np.int64)
    is_baseline = (rows.baseline == rows.X).all(axis=1)
    claim = np.where(is_baseline, rows.baseline_reward, np.nan)
    memory.plays.extend(rows.task, rows.X, rows.y, is_baseline, claim, none)
    known = ~np.isnan(rows.baseline_reward)
    memory.labels.extend(
        rows.task[known],
        rows.baseline[known],
        rows.baseline_reward[known],
        np.zeros(known.sum()),
        none[known],
    )
    some = slice(0, n, max(1, -(-n // SAMPLE)))
    memory.offer_many(rows.task[some], rows.X[some])
    learner = Learner(settings.constraint, settings.believer(), memory)
    learner.refit(len(rows.labels), n)
    return learner


@dataclass(frozen=True, eq=False)
class _Played:
    """What would have been played: features (m, d), the reasons, and the action sets."""

    features: Float
    left: Bool
    reasons: list[str]
    sets: list[Float]


def _play(learner: Learner, rest: LogRows, settings: Settings) -> _Played:
    sets = _sets(rest, settings.seed)
    features, left, reasons = rest.baseline.copy(), np.zeros(len(rest), dtype=bool), []
    for i, actions in enumerate(sets):
        baseline = int(np.argmax((actions == rest.baseline[i]).all(axis=1)))
        reward = float(rest.baseline_reward[i])
        chosen, _, _, code = learner.decide_one(int(rest.task[i]), actions, baseline, reward, reward, 0.0)
        left[i] = chosen >= 0
        if chosen >= 0:
            features[i] = actions[chosen]
        reasons.append(REASONS[code].value)
    return _Played(features, left, reasons, sets)


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
    first: LogRows, rest: LogRows, needs: Needs, played: _Played, rate: float | None, draws: bool
) -> DryRun:
    tasks = _outlooks(first, rest, needs, played)
    asked = [o for o in tasks if o.requests]
    left, reasons = float(played.left.mean()), shares(played.reasons)
    gains = _gains(rest, needs.belief, needs.valuer, played) if played.left.any() else []
    rows, exploring = (
        in_all([getattr(o, name) for o in asked]) for name in ("rows_needed", "rows_exploring")
    )
    known = bool(needs.belief.known.any())
    facts = Facts(
        known, left, needs.better, reasons.get(Reason.IDENTICAL, 0.0), rows, exploring, rate, draws=draws
    )
    misfits = (Reason.DISAGREES, Reason.DRIFT)
    return DryRun(
        left, gains[-1] if gains else None, gains, len(first), len(rest), float(rest.y.mean()),
        "drawn" if rest.actions is None else "logged", reasons, rows,
        [o.task for o in tasks if o.reason in misfits], tasks, advise(facts), str(needs.belief.claims),
    )  # fmt: skip


def _outlooks(first: LogRows, rest: LogRows, needs: Needs, played: _Played) -> list[TaskOutlook]:
    places = [np.flatnonzero(rest.task == t) for t in range(len(rest.labels))]
    for t, own in enumerate(places):
        needs.look(t, [played.sets[i] for i in own], rest.baseline[own], rest.baseline_reward[own])
    return [
        TaskOutlook(
            label, int(np.sum(first.task == t)), len(own),
            float(played.left[own].mean()) if len(own) else 0.0, shares([played.reasons[i] for i in own]),
            needs.rows(t), needs.rows_exploring(t),
        )
        for t, (label, own) in enumerate(zip(rest.labels, places, strict=True))
    ]  # fmt: skip


def _gains(rest: LogRows, belief: Belief, valuer: Belief, played: _Played) -> list[Estimate]:
    """Over the baseline: a model's opinion; and from rewards where probabilities were logged."""
    fresh = bool(valuer.known.any())
    b = valuer if fresh else belief
    step = played.features - rest.baseline
    gain = np.einsum("nd,nd->n", step, b.theta[rest.task])
    label = "model of the judged rows" if fresh else "the model that chose: optimistic"
    estimates = [direct(gain, _spread(b, rest.task, step), label)]
    if rest.propensity is not None:
        y, p = rest.y, rest.propensity
        new, old = (_same(rest.X, Z) for Z in (played.features, rest.baseline))
        theta = belief.frame.reward * belief.mean[rest.task]
        q, q_new, q_old = (
            np.einsum("np,np->n", belief.frame.rows(Z), theta)
            for Z in (rest.X, played.features, rest.baseline)
        )
        estimates.append(inverse_propensity(y, p, new, than=old))
        if new.any() and old.any():
            estimates.append(self_normalised(y, p, new, than=old))
        estimates.append(doubly_robust(y, p, new, q, q_new, than=old, q_than=q_old))
    return estimates


def _same(X: Float, Z: Float) -> Bool:
    same: Bool = (X == Z).all(axis=1)
    return same


def _spread(belief: Belief, task: Int, step: Float) -> float:
    """Standard error of the mean gain. Tasks share a representation, so their errors are taken to add up."""
    total = 0.0
    for t in np.unique(task):
        own = step[task == t].sum(axis=0)
        if not own.any():
            continue
        if t >= belief.n_tasks or not belief.known[t]:
            return float("inf")  # something left, and nobody can say what it was worth
        total += belief.contrast(int(t), own)[1]
    return total / len(task)
