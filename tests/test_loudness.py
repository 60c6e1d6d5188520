"""Noise along features: levels by hand, and beliefs that know an arm whose rewards swing more."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from banister.safety import believer as module
from banister.safety.believer import Believer
from banister.safety.loudness import EVEN, Told, local, loudness, passed_through
from banister.safety.noise import moderate
from banister.safety.watch import Watch
from belief_world import arms_played

ARMS = np.eye(3)
LOUD = np.array([0.1, 0.1, 2.0])  # of the third arm's rewards
KNOWN = np.full((1, 1), np.inf)  # noise of a task of many rows


def wider(freedom, z=4.0):
    return (student.isf(norm.sf(z), np.floor(freedom)) / z) ** 2


def told(Z, square, left=1.0, task=0):
    n = len(Z)
    return Told(np.broadcast_to(task, n), Z, np.asarray(square), np.full(n, left))


def test_a_left_over_that_stands_out_may_be_noise_until_errors_tell():
    noise, rest = np.array([0.5, 0.1]), np.array([0.1, 0.1, 0.1])
    arms = np.repeat(ARMS, [20, 20, 4], axis=0)
    for left, third, few in ((0.5, 4.0, True), (0.8, 4.0, False), (0.5, 0.39, False)):
        # four rows of the third arm: two degrees of freedom, or more than three
        found = passed_through(told(arms, np.ones(44), left), np.append(rest[:2], third), noise)
        wanted = [[1, 1, 1 + third / v] for v in noise] if few else np.ones((2, 3))
        np.testing.assert_allclose(found, wanted)


def test_a_late_arm_that_every_task_has_played_once_is_not_taken_for_known():
    """Rewards of the third arm swing twenty times as much; each is passed through, as if tasks differed."""
    rng = np.random.default_rng(3)
    T, quiet = 20, np.tile([0, 1], 20)
    arm = np.concatenate([np.append(quiet, 2)] * T)
    task = np.repeat(np.arange(T), 41)
    y = np.array([2.0, 1.0, 1.5])[arm] + np.array([0.1, 0.1, 2.0])[arm] * rng.standard_normal(len(arm))
    belief = Believer().believe(arms_played(task, arm, y, T), T, len(y))
    Z = belief.frame.rows(ARMS)
    sd = belief.frame.reward * np.sqrt(np.einsum("kp,tpq,kq->tk", Z, belief.V, Z))
    error = belief.frame.reward * belief.mean @ Z.T - [2.0, 1.0, 1.5]
    assert np.abs(error[:, 2]).max() > 3.0
    assert (np.abs(error[:, 2]) < 4 * sd[:, 2]).all()
    assert (sd[:, :2] < 0.1).all()


def test_levels_by_hand():
    # Rows of three arms, of whose errors the fit has left a half: squares of (.05, .05, 2) are (.1, .1, 4).
    Z, square = np.tile(ARMS, (40, 1)), np.tile([0.05, 0.05, 2.0], 40)
    found = loudness(told(Z, square, 0.5), KNOWN, 4.0)
    levels = moderate(np.array([0.1, 0.1, 4.0]), np.full(3, 40.0))
    usual = levels.variance.mean()  # of this task's rows, the only one
    wanted = levels.variance / usual
    np.testing.assert_allclose(found.common, np.maximum(wanted * wider(levels.freedom), 1.0), rtol=1e-3)
    np.testing.assert_allclose(found.each[0], np.maximum(wanted * wider(levels.freedom), 1.0), rtol=1e-3)
    assert found.common[0] == found.each[0, 0] == 1.0  # never narrower
    assert found.common[2] > 2.9


def test_an_arm_of_few_rows_may_be_as_loud_as_any_where_arms_differ():
    Z = np.concatenate([np.tile(ARMS[:2], (40, 1)), ARMS[2:], ARMS[2:]])
    square = np.concatenate([np.tile([0.1, 2.0], 40), [0.1, 0.1]])
    assert loudness(told(Z, square), KNOWN, 4.0).common[2] > 3.0
    alike = loudness(told(Z, np.full(82, 0.5)), KNOWN, 4.0)
    np.testing.assert_allclose(alike.common, wider(82.0), rtol=1e-12)


def test_a_task_whose_level_is_high_because_of_a_loud_arm_does_not_hide_it_from_others():
    # Both tasks know an arm of variance 1; the first also plays one of 16, so that its level is 8.5.
    Z = np.concatenate([np.tile(ARMS[[0, 2]], (100, 1)), np.tile(ARMS[0], (200, 1))])
    square, task = np.concatenate([np.tile([1 / 8.5, 16 / 8.5], 100), np.ones(200)]), np.repeat([0, 1], 200)
    found = loudness(told(Z, square, task=task), np.full((3, 1), np.inf), 4.0)
    np.testing.assert_allclose(found.each[0, 2], 16 / 8.5, rtol=0.1)
    np.testing.assert_allclose(found.each[1, 2], 16, rtol=0.1)
    np.testing.assert_array_equal(found.each[2], found.each[1])  # a task without rows counts as the quietest


def test_an_arm_on_which_rows_were_spent_is_not_quiet():
    # Noise is the same everywhere; of the second arm's errors the fit has left a quarter.
    Z, part = np.tile(ARMS[:2], (100, 1)), np.tile([1.0, 0.25], 100)
    found = loudness(Told(np.zeros(200, dtype=int), Z, part, part), KNOWN, 4.0)
    np.testing.assert_allclose(found.common[:2], found.common[0], rtol=1e-6)
    np.testing.assert_allclose(found.each[0, :2], found.each[0, 0], rtol=1e-6)


def test_bounds_along_what_a_task_hardly_played_know_what_rows_and_other_tasks_say():
    found = loudness(told(np.tile(ARMS, (40, 1)), np.ones(120)), np.array([[2.0, 7.5, 60.0]]), 4.0)
    np.testing.assert_allclose(found.each[0], wider(np.array([3.0, 7.0, 60.0])), rtol=1e-12)
    np.testing.assert_allclose(found.common, wider(120.0), rtol=1e-12)


def test_one_reward_of_an_arm_tells_nothing_where_tasks_differ_in_noise():
    # Every task plays its own arm; where half of them are thirty times as loud, any arm may be.
    rng, T = np.random.default_rng(3), 24
    task = np.repeat(np.arange(T), 41)
    arm = np.where(np.arange(len(task)) % 41 < 40, task % 3, (task + 1) % 3)
    theta = 2.0 + rng.normal(0, 0.3, (T, 3))
    spread = {}
    for name, level in (("alike", np.full(T, 0.1)), ("apart", np.where(np.arange(T) % 2, 3.0, 0.1))):
        y = theta[task, arm] + level[task] * rng.standard_normal(len(task))
        found = Believer().believe(arms_played(task, arm, y, T), T, 1000)
        spread[name] = found.contrast(0, ARMS[1], 1.0)[1], found.contrast(0, ARMS[0], 1.0)[1]
    assert spread["apart"][0] > 3 * spread["alike"][0]
    assert spread["apart"][1] < 3 * spread["alike"][1]  # what it plays all the time it knows


def test_the_noise_of_a_row_is_a_mean_of_its_features():
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
    np.testing.assert_allclose(local(rows, np.array([1.0, 5.0])), [1.0, 3.0, 5.0, 1.0])
    np.testing.assert_allclose(local(rows, EVEN), 1.0)


def seen(n, loud=LOUD, seed=0, T=8):
    """Plays of three arms, the first four times as often as the others, in tasks of one kind."""
    rng = np.random.default_rng(seed)
    task, arm = np.arange(n * T) % T, rng.choice([0, 0, 0, 0, 1, 2], size=n * T)
    theta = 2.0 + rng.normal(0, 0.3, (T, 3))
    return theta, arms_played(task, arm, theta[task, arm] + loud[arm] * rng.standard_normal(n * T), T)


def test_what_is_believed_of_a_loud_arm_is_less_certain_and_true():
    errors = []
    for seed in range(10):
        theta, rows = seen(60, seed=seed)
        found = Believer().believe(rows, 8, 1000)
        estimates = [[found.contrast(t, x, 1.0) for x in ARMS] for t in range(8)]
        value, error = np.moveaxis(np.array(estimates), 2, 0)
        assert (error[:, 2] > 1.5 * error[:, 1]).all()
        errors.append((value - theta) / error)
    assert np.sqrt(np.mean(np.square(errors))) < 1.1
    assert np.abs(errors).max() < 4.5


def test_rows_of_many_tasks_know_the_noise_of_the_loudest_arm(monkeypatch):
    monkeypatch.setattr(module, "DENSE", 0)
    _, rows = seen(60)

    def error(belief):
        return np.array([[belief.contrast(t, x, 1.0)[1] for x in ARMS] for t in range(8)])

    found = Believer().believe(rows, 8, 1000)
    monkeypatch.setattr(module, "_AUDIBLE", np.inf)
    deaf = Believer().believe(rows, 8, 1000)
    assert found.loud.max() > 2.0
    assert (error(found) > 1.2 * error(deaf)).all()


@pytest.mark.parametrize("moved", [0.0, 3.0])
def test_a_loud_arm_played_more_often_is_no_change_and_one_that_moves_is(moved):
    theta, rows = seen(60)
    watch, rng, alarms = Watch(Believer().believe(rows, 8, 1000)), np.random.default_rng(5), []
    for i in range(800):
        t = i % 8
        alarms += watch.see(t, ARMS[2], theta[t, 2] + moved + 2.0 * rng.standard_normal(), i)
    assert bool(alarms) == bool(moved)
