"""Rows of different quality in one data set: weights by hand, by least squares, and by the truth."""

import numpy as np
import pytest
from banister.safety.scales import Scales, rescale, scaled_rows

from banister.safety.evidence import Observations, row_keys
from problems import low_rank, rows_for


def rows(task, X, y, std=0.0):
    task, X, y = np.asarray(task, dtype=np.int64), np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    return Observations(task, X, y, np.broadcast_to(np.asarray(std, dtype=float), y.shape), row_keys(task, X))


def test_what_claims_are_taken_for():
    scales = Scales(np.array([1.0, 2.0, 9.0]), inflation=3.0, grain=10.0)
    assert scales.least == pytest.approx(0.2)  # 10 · a hundredth of the median 2
    np.testing.assert_allclose(scales.of_labels(np.array([0.0, 0.1, 0.5])), [0.6, 0.6, 1.5])
    # With an inflation above 1 nothing is beyond doubt; without it an exact reward is.
    np.testing.assert_allclose(scales.beyond_doubt(np.array([0.0, 0.5])), [0.6, 1.5])
    np.testing.assert_allclose(Scales(np.ones(2)).beyond_doubt(np.array([0.0, 0.5])), [0.0, 0.5])


def test_a_reward_and_its_label_become_one_row_by_hand():
    # Label 1 ± 0.5 (precision 4), reward 2 ± 1 (precision 1): 6/5 ± 1/√5. The other play stays a row.
    labels = rows([0], [[1.0, 0.0]], [1.0], 0.5)
    plays = rows([0, 0], [[1.0, 0.0], [0.0, 2.0]], [2.0, 3.0])
    data, is_label = scaled_rows(plays, labels, Scales(np.ones(1)), 1)
    assert is_label.tolist() == [True, False]
    np.testing.assert_allclose(data.X, [[np.sqrt(5), 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(data.y, [1.2 * np.sqrt(5), 3.0])


def test_merging_changes_no_estimate():
    rng = np.random.default_rng(0)
    X, other = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    labels = rows(np.zeros(6), X, rng.normal(size=6), 0.7)
    plays = rows(np.zeros(16), np.vstack([X, other, X]), rng.normal(size=16))
    data, _ = scaled_rows(plays, labels, Scales(np.array([1.3])), 1)
    all_X = np.vstack([labels.X / 0.7, plays.X / 1.3])
    all_y = np.concatenate([labels.y / 0.7, plays.y / 1.3])
    assert data.n_rows == 10
    np.testing.assert_allclose(
        np.linalg.lstsq(data.X, data.y, rcond=None)[0], np.linalg.lstsq(all_X, all_y, rcond=None)[0]
    )
    np.testing.assert_allclose(data.X.T @ data.X, all_X.T @ all_X)


def test_rows_come_sorted_by_task_each_by_its_own_noise():
    plays = rows([1, 0, 1], [[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0])
    data, is_label = scaled_rows(plays, None, Scales(np.array([2.0, 10.0])), 3)
    np.testing.assert_allclose(data.X[:, 0], [1.0, 0.1, 0.3])
    np.testing.assert_allclose(data.y, [1.0, 0.1, 0.3])
    assert data.counts.tolist() == [1, 2, 0]
    assert not is_label.any()


def test_rewards_are_left_out_only_beside_their_own_tasks_exact_labels():
    rng = np.random.default_rng(1)
    labels = rows(np.zeros(8), rng.normal(size=(8, 2)), rng.normal(size=8))
    task = np.repeat([0, 1], 8)
    plays = rows(task, rng.normal(size=(16, 2)), rng.normal(size=16))
    data, is_label = scaled_rows(plays, labels, Scales(np.ones(2)), 2)
    assert data.counts.tolist() == [8, 8]  # task 0: labels; task 1 has none, so its rewards count
    assert is_label.tolist() == [True] * 8 + [False] * 8
    coarse, _ = scaled_rows(plays, labels, Scales(np.ones(2), grain=100.0), 2)
    assert coarse.counts.tolist() == [16, 8]


def world(*, claimed, true, noise=0.5, n=60, seed=0):
    rng = np.random.default_rng(seed)
    theta = low_rank(10, 12, 2, rng)
    X, task = rows_for([n] * 12, 10, rng)
    mean = np.einsum("ij,ji->i", X, theta[:, task])
    labels = rows(task, X, mean + true * rng.standard_normal(len(X)), claimed)
    fresh, task = rows_for([n] * 12, 10, rng)
    mean = np.einsum("ij,ji->i", fresh, theta[:, task])
    return rows(task, fresh, mean + noise * rng.standard_normal(len(fresh))), labels, theta


@pytest.mark.statistical
@pytest.mark.parametrize(("claimed", "true", "factor"), [(0.1, 0.1, 1.0), (0.1, 0.2, 2.0), (0.1, 0.5, 5.0)])
def test_understated_labels_are_found_out(claimed, true, factor):
    plays, labels, theta = world(claimed=claimed, true=true)
    scales, change = rescale(Scales(np.full(12, 0.5)), plays, labels, theta, 2)
    # At the truth nothing was spent, so the correction for a fit errs upwards, here by 1/√(1 − 40/720).
    assert scales.inflation == pytest.approx(factor, rel=0.08)
    np.testing.assert_allclose(scales.play, 0.5, rtol=0.15)
    levels = scales.play / 0.5
    assert change == max(scales.inflation, levels.max(), (1 / levels).max())


def test_rewards_without_noise_have_a_level_all_the_same():
    plays, _, theta = world(claimed=0.0, true=0.0, noise=0.0)
    once, _ = rescale(Scales(np.ones(12)), plays, None, theta, 2)
    twice, change = rescale(once, plays, None, theta, 2)
    np.testing.assert_allclose(once.play, 1e-6 * np.sqrt(np.mean(plays.y**2)))
    assert change == pytest.approx(1.0)
    assert twice.grain == 1.0
