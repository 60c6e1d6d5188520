"""Completion, factors, their cache, and the MovieLens environment built on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import banister as bn
from banister.contract import Choices, Environment
from banister.environments import factors as factors_module
from banister.environments.completion import fill_knn, fill_zero
from banister.environments.factors import Recipe, balance, factors_of, groups_of, side_of
from banister.environments.movielens import MovieLens, draw_distinct
from banister.environments.ratings import Ratings, find_ratings, read_ratings
from banister.environments.sources import MOVIELENS_100K
from banister.environments.storage import cached_arrays, write_atomically
from banister.errors import DataFileError, DataWarning, SettingError
from test_ratings import REAL, needs_real_data, pinned

SCALE = (1.0, 2.0, 3.0, 4.0, 5.0)
NAN = np.nan


def low_rank_ratings(users: int = 60, movies: int = 50, share: float = 0.6) -> Ratings:
    """Stars rounded from a matrix of rank 2, a share of them seen."""
    rng = np.random.default_rng(7)
    truth = 1 + 4 * rng.random((users, 2)) @ rng.dirichlet([1, 1], movies).T
    user, item = np.nonzero(rng.random((users, movies)) < share)
    return Ratings.of(user, item, np.rint(truth[user, item]), scale=SCALE)


def rating_file(folder: Path) -> tuple[Path, str]:
    rng = np.random.default_rng(3)
    user, item = np.nonzero(rng.random((30, 25)) < 0.5)
    stars = rng.integers(1, 6, len(user))
    text = "".join(f"{u + 1}\t{i + 1}\t{s}\t881250949\n" for u, i, s in zip(user, item, stars, strict=True))
    path = folder / "u.data"
    path.write_text(text)
    return path, text


# completion


def test_knn_hand_checked() -> None:
    """Overall mean 5/6, item deviations 1/36 and −1/33, user deviations 5/396 and −0.01368.

    The prediction for user 0 and item 1 is 0.81566 from the means; user 1 agrees on one item (cosine 1,
    shrunk to 1/51) and rated item 1 lower than expected by 0.28935: −0.28935/51/(1 + 1/51) = −0.00556.
    """
    filled = fill_knn(np.array([[1.0, NAN], [1.0, 0.5]]))
    assert filled[0, 1] == pytest.approx(0.81566 - 0.00556, abs=2e-5)
    np.testing.assert_array_equal(filled[[0, 1, 1], [0, 0, 1]], [1.0, 1.0, 0.5])


def plain_knn(matrix: Any, neighbours: int) -> Any:
    """The same prediction, one entry at a time."""
    n, m = matrix.shape
    seen = ~np.isnan(matrix)
    mean = np.nanmean(matrix)
    item = [
        sum(matrix[u, i] - mean for u in range(n) if seen[u, i]) / (seen[:, i].sum() + 10) for i in range(m)
    ]
    user = [
        sum(matrix[u, i] - mean - item[i] for i in range(m) if seen[u, i]) / (seen[u].sum() + 10)
        for u in range(n)
    ]
    filled = matrix.copy()
    for u in range(n):
        weight = np.zeros(n)
        for v in range(n):
            both = [i for i in range(m) if seen[u, i] and seen[v, i]]
            a = np.array([matrix[u, i] - mean - item[i] - user[u] for i in both])
            b = np.array([matrix[v, i] - mean - item[i] - user[v] for i in both])
            if v != u and both and np.any(a) and np.any(b):
                cosine = a @ b / np.sqrt((a @ a) * (b @ b))
                weight[v] = max(0.0, cosine * len(both) / (len(both) + 50))
        weight[np.argsort(weight)[: n - neighbours]] = 0.0
        for i in np.flatnonzero(~seen[u]):
            near = [v for v in range(n) if seen[v, i]]
            pull = sum(weight[v] * (matrix[v, i] - mean - item[i] - user[v]) for v in near)
            filled[u, i] = mean + item[i] + user[u] + pull / (sum(weight[v] for v in near) + 1)
    return filled


def test_knn_equals_one_entry_at_a_time() -> None:
    rng = np.random.default_rng(1)  # users share several items: with one alone, all cosines are 1 and tie
    matrix = np.where(rng.random((12, 20)) < 0.7, rng.random((12, 20)), NAN)
    np.testing.assert_allclose(fill_knn(matrix, neighbours=4), plain_knn(matrix, 4), rtol=1e-12)


def test_fills_keep_ratings_and_bounds() -> None:
    matrix = low_rank_ratings().matrix()
    seen = np.isfinite(matrix)
    for filled in (fill_zero(matrix), fill_knn(matrix, low=0.2)):
        np.testing.assert_array_equal(filled[seen], matrix[seen])
    assert np.all(fill_zero(matrix)[~seen] == 0)
    knn = fill_knn(matrix, low=0.2)[~seen]
    assert 0.2 <= knn.min() <= knn.max() <= 1.0


def test_knn_predicts_better_than_the_mean() -> None:
    ratings = low_rank_ratings()
    matrix = ratings.matrix()
    held = np.isfinite(matrix) & (np.random.default_rng(0).random(matrix.shape) < 0.2)
    predicted = fill_knn(np.where(held, NAN, matrix))
    error = np.mean((predicted - matrix)[held] ** 2)
    assert error < 0.6 * np.var(matrix[held])


# factors and their cache


def recipe(**changes: Any) -> Recipe:
    return Recipe(**{"dim": 4, "fill": "zero", "scaling": "solver", "seed": 0, **changes})


def test_factors_reconstruct_the_filled_matrix(tmp_path: Path) -> None:
    ratings = low_rank_ratings()
    found = factors_of(ratings, recipe(dim=16, fill="knn"), tmp_path)
    filled = fill_knn(ratings.matrix(), low=0.2)
    assert found.users.shape == (60, 4)
    assert found.movies.shape == (4, 50)
    assert min(found.users.min(), found.movies.min()) >= 0
    gap = np.linalg.norm(found.users @ found.movies - filled) / np.linalg.norm(filled)
    assert found.error == pytest.approx(gap)
    assert found.mean == pytest.approx(filled.mean())
    s = np.linalg.svd(filled, compute_uv=False)
    best = np.sqrt(np.sum(s[4:] ** 2)) / np.linalg.norm(filled)
    assert best <= found.error < 1.5 * best


def test_balance_keeps_the_product_and_evens_the_scales() -> None:
    rng = np.random.default_rng(0)
    U, H = rng.random((7, 3)) * [1, 10, 0], rng.random((3, 5))
    u, h = balance(U, H)
    np.testing.assert_allclose(u @ h, U @ H)
    np.testing.assert_allclose((u**2).mean(axis=0)[:2], (h**2).mean(axis=1)[:2])
    assert np.all(np.isfinite(u))
    assert np.all(np.isfinite(h))


def test_balanced_factors_reconstruct_the_same_ratings() -> None:
    ratings = low_rank_ratings()
    plain, even = (factors_of(ratings, recipe(dim=9, scaling=s), None) for s in ("solver", "balanced"))
    np.testing.assert_allclose(even.users @ even.movies, plain.users @ plain.movies, atol=1e-12)
    np.testing.assert_allclose((even.users**2).mean(axis=0), (even.movies**2).mean(axis=1))


@pytest.mark.parametrize("dim", [0, -4, 2, 99, 101, 10.0, "100", None])
def test_dim_must_be_a_square(dim: Any) -> None:
    with pytest.raises(SettingError, match="perfect square"):
        side_of(dim)


def test_dim_error_names_the_nearest_squares() -> None:
    with pytest.raises(SettingError, match=r"99 is not.* 81 or 100"):
        MovieLens(dim=99, ratings=low_rank_ratings(), cache=False)


def test_groups_cover_every_movie_once(tmp_path: Path) -> None:
    ratings = low_rank_ratings()
    found = factors_of(ratings, recipe(), tmp_path)
    groups = groups_of(ratings, found, recipe(), tasks=6, cache=tmp_path)
    assert sorted(np.concatenate(groups).tolist()) == list(range(50))
    centres = np.array([found.movies[:, group].mean(axis=1) for group in groups])
    distance = np.linalg.norm(found.movies.T[:, None] - centres, axis=2)
    nearest = distance.argmin(axis=1)
    labels = np.empty(50, dtype=int)
    for task, group in enumerate(groups):
        labels[group] = task
    assert np.mean(nearest == labels) > 0.95  # k-means: each movie is with its nearest centre


@pytest.mark.parametrize("tasks", [0, 51])
def test_number_of_tasks_is_checked(tasks: int) -> None:
    with pytest.raises(SettingError, match="between 1 and the 50 movies"):
        MovieLens(ratings=low_rank_ratings(), dim=4, tasks=tasks, cache=False)


def test_too_few_distinct_movies_is_an_error() -> None:
    user, item = np.indices((6, 8)).reshape(2, -1)
    same = Ratings.of(user, item, np.full(48, 3.0), scale=SCALE)
    with pytest.raises(SettingError, match="distinct groups; lower tasks=4"):
        MovieLens(ratings=same, dim=1, tasks=4, cache=False)


def test_more_factors_than_users_is_an_error() -> None:
    with pytest.raises(SettingError, match="needs 60 factors"):
        MovieLens(ratings=low_rank_ratings(), dim=3600, cache=False)


def test_factors_are_computed_once_per_file_and_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []
    original = factors_module._factorise
    monkeypatch.setattr(factors_module, "_factorise", lambda *a: calls.append(a[1:]) or original(*a))
    ratings, other = low_rank_ratings(), low_rank_ratings(share=0.5)
    first = factors_of(ratings, recipe(), tmp_path)
    again = factors_of(ratings, recipe(), tmp_path)
    np.testing.assert_array_equal(first.users, again.users)
    assert (first.error, first.iterations, first.converged) == (
        again.error,
        again.iterations,
        again.converged,
    )
    assert len(calls) == 1
    for changed in ({"dim": 9}, {"fill": "knn"}, {"seed": 1}, {"scaling": "balanced"}):
        factors_of(ratings, recipe(**changed), tmp_path)
    factors_of(other, recipe(), tmp_path)
    assert len(calls) == 6


@settings(max_examples=40)
@given(cut=st.floats(0, 1), flip=st.integers(0, 255), data=st.data())
def test_damaged_cache_is_computed_again(
    tmp_path_factory: pytest.TempPathFactory, cut: float, flip: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    wanted = {"a": np.arange(50.0), "b": np.array(3)}
    cached_arrays(folder, "x", {"k": 1}, lambda: wanted)
    (path,) = folder.iterdir()
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        content = content[: int(cut * len(content))]
    else:
        content[int(cut * (len(content) - 1))] ^= flip
    path.write_bytes(bytes(content))
    found = cached_arrays(folder, "x", {"k": 1}, lambda: wanted)
    np.testing.assert_array_equal(found["a"], wanted["a"])
    np.testing.assert_array_equal(found["b"], wanted["b"])
    assert set(found) == {"a", "b"}
    assert cached_arrays(folder, "x", {"k": 1}, dict)["b"] == 3  # and it is whole again


def test_folder_that_cannot_be_written_to_costs_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.warns(DataWarning, match=r"cannot be written .* computed again next time"):
        found = cached_arrays(tmp_path / "file", "x", {}, lambda: {"a": np.ones(2)})
    assert found["a"].tolist() == [1.0, 1.0]


def test_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    monkeypatch.setattr(
        "banister.environments.storage.os.fsync", lambda _: (_ for _ in ()).throw(OSError("full"))
    )
    with pytest.raises(OSError, match="full"):
        write_atomically(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


# the environment


def small(**changes: Any) -> MovieLens:
    options = {"ratings": low_rank_ratings(), "dim": 9, "tasks": 4, "actions": 5, "baseline_rank": 3}
    return MovieLens(**{"cache": False, **options, **changes})


def test_rewards_are_reconstructed_ratings() -> None:
    env = small()
    requests = env.requests(20, np.random.default_rng(0))
    scores = np.einsum("mkd,dm->mk", requests.actions, env.theta[:, requests.task])
    np.testing.assert_allclose(env.best(requests), scores.max(axis=1))
    np.testing.assert_allclose(env.baseline(requests), np.sort(scores, axis=1)[:, -3])
    np.testing.assert_allclose(requests.baseline_reward, env.baseline(requests))
    table = env.factors.users @ env.factors.movies
    for task in range(4):
        offered = scores[requests.task == task]
        of_group = table[:, env.groups[task]]
        assert np.all(np.min(np.abs(offered.reshape(-1, 1) - of_group.ravel()), axis=1) < 1e-12)


def test_features_are_outer_products_of_one_user_with_k_movies() -> None:
    env = small()
    requests = env.requests(10, np.random.default_rng(1))
    for actions, task in zip(requests.actions.reshape(-1, 5, 3, 3), requests.task, strict=True):
        pairs = np.einsum("ua,jb->ujab", env.factors.users, env.factors.movies.T[env.groups[task]])
        gaps = np.abs(pairs[:, :, None] - actions).max(axis=(3, 4))  # user, movie, action
        users, movies = zip(
            *(np.unravel_index(gaps[:, :, k].argmin(), gaps.shape[:2]) for k in range(5)), strict=True
        )
        assert gaps.min(axis=(0, 1)).max() < 1e-15
        assert len(set(users)) == 1
        assert len(set(movies)) == 5


def test_truth_has_rank_one_and_shared_theta() -> None:
    env = small()
    assert env.theta.shape == (9, 4)
    assert np.linalg.matrix_rank(env.theta) == env.rank == 1
    np.testing.assert_array_equal(env.theta[:, 0].reshape(3, 3), np.eye(3))
    assert isinstance(env, Environment)
    assert env.n_tasks == 4


def test_expected_reward_of_mixtures_and_of_the_best() -> None:
    env = small()
    requests = env.requests(6, np.random.default_rng(2))
    scores = np.einsum("mkd,dm->mk", requests.actions, env.theta[:, requests.task])
    best = Choices.of_index(requests, scores.argmax(axis=1), "greedy")
    np.testing.assert_array_equal(env.expected(requests, best), env.best(requests))
    mixed = 0.25 * requests.actions[:, 0] + 0.75 * requests.actions[:, 1]
    choices = Choices.uncertified(mixed, np.full(len(requests), -1), "explore")
    np.testing.assert_allclose(env.expected(requests, choices), scores[:, :2] @ [0.25, 0.75])
    part = requests[5:9]
    np.testing.assert_array_equal(env.best(part), env.best(requests)[5:9])


def test_rows_do_not_depend_on_how_many_rounds_are_asked_for() -> None:
    env = small()
    whole = env.requests(6, np.random.default_rng(5), start=3)
    rng = np.random.default_rng(5)
    parts = [env.requests(2, rng, start=3), env.requests(1, rng, start=5), env.requests(3, rng, start=6)]
    for name in ("task", "actions", "baseline", "baseline_reward", "round"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, name))
    assert whole.round.tolist() == np.repeat(np.arange(3, 9), 4).tolist()
    assert whole.task.tolist() == list(range(4)) * 6


def test_group_smaller_than_k_draws_with_replacement() -> None:
    env = small(tasks=20)
    sizes = np.array([len(group) for group in env.groups])
    assert sizes.min() < 5
    requests = env.requests(40, np.random.default_rng(0))
    for task in np.flatnonzero(sizes < 5):
        offered = requests.actions[requests.task == task]
        distinct = [len(np.unique(actions.round(12), axis=0)) for actions in offered]
        assert max(distinct) <= sizes[task]
    np.testing.assert_allclose(requests.baseline_reward, env.baseline(requests))


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=6), k=st.integers(1, 8), seed=st.integers(0, 99)
)
def test_drawn_movies_are_in_range_and_distinct(sizes: list[int], k: int, seed: int) -> None:
    n = np.array(sizes)
    picked = draw_distinct(np.random.default_rng(seed).random((len(n), k)), n)
    assert picked.shape == (len(n), k)
    for row, size in zip(picked, n, strict=True):
        assert 0 <= row.min() <= row.max() < size
        if size >= k:
            assert len(set(row.tolist())) == k


@pytest.mark.statistical
def test_every_ordered_draw_is_equally_likely() -> None:
    """2 of 4 in order: 12 outcomes, 60,000 draws; χ² with 11 degrees of freedom below its 99.9 % point."""
    picked = draw_distinct(np.random.default_rng(0).random((60_000, 2)), np.full(60_000, 4))
    counts = np.unique(picked @ [4, 1], return_counts=True)[1]
    assert len(counts) == 12
    assert np.sum((counts - 5000) ** 2 / 5000) < 31.3


@pytest.mark.statistical
def test_noise_has_its_standard_deviation() -> None:
    """4,000 draws: the standard error of the deviation is 1.1 %, so 5 % is more than four of them."""
    env = small(noise_std=0.02)
    requests = env.requests(1000, np.random.default_rng(0))
    noise = env.noise(requests, np.random.default_rng(1))
    assert np.std(noise) == pytest.approx(0.02, rel=0.05)
    earned = env.reward(requests, env.baseline(requests), noise)
    np.testing.assert_allclose(earned - env.baseline(requests), noise, atol=1e-15)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fill": "mean"}, "fill must be one of 'knn', 'zero'"),
        ({"scaling": "unit"}, "scaling must be one of 'solver', 'balanced'"),
        ({"actions": 0}, "actions must be at least 1"),
        ({"baseline_rank": 6}, "baseline_rank=6 must lie between 1 and the 5 actions"),
        ({"baseline_rank": 0}, "baseline_rank=0"),
        ({"noise_std": -1.0}, "noise_std"),
        ({"noise_std": NAN}, "noise_std"),
        ({"ratings": None, "data": "netflix"}, "no data set called 'netflix'"),
    ],
)
def test_bad_settings(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        small(**changes)


def test_from_a_file_and_its_folder(tmp_path: Path) -> None:
    path, text = rating_file(tmp_path)
    options: dict[str, Any] = {"dim": 4, "tasks": 2, "actions": 4, "baseline_rank": 2}
    one = MovieLens(path=path, data=pinned(text), cache=tmp_path / "cache", **options)
    two = MovieLens(path=str(tmp_path), data=pinned(text), cache=str(tmp_path / "cache"), **options)
    np.testing.assert_array_equal(one.factors.users, two.factors.users)
    assert len(list((tmp_path / "cache").iterdir())) == 2
    path.write_text(text + "1\t1\t5\t1\n")
    with pytest.raises(DataFileError, match="1 extra"):
        MovieLens(path=path, data=pinned(text), cache=False, **options)


def test_altered_file_and_missing_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = rating_file(tmp_path)
    with pytest.raises(DataFileError, match="is not MovieLens-100K as published: it has 3"):
        bn.MovieLens(path=path)
    monkeypatch.setenv("BANISTER_DATA", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    monkeypatch.setattr("banister.environments.storage.sys.platform", "linux")
    with pytest.raises(DataFileError, match="`banister data movielens-100k` fetches it"):
        bn.MovieLens()


def test_source_is_recognised_by_what_the_path_holds(tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("nothing\n")
    for path in (tmp_path, tmp_path / "ratings.csv"):
        with pytest.raises(DataFileError, match="is not MovieLens latest-small"):
            MovieLens(path=path, cache=False)


# the published data


@needs_real_data
def test_filled_movielens_has_the_known_mean() -> None:
    matrix = read_ratings(find_ratings(MOVIELENS_100K, REAL), MOVIELENS_100K).matrix()
    assert fill_zero(matrix).mean() == pytest.approx(100_000 * 3.52986 / 5 / (943 * 1682))
    assert fill_knn(matrix, low=0.2).mean() == pytest.approx(0.67, abs=0.01)


@needs_real_data
def test_published_data_in_the_environment(tmp_path: Path) -> None:
    env = MovieLens(path=REAL, fill="zero", cache=tmp_path)
    assert env.factors.error == pytest.approx(0.74, abs=0.01)
    assert min(len(group) for group in env.groups) >= env.actions
    requests = env.requests(50, np.random.default_rng(0))
    assert requests.actions.shape == (250, 10, 100)
    assert np.all(env.best(requests) >= env.baseline(requests))


@needs_real_data
def test_latest_small_is_recognised_by_its_name(tmp_path: Path) -> None:
    env = MovieLens(path=REAL / "ml-latest-small", fill="zero", dim=4, tasks=3, cache=tmp_path)
    assert env.factors.movies.shape == (2, 9724)
    assert env.factors.users.shape == (610, 2)
