"""`SafeDraws`: what a `SafeBandit` with a promise does, in a trial."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from banister.contract import Environment
from banister.errors import SettingError
from banister.policies._card import Card
from banister.policies._checks import check_count
from banister.policies._moded import Moded
from banister.policies.drawn_mode import DrawnMode
from banister.policies.schedules import Schedule
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.promise import Promise, Terms, check_range


class SafeDraws(Moded):
    """Draws its actions by chance and keeps a promise about what they earn; `SafeBandit` in a trial.

    It decides, learns and counts savings with the same code as `SafeBandit(reward_range=...)`.
    `SafeAltGDmin` is the policy without chance. docs/promises.md has the promises and their mathematics.

    Args:
        reward_range: (lowest, highest) reward there is; others are refused. None only for "decision".
        alpha: the share of the baseline reward that may be risked, strictly between 0 and 1.
        promise: "task", "fleet" or "decision".
        holdout: the baseline's share of draws that never vanishes; None: 0.1 for "task", 0.05 for "fleet",
            else 0.
        on_harm: "free" or "stop", what draws that were found to fall short go back to.
        expire_after: rounds after which a missing reward counts as the worst one; None: it waits for ever.
        rank: the most directions that tasks may share; None to find it in the data.
        schedule: when it refits, in rounds; None: as a `SafeBandit`, whenever data have grown by a quarter.
        confidence: of the promise.

    Examples:
        >>> from banister import SafeDraws, simulate
        >>> from banister.environments.banners import Banners
        >>> result = simulate(Banners(tasks=5), SafeDraws((0, 1), alpha=0.1), epochs=2, rounds=20)
        >>> int(result.tasks_below[-1]), int(result.fleet_violations.sum())
        (0, 0)
    """

    card = Card(
        source="Banister's promises, docs/promises.md",
        noise="estimated",
        rank="given or estimated",
        safe='totals: yes, without a model; single decisions with promise="decision"',
        refits="when the data have grown by a quarter",
        cost="T (64 K d + a few d²), one request after another",
        use="the same listed actions come again and again, and rewards have a range",
    )

    _mode: DrawnMode

    def __init__(
        self,
        reward_range: tuple[float, float] | None,
        *,
        alpha: float = 0.2,
        promise: Literal["decision", "task", "fleet"] = "task",
        holdout: float | None = None,
        on_harm: Literal["free", "stop"] = "free",
        expire_after: int | None = None,
        rank: int | None = None,
        schedule: Schedule | None = None,
        confidence: float = 0.95,
    ) -> None:
        if promise not in tuple(Promise):
            raise SettingError(f"promise={promise!r} must be 'decision', 'task' or 'fleet'.")
        for name, value in (("rank", rank), ("expire_after", expire_after)):
            if value is not None:
                check_count(name, value)
        self.constraint, self.believer = Constraint(alpha), Believer(confidence=confidence, rank=rank)
        self.alpha, self.schedule = alpha, schedule
        kept = Promise(promise)
        self._settled = {
            "promise": kept, "alpha": float(alpha), "confidence": float(confidence),
            "reward_range": None if reward_range is None else check_range(reward_range),
            "holdout": kept.usual_holdout if holdout is None else float(holdout),
            "on_harm": on_harm, "expire_after": expire_after,
        }  # fmt: skip
        self._terms(0)  # a bad setting is an error now, not at the first trial

    def _terms(self, seed: int) -> Terms:
        return Terms(**self._settled, seed=seed)  # type: ignore[arg-type]

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls((-100.0, 100.0), promise="decision", holdout=0.1)

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks; all chance follows from one seed drawn here."""
        terms = self._terms(int(rng.integers(2**63)))
        self._mode = DrawnMode(self.constraint, self.believer, self.schedule, terms, n_tasks, rng)

    @property
    def terms(self) -> Terms:
        """What the draws of this trial keep to, its seed included."""
        return self._mode.terms
