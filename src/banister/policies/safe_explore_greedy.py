"""SEGE: explore safely until the estimate is sound in every direction, then play the best safe action."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.contract import Bool, Requests
from banister.data import Float
from banister.policies._card import GIVEN_OR_ESTIMATED, Card
from banister.policies._checks import check_positive
from banister.policies._conservative import ConservativeBandit
from banister.policies._ridge import RunningRidge

_AGAIN = 1.1  # λ_min is computed anew when a task's rows have grown by a tenth: it can only have risen


class SafeExploreGreedy(ConservativeBandit):
    """SEGE: the greedy action of the safe set once `λ_min(V) ≥ c√n`, the conservative mixture before.

    Source: Khezeli and Bitar, *Safe linear stochastic bandits*, 2020, where the mixture `(1−ρ)x_b + ρζ` of
    the paper's epoch 1 comes from; one bandit per task. The mixture explores all directions; as soon as the
    least eigenvalue of `V` keeps up with `c√n`, the certainty-equivalent action `argmax x'θ̂` over the actions
    with `x'θ̂ − β‖x‖_{V⁻¹} ≥ floor` is played. See `banister.policies._conservative` for the symbols.

    What we chose, and why: the source's threshold is the baseline's reward less a fixed amount; here it is
    the floor of the study, so that all policies keep the same one. Its baseline is one arm; here it may
    change from round to round, and ρ is Lemma l8's for each request. The source leaves c open.

    Args:
        alpha: the share of the baseline reward that may be risked, strictly between 0 and 1.
        growth: c.
        **settings: as for `ConservativeThompson`.

    Examples:
        >>> from banister import SafeExploreGreedy, Synthetic, simulate
        >>> env = Synthetic(dim=5, rank=1, tasks=4, actions=5, baseline_rank=3, noise_std=0.001)
        >>> result = simulate(env, SafeExploreGreedy(), epochs=2, rounds=30)
        >>> int(result.violations.sum()), bool(result.certified[1] > 0.5)
        (0, True)
    """

    card = Card(
        source="Khezeli & Bitar 2020 (SEGE), one per task",
        noise=GIVEN_OR_ESTIMATED,
        norm_bound=GIVEN_OR_ESTIMATED,
        horizon="only for the mixture's ρ",
        safe="yes, with probability 1 − δ",
        refits="every round",
        cost="T (K d + a few d²), and now and then T d³",
        use="as ConservativeThompson, where mixtures can be played and features are well spread",
    )

    def __init__(self, alpha: float = 0.2, *, growth: float = 0.1, **settings: Any) -> None:
        super().__init__(alpha, **settings)
        self.growth = check_positive("growth", growth)

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        super().reset(n_tasks, rng)
        self._least = np.zeros(n_tasks)
        self._looked = np.zeros(n_tasks)

    def _preference(self, requests: Requests, ridge: RunningRidge, radius: Float) -> tuple[Float, float]:
        """The estimate as it is, without optimism."""
        return ridge.theta[requests.task], 0.0

    def _shut(self, requests: Requests, ridge: RunningRidge, radius: Float, floor: Float) -> Bool:
        """Whose least eigenvalue does not keep up yet."""
        needed = self.growth * np.sqrt(ridge.rows)
        most = ridge.theta.shape[1] / ridge.trace  # λ_min ≤ d / tr V⁻¹: mostly this says no already
        due = (self._least < needed) & (most >= needed) & (ridge.rows >= _AGAIN * self._looked)
        for t in np.flatnonzero(due & (ridge.rows > 0)):
            self._least[t], self._looked[t] = ridge.least_eigenvalue(int(t)), ridge.rows[t]
        late: Bool = (self._least < needed) | (ridge.rows == 0)
        return late[requests.task] | super()._shut(requests, ridge, radius, floor)
