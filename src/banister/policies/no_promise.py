"""`NoPromise`: epsilon-greedy, Thompson's and an optimist's rule on the belief of `SafeDraws`; no floor."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np

from banister.contract import Environment
from banister.data import Float
from banister.errors import SettingError
from banister.learner.drawer import Drawer, Drawn
from banister.policies._card import Card
from banister.policies._moded import Moded
from banister.policies.drawn_mode import DrawnMode
from banister.policies.schedules import Schedule
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.draw import wish
from banister.safety.promise import Promise, Terms
from banister.safety.reasons import DRAWN

RULES = ("thompson", "epsilon-greedy", "ucb")


class NoPromise(Moded):
    """What `SafeDraws` would play if nothing held it back, so that a trial shows what a promise costs.

    The belief, its refits and the numbers behind the draws are those of `SafeDraws`; before the first belief
    all actions are equally likely. "thompson" plays each action as often as the committee votes for it;
    "epsilon-greedy" the best estimate, and with probability ε any action; "ucb" the highest
    `x'μ + width·√(x'Vx)`, without chance.

    Args:
        rule: "thompson", "epsilon-greedy" or "ucb".
        epsilon: ε.
        width: standard errors of optimism.
        rank: the most directions that tasks may share; None to find it in the data.
        schedule: when it refits, in rounds; None: as `SafeDraws`.

    Examples:
        >>> from banister import NoPromise, Synthetic, simulate
        >>> env = Synthetic(dim=6, rank=1, tasks=5, actions=4, baseline_rank=2)
        >>> result = simulate(env, NoPromise("epsilon-greedy"), epochs=2, rounds=20)
        >>> bool(result.regret[1] < result.regret[0])
        True
    """

    card = Card(
        source="Thompson 1933, epsilon-greedy or LinUCB, on the belief of `SafeDraws`",
        noise="estimated",
        rank="given or estimated",
        safe="no",
        refits="when the data have grown by a quarter",
        cost="T (64 K d + a few d²), one request after another",
        use="seeing what a promise costs",
    )

    def __init__(
        self,
        rule: Literal["thompson", "epsilon-greedy", "ucb"] = "thompson",
        *,
        epsilon: float = 0.1,
        width: float = 1.5,
        rank: int | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        if rule not in RULES:
            raise SettingError(f"rule={rule!r} must be one of {', '.join(map(repr, RULES))}.")
        if not (0.0 <= epsilon <= 1.0 and 0.0 <= width < math.inf):
            raise SettingError(f"epsilon={epsilon!r} must be from 0 to 1, and width={width!r} at least 0.")
        self.rule, self.epsilon, self.width, self.schedule = rule, float(epsilon), float(width), schedule
        self.believer = Believer(rank=rank)

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls()

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        terms = Terms(
            promise=Promise.DECISION, alpha=0.5, confidence=0.95, reward_range=None, holdout=0.0,
            seed=int(rng.integers(2**63)),
        )  # fmt: skip
        self._mode = DrawnMode(
            Constraint(0.5), self.believer, self.schedule, terms, n_tasks, rng, self._drawer
        )  # the floor of neither is asked for

    def _drawer(self, *parts: Any) -> _Unheld:
        return _Unheld(self.rule, self.epsilon, self.width, *parts)


class _Unheld(Drawer):
    """A drawer that asks for no floor."""

    def __init__(self, rule: str, epsilon: float, width: float, *parts: Any) -> None:
        super().__init__(*parts)
        self._rule, self._epsilon, self._width = rule, epsilon, width

    def draw(self, task: int, actions: Float, baseline: int, low: float, high: float, std: float) -> Drawn:
        """Probabilities for one request."""
        odds = self._odds(task, actions, baseline)
        return Drawn(odds, -1, math.nan, math.nan, DRAWN, self._rule)

    def _odds(self, task: int, actions: Float, baseline: int) -> Float:
        committee, n = self._committee(task), len(actions)
        if committee is None:
            return np.full(n, 1.0 / n)
        if self._rule == "thompson":
            return wish(committee, actions, baseline).share
        score, spread = self._scores(task, actions)
        if self._rule == "ucb":
            return _one(n, int(np.argmax(score + self._width * spread)))
        odds: Float = self._epsilon / n + (1.0 - self._epsilon) * _one(n, int(np.argmax(score)))
        return odds

    def _scores(self, task: int, actions: Float) -> tuple[Float, Float]:
        """Estimates and their standard errors, (K,) each, up to a level and a unit that actions share."""
        belief = self.learner.belief
        found = belief.guess(task)
        assert found is not None
        d = len(belief.frame.scale)
        mean, root = found[0][:d] / belief.frame.scale, found[1][:d] / belief.frame.scale[:, None]
        return actions @ mean, np.linalg.norm(actions @ root, axis=1)


def _one(n: int, place: int) -> Float:
    out = np.zeros(n)
    out[place] = 1.0
    return out
