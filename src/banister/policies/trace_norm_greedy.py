"""Greedy on the trace-norm estimate: the convex relaxation of a shared representation."""

from __future__ import annotations

from typing import Literal

import numpy as np

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
      random rows of the first epoch, but too large on greedy rows, which every later refit contains. The
      choice is made anew whenever the rows have doubled (without pooling: on the random rows of the first
      epoch and on the greedy ones of the second); in between the penalty follows the noise in the gradient,
      `1/√N`, and the fit starts from the last one.
    * The source refits after every round; here at the end of each epoch, so that all policies have the same
      rows. `online=k` refits every k rounds and lowers the regret by as much as it shortens random play.

    Args:
        lam: the penalty: "cv", "rate", or a number (see `banister.TraceNorm`).
        noise: standard deviation of the rewards' noise for "rate"; None to estimate it.
        tol: relative duality gap at which a fit stops.
        online, pool, labels: when to refit, and on which rows; see `banister.policies._greedy`.

    Attributes:
        lam_: the penalty of the last refit.

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
        labels: bool = False,
    ) -> None:
        super().__init__(online=online, pool=pool, labels=labels)
        self.lam, self.noise, self.tol = lam, noise, tol
        self._model(lam)._check_settings()  # a bad setting is an error now, not at the first refit

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        super().reset(n_tasks, rng)
        self.lam_ = 0.0
        # Rows at the last refit and when the penalty was last validated; refits so far.
        self._fitted = self._validated = self._refits = 0

    def _estimate(self, data: TaskData) -> None:
        lam = self.lam
        known = self.lam_ > 0 and (self.pool or self._refits > 1)
        if lam == "cv" and known and data.n_rows < 2 * self._validated:
            lam = self.lam_ * float(np.sqrt(self._fitted / data.n_rows))
        else:
            self._validated = data.n_rows
        self._refits += 1
        model = self._model(lam).fit_data(data, theta0=self.theta)
        self.theta, self.lam_, self._fitted = model.theta_, model.lam_, data.n_rows

    def _model(self, lam: float | Literal["cv", "rate"]) -> TraceNorm:
        return TraceNorm(lam=lam, noise=self.noise, tol=self.tol)
