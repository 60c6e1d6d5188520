"""Which of several fits should predict best: the marginal likelihood of the rewards, less what was fitted.

A direction may stand out from noise and still not pay for itself: where tasks see their features in different
proportions (shops with few customers of a kind), noise alone makes directions look strong. Under random
effects `w_t ~ N(m, Σ)` the rewards of a task are Gaussian, `y_t ~ N(Z_t m, Z_t Σ Z_t' + σ² I)` with
`Z_t = X_t B`, and their likelihood needs nothing but each task's `Z'Z`, `Z'y` and residual. Akaike's
criterion takes off one unit for each fitted number: `r (d − r)` of the representation, those of m and Σ, and
the noise.
"""

from __future__ import annotations

import numpy as np

from banister.data import Float, TaskData
from banister.estimators.shrinkage import Moments, random_effects
from banister.solver import Pool, Whitening, from_raw


def predictive_score(
    data: TaskData | Pool, whitening: Whitening, B: Float, *, intercepts: bool = False
) -> float:
    """The criterion of a model within the span of B (d, k), which is in the data's coordinates; one pass."""
    within = whitening.A @ from_raw(whitening, B)
    return criterion(Moments.of(data, within, intercepts=intercepts), data.dim)


def criterion(moments: Moments, dim: int) -> float:
    """Akaike's criterion of the random-effects model within the span of B: larger is better."""
    rank: int = moments.W.shape[1]
    numbers = rank * (dim - rank) + rank + rank * (rank + 1) // 2 + 1
    return log_likelihood(moments, dim) - numbers


def log_likelihood(moments: Moments, dim: int) -> float:
    """Log-likelihood of all rewards, up to a constant that does not depend on the fit.

    With `g = Z'(y − Zm)` and `P = (Z'Z/σ² + Σ⁻¹)⁻¹` a task adds
    `−½ (‖y − Zm‖²/σ² − g'Pg/σ⁴ + n log σ² + log det(I + Σ Z'Z/σ²))`.
    """
    effects = random_effects(moments, dim=dim)
    noise, mean = effects.noise, effects.mean
    gap = moments.cross - moments.gram @ mean
    away = float(moments.residual(np.broadcast_to(mean, moments.W.shape)).sum())
    caught = float(np.einsum("ti,tij,tj->", gap, effects.W_cov, gap))
    rows = float(moments.free.sum())
    volume = np.linalg.slogdet(np.eye(len(mean)) + effects.cov @ moments.gram / noise)[1].sum()
    return float(-0.5 * (away / noise - caught / noise**2 + rows * np.log(noise) + volume))
