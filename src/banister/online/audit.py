"""The audit: does each decision in the ledger follow from the model version that made it?

Models are read back version by version, and decisions are judged again in the order in which they were made,
gates that requests or drifts shut included. The ledger keeps the chosen and the baseline's features, so for
every decision the audit repeats the state of its gate, the floor and the bound of what was played. Where
whole action sets were kept it repeats the whole choice, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from banister.online._digest import digests
from banister.online.decision import CODES, REASONS
from banister.online.drift import shut
from banister.online.judge import Judge
from banister.online.ledger import Ledger
from banister.online.model import Model
from banister.online.settings import Settings
from banister.safety import checks
from banister.safety._kernels import NOT_CLEARED

_ROUNDING = 1e-9  # a bound is repeated among fewer actions, which may add its terms in another order
_MOST = 20  # problems spelled out

_ROWS = """
SELECT id, task, action, baseline, certified, reason, bound, floor, low, high, std, n_actions, digest,
       baseline_features, features, actions
FROM decisions WHERE version = ? ORDER BY id
"""


@dataclass
class Audit:
    """What an audit found.

    Attributes:
        decisions: in the ledger; `repeated` of them could be judged again, `whole` with all their actions.
        certified: of them.
        unarchived: decisions whose model was not kept.
        rewards: in the ledger.
        versions: decisions by model version.
        problems: what does not follow, in words; at most 20 are spelled out, `n_problems` counts all.
    """

    decisions: int = 0
    repeated: int = 0
    whole: int = 0
    certified: int = 0
    unarchived: int = 0
    rewards: int = 0
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
        head = f"audit {verdict}: {self.repeated} of {self.decisions} decisions repeated"
        counts = f"({self.whole} whole{kept}), {self.certified} certified, {self.rewards} rewards"
        return "\n".join([f"{head} {counts}", *self.problems])


def audit(ledger: Ledger, settings: Settings) -> Audit:
    """Replay a ledger."""
    found = Audit()
    _check_counts(ledger, found)
    for version, count in ledger.rows(
        "SELECT version, COUNT(*) FROM decisions GROUP BY version ORDER BY version"
    ):
        found.versions[version] = count
        data = ledger.model(version) if version else None
        if version and data is None:
            found.unarchived += count
            continue
        model = Model.from_bytes(data, f"model {version}")[0] if data else Model.none(1)
        _Replay(ledger, settings, model, found).run()
    return found


def _check_counts(ledger: Ledger, found: Audit) -> None:
    n, last = ledger.rows("SELECT COUNT(*), COALESCE(MAX(id), 0) FROM decisions")[0]
    rewards, seq = ledger.rows("SELECT COUNT(*), COALESCE(MAX(seq), 0) FROM rewards")[0]
    lost = ledger.rows("SELECT id FROM rewards WHERE id NOT IN (SELECT id FROM decisions) LIMIT 1")
    back = ledger.rows(
        "SELECT b.id FROM decisions a JOIN decisions b ON b.id = a.id + 1 WHERE b.version < a.version LIMIT 1"
    )
    found.decisions, found.rewards = n, rewards
    if n != last:
        found.blame(f"{last - n} decisions are missing: ids run to {last}, but there are {n}.")
    if rewards != seq:
        found.blame(f"{seq - rewards} rewards are missing: they run to {seq}, but there are {rewards}.")
    if lost:
        found.blame(f"There is a reward for decision {lost[0][0]}, which is not in the ledger.")
    if back:
        found.blame(f"Decision {back[0][0]} was made by an older model than the one before it.")


class _Replay:
    """The decisions of one model version, judged again in order."""

    def __init__(self, ledger: Ledger, settings: Settings, model: Model, found: Audit) -> None:
        self.ledger, self.model, self.found = ledger, model, found
        self.judge = Judge(model, settings.constraint)
        drifts = ledger.rows(
            "SELECT after, task FROM drifts WHERE seq > ? AND version <= ? ORDER BY seq",
            model.marks.drifts, model.version,
        )  # fmt: skip
        self._drifts = list(drifts) if model.version else []

    def run(self) -> None:
        for block in self.ledger.stream(_ROWS, self.model.version):
            for row in block:
                self._row(row)

    def _row(self, row: tuple[Any, ...]) -> None:
        (
            number,
            task,
            action,
            index,
            certified,
            reason,
            bound,
            floor,
            low,
            high,
            std,
            n,
            digest,
            base,
            played,
            kept,
        ) = row
        self._shut_before(number)
        baseline = np.frombuffer(base)
        chosen = baseline if played is None else np.frombuffer(played)
        low, high, bound, floor = (math.nan if v is None else v for v in (low, high, bound, floor))
        self.found.repeated += 1
        self.found.certified += certified
        if kept is not None:
            actions = np.frombuffer(kept).reshape(n, -1)
            self._whole(number, actions, chosen, digest, action)
            at = index
        elif certified and action != index:
            actions, at = np.stack([chosen, baseline]), 1
        else:
            actions, at = baseline[None], 0
        verdict = self.judge.one(task, actions, at, low, high, std)
        self._compare(
            number, verdict, (action, bound, floor, reason, bool(certified)), index, kept is not None
        )

    def _shut_before(self, number: int) -> None:
        """Drifts noted after an earlier decision."""
        while self._drifts and self._drifts[0][0] < number:
            task = self._drifts.pop(0)[1]
            if task < self.model.certificate.n_tasks:
                shut(self.model.certificate, task)

    def _whole(self, number: int, actions: Any, chosen: Any, digest: int, action: int) -> None:
        self.found.whole += 1
        if int(digests(actions[None])[0]) != digest:
            self.found.blame(f"Decision {number}: the action set is not the one its digest was taken of.")
        if action >= 0 and not np.array_equal(actions[action], chosen):
            self.found.blame(f"Decision {number}: what was played is not action {action} of its set.")

    def _compare(
        self,
        number: int,
        verdict: tuple[int, float, float, int],
        row: tuple[Any, ...],
        index: int,
        whole: bool,
    ) -> None:
        chosen, bound, floor, code = verdict
        action, kept_bound, kept_floor, reason, certified = row
        kept_code = CODES.get(reason, -1)
        if whole:
            same = kept_code == code and certified == (chosen >= 0) and (not certified or action == chosen)
        elif kept_code == NOT_CLEARED:  # among fewer actions: the gate was open, more cannot be repeated
            same, bound = code in (checks.OPEN, NOT_CLEARED), math.nan
        else:
            same = kept_code == code and certified == (chosen == 0)
        if not same:
            self.found.blame(
                f"Decision {number}: the ledger says {reason!r} for action {action}, its model says "
                f"{REASONS[code]!r}."
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
