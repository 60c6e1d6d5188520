"""The audit: is the ledger what was written, and does each decision follow from the model that made it?

The chain of hashes is followed first, against receipts too if there are any.
Models are read back version by version, and decisions are judged again in the order in which they were made,
gates that requests or drifts shut included. The ledger keeps the chosen and the baseline's features, so for
every decision the audit repeats the state of its gate, the floor and the bound of what was played. Where
whole action sets were kept it repeats the whole choice, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from banister.data import Float
from banister.errors import ModelFileError
from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.online._digest import digests
from banister.online.chain import problems
from banister.online.head import Receipt
from banister.online.ledger import Ledger
from banister.online.model import FORMAT, Model
from banister.online.record import DecisionRecord, ModelRecord, digest_of
from banister.online.settings import Settings
from banister.safety.reasons import BASELINE_BEST, IDENTICAL, REASONS, TOO_UNCERTAIN

_ROUNDING = 1e-9  # a bound is repeated among fewer actions, which may add its terms in another order
_MOST = 20  # problems spelled out
_KEPT = (REASONS[BASELINE_BEST], REASONS[TOO_UNCERTAIN], REASONS[IDENTICAL])


@dataclass
class Audit:
    """What an audit found.

    Attributes:
        decisions: in the ledger; `repeated` of them could be judged again, `whole` with all their actions.
        certified: of them.
        unarchived: decisions whose model was not kept.
        older: decisions of models in an older format: their rows were checked, their choice not repeated.
        rewards: in the ledger; `retracted` of them were taken back.
        links: records of every kind, chained by their hashes.
        versions: decisions by model version.
        problems: what does not follow, in words; at most 20 are spelled out, `n_problems` counts all.
    """

    decisions: int = 0
    repeated: int = 0
    whole: int = 0
    certified: int = 0
    unarchived: int = 0
    older: int = 0
    rewards: int = 0
    retracted: int = 0
    links: int = 0
    versions: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    n_problems: int = 0

    @property
    def passed(self) -> bool:
        """Whether everything that could be repeated followed."""
        return self.n_problems == 0

    def blame(self, problem: str) -> None:
        """Note a problem."""
        self.n_problems += 1
        if len(self.problems) < _MOST:
            self.problems.append(problem)

    def __str__(self) -> str:
        verdict = "passed" if self.passed else f"FAILED ({self.n_problems} problems)"
        kept = f", {self.unarchived} of models not kept" if self.unarchived else ""
        if self.older:
            kept += f", {self.older} decisions of an older model format: chain checked, choice not repeated"
        head = f"audit {verdict}: {self.repeated} of {self.decisions} decisions repeated"
        counts = f"({self.whole} whole{kept}), {self.certified} certified, {self.rewards} rewards"
        return "\n".join([f"{head} {counts}", *self.problems])


def audit(ledger: Ledger, settings: Settings, receipts: Sequence[Receipt] = ()) -> Audit:
    """Follow the chain, compare it with receipts, and replay the decisions."""
    found = Audit()
    for problem in problems(ledger, receipts):
        found.blame(problem)
    head = ledger.head
    found.decisions, found.rewards = head.decisions, head.rewards
    found.retracted, found.links = head.retractions, head.links
    models = {m.version: m for m in ledger.models()}
    for version, count in ledger.versions().items():
        found.versions[version] = count
        model = _model(ledger, version, count, models.get(version), found)
        if model is not None:
            _Replay(ledger, settings, model, found).run()
    return found


def _model(
    ledger: Ledger, version: int, count: int, record: ModelRecord | None, found: Audit
) -> Model | None:
    """The model that made these decisions; None, counted or blamed, if it cannot be had."""
    if version == 0:
        return Model.none(1)
    data = ledger.model(version)
    if record is None:
        found.blame(f"Model {version} made {count} decisions and is not in the ledger.")
    elif data is not None and digest_of(data) != record.digest:
        found.blame(f"Model {version}: its bytes are not those that were written.")
    elif record.format != FORMAT:
        found.older += count
    elif data is None:
        found.unarchived += count
    else:
        return _read(data, version, found)
    return None


def _read(data: bytes, version: int, found: Audit) -> Model | None:
    try:
        return Model.from_bytes(data, f"model {version}")[0]
    except ModelFileError as reason:
        found.blame(str(reason))
        return None


class _Replay:
    """The decisions of one model version, judged again in order."""

    def __init__(self, ledger: Ledger, settings: Settings, model: Model, found: Audit) -> None:
        self.ledger, self.model, self.found = ledger, model, found
        dim = len(model.belief.frame.scale)
        self.learner = Learner(settings.constraint, settings.believer(), Memory(dim))
        self.learner.use(model.belief)
        alarms = ledger.alarms(after=model.marks.drifts) if model.version else []
        self._alarms = [a for a in alarms if a.version <= model.version]

    def run(self) -> None:
        for record in self.ledger.decisions(self.model.version):
            try:
                self._row(record)
            except (ValueError, IndexError) as reason:
                self.found.blame(f"Decision {record.id} cannot be judged again ({reason}).")

    def _row(self, record: DecisionRecord) -> None:
        self._shut_before(record.id)
        self.found.repeated += 1
        self.found.certified += record.certified
        actions: Float
        if record.actions is not None:
            actions, at = np.frombuffer(record.actions).reshape(record.n_actions, -1), record.baseline
            self._whole(record, actions)
        elif record.moved:
            actions, at = np.stack([record.played, record.baseline_vector]), 1
        else:
            actions, at = record.baseline_vector[None], 0
        verdict = self.learner.decide_one(record.task, actions, at, record.low, record.high, record.std)
        self._compare(record, verdict)

    def _shut_before(self, number: int) -> None:
        """Drifts noted after an earlier decision."""
        while self._alarms and self._alarms[0].after < number:
            self.learner.gates.shut(self._alarms.pop(0).task)

    def _whole(self, record: DecisionRecord, actions: Float) -> None:
        self.found.whole += 1
        if int(digests(actions[None])[0]) != record.digest:
            self.found.blame(f"Decision {record.id}: the action set is not the one its digest was taken of.")
        if record.action >= 0 and not np.array_equal(actions[record.action], record.played):
            self.found.blame(
                f"Decision {record.id}: what was played is not action {record.action} of its set."
            )

    def _compare(self, record: DecisionRecord, verdict: tuple[int, float, float, int]) -> None:
        chosen, bound, floor, code = verdict
        number, action, certified = record.id, record.action, record.certified
        whole = record.actions is not None
        kept_bound, kept_floor, reason, index = record.bound, record.floor, record.reason, record.baseline
        if whole:
            same = reason == REASONS[code] and certified == (chosen >= 0)
            same = same and (not certified or action == chosen)
        elif reason in _KEPT:  # among fewer actions: the gate was open, more cannot be repeated
            same = REASONS[code] in _KEPT
        else:
            same = reason == REASONS[code] and certified == (chosen == 0)
        if not same:
            self.found.blame(
                f"Decision {number}: the ledger says {reason!r} for action {action}, its model says "
                f"{str(REASONS[code])!r}."
            )
        elif certified and not (_near(bound, kept_bound, whole) and _near(floor, kept_floor, whole)):
            self.found.blame(
                f"Decision {number}: bound {kept_bound!r} and floor {kept_floor!r} in the ledger, "
                f"{bound!r} and {floor!r} by its model."
            )
        elif certified and action != index and not kept_bound >= kept_floor:
            self.found.blame(
                f"Decision {number}: its bound {kept_bound!r} does not clear its floor {kept_floor!r}."
            )


def _near(a: float, b: float, exact: bool) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b if exact else abs(a - b) <= _ROUNDING * max(1.0, abs(a), abs(b))
