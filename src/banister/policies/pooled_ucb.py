"""Conservative UCB with one shared parameter: agents that pool their data now and then."""

from __future__ import annotations

from typing import Literal

import numpy as np

from banister.contract import Outcomes, Requests
from banister.data import Float
from banister.policies._card import GIVEN_OR_ESTIMATED, Card
from banister.policies._checks import check_levels
from banister.policies.conservative_ucb import ConservativeUCB
from banister.safety.evidence import Rows
from banister.safety.norm_guess import NormGuess
from banister.safety.reasons import Reason


class PooledConservativeUCB(ConservativeUCB):
    """DiSC-UCB: every task is an agent that faces the same θ; agents share their sums when it pays.

    Source: Lin and Moothedath, *Distributed multi-task learning for stochastic bandits with context
    distribution and stage-wise constraints*, 2025 (DiSC-UCB); here contexts are seen, not only known in
    distribution. Each agent plays conservative UCB on what all agents knew at the last synchronisation and
    what it has seen itself since. All synchronise once some agent has
    `log(det V_now / det V_last) · (rounds since) > D`; then each sends its sums and gets everyone's.

    Assumes one θ for all tasks. Where that is so (the paper's MovieLens setting) it learns T times as fast as
    `ConservativeThompson`. Where it is not, the intervals are wrong and so are the certificates: expect
    violations, or, with `noise=None`, a noise estimate that swallows the differences and few open gates. The
    policy does not check the assumption, so none of its choices is marked certified; the reason `pooled`
    says that its own safe set allowed it.

    What we chose, and why: `D = N log(NT) / (dT)` as in the algorithm it builds on (Wang et al. 2020,
    DisLinUCB). The check is made when rewards arrive, once a round. The norm guess pools all baselines.

    Args:
        threshold: D; None for the formula above, which uses `horizon` as N.
        alpha, lam, noise and the others: as for `ConservativeThompson`.

    Attributes:
        syncs: synchronisations so far.
        communicated: numbers sent so far: `d² + d` up and as many down, per agent and synchronisation.

    Examples:
        >>> from banister import PooledConservativeUCB, Synthetic, simulate
        >>> env = Synthetic(dim=5, rank=1, tasks=4, actions=5, baseline_rank=3)
        >>> policy = PooledConservativeUCB(threshold=50.0)
        >>> result = simulate(env, policy, epochs=2, rounds=20)
        >>> policy.communicated == policy.syncs * 4 * 2 * 30
        True
    """

    card = Card(
        source="Lin & Moothedath 2025 (DiSC-UCB)",
        noise=GIVEN_OR_ESTIMATED,
        norm_bound=GIVEN_OR_ESTIMATED,
        horizon="for the mixture's ρ and how often agents synchronise",
        safe="with probability 1 − δ if all tasks share one θ; no otherwise",
        refits="every round; pooled when the determinant has grown",
        cost="T K d², and d³ + T d² when agents synchronise",
        use="copies of one problem that must not send every row to each other",
    )

    certifies = False
    reason = Reason.POOLED

    def __init__(
        self,
        alpha: float = 0.2,
        *,
        threshold: float | None = None,
        lam: float = 1e-3,
        noise: float | None = None,
        norm_bound: float | Float | None = None,
        delta: float = 0.01,
        radius: Literal["determinant", "source"] = "determinant",
        wait_for_eigenvalue: bool = False,
        least_gap: float = 0.0,
        mixing: bool = True,
        horizon: int = 200,
        literal_floor: bool = False,
        labels: bool = False,
    ) -> None:
        super().__init__(
            alpha, lam=lam, noise=noise, norm_bound=norm_bound, delta=delta, radius=radius,
            wait_for_eigenvalue=wait_for_eigenvalue, least_gap=least_gap, mixing=mixing, horizon=horizon,
            literal_floor=literal_floor, labels=labels,
        )  # fmt: skip
        check_levels("threshold", threshold)
        self.threshold = threshold

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` agents."""
        super().reset(n_tasks, rng)
        self._norms = NormGuess(1, delta=self.delta)
        self._fresh = Rows()
        self._shared: tuple[Float, Float] | None = None  # V and Σxy at the last synchronisation
        self._squares, self._rows, self._exact, self._log_det = 0.0, 0, 0, 0.0
        self.syncs = self.communicated = 0

    def learn(self, outcomes: Outcomes) -> None:
        """Each agent takes in its own rewards; all synchronise if one has learned enough."""
        if len(outcomes) == 0:
            return
        super().learn(outcomes)
        ridge = self._statistics(outcomes.features.shape[1])
        rounds = self._fresh.size / self.n_tasks
        if (float(ridge.log_det.max()) - self._log_det) * rounds > self._limit(ridge.theta.shape[1]):
            self._synchronise()

    def _absorb(self, outcomes: Outcomes, *, exact: bool = False) -> None:
        super()._absorb(outcomes, exact=exact)
        self._fresh.append(outcomes.task, outcomes.features, outcomes.reward.astype(float, copy=False))
        self._exact += len(outcomes) if exact else 0

    def _limit(self, dim: int) -> float:
        if self.threshold is not None:
            return self.threshold
        return float(self.horizon * np.log(self.horizon * self.n_tasks) / (dim * self.n_tasks))

    def _synchronise(self) -> None:
        _, X, y = self._fresh.columns()
        dim = X.shape[1]
        V, b = self._shared or (self.lam * np.eye(dim), np.zeros(dim))
        V, b = V + X.T @ X, b + X.T @ y
        self._squares += float(y @ y)
        self._rows += len(y)
        ridge = self._statistics(dim)
        ridge.adopt(V, b, self._squares, self._rows, self._exact)
        self._shared, self._fresh, self._log_det = (V, b), Rows(), float(ridge.log_det[0])
        self.syncs += 1
        self.communicated += 2 * self.n_tasks * (dim * dim + dim)

    def _see_norms(self, requests: Requests) -> None:
        self._norms.see(requests, np.zeros(len(requests), dtype=np.int64))

    def _norm_bounds(self) -> Float:
        return np.array(np.broadcast_to(super()._norm_bounds(), self.n_tasks))
