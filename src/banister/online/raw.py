"""Raw requests and raw logs: what `Arms` and `Items` make of them before a bandit sees feature rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from banister.data import Float, Int, as_vector
from banister.errors import InputError, SettingError
from banister.features.base import Features
from banister.features.baseline import baseline_index, baselines
from banister.features.frames import column, read_frame
from banister.features.loading import load_features
from banister.online.decision import Decision
from banister.online.ledger import Ledger
from banister.online.log_blocks import BLOCK, FEATURES, Block, short, stretches
from banister.online.logs import LogRows, numbers, optional, propensities, task_labels

if TYPE_CHECKING:
    from banister.online.bandit import SafeBandit
    from banister.online.from_logs import FromLogs

_ENCODED = 4 * BLOCK  # rows whose contexts are encoded at once: few calls, and some megabytes


def settled(bandit: SafeBandit, given: Features | None) -> Features | None:
    """The features of a bandit just opened; if they do not fit its store, the store is closed again."""
    try:
        return _settle(bandit._engine.store.ledger, given)
    except BaseException:
        bandit.close()
        raise


def _settle(ledger: Ledger, given: Features | None) -> Features | None:
    """What a store keeps, which must have been made as what is given; else what is given."""
    if given is not None and not isinstance(given, Features):
        raise InputError(f"features={given!r} must be bn.Arms or bn.Items, or None.")
    text = ledger.kept(FEATURES)
    if text is None:
        if given is not None and given.learned:
            keep(ledger, given)
        return given
    kept = load_features(text)
    if given is None:
        return kept
    if not kept.same_settings(given) or (given.learned and not kept.same_scales(given)):
        raise SettingError(
            f"{ledger.where} was made with other features ({kept!r}) than it is opened with now ({given!r}); "
            "open it with SafeBandit.load, or start a new store."
        )
    kept.adopt(given)
    if kept.to_json() != text:
        keep(ledger, kept)
    return kept


def keep(ledger: Ledger, features: Features) -> None:
    """Write learned features down."""
    ledger.keep(FEATURES, features.to_json())


def decide(
    bandit: SafeBandit,
    task: str,
    actions: Any,
    context: Any,
    offered: Any,
    baseline: Any,
    given: dict[str, Any],
) -> Decision:
    """A decision from a raw context, with the name of what is played; a mixture has none."""
    rows, index, names = offer(bandit, actions, context, offered, baseline)
    return named(bandit.decide(task, rows, baseline=index, **given), names)


def offer(
    bandit: SafeBandit, actions: Any, context: Any, offered: Any, baseline: Any
) -> tuple[Float, int, list[str]]:
    """What a raw request offers: the features of every action, the baseline's index, the names."""
    features = bandit.features
    if features is None:
        raise InputError(
            "This bandit has no features of its own: give actions=, a (K, d) array; or make it with "
            "SafeBandit(features=bn.Arms(...)) to give a raw context."
        )
    if actions is not None:
        raise InputError("Give actions= or context=, not both; this bandit makes the features of a context.")
    names = features.offered_names(offered)
    index = baseline_index(baseline, names, context)
    return features.actions(context, offered), index, names


def named(decision: Decision, names: Sequence[str]) -> Decision:
    """A decision with the name of what is played."""
    return decision._replace(arm=names[decision.action]) if decision.action >= 0 else decision


def learn(bandit: FromLogs, logs: Any, **columns: Any) -> RawRows:
    """The rows of a raw log; features that have not learned yet do so, and are written down."""
    assert bandit.features is not None
    frame = read_frame(logs)
    made = learned(bandit.features, frame)
    rows = raw_rows(frame, made, **columns)
    with bandit._lock:
        bandit._engine.check_open(rows.dim)
        if made is not bandit.features:
            keep(bandit._engine.store.ledger, made)
            bandit.features = made
    return rows


def learned(features: Features, frame: Any) -> Features:
    """Features that know this log's scales: as they are, or a copy that has learned from it."""
    return features if features.learned else load_features(features.to_json()).learn(frame)


def offers(features: Features, logs: Any, **columns: Any) -> LogRows:
    """The rows of a raw log with everything that was on offer in each; nothing is kept."""
    frame = read_frame(logs)
    made = learned(features, frame)
    rows = read_raw_logs(frame, made, **columns)
    return replace(rows, actions=list(made.tensor(frame)))


@dataclass(frozen=True, eq=False)
class RawRows:
    """Clean rows of a raw log whose features are made a stretch at a time.

    Attributes:
        labels, task, y, baseline_reward, propensity: as of `LogRows`.
        played, usual: (n,) places, among the features' names, of what was played and of the baseline.
        features, frame: what makes the rows, and of what.
    """

    labels: list[str]
    task: Int
    y: Float
    baseline_reward: Float
    propensity: Float | None
    played: Int
    usual: Int
    features: Features
    frame: Any

    def __len__(self) -> int:
        return len(self.y)

    @property
    def dim(self) -> int:
        """d."""
        return self.features.dim

    def blocks(self) -> Iterator[Block]:
        """Stretches of the rows, as a ledger keeps them."""
        for at, coded in self._coded():
            if coded is None:
                names = np.array(self.features.names)
                part = self.frame[at.start : at.stop]
                rows = [self.features.rows(part, names[i[at]]).tobytes() for i in (self.played, self.usual)]
            else:
                rows = list(short(coded, self.played[at], self.usual[at]))
            yield Block(self.task[at], self.y[at], self.baseline_reward[at], *rows)

    def _coded(self) -> Iterator[tuple[slice, Float | None]]:
        """Every stretch and its contexts in their short form, which are made many at once."""
        for first in range(0, len(self), _ENCODED):
            last = min(first + _ENCODED, len(self))
            coded = self.features.coded(self.frame, first, last)
            for at in stretches(last - first):
                yield slice(first + at.start, first + at.stop), None if coded is None else coded[at]

    def whole(self) -> LogRows:
        """All rows at once."""
        names = np.array(self.features.names)
        X = self.features.rows(self.frame, names[self.played])
        usual = X if self.usual is self.played else self.features.rows(self.frame, names[self.usual])
        return LogRows(self.labels, self.task, X, self.y, usual, self.baseline_reward, None, self.propensity)


def raw_rows(
    logs: Any,
    features: Features,
    *,
    task: str = "task",
    arm: str = "arm",
    reward: str = "reward",
    baseline: Any = None,
    baseline_reward: str | None = None,
    propensity: str | None = None,
) -> RawRows:
    """Rows of a raw log.

    Args:
        logs: see `read_frame`.
        features: learned `Arms` or `Items`.
        task, arm, reward: names of columns: whose row it is, what was played, what it earned.
        baseline: what the policy in place would play: an arm, an index, a function of the row, or a column.
            None: what was played.
        baseline_reward: a column with what the baseline was expected to earn; empty where unknown.
        propensity: a column with the logging policy's probability of what it played; needs `baseline`.
    """
    frame = read_frame(logs)
    if len(frame) == 0:
        raise InputError("The log has no rows.")
    if propensity is not None and baseline is None:
        raise InputError(
            "A log with propensities explores: what was played is not what the policy in place would play. "
            "Say what would be, with baseline=..."
        )
    _check_context(features, arm=arm, reward=reward)
    labels, codes = task_labels(column(frame, task, "task"))
    y = as_vector(numbers(column(frame, reward, "reward")), f"column {reward!r}")
    played = features.played(frame, arm)
    usual = played if baseline is None else baselines(baseline, features, frame)
    known = np.full(len(y), np.nan)
    if baseline_reward is not None:
        known = optional(column(frame, baseline_reward, "baseline_reward"), baseline_reward)
    chance = None
    if propensity is not None:
        chance = propensities(column(frame, propensity, "propensity"), propensity)
    return RawRows(labels, codes, y, known, chance, played, usual, features, frame)


def _check_context(features: Features, **columns: str) -> None:
    """What is known only after a decision cannot be part of its context."""
    for role, name in columns.items():
        if name in features.context.slices:
            raise InputError(
                f"The context has {name!r}, the {role} column: nobody knows it when a decision is made. "
                "Leave it out of the context."
            )


def read_raw_logs(logs: Any, features: Features, **columns: Any) -> LogRows:
    """Rows of a raw log, all at once; arguments as of `raw_rows`."""
    return raw_rows(logs, features, **columns).whole()


def decide_frame(
    bandit: SafeBandit, requests: Any, task: str, baseline: Any, baseline_reward: str | None, std: Any,
    keys: Any,
) -> Any:  # fmt: skip
    """Decisions for a frame of raw contexts, one a row, with everything on offer; as a frame."""
    features = bandit.features
    if features is None:
        raise InputError(
            "This bandit has no features of its own: give tasks and actions=; or make it with "
            "SafeBandit(features=bn.Arms(...)) to decide a frame of raw contexts."
        )
    frame = read_frame(requests, "requests")
    labels, codes = task_labels(column(frame, task, "task"))
    rewards = None
    if baseline_reward is not None:
        rewards = optional(column(frame, baseline_reward, "baseline_reward"), baseline_reward)
    index = baselines(baseline, features, frame)
    decisions = bandit.decide_many(
        [labels[code] for code in codes],
        features.tensor(frame),
        baselines=index,
        baseline_rewards=rewards,
        baseline_reward_std=std,
        keys=keys,
    )
    return _answers(requests, features.names, index, decisions)


def _answers(requests: Any, names: Sequence[str], baseline: Any, decisions: list[Decision]) -> Any:
    """Decisions as a frame, one row a request: pandas if the requests came so, else polars."""
    import polars as pl

    columns: dict[str, list[Any]] = {
        "id": [d.id for d in decisions],
        "task": [d.task for d in decisions],
        "arm": [names[d.action] if d.action >= 0 else None for d in decisions],
        "baseline": [names[i] for i in baseline],
        "certified": [d.certified for d in decisions],
        "probability": [d.probability for d in decisions],
        "probabilities": [None if d.probabilities is None else d.probabilities.tolist() for d in decisions],
        "reason": [d.reason for d in decisions],
        "lower_bound": [d.lower_bound for d in decisions],
        "floor": [d.floor for d in decisions],
        "model_version": [d.model_version for d in decisions],
    }
    if type(requests).__module__.startswith("pandas"):
        return type(requests)(columns, index=requests.index)
    return pl.DataFrame(columns)
