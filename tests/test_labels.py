"""Claims of baseline rewards: what is believed, what is found out, and both sides of every threshold."""

import numpy as np
import pytest

from banister.safety.labels import Claims, averages, depends, trust

T, P = 12, 4


def world(n=15, noise=0.3, seed=0, n_tasks=T):
    """Played baselines: task, Z (with an intercept), expected reward, reward."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_tasks, P))
    task = np.tile(np.arange(n_tasks), n)
    Z = np.concatenate([rng.normal(size=(len(task), P - 1)), np.ones((len(task), 1))], axis=1)
    expected = np.einsum("np,np->n", Z, theta[task])
    return task, Z, expected, expected + noise * rng.normal(size=len(task))


def verdict(task, Z, y, claim, n_tasks=T):
    return trust(task, Z, y, claim, task, Z, claim, n_tasks)


@pytest.mark.parametrize("seed", range(8))
def test_expectations_of_each_request_are_borne_out(seed):
    task, Z, expected, y = world(seed=seed)
    found = verdict(task, Z, y, expected)
    assert found.verdict is Claims.BORNE_OUT
    assert found.labelled.all()


def test_none_given():
    nothing = np.zeros(0, dtype=int), np.zeros((0, P)), np.zeros(0)
    found = trust(*nothing, np.zeros(0), *nothing, T)
    assert found.verdict is Claims.NONE
    assert found.labelled.tolist() == [False] * T


def test_averages_are_recognised():
    task, Z, expected, y = world()
    means = (np.bincount(task, weights=expected) / np.bincount(task))[task]
    found = verdict(task, Z, y, means)
    assert found.verdict is Claims.AVERAGES
    assert not found.labelled.any()


def test_averages_of_some_tasks_leave_the_others_their_labels():
    task, Z, expected, y = world()
    means = (np.bincount(task, weights=expected) / np.bincount(task))[task]
    found = verdict(task, Z, y, np.where(task < 3, means, expected))
    assert found.verdict is Claims.BORNE_OUT
    assert found.labelled.tolist() == [False] * 3 + [True] * 9


def test_three_equal_claims_of_features_that_move_are_an_average():
    Z = np.array([[1.0], [2.0], [3.0]])
    one = np.zeros(3, dtype=int)
    assert averages(one, Z, np.full(3, 5.0), 1).tolist() == [True]
    assert averages(one[:2], Z[:2], np.full(2, 5.0), 1).tolist() == [False]  # two can be chance
    assert averages(one, np.ones((3, 1)), np.full(3, 5.0), 1).tolist() == [False]  # a fixed baseline
    assert averages(one, 1 + 6e-7 * Z, np.full(3, 5.0), 1).tolist() == [True]  # it moves by 1.2e-6
    assert averages(one, 1 + 4e-7 * Z, np.full(3, 5.0), 1).tolist() == [False]
    assert averages(one, Z, 5.0 + np.array([0.0, 0.0, 4e-9]), 1).tolist() == [True]  # rounding
    assert averages(one, Z, 5.0 + np.array([0.0, 0.0, 6e-9]), 1).tolist() == [False]
    assert averages(one, Z, np.zeros(3), 1).tolist() == [True]


@pytest.mark.parametrize("seed", range(5))
def test_running_averages_are_not_borne_out(seed):
    task, Z, _, y = world(seed=seed)
    running = np.empty_like(y)
    for t in range(T):
        rows = np.flatnonzero(task == t)
        running[rows] = np.cumsum(y[rows]) / np.arange(1, len(rows) + 1)
    found = verdict(task, Z, y, running)
    assert found.verdict in (Claims.NOT_BORNE_OUT, Claims.CONTRADICTED)
    assert not found.labelled.any()


@pytest.mark.parametrize(
    "claim",
    [
        lambda Z, e, rng: Z[:, 0],  # another quantity
        lambda Z, e, rng: e + Z[:, 1],  # leaves out what a feature does
        lambda Z, e, rng: -e,
        lambda Z, e, rng: 2 * e,
        lambda Z, e, rng: 0.7 * e,
        lambda Z, e, rng: e + 1.0,  # a constant off
        lambda Z, e, rng: rng.normal(size=len(e)),
    ],
    ids=["quantity", "feature", "sign", "double", "shrunk", "shifted", "random"],
)
@pytest.mark.parametrize("seed", range(3))
def test_claims_of_something_else_are_not_labels(claim, seed):
    task, Z, expected, y = world(n=30, seed=seed)
    found = verdict(task, Z, y, claim(Z, expected, np.random.default_rng(9)))
    assert found.verdict in (Claims.NOT_BORNE_OUT, Claims.CONTRADICTED)
    assert not found.labelled.any()


def test_claims_that_leave_a_dependence_are_contradicted_for_good():
    task, Z, expected, y = world(n=40)
    assert verdict(task, Z, y, expected + Z[:, 1]).verdict is Claims.CONTRADICTED
    assert verdict(task, Z, y, expected + 1.0).verdict is Claims.CONTRADICTED


def test_ten_rewards_are_the_least_to_compare_with():
    task, Z, expected, y = world(n=10, n_tasks=1, noise=0.01)
    found = [trust(task[:n], Z[:n], y[:n], expected[:n], task, Z, expected, 1).verdict for n in (9, 10)]
    assert found == [Claims.UNTESTED, Claims.BORNE_OUT]


def test_fixed_baselines_cannot_tell_and_need_not():
    rng = np.random.default_rng(0)
    task = np.tile(np.arange(T), 20)
    Z = rng.normal(size=(T, P))[task]
    expected = np.einsum("np,np->n", Z, rng.normal(size=(T, P))[task])
    found = verdict(task, Z, expected + 0.3 * rng.normal(size=len(task)), expected)
    assert found.verdict is Claims.BORNE_OUT
    # … but where the features of some claims do move, claims that do not are not borne out
    moved = Z.copy()
    moved[:T] += 1.0
    moved[: 2 * T] += 1.0
    few = np.concatenate([expected[: 2 * T] * 0 + 1.0])
    found = trust(
        task, Z, expected + 0.3 * rng.normal(size=len(task)), expected, task[: 2 * T], moved[: 2 * T], few, T
    )
    assert found.verdict is Claims.NOT_BORNE_OUT


def slope_case(slope, noise, *, n=200):
    """One task, claims ±1 in turn, rewards `slope · claim` ± noise, balanced so that all sums are exact."""
    claim = np.tile([1.0, 1.0, -1.0, -1.0], n // 4)
    y = slope * claim + noise * np.tile([1.0, -1.0, 1.0, -1.0], n // 4)
    Z = np.zeros((n, 1))  # features say nothing: the slope alone decides
    moved = np.linspace(0, 1, n)[:, None]
    return trust(np.zeros(n, int), Z, y, claim, np.zeros(n, int), moved, claim, 1).verdict


def test_rewards_must_rise_with_claims_by_three_standard_errors():
    # error of the slope: noise · √(200/199) / √200; a slope of 1 is three of them at noise 4.70
    assert slope_case(1.0, 4.6) is Claims.BORNE_OUT
    assert slope_case(1.0, 4.8) is Claims.NOT_BORNE_OUT


def test_and_one_for_one():
    # noise 1: error 0.0709, four of them and 0.02: from 0.696 to 1.304
    for slope, right in ((0.69, False), (0.70, True), (1.30, True), (1.31, False)):
        assert (slope_case(slope, 1.0) is Claims.BORNE_OUT) == right
    # exact rewards: rounding of 0.02 either way
    for slope, right in ((0.979, False), (0.981, True), (1.019, True), (1.021, False)):
        assert (slope_case(slope, 0.0) is Claims.BORNE_OUT) == right


def test_claims_compare_within_tasks_not_between_them():
    # Levels of tasks are right, what varies within a task is not.
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(40), 5)
    level = 10 * rng.normal(size=40)[task]
    y = level + rng.normal(size=200)
    claim = level + rng.normal(size=200)
    Z = np.zeros((200, 1))
    moved = rng.normal(size=(200, 1))
    assert trust(task, Z, y, claim, task, moved, claim, 40).verdict is Claims.NOT_BORNE_OUT


def test_errors_that_depend_on_features_within_tasks():
    # The dependence differs from task to task: only pairs of rows of one task see it.
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(60), 6)
    Z = rng.normal(size=(360, 3))
    own = rng.normal(size=(60, 3))[task]
    assert depends(task, Z, np.einsum("np,np->n", Z, own) + rng.normal(size=360))
    assert not depends(task, Z, rng.normal(size=360))


def test_errors_that_depend_on_features_over_all_tasks():
    # One row a task has no pairs: only all rows together see it.
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(300, 3))
    assert depends(np.arange(300), Z, Z[:, 0] + rng.normal(size=300))
    assert not depends(np.arange(300), Z, rng.normal(size=300))


def test_the_threshold_over_all_tasks():
    # errors ±1, one feature of ones: score² / moment = (sum)²/n against 1 + 5 √2 + 10 = 18.07
    def found(n_up, n=100):
        error = np.concatenate([np.ones(n_up), -np.ones(n - n_up)])
        return depends(np.arange(n), np.ones((n, 1)), error)

    assert not found(71)  # 42²/100 = 17.64
    assert found(72)  # 44²/100 = 19.36


def test_the_threshold_of_pairs():
    # one task, one feature, errors ±1, n = 20: s² − n against 4.5 √(2 n (n − 1)) = 4.5 · 27.57 = 124.05
    def found(n_up, n=20):
        error = np.concatenate([np.ones(n_up), -np.ones(n - n_up)])
        return depends(np.zeros(n, int), np.ones((n, 1)), error)

    assert not found(16)  # 12² − 20 = 124
    assert found(17)  # 14² − 20 = 176, while 14²/20 = 9.8 over all rows is no more than chance


@pytest.mark.statistical
def test_right_claims_are_seldom_called_wrong():
    # 400 runs of each kind of noise; thresholds of 4.5 and 5 standard deviations: none expected in most
    wrong = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        task, Z, expected, _ = world(n=6, seed=seed)
        y = expected + (rng.normal(size=len(task)) if seed % 2 else rng.standard_t(3, size=len(task)))
        wrong += verdict(task, Z, y, expected).verdict is Claims.CONTRADICTED
    assert wrong <= 4
