"""How `Synthetic` draws the tasks' parameters `Θ = B diag(σ) W`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.data import Float


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The law of Θ; see `Synthetic` for the meaning of each field.

    The paper's Θ has orthonormal `B` (d, r) and `W` (r, T), from the QR of Gaussian matrices, and σ = 1.
    """

    dim: int
    rank: int
    tasks: int
    kappa: float
    decay: float
    imbalance: float
    outliers: int
    unit_task: bool

    @property
    def spectrum(self) -> Float:
        """Singular values: `rank` of them from 1 down to 1/κ, then a tail that decays by `decay` a step."""
        head = np.geomspace(1.0, 1.0 / self.kappa, self.rank)
        tail = np.arange(1, min(self.dim, self.tasks) - self.rank + 1) if self.decay > 0 else np.empty(0)
        return np.concatenate([head, head[-1] * self.decay**tail])

    def draw(self, rng: np.random.Generator, *, drift: float = 0.0) -> tuple[Float, Float]:
        """Θ before and after a drift, each (T, d) with a row per task.

        The representation stays; `drift` is the share of every task's coefficients that is new.
        """
        sigma = self.spectrum
        B = orthonormal(self.dim, len(sigma), rng)
        weight = rng.permutation(np.geomspace(1.0, self.imbalance, self.tasks))[:, None]
        before = orthonormal(self.tasks, len(sigma), rng, weight)
        after = before
        if drift > 0:
            other = orthonormal(self.tasks, len(sigma), rng, weight)
            after = np.sqrt(1.0 - drift**2) * before + drift * other
        scale = np.sqrt(self.tasks / np.sum(sigma**2)) if self.unit_task else 1.0
        first, second = (scale * (W * sigma) @ B.T for W in (before, after))
        self._set_outliers((first, second), B, rng)
        return first, second

    def _set_outliers(self, thetas: tuple[Float, Float], B: Float, rng: np.random.Generator) -> None:
        """Give the outlier tasks a direction outside the shared subspace, at the length they had."""
        for t in rng.choice(self.tasks, self.outliers, replace=False):
            direction = rng.standard_normal(self.dim)
            direction -= B @ (B.T @ direction)
            direction /= np.linalg.norm(direction)
            for theta in thetas:
                theta[t] = np.linalg.norm(theta[t]) * direction


def orthonormal(n: int, r: int, rng: np.random.Generator, weight: Float | float = 1.0) -> Float:
    """Orthonormal columns (n, r) from the QR of a Gaussian matrix, its rows weighted first."""
    Q: Float = np.linalg.qr(weight * rng.standard_normal((n, r)))[0]
    return Q
