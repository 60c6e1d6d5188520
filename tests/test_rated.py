"""Real ratings as rewards: features without the tasks' own ratings, rewards that are those ratings."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import banister as bn
from banister.contract import Choices
from banister.environments.rated import RatedMovies, movie_features
from banister.environments.ratings import Ratings
from banister.errors import InputError, SettingError
from banister.simulation.point import RATED, Point
from banister.studies.competitors import COMPETITORS
from banister.studies.own_panels import OWN

FIVE = (1.0, 2.0, 3.0, 4.0, 5.0)


def made_up(seed=0, users=24, movies=30):
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((users, movies)) < 0.6)
    return Ratings.of(user, item, rng.integers(1, 6, len(user)), scale=FIVE)


def test_features_by_hand():
    """Two users, two movies: means shrunk by five ratings at the overall mean, 0.5; the rest is a sign."""
    table = np.array([[0.2, 0.8], [0.4, 0.6]])
    X, means = movie_features(table, 3)
    np.testing.assert_allclose(means, [(0.6 + 2.5) / 7, (1.4 + 2.5) / 7])
    np.testing.assert_allclose(X[:, :2], [[1.0, -1.0], [1.0, 1.0]])
    np.testing.assert_allclose(np.abs(X[:, 2]), [1.0, 1.0])


def test_a_reward_is_the_rating_that_was_given():
    ratings = made_up()
    env = RatedMovies(ratings=ratings, dim=5, rank=2, tasks=4, actions=3)
    table = ratings.matrix()
    users = np.argsort(-np.sum(~np.isnan(table), axis=1), kind="stable")[:4]
    requests = env.requests(6, np.random.default_rng(0))
    for k in range(3):
        got = env.expected(requests, Choices.of_index(requests, np.full(len(requests), k), "greedy"))
        for n in range(len(requests)):
            mine = env._place[requests.actions[n, k].tobytes()]
            assert got[n] == table[users[requests.task[n]], mine]
    assert (env.noise(requests, np.random.default_rng(1)) == 0).all()


def test_the_tasks_own_ratings_do_not_enter_the_features():
    ratings = made_up()
    table = ratings.matrix()
    users = np.argsort(-np.sum(~np.isnan(table), axis=1), kind="stable")[:4]
    stars = ratings.stars.copy()
    mine = np.isin(ratings.user, users)
    stars[mine] = 6 - stars[mine]
    turned = Ratings.of(ratings.user, ratings.item, stars, scale=FIVE)
    settings = {"dim": 5, "rank": 2, "tasks": 4, "actions": 3}
    one, two = (RatedMovies(ratings=r, **settings) for r in (ratings, turned))
    asked = [env.requests(5, np.random.default_rng(0)) for env in (one, two)]
    np.testing.assert_array_equal(asked[0].actions, asked[1].actions)
    np.testing.assert_array_equal(asked[0].baseline, asked[1].baseline)
    np.testing.assert_allclose(one.best(asked[0]), 1.2 - two._scores(asked[1]).min(axis=1))


def test_the_baseline_is_what_others_like_best():
    env = RatedMovies.example()
    requests = env.requests(5, np.random.default_rng(0))
    means = env._means[[[env._place[row.tobytes()] for row in offer] for offer in requests.actions]]
    np.testing.assert_array_equal(requests.baseline, means.argmax(axis=1))


def test_an_unknown_baseline_is_not_reported():
    env = RatedMovies(ratings=made_up(), dim=5, rank=2, tasks=4, actions=3, baseline_known=False)
    requests = env.requests(2, np.random.default_rng(0))
    assert np.isnan(requests.baseline_reward).all()
    assert np.isfinite(env.baseline(requests)).all()


def test_a_movie_that_hardly_anyone_else_rated_is_never_offered():
    ratings = made_up()
    extra = np.zeros(3, dtype=np.int64)
    more = Ratings.of(
        np.r_[ratings.user, [0, 1, 2]],
        np.r_[ratings.item, extra + 99],
        np.r_[ratings.stars, [5, 5, 5]],
        scale=FIVE,
    )
    env = RatedMovies(ratings=more, dim=5, rank=2, tasks=4, actions=3)
    rare = more.n_items - 1
    assert all(rare not in movies for movies in env._movies)


def test_a_mixture_is_refused_with_the_remedy():
    env = RatedMovies.example()
    env.reset(np.random.default_rng(0))
    with pytest.raises(InputError, match="mixing=False"):
        bn.simulate(env, bn.SafeAltGDmin(safety="converged"), epochs=1, rounds=5)
    bn.simulate(env, bn.SafeAltGDmin(safety="converged", mixing=False, rank=1), epochs=2, rounds=5)


@pytest.mark.parametrize("settings", [{"dim": 2}, {"tasks": 24}, {"tasks": 0}, {"actions": 0}, {"rank": 9}])
def test_settings_that_cannot_be(settings):
    with pytest.raises(SettingError):
        RatedMovies(**{"ratings": made_up(), "dim": 5, "rank": 2, "tasks": 4, **settings})


@pytest.mark.parametrize("name", next(panel for panel in OWN if panel.id == "7a").policies)
def test_everyone_in_its_panel_can_play_it(name):
    env = RatedMovies.example()
    policy = COMPETITORS[name].build(Point.of(RATED), env)
    result = bn.simulate(env, policy, epochs=2, rounds=8, alpha=0.2)
    assert result.decisions.sum() == 64


@pytest.mark.skipif("BANISTER_DATA" not in os.environ, reason="needs the rating files")
@pytest.mark.parametrize("data", ["movielens-100k", "movielens-latest-small"])
def test_both_data_sets_serve(data):
    folder = Path(os.environ["BANISTER_DATA"])
    env = RatedMovies(data=data, path=folder if folder.name != "ml-100k" else folder.parent, tasks=20)
    requests = env.requests(3, np.random.default_rng(0))
    assert 0.5 < env.baseline(requests).mean() < env.best(requests).mean() <= 1.0
