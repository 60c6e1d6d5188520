"""Panel 3e: the subspace distance per iteration of AltGDmin, beside what Theorems T5 and T11 promise.

Each iteration draws fresh rows for W and for the gradient, as the theorems' sample splitting has it, with the
step they allow (true σ_max) and the paper's row count, 50 a task. Four designs:

* `noiseless`: Gaussian rows without noise, from a start at the distance the theorems ask for;
* `gaussian`: the same with the paper's noise;
* `far`: the same from a distance of 1, where a spectral start on real rows lands;
* `fifth-best`: rows of the 5th best of 10 actions, which is what epoch 1 plays, from the theorems' start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from banister import theory
from banister.data import Float
from banister.simulation.metrics import subspace_distance
from banister.simulation.store import Job
from banister.theory.contraction import FIRST, LATER

if TYPE_CHECKING:
    import polars as pl

ENVIRONMENT = "contraction"
DESIGNS = ("noiseless", "gaussian", "far", "fifth-best")
PROMISES = ("T5", "T11")
STEPS = 30

_DIM, _TASKS, _RANK, _ROWS, _ACTIONS, _PLACE = 100, 100, 2, 50, 10, 5  # the paper's default setting
_NOISE = 1e-3


def measure(job: Job) -> pl.DataFrame:
    """Rows with the iteration in `epoch`, a design or a theorem in `policy`."""
    import polars as pl

    paths = {}
    for name in job.policies:
        rng = np.random.default_rng(np.random.SeedSequence(job.seed, spawn_key=(job.trial,)))
        paths[name] = promised(name, rng) if name in PROMISES else measured(name, rng)
    return pl.concat(
        pl.DataFrame(
            {
                "point": [job.point.name] * len(path),
                "trial": pl.Series([job.trial] * len(path), dtype=pl.Int64),
                "policy": [name] * len(path),
                "epoch": np.arange(len(path)),
                "subspace_distance": path,
            }
        )
        for name, path in paths.items()
    )


def measured(design: str, rng: np.random.Generator) -> Float:
    """Distances before the first iteration and after each, (STEPS + 1,)."""
    B_star, theta, start = _truth(rng)
    B = _near(B_star, 1.0 if design == "far" else start, rng)
    gamma = theory.first_step_size(rho=0.0, sigma_max=1.0)
    path = [subspace_distance(B_star, B)]
    for _ in range(STEPS):
        X, y = _rows(theta, design, rng)
        XB = X @ B
        W = np.linalg.solve(XB.transpose(0, 2, 1) @ XB, np.einsum("tnr,tn->tr", XB, y)[..., None])[..., 0]
        X, y = _rows(theta, design, rng)
        residual = np.einsum("tnr,tr->tn", X @ B, W) - y
        B = np.linalg.qr(B - gamma / _ROWS * np.einsum("tnd,tn->td", X, residual).T @ W)[0]
        path.append(subspace_distance(B_star, B))
    return np.array(path)


def promised(theorem: str, rng: np.random.Generator) -> Float:
    """The distances that a theorem promises from the start it asks for, (STEPS + 1,)."""
    *_, start = _truth(rng)
    gamma = theory.first_step_size(rho=0.0, sigma_max=1.0)
    coefficient = FIRST if theorem == "T5" else LATER
    factor = theory.contraction(gamma=gamma, sigma_min=1.0, coefficient=coefficient)
    path: Float = start * factor ** np.arange(STEPS + 1)
    return path


def _truth(rng: np.random.Generator) -> tuple[Float, Float, float]:
    """B* (d, r), Θ* (d, T), and the distance at which the theorems let the iteration start."""
    B = np.linalg.qr(rng.standard_normal((_DIM, _RANK)))[0]
    W = np.linalg.qr(rng.standard_normal((_TASKS, _RANK)))[0].T
    mu = theory.incoherence(B @ W, rank=_RANK)
    return B, B @ W, float(theory.required_start(mu=mu, rank=_RANK, kappa=1.0))


def _near(B: Float, distance: float, rng: np.random.Generator) -> Float:
    outside = rng.standard_normal(B.shape)
    outside -= B @ (B.T @ outside)
    sine = distance / np.sqrt(_RANK)
    moved: Float = B * np.sqrt(1.0 - sine**2) + np.linalg.qr(outside)[0] * sine
    return moved


def _rows(theta: Float, design: str, rng: np.random.Generator) -> tuple[Float, Float]:
    """Fresh rows X (T, n, d) and rewards (T, n)."""
    X = rng.standard_normal((_TASKS, _ROWS, _DIM))
    if design == "fifth-best":  # only the component along θ_t knows which action was picked
        u = (theta / np.linalg.norm(theta, axis=0)).T
        picked = np.sort(rng.standard_normal((_TASKS, _ROWS, _ACTIONS)), axis=-1)[..., -_PLACE]
        X += (picked - np.einsum("tnd,td->tn", X, u))[..., None] * u[:, None, :]
    noise = 0.0 if design == "noiseless" else _NOISE
    y = np.einsum("tnd,dt->tn", X, theta) + noise * rng.standard_normal((_TASKS, _ROWS))
    return X, y
