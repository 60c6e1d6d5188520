"""The rank, and whether the model may be trusted yet."""

import numpy as np
import pytest

from banister.data import TaskData
from banister.safety.regime import (
    RankSearch,
    effective_counts,
    least_support,
    left_over,
    misfit_correlations,
)
from banister.solver import Whitening
from problems import low_rank, problem


def search_of(data, *, noise=0.1, exact=False, bases=None):
    scaled = TaskData(data.X / noise, data.y / noise, data.offsets, data.labels)
    return RankSearch(scaled, Whitening.of(scaled), effective_counts(scaled), 1.0, exact, bases or {})


@pytest.mark.parametrize("start", [1, 3, 6])
@pytest.mark.parametrize("rank", [1, 3])
def test_the_rank_is_found_from_below_and_from_above(rank, start):
    data, _ = problem(d=15, T=20, r=rank, n=25, noise=0.1, seed=rank)
    search = search_of(data)
    assert search.run(start) == rank
    assert search.strong(rank)


def test_noise_has_no_direction():
    rng = np.random.default_rng(0)
    data, _ = problem(d=15, T=20, r=2, n=25, seed=1)
    search = search_of(data.replace_y(0.1 * rng.standard_normal(data.n_rows)))
    assert search.run(1) == 0
    assert not search.strong(0)


def test_a_weak_direction_is_seen_but_opens_nothing():
    # A direction with 3.5 times the energy of noise's largest, less (1 − γ)³ = 0.8: between 1.25 and 6.
    rng = np.random.default_rng(2)
    data, theta = problem(d=15, T=20, r=1, n=25, noise=0.0, seed=3)
    size = np.sqrt(3.5 * (np.sqrt(15) + np.sqrt(20)) ** 2 / (25 * np.sum(theta**2)))
    noisy = data.replace_y(size * data.y + rng.standard_normal(data.n_rows))
    search = search_of(noisy, noise=1.0)
    assert search.run(1) == 1
    assert not search.strong(1)


def test_too_few_rows_decide_nothing():
    data, _ = problem(d=15, T=20, r=2, n=5, seed=4)
    assert search_of(data).run(1) is None


def test_starts_from_an_earlier_fit_find_the_same():
    data, _ = problem(d=15, T=20, r=2, n=25, seed=5)
    first = search_of(data)
    first.run(1)
    again = search_of(data, bases=first.bases)
    assert again.run(2) == 2
    np.testing.assert_allclose(again.fit(2).B @ again.fit(2).W, first.fit(2).B @ first.fit(2).W, atol=1e-4)
    theta, rank = again.estimate()
    assert theta.shape == (20, 15)
    assert rank == max(again.fits)


def test_many_equal_directions_are_found_at_once():
    # From below, each of six equal directions has five times its own energy around it, as noise.
    data, _ = problem(d=40, T=40, r=6, n=30, noise=0.001, seed=8)
    search = search_of(data, noise=0.001)
    assert search.run() == 6
    assert set(search.fits) == {6}
    assert search.strong(6)


def test_exact_labels_that_are_met_stand_in_for_the_next_rank():
    # 200 rows or so in effect: 76 numbers at rank 2 can be judged, 111 at rank 3 are more than half of them.
    data, _ = problem(d=20, T=20, r=2, n=10, noise=0.0, seed=9)
    assert not search_of(data, noise=0.01)._fits(3)
    assert search_of(data, noise=0.01).run() is None
    assert search_of(data, noise=0.01, exact=True).run() == 2


def test_labels_that_are_not_met_decide_nothing():
    data, _ = problem(d=20, T=20, r=2, n=10, noise=0.05, seed=9)
    assert search_of(data, noise=0.01, exact=True).run() is None


def test_support_by_hand():
    # Four tasks of ten rows share one direction evenly; a second one belongs to the fifth task alone.
    W = np.array([[1.0, 0.0]] * 4 + [[0.0, 3.0]])
    assert least_support(W[:4, :1], np.full(4, 10.0)) == pytest.approx(4 * (10 - 1))
    assert least_support(W, np.full(5, 10.0)) == pytest.approx(1 * (10 - 2))


def test_exact_labels_do_not_vouch_for_a_direction_of_few_tasks():
    # Two tasks outside the subspace: a third direction can meet all their labels, whatever they are.
    data, theta = problem(d=20, T=20, r=2, n=10, noise=0.0, seed=9)
    rng = np.random.default_rng(10)
    theta[:, :2] = rng.standard_normal((20, 2)) * np.linalg.norm(theta) / np.sqrt(400)
    assert search_of(data.replace_y(data.fitted(theta)), noise=0.01, exact=True).run(3) is None


def test_effective_rows_by_hand():
    # Equal rows count in full; beside a row ten times as long (a hundred in energy) the others hardly count.
    data = TaskData.from_codes(
        np.array([[1.0], [1.0], [10.0], [1.0]]), np.zeros(4), np.array([0, 0, 1, 1]), range(3)
    )
    np.testing.assert_allclose(effective_counts(data), [2.0, 101.0**2 / 10001.0, 0.0])


def test_residuals_with_a_shared_direction_are_told_from_noise():
    data, _ = problem(d=15, T=20, r=1, n=25, noise=1.0, seed=6)
    rng = np.random.default_rng(7)
    A = Whitening.of(data).A
    noise = rng.standard_normal(data.n_rows)
    missing = data.fitted(low_rank(15, 20, 1, rng))
    variance = np.ones(20)
    assert not left_over(data, misfit_correlations(data, A, noise), variance)
    assert left_over(data, misfit_correlations(data, A, noise + missing), variance)


def test_left_over_works_for_two_tasks():
    data, _ = problem(d=4, T=2, r=1, n=50, noise=1.0, seed=8)
    rng = np.random.default_rng(8)
    A = Whitening.of(data).A
    noise = rng.standard_normal(data.n_rows)
    assert not left_over(data, misfit_correlations(data, A, noise), np.ones(2))
    assert left_over(data, misfit_correlations(data, A, noise + 2 * data.X[:, 0]), np.ones(2))


def test_correlations_are_those_of_whitened_rows():
    data, _ = problem(d=5, T=3, r=1, n=10, seed=9)
    residual = np.random.default_rng(9).standard_normal(data.n_rows)
    A = Whitening.of(data).A
    plain = np.column_stack([(X @ A).T @ residual[data.codes == t] for t, (X, _) in enumerate(data)])
    np.testing.assert_allclose(misfit_correlations(data, A, residual), plain, atol=1e-10)
