"""The designs on which solvers differ: how the rows were collected decides how hard a fit is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from banister.data import Float, TaskData


@dataclass(frozen=True)
class Design:
    """A way to draw (data, Θ) for a seed, the rank to fit, and whether every seed should be solved."""

    make: Callable[[int], tuple[TaskData, Float]]
    rank: int
    solvable: bool = True


def low_rank(d: int, T: int, r: int, rng: np.random.Generator, kappa: float = 1.0) -> Float:
    """Θ = B diag(σ) W' with orthonormal factors, σ from 1 down to 1/κ."""
    B, W = (np.linalg.qr(rng.standard_normal((n, r)))[0] for n in (d, T))
    return (B * np.geomspace(1.0, 1.0 / kappa, r)) @ W.T


def observe(X: Float, tasks: Any, theta: Float, noise: float, rng: np.random.Generator) -> TaskData:
    y = np.einsum("ij,ji->i", X, theta[:, tasks]) + noise * rng.standard_normal(len(X))
    return TaskData.from_codes(X, y, tasks, np.arange(theta.shape[1]))


def gaussian(
    d: int = 100, T: int = 100, r: int = 2, n: int = 50, *, noise: float = 1e-3, kappa: float = 1.0
) -> Callable[[int], tuple[TaskData, Float]]:
    def make(seed: int) -> tuple[TaskData, Float]:
        rng = np.random.default_rng(seed)
        theta = low_rank(d, T, r, rng, kappa)
        tasks = np.repeat(np.arange(T), n)
        return observe(rng.standard_normal((T * n, d)), tasks, theta, noise, rng), theta

    return make


def chosen(place: int, *, n: int = 50, noise: float = 1e-3) -> Callable[[int], tuple[TaskData, Float]]:
    """The `place`-th best of ten Gaussian actions (1 is the best), d = T = 100, r = 2."""

    def make(seed: int) -> tuple[TaskData, Float]:
        rng = np.random.default_rng(seed)
        d = T = 100
        theta = low_rank(d, T, 2, rng)
        tasks = np.repeat(np.arange(T), n)
        X = np.empty((T * n, d))
        for i, t in enumerate(tasks):
            actions = rng.standard_normal((10, d))
            X[i] = actions[np.argsort(-(actions @ theta[:, t]))[place - 1]]
        return observe(X, tasks, theta, noise, rng), theta

    return make


def pooled(seed: int) -> tuple[TaskData, Float]:
    """The same θ for every task, so that the rank fitted is one too many."""
    rng = np.random.default_rng(seed)
    theta = np.repeat(rng.standard_normal((100, 1)) / 10, 100, axis=1)
    tasks = np.repeat(np.arange(100), 50)
    return observe(rng.standard_normal((5000, 100)), tasks, theta, 1e-3, rng), theta


def correlated(seed: int) -> tuple[TaskData, Float]:
    """Features whose second moment has condition number 1e4."""
    rng = np.random.default_rng(seed)
    theta, tasks = low_rank(100, 100, 2, rng), np.repeat(np.arange(100), 50)
    mix = np.linalg.qr(rng.standard_normal((100, 100)))[0] * np.geomspace(1.0, 1e-2, 100)
    return observe(rng.standard_normal((5000, 100)) @ mix.T, tasks, theta, 1e-3, rng), theta


def ragged(seed: int) -> tuple[TaskData, Float]:
    """Tasks of 1 to 200 rows, r = 4."""
    rng = np.random.default_rng(seed)
    theta = low_rank(100, 100, 4, rng)
    tasks = np.repeat(np.arange(100), np.geomspace(1, 200, 100).astype(int))
    return observe(rng.standard_normal((len(tasks), 100)), tasks, theta, 1e-3, rng), theta


def movielens(tasks: int, fill: str) -> Callable[[int], tuple[TaskData, Float]]:
    """What MovieLens' baseline collects: 50 rows a task."""

    def make(seed: int) -> tuple[TaskData, Float]:
        env, rng = _movielens(tasks, fill), np.random.default_rng(seed)
        env.reset(rng)
        asked = env.requests(50, rng)
        X = asked.actions[np.arange(len(asked.task)), asked.baseline]
        return observe(*_sorted(X, asked.task), env.theta, 1e-3, rng), env.theta

    return make


def _sorted(X: Float, tasks: Any) -> tuple[Float, Any]:
    order = np.argsort(tasks, kind="stable")
    return X[order], tasks[order]


@cache
def _movielens(tasks: int, fill: Any) -> Any:
    from banister.environments.movielens import MovieLens

    return MovieLens(tasks=tasks, fill=fill, path=movielens_folder())


def movielens_folder() -> Path | None:
    """Where the rating file is, if anywhere: BANISTER_DATA, or the data folder beside the repository."""
    for place in (os.environ.get("BANISTER_DATA"), Path(__file__).parents[2] / "shared/data/ml-100k"):
        if place and Path(place).exists():
            return Path(place)
    return None


DESIGNS: dict[str, Design] = {
    "isotropic": Design(gaussian(), 2),
    "5th best of 10": Design(chosen(5), 2),
    "greedy": Design(chosen(1), 2),
    "pooled, rank 1": Design(pooled, 1),
    "pooled, rank 2": Design(pooled, 2, solvable=False),
    "correlated 1e4": Design(correlated, 2),
    "κ=100, r=4": Design(gaussian(r=4, kappa=100.0), 4),
    "ragged 1..200, r=4": Design(ragged, 4),
    "d=400": Design(gaussian(d=400), 2),
    "isotropic, 7 rows": Design(gaussian(n=7), 2),
    "5th best, 15 rows": Design(chosen(5, n=15), 2),
    "5th best, 10 rows": Design(chosen(5, n=10), 2, solvable=False),
    "noise 0.5": Design(gaussian(noise=0.5), 2, solvable=False),
    "MovieLens, 5 groups": Design(movielens(5, "knn"), 1),
    "MovieLens, 5 groups, zeros": Design(movielens(5, "zero"), 1),
    "MovieLens, 40 groups, zeros": Design(movielens(40, "zero"), 2, solvable=False),
}
