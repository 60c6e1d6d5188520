"""`MovieLens`: the paper's recommendation problem, from real ratings."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, Self

import numpy as np

from banister.contract import Requests
from banister.data import Float, Int
from banister.environments.base import LinearEnvironment
from banister.environments.factors import Factors, Recipe, factors_of, groups_of, side_of
from banister.environments.ratings import Ratings, find_ratings, read_ratings, source_for
from banister.environments.sources import Source
from banister.environments.storage import cache_folder
from banister.errors import SettingError


@dataclass(kw_only=True, eq=False)
class MovieLens(LinearEnvironment):
    """Recommend one of K movies to whoever comes; the defaults are the paper's setting.

    Ratings are divided by 5, the gaps are filled, and the matrix is factorised as `R ≈ U H` with √d
    non-negative factors; the columns of H form T groups (k-means), one a task. In each round each task is
    asked by a user drawn at random from all and offers K different movies drawn at random from its group.
    An action is `vec(u_i h_j')` and `θ_t = vec(I)` for every task, so the rank is 1 and the expected reward
    is `u_i·h_j`: the reconstructed rating, with five stars at 1. The reconstruction is never negative. It is
    not cut at 1, since rewards must stay linear: on MovieLens-100K one pair in a thousand exceeds 1; the
    largest is 1.5 (gaps predicted) or 2.0 (gaps at zero) for d up to 144.

    A group of fewer than K movies offers movies drawn with replacement, so some actions are then equal. On
    MovieLens-100K with up to 10 tasks no group is that small.

    The file is found as `find_ratings` says and must be as published. Nothing of the truth changes between
    trials; who asks, what is offered and the noise do. Requests come in round-major order.

    Args:
        dim: d, a perfect square.
        tasks: T.
        path: a rating file or the folder that holds it; by default `BANISTER_DATA`, else the user's cache
            folder, where `banister data movielens-100k` puts it.
        data: `movielens-100k`, `movielens-latest-small` or a `Source`; by default what `path` holds.
        ratings: ratings in memory, instead of a file.
        fill: "knn" predicts the gaps by collaborative filtering, as the paper; "zero" leaves them at 0.
        scaling: "solver" takes U and H as scikit-learn returns them; "balanced" gives each factor the same
            size in both. The ratings are the same, but features and groups are not: see `balance`.
        actions: K.
        baseline_rank: the policy in place recommends the movie that is this good: 1 the best, 5 the fifth.
        noise_std: standard deviation of the reward noise (the paper's variance is 1e-6).
        seed: of the factorisation and the grouping.
        cache: where factors are kept: a folder, True for the user's cache folder, False for nowhere.

    Attributes:
        factors: U, H, and how well they reconstruct the ratings.
        groups: the movies (columns of H) of each task.

    Examples:
        >>> env = MovieLens.example()
        >>> requests = env.requests(5, np.random.default_rng(0))
        >>> requests.actions.shape, np.allclose(requests.baseline_reward, env.baseline(requests))
        ((15, 4, 4), True)
    """

    dim: int = 100
    tasks: int = 5
    path: str | Path | None = None
    data: str | Source | None = None
    ratings: Ratings | None = field(default=None, repr=False)
    fill: Literal["knn", "zero"] = "knn"
    scaling: Literal["solver", "balanced"] = "solver"
    actions: int = 10
    baseline_rank: int = 5
    noise_std: float = 1e-3
    seed: int = 0
    cache: str | Path | bool = True
    factors: Factors = field(init=False, repr=False)
    groups: list[Int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__init__()
        self._check_settings()
        ratings = self.ratings if self.ratings is not None else load_ratings(self.data, self.path)
        recipe = Recipe(dim=self.dim, fill=self.fill, scaling=self.scaling, seed=self.seed)
        cache = _folder(self.cache)
        self.factors = factors_of(ratings, recipe, cache)
        self.groups = groups_of(ratings, self.factors, recipe, tasks=self.tasks, cache=cache)
        self._movies = np.ascontiguousarray(self.factors.movies.T)[np.concatenate(self.groups)]
        self._sizes = np.array([len(group) for group in self.groups])
        self._starts = np.cumsum(self._sizes) - self._sizes

    @classmethod
    def example(cls) -> Self:
        """A small instance for the contract tests, from ratings made up here."""
        rng = np.random.default_rng(0)
        user, item = np.nonzero(rng.random((20, 30)) < 0.5)
        stars = rng.integers(1, 6, len(user))
        ratings = Ratings.of(user, item, stars, scale=(1.0, 2.0, 3.0, 4.0, 5.0))
        return cls(ratings=ratings, dim=4, tasks=3, actions=4, baseline_rank=2, cache=False)

    @property
    def rank(self) -> int:
        """1: all tasks share θ."""
        return 1

    @cached_property
    def theta(self) -> Float:
        """vec(I) for every task, shape (d, T)."""
        return np.repeat(np.eye(side_of(self.dim)).reshape(-1, 1), self.tasks, axis=1)

    def reset(self, rng: np.random.Generator) -> None:
        """Start a new trial; the truth is the data's and stays."""
        self._worth.clear()

    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """The requests of `rounds` rounds, the first of which is round number `start`."""
        task = np.tile(np.arange(self.tasks), rounds)
        draws = rng.random((len(task), self.actions + 1))  # as many a round, whatever the number of rounds
        users = self.factors.users[(draws[:, 0] * len(self.factors.users)).astype(np.int64)]
        picked = draw_distinct(draws[:, 1:], self._sizes[task])
        movies = self._movies[self._starts[task][:, None] + picked]
        actions = users[:, None, :, None] * movies[:, :, None, :]
        return self._asked(
            task,
            actions.reshape(len(task), self.actions, self.dim),
            np.repeat(np.arange(start, start + rounds), self.tasks),
            (users[:, None, :] * movies).sum(axis=2),
        )

    def noise(self, requests: Requests, rng: np.random.Generator) -> Float:
        """Reward noise of each request, the same whatever is chosen, shape (m,)."""
        return self.noise_std * rng.standard_normal(len(requests))

    def _asked(self, task: Int, actions: Float, round_: Int, scores: Float) -> Requests:
        place = self.actions - self.baseline_rank
        baseline = np.argpartition(scores, place, axis=1)[:, place]
        reward = np.take_along_axis(scores, baseline[:, None], axis=1)[:, 0]
        return self.remember(Requests(task, actions, baseline, reward, 0.0, round_), scores)

    def _scores(self, requests: Requests) -> Float:
        return self._trace(requests.actions)

    def _products(self, features: Float, requests: Requests) -> Float:
        return self._trace(features)

    def _trace(self, features: Float) -> Float:
        """`x'vec(I)`: the sum of the √d entries on the diagonal, of (..., d)."""
        trace: Float = np.ascontiguousarray(features[..., :: side_of(self.dim) + 1]).sum(axis=-1)
        return trace

    def _check_settings(self) -> None:
        if not self.actions >= 1:
            raise SettingError(f"actions must be at least 1, not {self.actions!r}.")
        if not 1 <= self.baseline_rank <= self.actions:
            raise SettingError(
                f"baseline_rank={self.baseline_rank!r} must lie between 1 and the {self.actions} actions."
            )
        if not 0.0 <= self.noise_std < np.inf:
            raise SettingError(f"noise_std must be finite and not negative, not {self.noise_std!r}.")


def draw_distinct(draws: Float, sizes: Int) -> Int:
    """K different indices below each row's size, in random order; with replacement where the size is below K.

    Args:
        draws: (m, K) uniform on [0, 1), one for each index.
        sizes: (m,) how many there are to draw from.

    Examples:
        >>> draw_distinct(np.array([[0.5, 0.5, 0.99], [0.5, 0.5, 0.99]]), np.array([4, 2]))
        array([[2, 1, 3],
               [1, 1, 1]])
    """
    picked = np.empty(draws.shape, dtype=np.int64)
    enough = sizes >= draws.shape[1]
    for k in range(draws.shape[1]):
        left = (draws[:, k] * (sizes - k * enough)).astype(np.int64)  # a place among those not yet taken
        for taken in np.sort(picked[:, :k], axis=1).T:
            left += enough & (left >= taken)
        picked[:, k] = left
    return picked


def _folder(cache: str | Path | bool) -> Path | None:
    if isinstance(cache, bool):
        return cache_folder() / "factors" if cache else None
    return Path(cache).expanduser()


def load_ratings(data: str | Source | None, path: str | Path | None) -> Ratings:
    """The ratings of a file, found and checked as `find_ratings` and `read_ratings` say."""
    source = source_for(data, path)
    found = find_ratings(source, path)
    state = found.stat()
    return _read_once(found.resolve(), source, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=2)
def _read_once(path: Path, source: Source, changed: int, size: int) -> Ratings:
    """Many trials build the environment again; a file that has not changed is read and checked once."""
    return read_ratings(path, source)
