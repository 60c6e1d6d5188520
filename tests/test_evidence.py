"""Evidence: what is kept, once, in order, and told apart by key."""

import numpy as np
import pytest

from banister.contract import Outcomes, Requests
from banister.safety.evidence import Evidence, Observations, Rows, row_keys


def asked(task, rewards, *, std=0.0, dim=3, actions=4, seed=0):
    task = np.asarray(task, dtype=np.int64)
    offer = np.random.default_rng(seed).normal(size=(len(task), actions, dim))
    return Requests(task, offer, np.zeros(len(task), dtype=np.int64), np.asarray(rewards), std)


def test_rows_keep_everything_however_it_was_appended():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    rows = Rows()
    for part in np.split(np.arange(1000), [1, 7, 7, 200, 999]):
        rows.append(X[part], y[part])
    kept = rows.columns()
    assert rows.size == 1000
    np.testing.assert_array_equal(kept[0], X)
    np.testing.assert_array_equal(kept[1], y)


def test_whole_number_rewards_do_not_round_later_ones():
    evidence = Evidence()
    zero = np.zeros(2, dtype=np.int64)
    evidence.learn(Outcomes(zero, np.eye(2), np.array([1, 2])))
    evidence.learn(Outcomes(zero, np.eye(2), np.array([0.25, 0.75])))
    np.testing.assert_array_equal(evidence.plays().y, [1, 2, 0.25, 0.75])
    evidence.see(asked([0, 0], np.array([3, 4]), seed=1))
    evidence.see(asked([0, 0], [0.5, 1.5], seed=2))
    np.testing.assert_array_equal(evidence.labels().y, [3, 4, 0.5, 1.5])


def test_known_rewards_become_labels_and_unknown_ones_do_not():
    evidence = Evidence()
    requests = asked([0, 1, 2], [1.0, np.nan, -2.0], std=np.array([0.0, 0.1, 0.2]))
    evidence.see(requests)
    labels = evidence.labels()
    assert labels.task.tolist() == [0, 2]
    np.testing.assert_array_equal(labels.y, [1.0, -2.0])
    np.testing.assert_array_equal(labels.std, [0.0, 0.2])
    np.testing.assert_array_equal(labels.X, requests.actions[[0, 2], 0])
    assert evidence.n_plays == 0
    assert evidence.plays() is None


def test_nothing_seen_is_nothing_known():
    evidence = Evidence()
    evidence.see(asked([], np.zeros(0)))
    evidence.learn(Outcomes(np.zeros(0, dtype=np.int64), np.zeros((0, 3)), np.zeros(0)))
    assert evidence.labels() is None
    assert evidence.plays() is None
    assert evidence.offered() is None


def test_labels_can_be_left_out():
    evidence = Evidence(labels=False)
    evidence.see(asked([0], [1.0]))
    assert evidence.labels() is None
    assert evidence.offered() is not None


def test_the_same_label_again_is_no_new_knowledge():
    evidence = Evidence()
    requests = asked([0, 1], [1.0, 2.0])
    evidence.see(requests)
    evidence.see(requests)
    assert len(evidence.labels()) == 2
    # The same baseline with another reported reward is another measurement of it.
    other = Requests(requests.task, requests.actions, requests.baseline, np.array([1.5, 2.0]))
    evidence.see(other)
    np.testing.assert_array_equal(evidence.labels().y, [1.0, 2.0, 1.5])


def test_a_play_of_the_baseline_has_the_key_of_its_label():
    evidence = Evidence()
    requests = asked([2, 5], [1.0, 2.0])
    evidence.see(requests)
    evidence.learn(Outcomes(requests.task[::-1], requests.actions[::-1, 0], np.array([2.1, 1.1])))
    assert evidence.plays().key.tolist() == evidence.labels().key[::-1].tolist()


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 2.0), (0.25, 4.0), (-1.0, 1.0)])
def test_keys_of_features_with_few_values_differ(values):
    grid = np.array(values)[(np.arange(2**15)[:, None] >> np.arange(15)) & 1]
    keys = row_keys(np.zeros(len(grid), dtype=np.int64), grid)
    assert len(np.unique(keys)) == len(grid)


def test_keys_tell_tasks_and_columns_apart_but_not_signs_of_zero():
    one_hot = np.eye(2000)
    assert len(np.unique(row_keys(np.zeros(2000, dtype=np.int64), one_hot))) == 2000
    same = np.ones((100, 4))
    assert len(np.unique(row_keys(np.arange(100), same))) == 100
    zero = np.zeros(1, dtype=np.int64)
    assert row_keys(zero, np.array([[0.0, 1.0]])) == row_keys(zero, np.array([[-0.0, 1.0]]))


def test_errors_are_those_of_each_rows_own_task():
    rng = np.random.default_rng(1)
    n = 9000  # more than one chunk
    task, X, y, theta = rng.integers(3, size=n), rng.normal(size=(n, 2)), rng.normal(size=n), np.eye(3)[:2]
    rows = Observations(task, X, y, np.zeros(n), np.zeros(n, dtype=np.int64))
    np.testing.assert_allclose(rows.errors(theta), y - (X @ theta)[np.arange(n), task], atol=1e-12)


def test_the_sample_of_offered_actions_is_recent_bounded_and_from_every_position():
    evidence = Evidence()
    old, new = asked(np.zeros(3000), np.zeros(3000), seed=0), asked(np.ones(500), np.ones(500), seed=1)
    evidence.see(old)
    evidence.see(new)
    task, X = evidence.offered()
    assert len(task) == len(X) <= 2048
    assert (task == 1).sum() == 500
    position = np.argmax(np.all(new.actions == X[:500, None], axis=2), axis=1)
    np.testing.assert_array_equal(new.actions[np.arange(500), position], X[:500])
    assert set(position) == {0, 1, 2, 3}
