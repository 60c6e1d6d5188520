"""Noise along features: levels by hand, and beliefs that know an arm whose rewards swing more."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from banister.safety.believer import Believer
from banister.safety.loudness import EVEN, local, loudness
from banister.safety.noise import moderate
from banister.safety.seen import Seen
from banister.safety.watch import Watch
from belief_world import UNKNOWN

ARMS = np.eye(3)
LOUD = np.array([0.1, 0.1, 2.0])  # of the third arm's rewards


def wider(freedom, z=4.0):
    return (student.isf(norm.sf(z), freedom) / z) ** 2


def test_levels_by_hand():
    # Rows of three arms, of whose errors the fit has left a half: squares of (.05, .05, 2) are (.1, .1, 4).
    Z, square = np.tile(ARMS, (40, 1)), np.tile([0.05, 0.05, 2.0], 40)
    found = loudness(Z, square, np.full(120, 0.5), 4.0)
    levels = moderate(np.array([0.1, 0.1, 4.0]), np.full(3, 40.0))
    np.testing.assert_allclose(found, np.maximum(levels.variance * wider(levels.freedom), 1.0))
    assert found[0] == found[1] == 1.0  # never narrower
    assert found[2] > 3.9


def test_an_arm_of_few_rows_may_be_as_loud_as_any_where_arms_differ():
    Z = np.concatenate([np.tile(ARMS[:2], (40, 1)), ARMS[2:], ARMS[2:]])
    square = np.concatenate([np.tile([0.1, 2.0], 40), [0.1, 0.1]])
    differ = loudness(Z, square, np.ones(82), 4.0)
    alike = loudness(Z, np.full(82, 0.5), np.ones(82), 4.0)
    assert differ[2] > 3.0
    np.testing.assert_allclose(alike, 1.0, atol=0.02)


def test_the_noise_of_a_row_is_a_mean_of_its_features():
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0], [0.0, 0.0]])
    np.testing.assert_allclose(local(rows, np.array([1.0, 5.0])), [1.0, 3.0, 5.0, 1.0])
    np.testing.assert_allclose(local(rows, EVEN), 1.0)


def seen(n, loud=LOUD, seed=0, T=8):
    """Plays of three arms, the first four times as often as the others, in tasks of one kind."""
    rng = np.random.default_rng(seed)
    task, arm = np.arange(n * T) % T, rng.choice([0, 0, 0, 0, 1, 2], size=n * T)
    theta = 2.0 + rng.normal(0, 0.3, (T, 3))
    y = theta[task, arm] + loud[arm] * rng.standard_normal(n * T)
    nothing = np.zeros(0)
    return theta, Seen(
        task=task, X=ARMS[arm], y=y, is_baseline=arm == 0, claim=np.full(n * T, UNKNOWN),
        label_task=nothing.astype(int), labelled_features=np.zeros((0, 3)), label=nothing, label_std=nothing,
        offered_task=np.repeat(np.arange(T), 3), offered=np.tile(ARMS, (T, 1)),
    )  # fmt: skip


def test_what_is_believed_of_a_loud_arm_is_less_certain_and_true():
    errors = []
    for seed in range(10):
        theta, rows = seen(60, seed=seed)
        found = Believer().believe(rows, 8, 1000)
        estimates = [[found.contrast(t, x, 1.0) for x in ARMS] for t in range(8)]
        value, error = np.moveaxis(np.array(estimates), 2, 0)
        assert (error[:, 2] > 2 * error[:, 1]).all()
        errors.append((value - theta) / error)
    assert np.sqrt(np.mean(np.square(errors))) < 1.1
    assert np.abs(errors).max() < 4.5


@pytest.mark.parametrize("moved", [0.0, 3.0])
def test_a_loud_arm_played_more_often_is_no_change_and_one_that_moves_is(moved):
    theta, rows = seen(60)
    watch, rng, alarms = Watch(Believer().believe(rows, 8, 1000)), np.random.default_rng(5), []
    for i in range(800):
        t = i % 8
        alarms += watch.see(t, ARMS[2], theta[t, 2] + moved + 2.0 * rng.standard_normal(), i)
    assert bool(alarms) == bool(moved)
