"""Draws in a trial: learner, account and drawer as a `SafeBandit` holds them, in the study's contract."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from banister.contract import Choices, Outcomes, Requests
from banister.data import Float, Int
from banister.learner.account import Account
from banister.learner.drawer import Drawer, Drawn
from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.policies.certified_mode import DOUBLED, EAGER, CertifiedMode
from banister.policies.schedules import Schedule
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.draw import pick, uniform
from banister.safety.promise import Terms, check_reward
from banister.safety.reasons import DISAGREES, REASONS
from banister.safety.watch import Alarm


class Draws(Protocol):
    """From a request to probabilities; `Drawer` keeps a promise, others may not."""

    def draw(self, task: int, actions: Float, baseline: int, low: float, high: float, std: float) -> Drawn:
        """Probabilities for one request."""


class MakesDraws(Protocol):
    """What draws, for each new belief."""

    def __call__(self, terms: Terms, learner: Learner, account: Account | None, version: int, /) -> Draws:
        """For this version of the belief."""


class DrawnMode(CertifiedMode):
    """Certified mode whose decisions are draws, in the order and with the numbers of a live bandit.

    A `SafeBandit` with the same settings and seed, given the same rows in the same calls, draws the same to
    the last bit. Time is counted in rounds, and all tasks are known from the start.

    Args:
        constraint, believer, schedule: as in certified mode; without a schedule the live one.
        terms: what draws must keep to.
        n_tasks: T.
        rng: unused once the seed in `terms` is drawn.
        drawer: what draws; the one that keeps the terms.
    """

    def __init__(
        self,
        constraint: Constraint,
        believer: Believer,
        schedule: Schedule | None,
        terms: Terms,
        n_tasks: int,
        rng: np.random.Generator,
        drawer: MakesDraws = Drawer,
    ) -> None:
        super().__init__(constraint, believer, schedule, None, n_tasks, rng)
        self.terms, self.account = terms, Account(terms) if terms.counted else None
        self.version = self._now = self._attempt = 0
        self._make_drawer = drawer
        self._alarmed: set[int] = set()

    @property
    def block(self) -> int:
        """One round: what a draw may spend depends on the rewards before it."""
        return 1

    def decide(self, requests: Requests) -> Choices:
        """A draw for each request, in turn; the baseline where it is not among the actions."""
        if self.learner is None:
            self.learner = Learner(self.constraint, self.believer, Memory(requests.dim))
            self._drawer = self._make_drawer(self.terms, self.learner, self.account, 0)
        self._now = int(requests.round.max(initial=self._now))
        listed = requests.baseline.ndim == 1
        choices = self._drawn(requests) if listed else Choices.of_baseline(requests)
        self._keep(requests, choices)
        return choices

    def _drawn(self, requests: Requests) -> Choices:
        m, n_actions, _ = requests.actions.shape
        reward, std = requests.baseline_reward.astype(float), np.asarray(requests.baseline_reward_std)
        made, index = [], np.empty(m, dtype=np.int64)
        for i in range(m):
            task, b, r = int(requests.task[i]), int(requests.baseline[i]), float(reward[i])
            one = self._drawer.draw(task, requests.actions[i], b, r, r, float(std[i]))
            number = self._claim.size + i + 1
            index[i] = pick(one.probabilities, uniform(self.terms.seed, str(number)))
            if self.account is not None:
                pi_b = float(one.probabilities[b])
                self.account.decided(number, float(requests.round[i]), task, pi_b, bool(index[i] == b))
            made.append(one)
        self._note_disagreements(requests.task, made)
        return _choices(requests, index, made, n_actions)

    def _note_disagreements(self, task: Int, made: list[Drawn]) -> None:
        """Only draws that keep to the floor of each decision compare claims; they have no savings to lose."""
        assert self.learner is not None
        for i in [i for i, one in enumerate(made) if one.code == DISAGREES]:
            self.learner.disagreed(int(task[i]), self._claim.size + i + 1)

    def _sound(self, alarm: Alarm) -> None:
        """Savings of a world that has changed are not spent; said once a task and belief."""
        if alarm.task not in self._alarmed and self.account is not None:
            self.account.changed(alarm.task)
        self._alarmed.add(alarm.task)

    def _keep(self, requests: Requests, choices: Choices) -> None:
        """Claims, the live sample of what was offered, and what the rewards to come will need."""
        assert self.learner is not None
        memory, reward = self.learner.memory, requests.baseline_reward.astype(float, copy=False)
        numbers = self._claim.size + 1 + np.arange(len(requests))
        known, std = ~np.isnan(reward), np.asarray(requests.baseline_reward_std)
        features = requests.baseline_features()
        memory.labels.extend(requests.task[known], features[known], reward[known], std[known], numbers[known])
        for i, number in enumerate(numbers.tolist()):
            if Memory.samples(number):
                place = Memory.sampled(number, requests.actions.shape[1])
                memory.offer(int(requests.task[i]), requests.actions[i, place])
        stays = choices.index == requests.baseline_index()
        self._is_baseline.extend(stays)
        self._claim.extend(np.where(stays, reward, np.nan))

    def learn(self, outcomes: Outcomes) -> None:
        """Take in rewards, in the memory and in the account; refit when the schedule says so."""
        if self.learner is None or len(outcomes) == 0:
            return
        place = self._numbers(outcomes)
        is_baseline, claim = self._of(place)
        number, reward = place + 1, outcomes.reward
        for i, value in enumerate(reward.tolist()):
            check_reward(value, self.terms.reward_range, f"outcome {i}: ")
        alarms = self.learner.learn_many(
            outcomes.task, outcomes.features, reward, is_baseline, claim, np.maximum(number, 0)
        )
        if self.account is not None:
            for n, value in zip(number.tolist(), reward.tolist(), strict=True):
                self.account.rewarded(n, float(self._now), value)
        for alarm in alarms:
            self._sound(alarm)
        if self._rows() >= self._schedule_now().next(self._attempt // self.n_tasks) * self.n_tasks:
            self.refit()

    def refit(self) -> None:
        """A new belief from everything seen, and draws from it."""
        assert self.learner is not None
        self._attempt = self._rows()
        self.learner.refit(self.n_tasks, self._claim.size)
        self.version += 1
        self._alarmed.clear()
        if self.account is not None:
            self.account.renewed()
        self._drawer = self._make_drawer(self.terms, self.learner, self.account, self.version)

    def _schedule_now(self) -> Schedule:
        """The schedule given; else the live one."""
        if self.schedule is not None:
            return self.schedule
        return DOUBLED if self.learner is not None and self.learner.settled else EAGER


def _choices(requests: Requests, index: Int, made: list[Drawn], n_actions: int) -> Choices:
    codes = [one.code_of(int(a)) for one, a in zip(made, index, strict=True)]
    reasons = np.array([REASONS[code].value for code in codes], dtype=object)
    return Choices(
        requests.actions[np.arange(len(requests)), index],
        index,
        np.array([one.certified == a for one, a in zip(made, index, strict=True)], dtype=bool),
        np.array([one.bound for one in made], dtype=float),
        np.array([one.floor for one in made], dtype=float),
        reasons,
        np.array([one.probabilities for one in made], dtype=float).reshape(len(made), n_actions),
    )
