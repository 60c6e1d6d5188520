"""Who plays a world of the safety grid: the live object, the policy of trials, or an ungated learner."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from banister import SafeAltGDmin, SafeBandit
from banister.contract import Outcomes, Requests
from banister.policies.certified_mode import EAGER
from banister.policies.schedules import Schedule
from banister.safety.belief import Belief
from worlds import Bool, Float, Int, Round


class Player(Protocol):
    """Answers rounds and learns from what came back."""

    def decide(self, asked: Round, claim: Float, error: Float | float) -> tuple[Int, Int, Bool]:
        """Ids, actions, and whether each was certified."""

    def learn(self, ids: Int, task: Int, X: Float, y: Float) -> None:
        """Rewards of earlier decisions."""

    def warm_start(self, task: Int, X: Float, y: Float) -> None:
        """A log from before the first decision."""

    def errors(self, asked: Round) -> Float:
        """Standardised errors of the belief over all actions on offer, where it knows the task."""

    def describe(self) -> dict[str, Any]:
        """What else a row should say."""


def standardised_errors(belief: Belief, asked: Round, number: Int) -> Float:
    """`(x'm − x'θ) / sd` under the belief's own variance; `number` is the belief's own of each task."""
    ok = number < belief.n_tasks
    ok[ok] = belief.known[number[ok]]
    if not ok.any():
        return np.zeros(0)
    t, Z = number[ok], belief.frame.rows(asked.actions[ok])
    miss = np.einsum("mkd,md->mk", Z, belief.mean[t]) - asked.mean[ok] / belief.frame.reward
    unsure = 2 * np.sqrt(((Z @ belief.away[t]) ** 4 * belief.left**2).sum(axis=2))
    variance = np.einsum("mkd,mde,mke->mk", Z, belief.V[t], Z) + unsure
    return (miss / np.sqrt(variance)).ravel()


class Live:
    """`SafeBandit`, a round of decisions and of rewards at a time."""

    def __init__(self, alpha: float, seed: int) -> None:
        self.bandit = SafeBandit(alpha=alpha, refits="inline", seed=seed)
        self.numbers: dict[int, int] = {}  # tasks are numbered in the order in which they appear

    def decide(self, asked: Round, claim: Float, error: Float | float) -> tuple[Int, Int, Bool]:
        self._number(asked.task)
        made = self.bandit.decide_many(
            [str(t) for t in asked.task], asked.actions, baselines=asked.baseline,
            baseline_rewards=claim, baseline_reward_std=error,
        )  # fmt: skip
        ids, action, certified = zip(*((d.id, d.action, d.certified) for d in made), strict=True)
        return np.array(ids), np.array(action), np.array(certified)

    def _number(self, task: Int) -> Int:
        return np.array([self.numbers.setdefault(int(t), len(self.numbers)) for t in task])

    def learn(self, ids: Int, task: Int, X: Float, y: Float) -> None:
        self.bandit.reward_many(ids.tolist(), y.tolist())

    def warm_start(self, task: Int, X: Float, y: Float) -> None:
        self._number(task)
        columns = {f"f{j:03d}": column for j, column in enumerate(X.T)}
        self.bandit.warm_start({"task": [str(t) for t in task], "reward": y, **columns})

    def errors(self, asked: Round) -> Float:
        engine = self.bandit._engine
        return standardised_errors(engine.model.belief, asked, self._number(asked.task))

    def describe(self) -> dict[str, Any]:
        found = self.bandit.status()
        return {
            "rank": found.rank,
            "claims": found.claims,
            "drifts": found.drifts,
            "models": self.bandit.version,
        }


class Trial:
    """`SafeAltGDmin`, as trials hold it."""

    schedule: Schedule | None = None

    def __init__(self, alpha: float, n_tasks: int, seed: int) -> None:
        self.policy, self.asked = SafeAltGDmin(alpha, schedule=self.schedule), 0
        self.policy.reset(n_tasks, np.random.default_rng(seed))

    def decide(self, asked: Round, claim: Float, error: Float | float) -> tuple[Int, Int, Bool]:
        made = self.policy.decide(Requests(asked.task, asked.actions, asked.baseline, claim, error))
        ids = np.arange(self.asked, self.asked + len(made))
        self.asked += len(made)
        return ids, made.index, made.certified

    def learn(self, ids: Int, task: Int, X: Float, y: Float) -> None:
        self.policy.learn(Outcomes(task, X, y, ids))

    def warm_start(self, task: Int, X: Float, y: Float) -> None:
        """A trial knows no logs: each row is a request with nothing else to choose."""
        row = Round(task, X[:, None], y[:, None], np.zeros(len(task), dtype=int))
        ids, *_ = self.decide(row, np.full(len(task), np.nan), 0.0)
        self.learn(ids, task, X, y)

    def errors(self, asked: Round) -> Float:
        learner = self.policy._mode.learner
        return np.zeros(0) if learner is None else standardised_errors(learner.belief, asked, asked.task)

    def describe(self) -> dict[str, Any]:
        learner = self.policy._mode.learner
        return {"rank": learner.belief.rank, "claims": str(learner.belief.claims)}


class Ungated(Trial):
    """Greedy by the belief made from its own plays; labels of baselines do not help it.

    The greedy action is handed in as the baseline: nothing is expected to be better, so it is played. Nothing
    ever seems to be gained from more rows then, so the schedule is set.
    """

    schedule = EAGER

    def decide(self, asked: Round, claim: Float, error: Float | float) -> tuple[Int, Int, Bool]:
        theta, index = self.policy.theta, asked.baseline
        if theta is not None:
            seen = np.abs(theta.T[asked.task]).sum(axis=1) > 0
            scores = np.einsum("mkd,dm->mk", asked.actions, theta[:, asked.task])
            index = np.where(seen, scores.argmax(axis=1), index)
        ids, *_ = super().decide(asked._replace(baseline=index), np.full(len(index), np.nan), 0.0)
        return ids, index, np.ones(len(index), dtype=bool)
