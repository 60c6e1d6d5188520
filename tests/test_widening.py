"""Doubts that the likelihood does not see: each rule by a case that can be done by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from banister.safety.factors import Information
from banister.safety.hierarchy import Hierarchy
from banister.safety.noise import Moderated
from banister.safety.posterior import Posterior, Shared
from banister.safety.widening import (
    HIDDEN,
    Leaning,
    alone,
    left_over,
    left_over_error,
    means,
    odd_noise,
    of_own_size,
    tails,
    unequal_noise,
    widened,
)

NOTHING = np.zeros(0)


def hierarchy(D, spread, *, unforced=None, information=None, unseen=None, rank=0, size=1.0, spent=0.0):
    p = len(D)
    D = np.asarray(D, dtype=float)
    return Hierarchy(
        shared=Shared(np.zeros(p), np.zeros((p, rank)), D),
        open=np.zeros((rank + 1, rank + 1, p, p)),
        noise=Moderated(np.ones(1), np.ones(1)),
        level=1.0,
        label_level=1e-4,
        spread=np.broadcast_to(np.asarray(spread, dtype=float), p),
        unforced=D if unforced is None else np.asarray(unforced, dtype=float),
        information=2 / np.broadcast_to(spread, p) ** 2 * np.eye(p) if information is None else information,
        unseen=np.zeros(p, dtype=bool) if unseen is None else np.asarray(unseen),
        size=size,
        spent=spent,
    )


def test_directions_of_few_tasks_have_heavier_tails():
    # Student's quantile of P(Z > 3) with 10 − 2 − 1 = 7 degrees of freedom, over 3, squared
    assert tails(10, 2, 3.0) == pytest.approx((student.isf(norm.sf(3.0), 7) / 3.0) ** 2)
    assert tails(10, 2, 3.0) == pytest.approx((4.53 / 3) ** 2, abs=0.01)
    assert tails(2, 1, 3.0) == tails(3, 1, 3.0) == pytest.approx((student.isf(norm.sf(3.0), 1) / 3.0) ** 2)
    # with no direction shared, T − 1 degrees: the left-over is widened by it
    assert tails(4, 0, 3.0) == pytest.approx((student.isf(norm.sf(3.0), 3) / 3.0) ** 2)


def test_a_left_over_that_is_surely_there_counts_many_times():
    h = hierarchy([0.31, 0.0], 0.1)
    assert left_over(h, 1.0)[0] == pytest.approx(25 * 0.31)
    assert HIDDEN == 25.0
    assert left_over(hierarchy([0.29, 0.0], 0.1), 1.0)[0] < 0.31  # below three standard errors


def test_while_nothing_is_shared_a_tasks_size_is_known_from_its_own_rows():
    def ratio(freedom):
        return (student.isf(norm.sf(3.0), freedom) / 3.0) ** 2

    found = of_own_size(np.array([1.0, 5.0, 9.0, 50.0]), tails(10, 0, 3.0), 3.0)
    np.testing.assert_allclose(found, [ratio(3) / ratio(9), ratio(5) / ratio(9), 1.0, 1.0])


def test_a_task_that_is_alone_with_a_direction_has_a_left_over_of_that_size():
    # Of two directions the first is of tasks 1 and 2 alike, the second of task 0 alone, whichever way they
    # are written: its leverage is 1 and that of the others a half, or less with a third task beside them.
    w = np.array([[0.0, 5.0], [1.0, 0.0], [1.0, 0.0], [0.2, 0.0]])
    L = np.array([[1.0, 0.0], [0.0, 0.3], [0.0, 0.0]])
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    for coefficients, directions in ((w, L), (w @ turn, L @ turn)):
        found = alone(coefficients, directions)
        np.testing.assert_allclose(found, [25 * (5 * 0.3) ** 2 / 3, 0.0, 0.0, 0.0], atol=1e-12)
    assert alone(np.array([[1.01], [1.0]]), np.ones((1, 1)))[0] > 25.0  # more than all others together
    np.testing.assert_array_equal(alone(np.zeros((3, 0)), np.zeros((2, 0))), 0.0)


def test_a_task_that_only_such_tasks_bear_out_is_one_of_them():
    small, L = np.tile([0.1, -0.1], 12), np.ones((1, 1))
    w = np.r_[5.0, -3.0, small][:, None]  # the second has 0.26 of all leverage, and nearly all of the rest
    np.testing.assert_array_equal(np.flatnonzero(alone(w, L)), [0, 1])
    np.testing.assert_allclose(alone(w, L)[:2], 25 * w[:2, 0] ** 2)


def test_where_tasks_are_many_few_that_share_a_direction_are_alone_with_it():
    L, others = np.ones((1, 1)), 0.02 * np.ones(22)
    three = np.r_[np.ones(3), others]  # 0.33 each, below 0.25 + 4 / 25
    np.testing.assert_array_equal(alone(three[:, None], L), 0.0)
    three = np.r_[np.ones(3), np.tile(others, 5)]  # above 0.25 + 4 / 113
    np.testing.assert_array_equal(np.flatnonzero(alone(three[:, None], L)), [0, 1, 2])
    two = np.r_[1.0, -1.0, others]
    np.testing.assert_array_equal(np.flatnonzero(alone(two[:, None], L)), [0, 1])


def test_normal_coefficients_are_hardly_ever_alone():
    rng = np.random.default_rng(0)
    found = [alone(rng.standard_normal((T, k)), np.eye(k)).any() for T, k in [(25, 1), (50, 2)] * 200]
    assert np.mean(found) < 0.02


def test_the_factor_of_a_tasks_left_over_arrives_and_an_odd_one_keeps_the_larger():
    info, shared = own_case(0.0)
    post = widened(info, shared, np.array([7.0, 1.0]), np.zeros(2), np.zeros((2, 3, 3)), 1.0)
    np.testing.assert_allclose(post.D, [[0.07] * 3, [0.01] * 3])
    # odd by far, and its own factor ends at 25 · 100 τ0² / 0.01 = 25: the larger of the two counts
    info, shared = own_case(1e6)
    for few, factor in ((2.0, 25.0), (40.0, 40.0)):
        post = widened(info, shared, np.full(2, few), np.zeros(2), np.zeros((2, 3, 3)), 1e-4)
        np.testing.assert_allclose(post.D, [[factor * 0.01] * 3, [few * 0.01] * 3])


def test_what_is_not_sure_is_put_at_one_level():
    # total 0.1 + 0.05 − 0.06 = 0.09 over three; its error √3 · 0.1 is larger: counts once
    h = hierarchy([0.1, 0.05, 1e-6], 0.1, unforced=[0.1, 0.05, -0.06], rank=1)
    np.testing.assert_allclose(left_over(h, 1.0), 0.03)
    # nothing seen at all: a thousandth of the standard error
    h = hierarchy([1e-6, 1e-6], [0.1, 0.2], unforced=[-0.1, 0.05], rank=1)
    np.testing.assert_allclose(left_over(h, 1.0), [1e-4, 2e-4])


def test_a_level_that_is_significant_together_counts_many_times():
    # four of 0.2 with standard error 0.1: none sure, but 0.8 against 2 · 0.2: (0.8 − 0.4)/0.8 · 25 = 12.5
    h = hierarchy([0.2] * 4, 0.1)
    np.testing.assert_allclose(left_over(h, 1.0), 0.2 * 12.5)
    # 0.41 against 0.4: seen, but hardly: 25 · 0.01/0.41 = 0.61 is no more than once
    h = hierarchy([0.1025] * 4, 0.1, rank=1)
    np.testing.assert_allclose(left_over(h, 1.0), 0.1025)


def test_while_nothing_is_shared_the_level_is_taken_two_standard_errors_up():
    # total 0.09, its error √3 · 0.1: (0.09 + 2 · 0.1732)/3 for all, also for one that is sure and less
    h = hierarchy([0.1, 0.05, 1e-6], 0.1, unforced=[0.1, 0.05, -0.06])
    np.testing.assert_allclose(left_over(h, 1.0), (0.09 + 2 * np.sqrt(3) * 0.1) / 3)
    h = hierarchy([0.004, 0.05, 1e-6], [0.001, 0.1, 0.1], unforced=[0.004, 0.05, 0.0])
    np.testing.assert_allclose(left_over(h, 1.0), (0.05 + 2 * np.sqrt(2) * 0.1) / 2)


def test_a_fit_through_all_rows_tells_no_coordinate_from_another():
    # one coordinate explains the rows, and the others seem to be surely nothing: the mean, 1.2/3, for all
    values = {"D": [1.2, 1e-9, 1e-9], "spread": [0.1, 1e-6, 1e-6], "unforced": [1.2, 0.0, 0.0]}
    np.testing.assert_allclose(left_over(hierarchy(**values, spent=0.51), 1.0)[1:], 0.4)
    assert left_over(hierarchy(**values, spent=0.49), 1.0)[1:].max() < 1e-5  # rows enough to tell
    # directions that such a fit has found may be accidents of its rows: the same, wider by few tasks' tails
    np.testing.assert_allclose(left_over(hierarchy(**values, spent=0.51, rank=1), 3.0)[1:], 1.2)
    assert left_over(hierarchy(**values, spent=0.49, rank=1), 3.0)[1:].max() < 1e-5
    np.testing.assert_allclose(left_over_error(hierarchy([1.0], 0.1, spent=0.51, rank=1)), 0.5)


def test_few_tasks_widen_the_left_over_only_while_nothing_is_shared():
    values = [0.31, 0.05, 1e-6]
    alone, shared = (hierarchy(values, 0.1, rank=rank) for rank in (0, 1))
    np.testing.assert_allclose(left_over(alone, 3.0), 3.0 * left_over(alone, 1.0))
    np.testing.assert_allclose(left_over(shared, 3.0), left_over(shared, 1.0))


def test_what_is_unseen_stays_as_large_as_it_may_be():
    h = hierarchy([0.5, 1e-6, 1e-6], 0.1, unseen=[False, False, True], size=7.0, rank=1)
    wide = left_over(h, 1.0)
    assert wide[2] == 7.0
    assert wide[1] < 1e-3


def test_no_left_over_explains_more_than_a_hundred_times_the_rewards():
    assert left_over(hierarchy([5.0, 1e-6], 0.1, size=1.0), 1.0)[0] == 100.0


def test_errors_of_the_left_over_are_wider_while_nothing_is_shared():
    np.testing.assert_allclose(left_over_error(hierarchy([1.0], 0.1)), 0.5)
    np.testing.assert_allclose(left_over_error(hierarchy([1.0], 0.1, rank=1)), 0.1)
    np.testing.assert_allclose(left_over_error(hierarchy([1.0], 0.3)), 1.0)  # never beyond τ0²


def test_noise_far_above_the_others_may_be_signal():
    raw = np.array([1.0, 1.1, 0.9, 1.0, 1.05, 9.0, 50.0])
    freedom = np.array([200.0] * 6 + [1.0])  # the last has hardly a row: nothing is known of it
    added = odd_noise(raw, freedom, 4)
    assert added.tolist()[:5] == [0.0] * 5
    assert added[5] == pytest.approx(5 * (9.0 - np.median(raw[:6])) / 4)
    assert added[6] == 0.0
    assert not odd_noise(raw[:5], freedom[:5], 4).any()


def leaning(shift, *, n=50, shown=50, seed=0):
    rng = np.random.default_rng(seed)
    task, other = np.repeat([0, 1], n), np.repeat([0, 1], shown)
    Z = rng.normal(size=(2 * n, 3)) + np.asarray(shift)[task][:, None] * [1.0, 0.0, 0.0]
    return Leaning(*means(task, Z, 3), *means(other, rng.normal(size=(2 * shown, 3)), 3))


def a_level(n_tasks=3):
    """Mean squares of tasks that earn 2, and p = 4."""
    return np.full(n_tasks, 4.0), 4


def test_means_of_each_task():
    found, n = means(np.array([2, 0, 0]), np.array([[7.0, 1.0], [1.0, 0.0], [3.0, 4.0]]), 4)
    np.testing.assert_array_equal(found, [[2.0, 2.0], [0.0, 0.0], [7.0, 1.0], [0.0, 0.0]])
    np.testing.assert_array_equal(n, [2, 0, 1, 0])


def test_a_baseline_that_leans_may_owe_its_level_to_the_lean():
    lean = leaning([2.0, 2.0])
    added = lean.added(*a_level())
    rows = 1 / (1 / 50 + 1 / 50)
    length = ((lean.baseline - lean.offered)[:2] ** 2).sum(axis=1)
    # mean y² / δ² / p, δ² the squared length less what chance gives it; the third task has a level too
    np.testing.assert_allclose(added, 4.0 / (length - 3 / rows).mean() / 4)
    assert added[0] == pytest.approx(0.25, rel=0.2)


def test_a_lean_that_chance_makes_adds_nothing():
    # 3 standard deviations of χ² with 6 degrees of freedom: 1.2 % of the time
    assert sum(leaning([0.0, 0.0], seed=seed).added(*a_level()).any() for seed in range(20)) <= 2
    assert not leaning([0.3, 0.3], n=5, shown=5).added(*a_level()).any()
    # the same lean shows with more rows
    assert leaning([0.6, 0.6], n=400, shown=400).added(*a_level()).any()
    nothing = means(np.zeros(0, int), np.zeros((0, 3)), 3)
    none = Leaning(*nothing, *nothing)
    assert not none.added(*a_level()).any()


def test_a_lean_is_three_standard_deviations_of_chance():
    # one task, rows = 1 / (1/100 + 1/100) = 50, d = 3: 50 δ² − 3 > 3 √6 from δ² = 0.207
    for length, counts in ((0.20, False), (0.215, True)):
        lean = Leaning(
            np.array([[np.sqrt(length), 0, 0]]), np.full(1, 100.0), np.zeros((1, 3)), np.full(1, 100.0)
        )
        added = lean.added(*a_level(1))
        assert added.any() == counts
        if counts:
            assert added[0] == pytest.approx(4.0 / (length - 3 / 50) / 4)


def test_noise_that_grows_with_the_features():
    weight = np.array([1.0, 5.0])
    # (1·1 + 5·9)/6 over (1 + 9)/2
    assert unequal_noise(np.array([1.0, 3.0]), weight) == pytest.approx(46 / 6 / 5)
    assert unequal_noise(np.array([3.0, 1.0]), weight) == 1.0  # never narrower
    assert unequal_noise(np.zeros(2), weight) == 1.0
    assert unequal_noise(np.ones(2), np.zeros(2)) == 1.0
    assert unequal_noise(NOTHING, NOTHING) == 1.0


def own_case(size, p=3):
    """Two tasks with the unit rows in units of noise 1/10; the first earns `size`, the second nothing."""
    R = np.repeat(10 * np.eye(p)[None], 2, axis=0)
    y = np.zeros((2, p))
    y[0] = 10 * size
    return Information(R, y, p), Shared(np.zeros(p), np.zeros((p, 0)), np.full(p, 0.01))


def believed(info, shared, added, opened, size):
    """Mean, V and `away` of tasks."""
    post = widened(info, shared, np.ones(len(added)), added, opened, size)
    return post.mean, *post.covariance(opened)


def test_a_task_within_its_left_over_is_left_as_it_is():
    info, shared = own_case(0.12)
    opened = np.zeros((2, 3, 3))
    mean, V, away = believed(info, shared, np.zeros(2), opened, 1.0)
    post = Posterior(info, shared)
    np.testing.assert_allclose(mean, post.mean)
    np.testing.assert_allclose(V, post.covariance(opened)[0])
    np.testing.assert_allclose(away, post.covariance(opened)[1])


def test_an_odd_task_has_a_left_over_of_its_own_size():
    # Q'DQ = 3 (10·20/2)² 0.01 … far above its expectation 3 · 0.5 · 0.01 · 100: the scale is grown, then ×25
    info, shared = own_case(2.0)
    mean, V, _ = believed(info, shared, np.zeros(2), np.zeros((2, 3, 3)), 1.0)
    np.testing.assert_allclose(mean[1], 0.0)
    np.testing.assert_allclose(np.diag(V[1]), 1 / (100 + 100))  # 1/D + 1/noise
    assert np.all(np.diag(V[0]) > 0.0099)  # noise alone: nothing left of the small prior
    np.testing.assert_allclose(mean[0], 2.0, rtol=1e-3)


def scale_of(size, *, most=1.0, opened=0.0):
    """The factor by which `widened` grew task 0's left-over, read from its posterior variance."""
    info, shared = own_case(size)
    _, V, _ = believed(info, shared, np.zeros(2), np.zeros((2, 3, 3)), most)
    D = 1 / (1 / np.diag(V[0]) - 100)
    return D / 0.01


def test_the_size_of_an_odd_tasks_left_over_by_hand():
    # K = 1/(0.01 + D) per coordinate, expected Q'DQ = 3 D K, sd = √(2 · 3) D K, found = 3 D (2K)².
    D = 0.01
    for _ in range(10):
        K = 1 / (0.01 + D)
        D *= np.sqrt((3 * D * (2 * K) ** 2 + np.sqrt(6) * D * K) / (3 * D * K))
    np.testing.assert_allclose(scale_of(2.0), 25 * D / 0.01, rtol=1e-6)


def test_the_threshold_of_an_odd_task():
    # odd where 3 (s K)² D > 3 D K + 2 √6 D K, i.e. s² > 0.02 (1 + 2 √(2/3)) = 0.05266
    np.testing.assert_allclose(scale_of(np.sqrt(0.0520)), 1.0)
    assert np.all(scale_of(np.sqrt(0.0533)) > 25)


def test_an_odd_tasks_left_over_has_an_end():
    # at most 100² τ0² after the last factor of 25, and 100 τ0² before it
    np.testing.assert_allclose(scale_of(1e6, most=1e-4), 25 * 100 * 0.01, rtol=1e-4)


def test_variance_added_to_a_task_is_its_own():
    info, shared = own_case(0.0)
    _, V, _ = believed(info, shared, np.array([0.09, 0.0]), np.zeros((2, 3, 3)), 1.0)
    np.testing.assert_allclose(np.diag(V[0]), 1 / (1 / 0.1 + 100))
    np.testing.assert_allclose(np.diag(V[1]), 1 / (1 / 0.01 + 100))


def test_a_larger_doubt_of_what_is_shared_makes_scores_less_expected():
    info, shared = own_case(np.sqrt(0.0520))
    same = np.repeat(0.02 * np.eye(3)[None], 2, axis=0)
    grown = believed(info, shared, np.zeros(2), same, 1.0)[1][0]
    plain = believed(info, replace(shared), np.zeros(2), np.zeros((2, 3, 3)), 1.0)[1][0]
    assert np.diag(grown).min() > np.diag(plain).max()
