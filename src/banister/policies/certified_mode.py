"""Safe-AltGDmin's certified mode: the learner that applications hold, in a trial."""

from __future__ import annotations

import numpy as np

from banister.contract import Bool, Choices, Outcomes, Requests
from banister.data import Float, Int
from banister.learner.blocks import Blocks
from banister.learner.learner import Learner, Verdicts
from banister.learner.memory import Memory
from banister.policies.schedules import GrowthSchedule, Schedule
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.exploration import ConservativeMixture
from banister.safety.reasons import DISAGREES, REASONS

EAGER = GrowthSchedule(first=5, share=0.25)
# Few rows are fitted quickly, and a round sooner saves regret: on MovieLens with 25 features nearly all of it
# is paid before the first fit.
CLOSE = GrowthSchedule(first=4, share=0.1)
DOUBLED = GrowthSchedule(first=4, share=1.0)  # twice the rows, once hardly a decision stays
SETTLED = GrowthSchedule(first=5, share=19.0)  # a trial waits for its fits; an application does not
_WATCH = 2  # rounds
# Rows of all tasks together, and tasks. With 20 tasks closer fits saved no regret, and 3 of 12 trials had a
# decision below its floor instead of 1; so did first fits after two or three rounds.
_FEW, _FEW_TASKS = 500, 10
_REASONS = np.array(REASONS, dtype=object)


class CertifiedMode:
    """Refits whenever the data have grown by a set share, and lets the belief decide.

    Data are pooled over all time. Where nothing is certified the baseline is played, or the conservative
    mixture where mixtures can be.
    """

    def __init__(
        self,
        constraint: Constraint,
        believer: Believer,
        schedule: Schedule | None,
        mixture: ConservativeMixture | None,
        n_tasks: int,
        rng: np.random.Generator,
    ) -> None:
        self.constraint, self.believer, self.schedule, self.mixture = constraint, believer, schedule, mixture
        self.n_tasks, self.rng = n_tasks, rng
        self.learner: Learner | None = None
        self._is_baseline, self._claim = Blocks(dtype=np.bool_), Blocks()  # by decision
        self._fitted = 0  # rounds at the last fit
        self._calm = False  # whether hardly a request stayed at its baseline then

    @property
    def theta(self) -> Float | None:
        """The last belief's estimate."""
        if self.learner is None or not self.learner.belief.known.any():
            return None
        return self.learner.belief.theta.T

    @property
    def block(self) -> int:
        """Rounds until the next refit, at one request a task; few while a drift could do harm."""
        missing = self._next * self.n_tasks - self._rows()
        rounds = max(1, -(-missing // self.n_tasks))
        return min(rounds, _WATCH) if self.learner is not None and self.learner.gates.any_open else rounds

    @property
    def _next(self) -> int:
        return self._schedule_now().next(self._fitted)

    def _rows(self) -> int:
        return 0 if self.learner is None else len(self.learner.memory.plays)

    def decide(self, requests: Requests) -> Choices:
        """The best certified action, else the fallback."""
        if self.learner is None:
            self.learner = Learner(self.constraint, self.believer, Memory(requests.dim))
        features, index = requests.baseline_features(), requests.baseline_index()
        reward, std = requests.baseline_reward, np.asarray(requests.baseline_reward_std)
        verdicts = self.learner.decide(requests.task, requests.actions, index, features, reward, reward, std)
        first = self._claim.size
        for row in np.flatnonzero(verdicts.code == DISAGREES).tolist():
            self.learner.disagreed(int(requests.task[row]), first + row)
        choices = _choices(requests, features, index, verdicts)
        self._remember(requests, features, choices)
        return choices if self.mixture is None else self._mixed(requests, choices, self.mixture)

    def _remember(self, requests: Requests, features: Float, choices: Choices) -> None:
        """Claims, a sample of what was offered, and what the rewards to come will need."""
        assert self.learner is not None
        memory, reward = self.learner.memory, requests.baseline_reward.astype(float, copy=False)
        first, m = self._claim.size, len(requests)
        known = ~np.isnan(reward)
        std = np.asarray(requests.baseline_reward_std)
        numbers = np.arange(first, first + m)
        memory.labels.extend(requests.task[known], features[known], reward[known], std[known], numbers[known])
        turn = numbers % requests.actions.shape[1]  # so that every position is seen
        memory.offer_many(requests.task, requests.actions[np.arange(m), turn])
        self._is_baseline.extend(~choices.certified if self.mixture is None else np.zeros(m, dtype=bool))
        self._claim.extend(np.where(choices.certified, np.nan, reward))

    def _mixed(self, requests: Requests, choices: Choices, mixture: ConservativeMixture) -> Choices:
        """Mixtures in place of uncertified baselines; the reason stays the learner's."""
        mixed = mixture.choose(requests, self.constraint, self.rng)
        keep = choices.certified
        return Choices(
            np.where(keep[:, None], choices.features, mixed.features),
            np.where(keep, choices.index, mixed.index),
            keep,
            np.where(keep, choices.lower_bound, mixed.lower_bound),
            choices.floor,
            choices.reason,
        )

    def learn(self, outcomes: Outcomes) -> None:
        """Take in rewards; refit when the schedule says so, or at once after a drift."""
        if self.learner is None or len(outcomes) == 0:
            return
        number = self._numbers(outcomes)
        is_baseline, claim = self._of(number)
        reward = outcomes.reward.astype(float, copy=False)
        alarms = self.learner.learn_many(
            outcomes.task, outcomes.features, reward, is_baseline, claim, np.maximum(number, 0)
        )
        if alarms or self._rows() >= self._next * self.n_tasks:
            self.refit()

    def _numbers(self, outcomes: Outcomes) -> Int:
        """The decisions that outcomes answer; −1 where nobody can tell."""
        if outcomes.decision is not None:
            return outcomes.decision
        n, m = self._claim.size, len(outcomes)
        return np.arange(n - m, n) if m <= n else np.full(m, -1)

    def _of(self, number: Int) -> tuple[Bool, Float]:
        is_baseline, claim = (np.concatenate(b.pieces()) for b in (self._is_baseline, self._claim))
        told = number >= 0
        return told & is_baseline[number], np.where(told, claim[number], np.nan)

    def refit(self) -> None:
        """A new belief from everything seen."""
        assert self.learner is not None
        self._calm = self.learner.settled
        self.learner.refit(self.n_tasks, self._claim.size)
        self._fitted = self._rows() // self.n_tasks

    def _schedule_now(self) -> Schedule:
        """The schedule given; else often while rows are few or can still open something, less often later."""
        if self.schedule is not None:
            return self.schedule
        few = self.n_tasks <= _FEW_TASKS and self._rows() < _FEW
        # A later belief may shut what an earlier one had opened (a lean that rows show by and by).
        if self._calm and self.learner is not None and not self.learner.shut:
            # From few rows the best action may still be mistaken, though each is safe.
            return DOUBLED if few else SETTLED
        return CLOSE if few else EAGER

    def end_epoch(self) -> None:
        """The fixed epochs of the paper mean nothing here."""


def _choices(requests: Requests, features: Float, index: Int, verdicts: Verdicts) -> Choices:
    certified = verdicts.chosen >= 0
    rows = np.flatnonzero(certified)
    played = np.array(features)
    played[rows] = requests.actions[rows, verdicts.chosen[rows]]
    return Choices(
        played,
        np.where(certified, verdicts.chosen, index),
        certified,
        verdicts.bound,
        verdicts.floor,
        _REASONS[verdicts.code],
    )
