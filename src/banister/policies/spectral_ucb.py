"""Optimism around a spectral start: a confidence set in the place of MTLR-OFUL's that can be computed."""

from __future__ import annotations

from typing import Self

import numpy as np

from banister.contract import Choices, Environment, Outcomes, Requests
from banister.data import Float, TaskData
from banister.estimators.paper import spectral_init
from banister.policies._card import GIVEN_OR_ESTIMATED, Card
from banister.policies._checks import check_count, check_levels, check_positive, check_probability
from banister.policies._cumulative import Turned
from banister.policies._greedy import rank_for
from banister.policies._ridge import RunningRidge
from banister.safety.evidence import Rows
from banister.safety.reasons import Reason


class SpectralUCB:
    """Random rounds, a spectral subspace from all tasks' rows, then one optimistic ridge per task around it.

    Sources: Hu, Chen, Jin, Li and Wang 2021 (MTLR-OFUL) are optimistic over all `Θ = BW` in a joint set,
    which cannot be computed. Jun, Willett, Wright and Nowak, *Bilinear bandits with low-rank structure*,
    2019, show what can: find the subspace first, then let a ridge regression pay little for what lies in it
    and much for what lies outside (LowOFUL). Here the subspace `B̂` is the paper's spectral initialisation on
    the random rows of all tasks, and every task t has

        θ̂ = argmin Σ (y − x'θ)² + λ‖B̂'θ‖² + λ_⊥‖B̂_⊥'θ‖²,   V its matrix of normal equations,
        β = R √(log det(V/Λ) + 2 log(T/δ)) + √λ S + √λ_⊥ S_⊥,   play argmax x'θ̂ + β‖x‖_{V⁻¹}.

    No safety. Assumes linear rewards, noise of level R, `‖θ_t‖ ≤ S` and `‖B̂_⊥'θ_t‖ ≤ S_⊥`; on rows that a
    policy picked the spectral start is biased, so it is only ever taken from random rows.

    What we chose, and why: `λ_⊥ = n / log(1 + n/λ)` for the n rows to come, as the source has it; `S_⊥` given
    as a share `leak` of S. The source bounds it by the subspace's error, with constants of no use here.

    Args:
        rank: r; None to take as many directions as stand out in the random rows.
        noise: R; None to estimate it as `ConservativeThompson` does.
        norm_bound: S; None for the largest of the ridge estimates' own norms, doubled.
        leak: S_⊥/S, the share of a parameter that the subspace may miss.
        lam: λ.
        delta: the probability with which the confidence sets may fail, over all tasks and rounds together.
        horizon: n, rounds over which λ_⊥ is set.
        explore: random rounds before the subspace is found; None: the trial's first epoch.

    Examples:
        >>> from banister import SpectralUCB, Synthetic, simulate
        >>> env = Synthetic(dim=8, rank=1, tasks=10, actions=5, baseline_rank=3)
        >>> result = simulate(env, SpectralUCB(rank=1), epochs=2, rounds=40)
        >>> bool(result.regret[1] < 0.5 * result.regret[0])
        True
    """

    card = Card(
        source="Hu et al. 2021 (MTLR-OFUL) made computable after Jun et al. 2019 (LowOFUL)",
        noise=GIVEN_OR_ESTIMATED,
        norm_bound=GIVEN_OR_ESTIMATED,
        horizon="for the penalty outside the subspace",
        rank="given or estimated",
        safe="no",
        refits="every round, in a subspace found once",
        cost="T K d²",
        use="as a yardstick: optimism on a shared subspace, with a confidence set that is a theorem's",
    )

    def __init__(
        self,
        *,
        rank: int | None = None,
        noise: float | None = None,
        norm_bound: float | Float | None = None,
        leak: float = 0.1,
        lam: float = 1e-3,
        delta: float = 0.01,
        horizon: int = 200,
        explore: int | None = None,
    ) -> None:
        self.rank = None if rank is None else check_count("rank", rank)
        check_levels("noise", noise)
        check_levels("norm_bound", norm_bound)
        self.noise, self.norm_bound = noise, norm_bound
        self.leak, self.lam = check_positive("leak", leak), check_positive("lam", lam)
        self.delta, self.horizon = check_probability("delta", delta), check_count("horizon", horizon)
        self.explore = None if explore is None else check_count("explore", explore)

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls(explore=5)

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        self.n_tasks, self.rng = n_tasks, rng
        self._rows = Rows()
        self._ridge: RunningRidge | None = None
        self._turn: Float | None = None  # (d, d): x' turn are coordinates in which every penalty is 1

    @property
    def block(self) -> int | None:
        """Every round once the subspace is known; before, until the random rounds are over."""
        if self._ridge is not None:
            return 1
        if self.explore is None:
            return None
        return max(1, self.explore - self._rows.size // self.n_tasks)

    @property
    def theta(self) -> Float | None:
        """The ridge estimates, (d, T); None during the random rounds."""
        if self._ridge is None or self._turn is None:
            return None
        return self._turn @ self._ridge.theta.T

    def decide(self, requests: Requests) -> Choices:
        """A random action before the subspace is known, the highest upper bound after."""
        if self._ridge is None or self._turn is None:
            picks = self.rng.integers(requests.actions.shape[1], size=len(requests))
            return Choices.of_index(requests, picks, Reason.EXPLORE)
        radius = self._radius(self._ridge)
        turned = Turned.of(requests.actions @ self._turn, requests.task, self._ridge)
        mean, width = turned.bounds(radius[requests.task])
        # An infinite radius says that nothing is known of the noise: then the estimate alone decides.
        upper = mean + np.where(np.isfinite(width), width, 0.0)
        return Choices.of_index(requests, upper.argmax(axis=1), Reason.OPTIMISTIC)

    def learn(self, outcomes: Outcomes) -> None:
        """Keep the random rows; later ones update the ridges."""
        if len(outcomes) == 0:
            return
        if self._ridge is not None and self._turn is not None:
            self._ridge.update(Outcomes(outcomes.task, outcomes.features @ self._turn, outcomes.reward))
            return
        self._rows.append(outcomes.task, outcomes.features, outcomes.reward.astype(float, copy=False))
        if self.explore is not None and self._rows.size >= self.explore * self.n_tasks:
            self._start()

    def end_epoch(self) -> None:
        """The first epoch's end is the end of random play, unless `explore` says otherwise."""
        if self._ridge is None and self.explore is None and self._rows.size:
            self._start()

    def _start(self) -> None:
        task, X, y = self._rows.columns()
        task = task.astype(np.int64)
        data = TaskData.from_codes(X, y, task, np.arange(self.n_tasks))
        rank = rank_for(data, self.rank, self.rng)
        basis = np.linalg.qr(np.column_stack([spectral_init(data, rank)[0], np.eye(data.dim)]))[0]
        penalty = np.full(data.dim, self._outside)
        penalty[:rank] = self.lam
        self._turn = basis[:, : data.dim] / np.sqrt(penalty)
        self._ridge = RunningRidge(self.n_tasks, data.dim, lam=1.0)
        self._ridge.update(Outcomes(task, X @ self._turn, y))

    @property
    def _outside(self) -> float:
        """λ_⊥."""
        return float(self.horizon / np.log1p(self.horizon / self.lam))

    def _radius(self, ridge: RunningRidge) -> Float:
        """β of each task, (T,)."""
        noise = ridge.noise_level() if self.noise is None else self.noise
        norms = self._norms()
        bias = (np.sqrt(self.lam) + self.leak * np.sqrt(self._outside)) * norms
        return np.asarray(noise * np.sqrt(ridge.log_det - 2.0 * np.log(self.delta / self.n_tasks)) + bias)

    def _norms(self) -> Float:
        if self.norm_bound is not None:
            return np.array(np.broadcast_to(np.asarray(self.norm_bound, dtype=float), self.n_tasks))
        theta = self.theta
        assert theta is not None  # asked for only once there are ridges
        return np.full(self.n_tasks, 2.0 * float(np.linalg.norm(theta, axis=0).max()))
