"""The hierarchical fit: both ends of its scale, what it finds when planted, and its score by numbers."""

from dataclasses import replace

import numpy as np
import pytest

from banister.safety.hierarchy import Start
from banister.safety.passes import EXACT, PASSES, _Work, fit, noise_edge, outlying
from banister.safety.posterior import Shared
from banister.safety.rows import mean_square
from hierarchy_world import given, planted, plays, rows_of


def test_one_task_alone_is_an_ordinary_regression():
    theta = np.random.default_rng(1).normal(size=(1, 5))
    task, Z, y = plays(theta, 200, 0.5)
    rows = rows_of(task, Z, y, 1)
    h = fit(rows)
    post = given(rows, h)
    ordinary = np.linalg.lstsq(Z, y, rcond=None)[0]
    variance = ((y - Z @ ordinary) ** 2).sum() / 195
    assert h.shared.rank == 0
    # μ has a prior of size τ0²: shrinkage of about noise/(200 τ0²), 0.15 % here
    np.testing.assert_allclose(post.mean[0], ordinary, atol=2e-3)
    assert h.level == pytest.approx(variance, rel=1e-3)
    V, _ = post.covariance(h.open_of(post.c))
    np.testing.assert_allclose(V[0], variance * np.linalg.inv(Z.T @ Z), rtol=5e-3, atol=5e-6)


def test_one_task_with_fewer_rows_than_features_is_a_ridge_regression():
    theta = np.random.default_rng(1).normal(size=(1, 6))
    task, Z, y = plays(theta, 4, 0.1)
    rows = rows_of(task, Z, y, 1)
    h = fit(rows)
    post = given(rows, h)
    prior = np.diag(h.shared.D) + h.size * np.eye(6)  # of θ = μ + u: τ0² and what is left over
    ridge = prior @ Z.T @ np.linalg.solve(Z @ prior @ Z.T + h.level * np.eye(4), y)
    np.testing.assert_allclose(post.mean[0], ridge, rtol=1e-3, atol=1e-3)
    V, _ = post.covariance(h.open_of(post.c))
    dense = prior - prior @ Z.T @ np.linalg.solve(Z @ prior @ Z.T + h.noise.variance * np.eye(4), Z @ prior)
    np.testing.assert_allclose(V[0], dense, rtol=1e-3, atol=1e-3 * h.size)


def test_equal_tasks_are_one_task():
    theta = np.repeat(np.random.default_rng(1).normal(size=(1, 5)), 30, axis=0)
    task, Z, y = plays(theta, 20, 0.5, seed=3)
    rows = rows_of(task, Z, y, 30)
    h = fit(rows)
    pooled = np.linalg.lstsq(Z, y, rcond=None)[0]
    assert h.shared.rank == 0
    assert np.all(2.5 * h.spread > h.shared.D)  # nothing left over that noise does not make
    np.testing.assert_allclose(h.shared.mu, pooled, atol=0.01)
    # and what is open of μ is the pooled regression's covariance, a little wider for the D that is left
    ratio = np.diag(h.open.blocks[0, 0]) / np.diag(0.25 * np.linalg.inv(Z.T @ Z))
    assert np.all((ratio > 0.9) & (ratio < 1.6))


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_a_planted_rank_is_found_and_used(k, seed):
    theta, L = planted(8, 40, k, seed)
    rows = rows_of(*plays(theta, 20, 0.3, seed), 40)
    h = fit(rows)
    assert h.shared.rank == k
    assert h.level == pytest.approx(0.09, rel=0.2)  # 800 rows, 15 % of them spent
    # the directions span the planted ones
    basis = np.linalg.qr(h.shared.L)[0]
    assert np.linalg.norm(L - basis @ (basis.T @ L)) < 0.1 * np.linalg.norm(L)
    own = np.array([np.linalg.lstsq(*_task(rows, t), rcond=None)[0] for t in range(40)])
    alone, together = np.abs(own - theta).mean(), np.abs(given(rows, h).mean - theta).mean()
    assert together < 0.75 * alone
    assert np.all(0.05 * h.size > h.shared.D)


def _task(rows, t):
    return rows.plays.R[t], rows.plays.z[t]


@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_has_no_directions_and_independent_tasks_share_none(seed):
    rows = rows_of(*plays(np.zeros((40, 8)), 20, 0.3, seed), 40)
    h = fit(rows)
    assert h.shared.rank == 0
    assert h.level == pytest.approx(0.09, rel=0.15)
    assert np.all(4 * h.spread > h.shared.D)
    theta = np.random.default_rng(seed).normal(size=(40, 8))
    h = fit(rows_of(*plays(theta, 20, 0.3, seed), 40))
    assert h.shared.rank == 0
    assert h.shared.D.mean() == pytest.approx(1.0, abs=0.25)  # 320 draws of variance one: ± 0.08
    # the standard error of a variance from 40 draws is √(2/40) of it
    np.testing.assert_allclose(h.spread / h.shared.D, np.sqrt(2 / 40), rtol=0.2)


def test_the_score_of_the_left_over_is_the_slope_of_the_restricted_likelihood():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=3) + rng.normal(size=(4, 3)) * [0.5, 1.0, 0.1]
    task, Z, y = plays(theta, 3, 0.4)
    rows = rows_of(task, Z, y, 4)
    work = _Work(rows, None, None)
    noise = work.noise.variance.copy()
    work.run(0)

    def likelihood(D):
        # y of all tasks with μ ~ N(0, τ0² I) integrated out
        S = work.size * Z @ Z.T + np.diag(noise[task])
        S += (task[:, None] == task) * ((Z * D) @ Z.T)
        return -0.5 * (np.linalg.slogdet(S)[1] + y @ np.linalg.solve(S, y))

    for j in range(3):
        h = 1e-5 * work.used[j]
        step = np.eye(3)[j] * h
        slope = (likelihood(work.used + step) - likelihood(work.used - step)) / (2 * h)
        assert work.score[j] / 2 == pytest.approx(slope, rel=1e-6)


def test_a_task_of_its_own_noise_and_the_level_of_all():
    theta, _ = planted(4, 30, 1, 0)
    noise = np.where(np.arange(30) < 3, 1.0, 0.1)
    h = fit(rows_of(*plays(theta, 40, noise), 30))
    assert np.all(h.noise.variance[:3] > 0.4)
    np.testing.assert_allclose(h.noise.variance[3:], 0.01, rtol=0.8)
    assert h.level == pytest.approx(h.noise.variance.mean())


def test_with_hardly_a_row_left_residuals_are_no_noise_level():
    theta = np.random.default_rng(0).normal(size=(6, 5))
    exact = rows_of(*plays(theta, 5, 0.0), 6)
    assert fit(exact).level >= 0.99e-4 * mean_square(*exact.total())
    more = rows_of(*plays(theta, 20, 0.0), 6)
    assert fit(more).level < 1e-8 * mean_square(*more.total())


def test_labels_have_the_variance_that_they_claim_and_a_least_one():
    task, Z, y = plays(np.ones((2, 2)), 3, 0.1)
    rows = rows_of(task, Z, y, 2, labels=(task, 3 * Z, y))
    noise = np.array([4.0, 16.0])
    info = rows.information(noise, 0.01)
    np.testing.assert_allclose(info.R[1, :2], rows.plays.R[1] / 4)
    np.testing.assert_allclose(info.R[1, 2:], rows.labels.R[1] * 10)
    claimed = rows_of(task, Z, y, 2, labels=(task, 3 * Z, y), claimed=0.25).information(noise, 0.01)
    np.testing.assert_allclose(claimed.R[0, 2:], rows.labels.R[0] * 2)
    both = rows_of(task, Z, y, 2, labels=(task, Z, y)).information(noise, 0.01)  # of what was played
    np.testing.assert_allclose(both.R[1], rows.plays.R[1] * np.sqrt(1 / 16 + 100))


def test_squares_of_rewards_and_labels_are_counted_together():
    task, Z = np.array([0, 1, 1]), np.ones((3, 2))
    rows = rows_of(task, Z, np.array([1.0, 2.0, 3.0]), 2, labels=(task[:2], Z[:2], np.array([4.0, 5.0])))
    assert rows.total() == (1 + 4 + 9 + 16 + 25, 5)


def test_labels_are_no_more_exact_than_what_they_leave_unexplained():
    theta, _ = planted(4, 20, 1, 0)
    task, Z, y = plays(theta, 30, 0.5)
    exact = np.einsum("np,np->n", Z, theta[task])
    h = fit(rows_of(task, Z, y, 20, labels=(task, Z, exact)))
    # an exact label counts as a reward with a hundredth of the noise
    assert h.label_level == pytest.approx(h.level / EXACT**2, rel=0.05)
    assert EXACT == 100.0
    bent = exact + 0.1 * np.sin(5 * Z[:, 0])  # what no linear model explains: variance 0.005
    h = fit(rows_of(task, Z, y, 20, labels=(task, Z, bent)))
    assert h.label_level == pytest.approx(0.005, rel=0.25)


def test_exact_labels_tell_more_than_rewards():
    theta, _ = planted(5, 20, 1, 2)
    task, Z, y = plays(theta, 6, 0.5)
    exact = np.einsum("np,np->n", Z, theta[task])
    alone, labelled = rows_of(task, Z, y, 20), rows_of(task, Z, y, 20, labels=(task, Z, exact))
    errors = [np.abs(given(rows, fit(rows)).mean - theta).mean() for rows in (alone, labelled)]
    assert errors[1] < 0.1 * errors[0]
    assert fit(labelled).level == pytest.approx(0.25, rel=0.35)


def test_a_warm_start_ends_where_a_cold_one_does():
    theta, _ = planted(8, 40, 2, 5)
    rows = rows_of(*plays(theta, 20, 0.3, 5), 40)
    cold = fit(rows)
    warm = fit(rows, Start(cold.shared, cold.level, 800))
    assert warm.shared.rank == cold.shared.rank
    difference = given(rows, warm).mean - given(rows, cold).mean
    spread = np.sqrt(np.diagonal(given(rows, cold).covariance(cold.open_of(given(rows, cold).c))[0], 0, 1, 2))
    assert np.abs(difference / spread).max() < 0.2  # of a standard error
    assert warm.level == pytest.approx(cold.level, rel=0.01)


def test_a_warm_start_drops_what_is_not_there_and_adds_what_is():
    theta, _ = planted(8, 40, 1, 1)
    rows = rows_of(*plays(theta, 20, 0.3, 1), 40)
    cold = fit(rows)
    rng = np.random.default_rng(0)
    extra = np.concatenate([cold.shared.L, 1e-3 * rng.normal(size=(8, 1))], axis=1)
    warm = fit(rows, Start(Shared(cold.shared.mu, extra, cold.shared.D), cold.level, 800))
    assert warm.shared.rank == 1
    none = Shared(cold.shared.mu, np.zeros((8, 0)), cold.shared.D)
    assert fit(rows, Start(none, cold.level, 800)).shared.rank == 1


def test_a_start_in_other_units():
    start = Start(Shared(np.ones(2), np.ones((2, 1)), np.ones(2)), 0.5, 7).per(np.array([2.0, 10.0]))
    np.testing.assert_array_equal(start.shared.mu, [2, 10])
    np.testing.assert_array_equal(start.shared.L[:, 0], [2, 10])
    np.testing.assert_array_equal(start.shared.D, [4, 100])
    assert (start.noise, start.rows) == (0.5, 7)


def test_parameters_are_at_most_half_the_rows():
    def most(p, T, n):
        return rows_of(*plays(np.zeros((T, p)), n, 1.0), T).most_directions()

    # k (p + T − k) + p ≤ rows / 2
    assert most(4, 10, 4) == 1  # 20: 13 + 4 = 17 fits, 24 + 4 does not
    assert most(4, 10, 3) == 0  # 15: 17 does not fit
    assert most(3, 4, 100) == 2  # p − 1 and T − 2
    assert most(9, 2, 100) == 0
    assert most(30, 40, 60) == 15  # no more than fifteen
    task, Z, y = plays(np.zeros((10, 4)), 4, 1.0)
    labelled = rows_of(task[:1], Z[:1], y[:1], 10, labels=(task, Z, y))
    assert labelled.most_directions() == 1  # labels count as well as plays do


def test_a_rank_that_is_given_is_the_most():
    theta, _ = planted(8, 40, 2, 5)
    rows = rows_of(*plays(theta, 20, 0.3, 5), 40)
    found = fit(rows, most=1)
    assert found.shared.rank == 1
    assert found.shared.D.sum() > 10 * fit(rows).shared.D.sum()  # the other is left over
    assert fit(rows, most=99).shared.rank == 2
    assert fit(rows, most=0).shared.rank == 0


def test_directions_left_out_where_rows_are_few():
    theta, _ = planted(6, 12, 2, 0)
    h = fit(rows_of(*plays(theta, 2, 0.01), 12))
    assert h.shared.rank == 0  # 24 rows carry no direction of 17 parameters


def test_a_fit_is_loose_while_nothing_is_shared_or_most_of_its_rows_are_spent():
    theta, _ = planted(8, 40, 1, 1)
    h = fit(rows_of(*plays(theta, 20, 0.3, 1), 40))
    assert (h.shared.rank, h.through, h.loose) == (1, False, False)
    for spent, through in [(0.49, False), (0.51, True)]:
        found = replace(h, spent=spent)
        assert (found.through, found.loose) == (through, through)
    nothing = fit(rows_of(*plays(np.zeros((40, 8)), 20, 0.3), 40))
    assert (nothing.shared.rank, nothing.through, nothing.loose) == (0, False, True)


def test_what_no_row_tells_is_called_unseen():
    theta, _ = planted(4, 20, 1, 0)
    task, Z, y = plays(theta, 10, 0.2)
    Z[:, 3] = 0.0
    h = fit(rows_of(task, Z, y, 20))
    assert h.unseen.tolist() == [False, False, False, True]
    assert h.spread[3] == h.size
    assert h.unforced[3] == h.shared.D[3]
    assert np.all(h.spread <= h.size)


def test_tasks_unlike_the_others_do_not_widen_them():
    # One task of twenty is a hundred times as noisy: its scores must not become left-over of all.
    theta, _ = planted(4, 20, 1, 3)
    quiet, loud = np.full(20, 0.05), np.full(20, 0.05)
    loud[7] = 5.0
    D = [fit(rows_of(*plays(theta, 20, noise, 2), 20)).shared.D.sum() for noise in (quiet, loud)]
    assert D[1] < 20 * D[0] + 1e-4


def test_open_of_combines_blocks():
    h = fit(rows_of(*plays(planted(3, 10, 1, 0)[0], 10, 0.1), 10))
    blocks = h.open.blocks
    assert blocks.shape == (2, 2, 3, 3)
    c = np.array([[1.0, -2.0]])
    wanted = blocks[0, 0] - 2 * blocks[0, 1] - 2 * blocks[1, 0] + 4 * blocks[1, 1]
    np.testing.assert_allclose(h.open_of(c)[0], wanted, rtol=1e-12)
    whole = blocks.transpose(0, 2, 1, 3).reshape(6, 6)
    assert np.linalg.eigvalsh(whole).min() > 0


def test_the_edge_of_noise_and_tasks_beyond_the_others():
    assert noise_edge(4, 16) == pytest.approx(2.25)
    assert noise_edge(3, 0) == pytest.approx((1 + np.sqrt(3)) ** 2)
    raw, freedom = np.array([1.0, 1.1, 0.9, 1.0, 1.05, 9.0]), np.full(6, 200.0)
    # √(2/200) = 0.1 is less than 1.4826 · 0.07: beyond 3 · 0.11 of log variance
    assert outlying(raw, freedom).tolist() == [False] * 5 + [True]
    assert not outlying(raw, np.full(6, 1.0)).any()  # hardly a row behind them
    assert not outlying(raw[1:], np.array([200.0] * 4 + [1.0])).any()  # four can not tell
    assert not outlying(raw, np.full(6, 2.5)).any()  # 3 · √(2/2.5) = 2.7 > log 9
    assert outlying(np.array([1.0] * 5 + [1.4]), freedom).tolist() == [False] * 5 + [True]
    assert not outlying(np.array([1.0] * 5 + [1.3]), freedom).any()  # log 1.3 = .26 < 3 · 0.1


def test_passes_of_a_warm_start_are_fewer(monkeypatch):
    rows, ran = rows_of(*plays(np.zeros((3, 2)), 5, 1.0), 3), []
    plain = _Work.run
    monkeypatch.setattr(_Work, "run", lambda self, number: (ran.append(number), plain(self, number)))
    h = fit(rows)
    assert ran == list(range(PASSES))
    ran.clear()
    fit(rows, Start(h.shared, h.level, 15))
    assert ran == list(range(PASSES - 6, PASSES))
