"""From ratings to the paper's features: non-negative factors of the matrix, and groups of movies.

`R ≈ U H` with √d factors, so that the reward of user i and movie j, `u_i·h_j`, is the reconstructed rating on
the scale 0 to 1. Factors and groups depend on the file and a few settings only; they are computed once and
kept.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from banister.data import Float, Int
from banister.environments.completion import FILLS, NEIGHBOURS, fill_knn, fill_zero
from banister.environments.ratings import Ratings
from banister.environments.storage import Arrays, cached_arrays
from banister.errors import SettingError

_VERSION = 1  # raise when the same settings would give other numbers
_NMF_ITERATIONS = 500  # twice as many lower the error on MovieLens-100K by less than 0.001
_KMEANS_STARTS = 10


@dataclass(frozen=True, eq=False)
class Factors:
    """Non-negative factors of a filled rating matrix.

    Attributes:
        users: U, shape (users, √d).
        movies: H, shape (√d, movies).
        mean: the filled matrix's mean rating.
        error: `‖R − UH‖ / ‖R‖`.
        iterations: how many the factorisation took.
        converged: whether it reached its stopping rule. The environment is what the factors say either way.
    """

    users: Float
    movies: Float
    mean: float
    error: float
    iterations: int
    converged: bool


def factors_of(ratings: Ratings, *, dim: int, fill: str, seed: int, cache: Path | None) -> Factors:
    """The factors of a rating file for features of dimension `dim`, from the cache where they are kept."""
    side = side_of(dim)
    if fill not in FILLS:
        raise SettingError(f"fill must be one of {', '.join(map(repr, FILLS))}, not {fill!r}.")
    if side > min(ratings.n_users, ratings.n_items):
        raise SettingError(
            f"dim={dim} needs {side} factors, more than {ratings.n_users} users and {ratings.n_items} movies "
            "have; lower dim."
        )
    settings = _factor_settings(ratings, dim, fill, seed)
    arrays = cached_arrays(cache, "factors", settings, lambda: _factorise(ratings, side, fill, seed))
    return Factors(
        arrays["users"],
        arrays["movies"],
        float(arrays["mean"]),
        float(arrays["error"]),
        int(arrays["iterations"]),
        bool(arrays["converged"]),
    )


def groups_of(
    ratings: Ratings, factors: Factors, *, tasks: int, fill: str, seed: int, cache: Path | None
) -> list[Int]:
    """The movies of each task, by k-means on the columns of H; from the cache where they are kept."""
    n_movies = factors.movies.shape[1]
    if not 1 <= tasks <= n_movies:
        raise SettingError(f"tasks must lie between 1 and the {n_movies} movies there are, not {tasks!r}.")
    settings = {**_factor_settings(ratings, factors.movies.shape[0] ** 2, fill, seed), "tasks": tasks}
    labels = cached_arrays(cache, "groups", settings, lambda: _cluster(factors.movies, tasks, seed))["labels"]
    groups = [np.flatnonzero(labels == task) for task in range(tasks)]
    if not all(len(group) for group in groups):
        found = sum(len(group) > 0 for group in groups)
        raise SettingError(f"The movies form only {found} distinct groups; lower tasks={tasks} to that.")
    return groups


def side_of(dim: int) -> int:
    """√d, the number of factors; d must be a perfect square, since features are vec(u h').

    Examples:
        >>> side_of(100)
        10
    """
    whole = isinstance(dim, (int, np.integer)) and dim >= 1
    side = math.isqrt(dim) if whole else 10
    if not whole or side**2 != dim:
        raise SettingError(
            f"dim must be a perfect square, since features are the outer product of two vectors of √dim "
            f"entries; {dim!r} is not. Use, for example, {side**2} or {(side + 1) ** 2}."
        )
    return side


def _factor_settings(ratings: Ratings, dim: int, fill: str, seed: int) -> dict[str, Any]:
    return {
        "version": _VERSION,
        "file": ratings.digest,
        "dim": int(dim),
        "fill": fill,
        "neighbours": NEIGHBOURS,
        "seed": int(seed),
    }


def _factorise(ratings: Ratings, side: int, fill: str, seed: int) -> Arrays:
    from sklearn.decomposition import NMF

    matrix = ratings.matrix()
    low = ratings.scale[0] / ratings.scale[-1]
    filled = fill_zero(matrix) if fill == "zero" else fill_knn(matrix, low=low)
    model = NMF(n_components=side, init="nndsvda", max_iter=_NMF_ITERATIONS, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's note on convergence is kept as `converged`
        U = model.fit_transform(filled)
    U, H = balance(U, model.components_)
    return {
        "users": U,
        "movies": H,
        "mean": np.array(filled.mean()),
        "error": np.array(np.linalg.norm(filled - U @ H) / np.linalg.norm(filled)),
        "iterations": np.array(model.n_iter_),
        "converged": np.array(model.n_iter_ < _NMF_ITERATIONS),
    }


def balance(U: Float, H: Float) -> tuple[Float, Float]:
    """Give each factor the same root mean square in U as in H; the product stays as it is.

    `U D` and `D⁻¹ H` reconstruct the same ratings for any positive diagonal D, and the solver returns an
    arbitrary one (rows of H differ by a factor of ten). It would decide which factors k-means looks at and
    how uneven the features `vec(u h')` are, so it is fixed here.
    """
    u, h = np.sqrt((U**2).mean(axis=0)), np.sqrt((H**2).mean(axis=1))
    used = (u > 0) & (h > 0)
    scale = np.sqrt(np.divide(h, u, out=np.ones_like(h), where=used))
    scale[~used] = 1.0
    return U * scale, H / scale[:, None]


def _cluster(H: Float, tasks: int, seed: int) -> Arrays:
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few distinct movies is reported by the caller, as an error
        labels = KMeans(tasks, n_init=_KMEANS_STARTS, random_state=seed).fit_predict(H.T)
    return {"labels": labels.astype(np.int64)}
