"""One ridge regression per task, kept up to date row by row: what Thompson sampling and UCB stand on."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from banister.contract import Outcomes
from banister.data import Float, Int
from banister.policies import _ridge_kernels as kernels


class RunningRidge:
    """Ridge estimates `θ̂_t = V_t⁻¹ Σ x y`, `V_t = λI + Σ xx'` of every task, with rank-one updates.

    Memory is T d² numbers; a row costs 4 d² operations, whatever came before.

    Attributes:
        lam: λ.
        root: (T, d, d) S with SS' = V⁻¹.
        theta: (T, d).
        log_det: (T,) log det(V/λ).
        trace: (T,) tr V⁻¹.
        energy: (T,) ‖y − Xθ̂‖² + λ‖θ̂‖².
        rows: (T,) rows taken in.
        exact: (T,) how many of them were known without noise.

    Examples:
        >>> ridge = RunningRidge(1, 2, lam=1.0)
        >>> ridge.update(Outcomes(np.array([0]), np.array([[1.0, 0.0]]), np.array([3.0])))
        >>> ridge.theta.tolist(), float(np.exp(ridge.log_det[0]).round(12))
        ([[1.5, 0.0]], 2.0)
    """

    def __init__(self, n_tasks: int, dim: int, *, lam: float) -> None:
        self.lam = lam
        self.root: Float = np.tile(np.eye(dim) / np.sqrt(lam), (n_tasks, 1, 1))
        self.theta: Float = np.zeros((n_tasks, dim))
        self.log_det: Float = np.zeros(n_tasks)
        self.trace: Float = np.full(n_tasks, dim / lam)
        self.energy: Float = np.zeros(n_tasks)
        self.rows: Int = np.zeros(n_tasks, dtype=np.int64)
        self.exact: Int = np.zeros(n_tasks, dtype=np.int64)

    def update(self, outcomes: Outcomes, *, exact: bool = False) -> None:
        """Take in rows, in order; `exact` where the rewards have no noise."""
        if exact:
            self.exact += np.bincount(outcomes.task, minlength=len(self.exact))
        kernels.absorb(
            outcomes.task.astype(np.int64, copy=False),
            np.ascontiguousarray(outcomes.features, dtype=np.float64),
            np.ascontiguousarray(outcomes.reward, dtype=np.float64),
            self.root, self.theta, self.log_det, self.trace, self.energy, self.rows,
        )  # fmt: skip

    def adopt(self, V: Float, b: Float, yy: float, rows: int, exact: int = 0) -> None:
        """Every task takes over the same statistics: V (d, d), `b = Σ xy` (d,), `Σ y²` and how many rows."""
        factor = np.linalg.cholesky(V)
        root = solve_triangular(factor, np.eye(len(V)), lower=True).T
        theta = cho_solve((factor, True), b)
        self.root[:], self.theta[:], self.rows[:], self.exact[:] = root, theta, rows, exact
        self.log_det[:] = 2.0 * np.sum(np.log(np.diag(factor))) - len(V) * np.log(self.lam)
        self.trace[:] = np.sum(root**2)
        # Never below λ‖θ̂‖², which rounding could otherwise make it where there is no noise.
        self.energy[:] = max(yy - float(b @ theta), self.lam * float(theta @ theta))

    def noise_level(self) -> float:
        """An estimate of the noise's standard deviation that errs upwards; infinite before the first row.

        Given θ, `E[energy] = σ²(n − df) + λθ'(I − λV⁻¹)θ`, where `n − df = n − d + λ tr V⁻¹` are the degrees
        of freedom the fit leaves. The ratio of the sums over tasks therefore overstates σ² by at most
        `λ Σ‖θ_t‖² / Σ(n − df)`. It is far too large while the tasks have fewer rows than features, when
        nothing can be said of the noise, and right soon after. Exact rows bring no noise: only the others are
        counted in n, while df is that of all rows, which again errs upwards.
        """
        dim = self.theta.shape[1]
        noisy = self.rows - self.exact
        freedom = float(np.sum(noisy - dim + self.lam * self.trace))
        if not noisy.any() or freedom <= 0.0:
            return float("inf")
        return float(np.sqrt(np.sum(self.energy) / freedom))

    def least_eigenvalue(self, task: int) -> float:
        """λ_min(V_t)."""
        return float(1.0 / np.linalg.norm(self.root[task], 2) ** 2)
