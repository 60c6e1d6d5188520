"""Two ways to estimate at the end of an epoch: Algorithm 1 as printed, and a fit that converges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from banister.data import Float, TaskData
from banister.errors import SettingError
from banister.estimators.paper import PaperSolver, spectral_init
from banister.policies._checks import check_count
from banister.policies._greedy import rank_for
from banister.solver import Passes, Whitening, from_raw, minimise, solve


@dataclass(frozen=True, kw_only=True)
class ConvergedSolver:
    """What `safety="converged"` puts in the place of Algorithm 1's gradient steps.

    Attributes:
        starts: where the first fit begins. "checked": the best of several spectral starts, and others if its
            optimum looks local; "spectral": the line "Spectral Initialization" alone. Later fits begin at
            the last basis, as in Algorithm 1.
        pool: use all rows so far; False: each estimate's own rows, as Algorithm 1 does.
        every: rounds between estimates; None: at the end of each epoch, as Algorithm 1 does. Needs `pool`.

    Examples:
        >>> from banister import ConvergedSolver, SafeAltGDmin, Synthetic, simulate
        >>> policy = SafeAltGDmin(alpha=0.2, safety="converged", rank=1, solver=ConvergedSolver(pool=True))
        >>> env = Synthetic(dim=10, rank=1, tasks=12, actions=5, baseline_rank=3)
        >>> int(simulate(env, policy, epochs=2, rounds=20).violations[1])
        0
    """

    starts: Literal["checked", "spectral"] = "checked"
    pool: bool = False
    every: int | None = None

    def __post_init__(self) -> None:
        if self.starts not in ("checked", "spectral"):
            raise SettingError(f"starts={self.starts!r} must be 'checked' or 'spectral'.")
        if self.every is not None:
            check_count("every", self.every)
            if not self.pool:
                raise SettingError(f"every={self.every} needs pool=True: a few rounds determine nothing.")


class PrintedFit:
    """Lines 13 to 29 of Algorithm 1, epoch after epoch; γ is kept where `PaperSolver.step` says "once"."""

    every: int | None = None
    pool = False

    def __init__(self, solver: PaperSolver, rank: int | None, rng: np.random.Generator) -> None:
        self.solver, self.rank, self.rng = solver, rank, rng
        self.gamma: float | None = None
        self._basis: Float | None = None

    def estimate(self, data: TaskData, rho: float) -> Float:
        """Θ̂^(m) = B^(m) W^(m)."""
        self.rank = rank_for(data, self.rank, self.rng)
        if self.gamma is None or self.solver.step == "each epoch":
            self.gamma = self.solver.step_size(data, rho=rho, first=self._basis is None)
        found = self.solver.solve(data, self.rank, self._basis, gamma=self.gamma)
        self._basis = found.B
        return found.B @ found.W


class ConvergedFit:
    """The minimiser of Algorithm 1's objective on the same rows, found by the default solver."""

    def __init__(self, solver: ConvergedSolver, rank: int | None, rng: np.random.Generator) -> None:
        self.solver, self.rank, self.rng = solver, rank, rng
        self.every, self.pool = solver.every, solver.pool
        self._basis: Float | None = None

    def estimate(self, data: TaskData, rho: float) -> Float:
        """Θ̂ = BW; ρ plays no part in it."""
        self.rank = rank_for(data, self.rank, self.rng)
        whitening, passes = Whitening.of(data), Passes(data, self.rank)
        if self._basis is None and self.solver.starts == "spectral":
            start = from_raw(whitening, spectral_init(data, self.rank)[0])
            found = minimise(passes, whitening, start)
        else:
            cold = self._basis is None
            found, _ = solve(passes, whitening, warm=self._basis, rng=self.rng, check=cold)
        self._basis = found.B
        return found.B @ found.W
