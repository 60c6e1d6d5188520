"""The audit: is the ledger what was written, and does each decision follow from the model that made it?

The chain of hashes is followed first, against receipts too if there are any.
Models are read back version by version, and decisions are judged again in the order in which they were made,
gates that requests or drifts shut included. The ledger keeps the chosen and the baseline's features, so for
every decision the audit repeats the state of its gate, the floor and the bound of what was played. Where
whole action sets were kept it repeats the whole choice, bit for bit. Draws are made again, see `redraw`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from banister.data import Float
from banister.errors import ModelFileError
from banister.learner.account import Account
from banister.learner.drawer import Drawer
from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.online._digest import digest
from banister.online.chain import problems
from banister.online.head import Receipt
from banister.online.ledger import Ledger
from banister.online.model import FORMAT, Model
from banister.online.posting import post
from banister.online.record import DecisionRecord, ModelRecord, digest_of
from banister.online.redraw import drawn_wrong, other_draw, overdrawn
from banister.online.settings import Settings
from banister.safety.promise import Promise
from banister.safety.reasons import BASELINE_BEST, IDENTICAL, REASONS, TOO_UNCERTAIN, Reason

_ROUNDING = 1e-9  # a bound is repeated among fewer actions, which may add its terms in another order
_MOST = 20  # problems spelled out
_SERVING = 3  # models whose decisions may stand mixed in one ledger
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

    Examples:
        >>> import numpy as np
        >>> from banister import SafeBandit
        >>> bandit = SafeBandit(alpha=0.1, refits="manual", seed=0)
        >>> d = bandit.decide("store-17", np.eye(3), baseline=1)
        >>> found = bandit.audit()
        >>> found.passed, found.decisions, found.repeated
        (True, 1, 1)
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
    """Follow the chain, compare it with receipts, and replay what happened in its order."""
    found = Audit()
    for problem in problems(ledger, receipts):
        found.blame(problem)
    head = ledger.head
    found.decisions, found.rewards = head.decisions, head.rewards
    found.retracted, found.links = head.retractions, head.links
    found.versions = ledger.versions()
    replays = _Replays(ledger, settings, found)
    for _, _, record in ledger.entries():
        replays.see(record)
    return found


class _Replays:
    """Records in order: each decision goes to the replay of its model, and the account of draws follows."""

    def __init__(self, ledger: Ledger, settings: Settings, found: Audit) -> None:
        self.ledger, self.settings, self.found = ledger, settings, found
        self.models = {m.version: m for m in ledger.models()}
        self.terms = settings.terms()
        self.account = Account(self.terms) if self.terms is not None and self.terms.counted else None
        self._replays: OrderedDict[int, _Replay | None] = OrderedDict()

    def see(self, record: Any) -> None:
        if isinstance(record, DecisionRecord):
            replay = self._of(record.version)
            if replay is not None:
                replay.see(record)
        if self.account is not None:
            self._post(self.account, record)

    def _post(self, account: Account, record: Any) -> None:
        try:
            post(account, record, self.ledger)
        except (ValueError, IndexError, OverflowError) as reason:
            self.found.blame(f"A record cannot be counted in the account of draws ({reason}): {record[:3]}.")

    def _of(self, version: int) -> _Replay | None:
        """The replay of a model; the last few are kept, where several processes serve from two at once."""
        if version not in self._replays:
            found = self.found
            model = _model(self.ledger, version, found.versions[version], self.models.get(version), found)
            self._replays[version] = None if model is None else _Replay(self, model)
            if len(self._replays) > _SERVING:
                self._replays.popitem(last=False)
        return self._replays[version]


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

    def __init__(self, whole: _Replays, model: Model) -> None:
        self.model, self.found, self.terms, self.account = model, whole.found, whole.terms, whole.account
        settings, ledger = whole.settings, whole.ledger
        dim = len(model.belief.frame.scale)
        self.learner = Learner(settings.constraint, settings.believer(), Memory(dim))
        self.learner.use(model.belief)
        self.drawer = (
            None if self.terms is None else Drawer(self.terms, self.learner, self.account, model.version)
        )
        alarms = ledger.alarms(after=model.marks.drifts) if model.version else []
        self._alarms = [a for a in alarms if a.version <= model.version]

    def see(self, record: DecisionRecord) -> None:
        try:
            self._row(record)
        except (ValueError, IndexError) as reason:
            self.found.blame(f"Decision {record.id} cannot be judged again ({reason}).")

    def _row(self, record: DecisionRecord) -> None:
        self._shut_before(record.id)
        self.found.repeated += 1
        self.found.certified += record.certified
        whole = None
        if record.actions is not None:
            whole = np.frombuffer(record.actions).reshape(record.n_actions, -1)
            self._whole(record, whole)
        if record.probabilities is not None:
            self._draw(record, whole)
        else:
            self._choice(record, whole)

    def _choice(self, record: DecisionRecord, whole: Float | None) -> None:
        actions, at = _seen(record) if whole is None else (whole, record.baseline)
        verdict = self.learner.decide_one(record.task, actions, at, record.low, record.high, record.std)
        self._compare(record, verdict)

    def _draw(self, record: DecisionRecord, whole: Float | None) -> None:
        """A draw; a certificate's own choice is compared as one without chance."""
        odds = record.odds
        if self.terms is None or self.drawer is None or odds is None:
            self.found.blame(f"Decision {record.id} is a draw, and this store makes none.")
            return
        wrong = [*drawn_wrong(record, odds, self.terms), *overdrawn(record, odds, self.terms, self.account)]
        if whole is not None and not wrong:
            wrong += other_draw(record, odds, whole, self.drawer)
        for problem in wrong:
            self.found.blame(problem)
        if whole is None and self.terms.promise is Promise.DECISION:
            actions, at = _seen(record)
            verdict = self.learner.decide_one(record.task, actions, at, record.low, record.high, record.std)
            if record.reason == Reason.CERTIFIED:
                self._compare(record, verdict)
            elif 1.0 - odds[record.baseline] > self.terms.free and not self.learner.gates.is_open(
                record.task
            ):
                self.found.blame(f"Decision {record.id}: it was drawn behind a shut gate.")

    def _shut_before(self, number: int) -> None:
        """Drifts noted after an earlier decision."""
        while self._alarms and self._alarms[0].after < number:
            self.learner.gates.shut(self._alarms.pop(0).task)

    def _whole(self, record: DecisionRecord, actions: Float) -> None:
        self.found.whole += 1
        if digest(actions) != record.digest:
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


def _seen(record: DecisionRecord) -> tuple[Float, int]:
    """What the ledger keeps where whole sets are not kept: what was played, the baseline's, and its place."""
    if record.moved:
        return np.stack([record.played, record.baseline_vector]), 1
    return record.baseline_vector[None], 0


def _near(a: float, b: float, exact: bool) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b if exact else abs(a - b) <= _ROUNDING * max(1.0, abs(a), abs(b))
