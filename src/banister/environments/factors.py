"""From ratings to the paper's features: non-negative factors of the matrix, and groups of movies.

`R ≈ U H` with √d factors, so that the reward of user i and movie j, `u_i·h_j`, is the reconstructed rating on
the scale 0 to 1. Factors and groups depend on the file and a few settings only; they are computed once and
kept.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from banister.data import Float, Int
from banister.environments.completion import FILLS, fill_knn, fill_zero
from banister.environments.ratings import Ratings
from banister.environments.storage import Arrays, cached_arrays
from banister.errors import SettingError

SCALINGS = ("solver", "balanced")

_VERSION = 1  # raise when the same settings would give other numbers
_NMF_ITERATIONS = 500  # twice as many lower the error on MovieLens-100K by less than 0.001
_KMEANS_STARTS = 10


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How factors are made; see `MovieLens` for the meaning of each field."""

    dim: int
    fill: str
    scaling: str
    seed: int

    def __post_init__(self) -> None:
        side_of(self.dim)
        for name, known in (("fill", FILLS), ("scaling", SCALINGS)):
            value = getattr(self, name)
            if value not in known:
                raise SettingError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}.")


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


def factors_of(ratings: Ratings, recipe: Recipe, cache: Path | None) -> Factors:
    """The factors of a rating file, from the cache where they are kept (`cache=None`: nowhere)."""
    side = side_of(recipe.dim)
    if side > min(ratings.n_users, ratings.n_items):
        raise SettingError(
            f"dim={recipe.dim} needs {side} factors, more than {ratings.n_users} users and "
            f"{ratings.n_items} movies have; lower dim."
        )
    settings = _settings(ratings, recipe)
    arrays = cached_arrays(cache, "factors", settings, lambda: _factorise(ratings, recipe))
    return Factors(
        arrays["users"],
        arrays["movies"],
        float(arrays["mean"]),
        float(arrays["error"]),
        int(arrays["iterations"]),
        bool(arrays["converged"]),
    )


def groups_of(
    ratings: Ratings, factors: Factors, recipe: Recipe, *, tasks: int, cache: Path | None
) -> list[Int]:
    """The movies of each task, by k-means on the columns of H; from the cache where they are kept."""
    n_movies = factors.movies.shape[1]
    if not 1 <= tasks <= n_movies:
        raise SettingError(f"tasks must lie between 1 and the {n_movies} movies there are, not {tasks!r}.")
    settings = {**_settings(ratings, recipe), "tasks": int(tasks)}
    kept = cached_arrays(cache, "groups", settings, lambda: _cluster(factors.movies, tasks, recipe.seed))
    groups = [np.flatnonzero(kept["labels"] == task) for task in range(tasks)]
    found = sum(len(group) > 0 for group in groups)
    if found < tasks:
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


def _settings(ratings: Ratings, recipe: Recipe) -> dict[str, Any]:
    """All that the factors depend on; another scikit-learn may find others."""
    library = version("scikit-learn")
    return {"version": _VERSION, "library": library, "file": ratings.digest, **asdict(recipe)}


def _factorise(ratings: Ratings, recipe: Recipe) -> Arrays:
    from sklearn.decomposition import NMF

    matrix, side = ratings.matrix(), side_of(recipe.dim)
    low = ratings.scale[0] / ratings.scale[-1]
    filled = fill_zero(matrix) if recipe.fill == "zero" else fill_knn(matrix, low=low)
    model = NMF(n_components=side, init="nndsvda", max_iter=_NMF_ITERATIONS, random_state=recipe.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's note on convergence is kept as `converged`
        U = model.fit_transform(filled)
    H = model.components_
    if recipe.scaling == "balanced":
        U, H = balance(U, H)
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
    arbitrary one: rows of H differ by a factor of ten. It decides which factors k-means looks at and how
    uneven the features `vec(u h')` are. On MovieLens-100K with gaps predicted, singular values of the
    baseline's features span 2e4 as the solver leaves them and 1e3 balanced.
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
