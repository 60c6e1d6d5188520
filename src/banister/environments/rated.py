"""`RatedMovies`: recommend to real users, and earn the stars they really gave; no linear truth exists."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from banister.contract import Choices, Requests
from banister.data import Float, Int
from banister.environments.base import LinearEnvironment
from banister.environments.movielens import draw_distinct, load_ratings
from banister.environments.ratings import Ratings
from banister.environments.sources import Source
from banister.errors import InputError, SettingError

_LEAST = 5  # ratings by others below which nothing is known of a movie
_SHRINK = 5.0  # ratings of its own after which a movie's mean counts for half: a common choice for MovieLens


@dataclass(kw_only=True, eq=False)
class RatedMovies(LinearEnvironment):
    """Each task is a user; the candidates are movies that this user rated, and the reward is that rating.

    The T users with the most ratings are the tasks. What is known of a movie comes from everybody else: its
    mean rating, shrunk towards that of all movies, and its coordinates in the leading directions of the other
    users' ratings about those means. A row of features is 1, the mean, and d − 2 coordinates, scaled to equal
    size. In each round each user is offered K of the movies that he or she rated, drawn at random, and the
    policy in place recommends the one with the highest mean. Movies that fewer than five others rated, and
    those with the features of another, are left out.

    The tasks' own ratings enter nothing but the rewards, so these are held out. A rating is no linear
    function of the features and has no noise that could be averaged away: a user's rating of a movie is the
    same whenever it is offered. **A promise that rests on a linear model may fail here**, and how often is
    what this environment measures. `theta` is the least-squares fit of each user's ratings, for scoring only.
    A mixture of movies cannot be shown to anyone: policies have to be told `mixing=False`.

    Args:
        dim: d, at least 3.
        rank: what policies that ask for a rank are told; no rank is true.
        tasks: T.
        path, data, ratings: where the ratings are, as for `MovieLens`.
        actions: K.
        baseline_known: False reports NaN for every baseline reward, True the rating that would be given.

    Examples:
        >>> env = RatedMovies.example()
        >>> requests = env.requests(5, np.random.default_rng(0))
        >>> requests.actions.shape, bool((env.best(requests) >= env.baseline(requests)).all())
        ((20, 3, 5), True)
    """

    dim: int = 12
    rank: int = 3
    tasks: int = 50
    path: str | Path | None = None
    data: str | Source | None = None
    ratings: Ratings | None = field(default=None, repr=False)
    actions: int = 10
    baseline_known: bool = True

    catalogue = True  # only listed actions can be played

    def __post_init__(self) -> None:
        super().__init__()
        if self.dim < 3:
            raise SettingError(f"dim={self.dim!r} must be at least 3: a constant, the mean, one direction.")
        if self.actions < 1:
            raise SettingError(f"actions must be at least 1, not {self.actions!r}.")
        if not 1 <= self.rank <= min(self.dim, self.tasks):
            raise SettingError(f"rank={self.rank!r} must lie between 1 and the lesser of dim and tasks.")
        ratings = self.ratings if self.ratings is not None else load_ratings(self.data, self.path)
        table = ratings.matrix()
        users = np.argsort(-np.sum(~np.isnan(table), axis=1), kind="stable")[: self.tasks]
        if not 1 <= self.tasks < ratings.n_users:
            raise SettingError(f"tasks={self.tasks!r} must leave some of the {ratings.n_users} users over.")
        others = np.delete(table, users, axis=0)
        self._features, self._means = movie_features(others, self.dim)
        self._given = table[users]
        apart = np.zeros(table.shape[1], dtype=bool)
        apart[np.unique(self._features, axis=0, return_index=True)[1]] = True
        known = apart & (np.sum(~np.isnan(others), axis=0) >= _LEAST)
        self._movies: list[Int] = [np.flatnonzero(known & ~np.isnan(row)) for row in self._given]
        self._sizes = np.array([len(movies) for movies in self._movies])

    @classmethod
    def example(cls) -> Self:
        """A small instance for the contract tests, from ratings made up here."""
        rng = np.random.default_rng(0)
        user, item = np.nonzero(rng.random((24, 30)) < 0.6)
        stars = rng.integers(1, 6, len(user))
        ratings = Ratings.of(user, item, stars, scale=(1.0, 2.0, 3.0, 4.0, 5.0))
        return cls(ratings=ratings, dim=5, rank=2, tasks=4, actions=3)

    @property
    def n_tasks(self) -> int:
        """T."""
        return self.tasks

    @cached_property
    def theta(self) -> Float:
        """The linear fit closest to each user's ratings, shape (d, T); for scoring only."""
        fits = [
            np.linalg.lstsq(self._features[movies], row[movies], rcond=None)[0]
            for movies, row in zip(self._movies, self._given, strict=True)
        ]
        return np.column_stack(fits)

    def reset(self, rng: np.random.Generator) -> None:
        """Start a new trial; who likes what is the data's and stays."""
        self._worth.clear()

    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """The requests of `rounds` rounds, the first of which is round number `start`."""
        task = np.tile(np.arange(self.tasks), rounds)
        places = draw_distinct(rng.random((len(task), self.actions)), self._sizes[task])
        movies = np.stack([self._movies[t][row] for t, row in zip(task, places, strict=True)])
        stars = self._given[task[:, None], movies]
        baseline = self._means[movies].argmax(axis=1)
        reward = stars[np.arange(len(task)), baseline]
        if not self.baseline_known:
            reward = np.full(len(task), np.nan)
        round_ = np.repeat(np.arange(start, start + rounds), self.tasks)
        asked = Requests(task, self._features[movies], baseline, reward, 0.0, round_)
        return self.remember(asked, stars)

    def noise(self, requests: Requests, rng: np.random.Generator) -> Float:
        """None: the same user gives the same movie the same rating."""
        return np.zeros(len(requests))

    def expected(self, requests: Requests, choices: Choices) -> Float:
        """The rating given to what was chosen, shape (m,)."""
        if np.any(choices.index < 0):
            raise InputError(
                "A mixture of movies was chosen, which nobody rated; tell the policy mixing=False."
            )
        return self._scores(requests)[np.arange(len(requests)), choices.index]

    def _scores(self, requests: Requests) -> Float:
        """Ratings (m, K) of everything on offer, looked up by the features that were sent."""
        keys = np.ascontiguousarray(requests.actions).reshape(-1, self.dim)
        movie = np.array([self._place[row.tobytes()] for row in keys]).reshape(requests.actions.shape[:2])
        found: Float = self._given[requests.task[:, None], movie]
        return found

    @cached_property
    def _place(self) -> dict[bytes, int]:
        """Which movie a row of features is, among those that may be offered."""
        offered = np.unique(np.concatenate(self._movies))
        return {self._features[i].tobytes(): int(i) for i in offered}


def movie_features(table: Float, dim: int) -> tuple[Float, Float]:
    """Features (movies, d) and mean ratings (movies,) from ratings (users, movies), NaN where none is."""
    seen = ~np.isnan(table)
    count = seen.sum(axis=0)
    overall = float(np.nanmean(table))
    means = (np.nansum(table, axis=0) + _SHRINK * overall) / (count + _SHRINK)
    rest = np.where(seen, table - means, 0.0)
    level = rest.sum(axis=1) / np.maximum(seen.sum(axis=1), 1)  # some users give more stars to everything
    rest -= np.where(seen, level[:, None], 0.0)
    directions = np.linalg.svd(rest, full_matrices=False)[2][: dim - 2].T
    columns = np.column_stack([means - overall, directions])
    scale = np.sqrt(np.mean(columns**2, axis=0))
    columns = columns / np.where(scale > 0, scale, 1.0)
    return np.column_stack([np.ones(len(means)), columns]), means
