"""Optimism over a low-rank fit: what can be computed of MTLR-OFUL."""

from __future__ import annotations

from typing import Self

import numpy as np

from banister.contract import Choices, Environment, Outcomes, Requests
from banister.data import Float, TaskData
from banister.estimators import rank as ranks
from banister.estimators.base import check_rank
from banister.estimators.confidence import LowRankCovariance
from banister.policies._card import Card
from banister.policies._checks import check_count, check_positive, check_probability
from banister.policies._greedy import label_rows
from banister.policies._reset import NeedsReset
from banister.policies.schedules import GrowthSchedule, Schedule
from banister.safety.evidence import Rows
from banister.safety.reasons import Reason
from banister.solver import Passes, Solution, Whitening, fitted_share, solve


class LowRankUCB(NeedsReset):
    """Plays the highest upper bound `x'θ̂_t + z·se(x'θ̂_t)` of a low-rank fit; no safety.

    Source: Hu, Chen, Jin, Li and Wang, *Near-optimal representation learning for linear bandits and linear
    RL*, 2021 (MTLR-OFUL). The original maximises over all `Θ = BW` in a joint confidence set, a non-convex
    programme that it leaves to an oracle: **it cannot be computed as stated**. What is computed here keeps
    the idea, optimism about a low-rank Θ, and replaces the set by the delta-method standard error of the
    low-rank fit, action by action. No regret bound is claimed for it. Assumes linear rewards through a shared
    representation, and noise that is equal in all tasks.

    What we chose, and why:

    * `z = √(2 log(rows · K / δ))` at each refit: a union bound over what could have been played so far,
      without a horizon. The source's joint radius, of order √(dr + Tr), bounds all tasks at once and would
      be much wider for one action.
    * Random play until the rows are twice the fitted numbers `(d + T − r) r`: before that a low-rank fit
      says nothing of its own errors.
    * The source refits every round. Here the fit is renewed whenever the data have grown by a tenth (the
      rare switching of Abbasi-Yadkori et al. 2011); `schedule=EqualSchedule(1)` refits every round.

    Args:
        rank: r; None to take as many directions as stand out; looked at again when the rows have
            doubled.
        noise: standard deviation of the rewards' noise; None to take it from the residuals.
        delta: the δ in z.
        schedule: when to refit, in rounds of one reward per task.
        labels: also learn from the baseline's expected reward where a request gives it: one more row.

    Examples:
        >>> from banister import LowRankUCB, Synthetic, simulate
        >>> env = Synthetic(dim=8, rank=1, tasks=10, actions=5, baseline_rank=3)
        >>> result = simulate(env, LowRankUCB(), epochs=2, rounds=15)
        >>> bool(result.regret[1] < 0.1 * result.regret[0])
        True
    """

    card = Card(
        source="Hu et al. 2021 (MTLR-OFUL); the bonus is ours, the original is not computable",
        noise="given or estimated",
        rank="given or estimated",
        safe="no",
        refits="when the data have grown by a tenth",
        cost="T K d²; a refit is some 10 passes over the rows, T d² r and (d r)³",
        use="nothing is at risk, rewards are noisy, and contexts too poor for greedy play to explore",
    )

    def __init__(
        self,
        *,
        rank: int | None = None,
        noise: float | None = None,
        delta: float = 0.01,
        schedule: Schedule | None = None,
        labels: bool = False,
    ) -> None:
        self.rank = None if rank is None else check_count("rank", rank)
        self.noise = None if noise is None else check_positive("noise", noise)
        self.delta = check_probability("delta", delta)
        self.schedule = schedule or GrowthSchedule(first=5, share=0.1)
        self.labels = labels

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls()

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        self.n_tasks, self.rng = n_tasks, rng
        self.theta: Float | None = None
        self._covariance: LowRankCovariance | None = None
        self._basis: Float | None = None
        self._rows = Rows()
        self._next = self.schedule.next(0)
        self._rank, self._rescan = 0, 0

    @property
    def block(self) -> int:
        """Rounds until the next refit, if every task is asked once a round."""
        return max(1, -(-(self._next * self.n_tasks - self._rows.size) // self.n_tasks))

    def decide(self, requests: Requests) -> Choices:
        """A random action before the first fit, the highest upper bound after it."""
        n_actions = requests.actions.shape[1]
        if self.labels:
            self._rows.append(*label_rows(requests))
        if self.theta is None or self._covariance is None:
            picks = self.rng.integers(requests.actions.shape[1], size=len(requests))
            return Choices.of_index(requests, picks, Reason.EXPLORE)
        flat = requests.actions.reshape(-1, requests.dim)
        variance = self._covariance.variance(flat, np.repeat(requests.task, n_actions))
        z = np.sqrt(2.0 * np.log(self._rows.size * n_actions / self.delta))
        upper = requests.scores(self.theta) + z * np.sqrt(variance).reshape(-1, n_actions)
        return Choices.of_index(requests, np.argmax(upper, axis=1), Reason.OPTIMISTIC)

    def learn(self, outcomes: Outcomes) -> None:
        """Keep the rows; refit when the schedule says so."""
        if len(outcomes):
            self._rows.append(outcomes.task, outcomes.features, outcomes.reward)
            if self._rows.size >= self._next * self.n_tasks:
                self._refit()
                self._next = self.schedule.next(self._rows.size // self.n_tasks)

    def end_epoch(self) -> None:
        """The fixed epochs of the paper mean nothing here."""

    def _refit(self) -> None:
        task, X, y = self._rows.columns()
        data = TaskData.from_codes(X, y, task.astype(np.int64), np.arange(self.n_tasks))
        whitening = Whitening.of(data)
        rank = self._choose_rank(data, whitening)
        if not rank or fitted_share(data.dim, data.n_tasks, rank, data.n_rows) > ranks.MOST_FITTED:
            return
        warm = self._basis if self._basis is not None and self._basis.shape[1] == rank else None
        found, _ = solve(Passes(data, rank), whitening, warm=warm, rng=self.rng, check=warm is None)
        self._covariance = self._uncertainty(data, whitening, found)
        self._basis, self.theta = found.B, found.B @ found.W

    def _choose_rank(self, data: TaskData, whitening: Whitening) -> int:
        if self.rank is not None:
            return check_rank(self.rank, data)
        if self._rank == 0 or data.n_rows >= self._rescan:
            self._rank = ranks.scan_ranks(data, whitening, rng=self.rng).rank
            self._rescan = 2 * data.n_rows
        return self._rank

    def _uncertainty(self, data: TaskData, whitening: Whitening, found: Solution) -> LowRankCovariance:
        given = None if self.noise is None else self.noise**2
        noise = np.full(data.n_tasks, ranks.noise_variance(data, found, given))
        B, W = ranks.whiten_basis(whitening, found.B, found.W)
        return LowRankCovariance.of(data, whitening.A, B, W, noise)
