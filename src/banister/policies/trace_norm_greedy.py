"""Greedy on the trace-norm estimate: the convex relaxation of a shared representation."""

from __future__ import annotations

from typing import Literal

from banister.data import TaskData
from banister.estimators.trace_norm import TraceNorm
from banister.policies._card import Card
from banister.policies._greedy import GreedyLearner


class TraceNormGreedy(GreedyLearner):
    """Estimates Θ with a penalty on its singular values, then plays the greedy action; no safety.

    Source: Cella, Lounici, Pacreau and Pontil, *Multi-task representation learning with stochastic linear
    bandits*, 2023; the paper's first rival. Assumes that Θ is of low rank, not which rank, and contexts that
    are diverse enough for greedy play to explore.

    What we chose, and why:

    * `lam="cv"`: held-out rows choose the penalty. The source's rate `sd √((d + T)/n)` is as good on the
      random rows of the first epoch, but too large on greedy rows, which every later refit contains.
    * The source refits after every round; here at the end of each epoch, so that all policies have the same
      rows. `online=k` refits every k rounds and lowers the regret by as much as it shortens random play.

    Args:
        lam: the penalty: "cv", "rate", or a number (see `banister.TraceNorm`).
        noise: standard deviation of the rewards' noise for "rate"; None to estimate it.
        tol: relative duality gap at which a fit stops.
        online, pool: when to refit, and on which rows; see `banister.policies._greedy`.

    Examples:
        >>> from banister import Synthetic, TraceNormGreedy, simulate
        >>> env = Synthetic(dim=8, rank=1, tasks=10, actions=5, baseline_rank=3)
        >>> result = simulate(env, TraceNormGreedy(), epochs=2, rounds=15)
        >>> bool(result.regret[1] < 0.1 * result.regret[0])
        True
    """

    card = Card(
        source="Cella et al. 2023",
        noise="no (estimated for lam='rate')",
        safe="no",
        refits="end of each epoch, or every `online` rounds",
        cost="T K d; a refit is an iterative convex fit",
        use="nothing is at risk and the rank is unknown",
    )

    def __init__(
        self,
        *,
        lam: float | Literal["cv", "rate"] = "cv",
        noise: float | None = None,
        tol: float = 1e-4,
        online: int | None = None,
        pool: bool = True,
    ) -> None:
        super().__init__(online=online, pool=pool)
        self.lam, self.noise, self.tol = lam, noise, tol
        self._model()._check_settings()  # a bad setting is an error now, not at the first refit

    def _model(self) -> TraceNorm:
        return TraceNorm(lam=self.lam, noise=self.noise, tol=self.tol)

    def _estimate(self, data: TaskData) -> None:
        self.theta = self._model().fit_data(data, theta0=self.theta).theta_
