"""The synthetic environment: the paper's setting, and each thing that life adds."""

import numpy as np
import pytest

from banister.contract import Choices
from banister.environments.synthetic import Synthetic
from banister.errors import NotFittedError, SettingError

SMALL = {"dim": 12, "rank": 2, "tasks": 10, "actions": 5, "baseline_rank": 3}


def made(seed=0, **settings):
    env = Synthetic(**{**SMALL, **settings})
    env.reset(np.random.default_rng(seed))
    return env


def asked(env, rounds=20, seed=1, start=0):
    return env.requests(rounds, np.random.default_rng(seed), start)


def plain_scores(env, requests):
    theta = np.stack([env.theta_at(int(n))[:, t] for n, t in zip(requests.round, requests.task, strict=True)])
    return np.einsum("mkd,md->mk", requests.actions, theta)


def test_the_defaults_are_the_papers_setting():
    env = Synthetic()
    env.reset(np.random.default_rng(0))
    values = np.linalg.svd(env.theta, compute_uv=False)
    np.testing.assert_allclose(values[:2], 1.0)
    assert values[2] < 1e-12
    assert env.theta.shape == (100, 100)
    requests = asked(env, 2)
    assert requests.actions.shape == (200, 10, 100)
    np.testing.assert_array_equal(requests.task, np.tile(np.arange(100), 2))
    np.testing.assert_array_equal(requests.round, np.repeat([0, 1], 100))
    fifth = np.sort(plain_scores(env, requests), axis=1)[:, -5]
    np.testing.assert_allclose(requests.baseline_reward, fifth)
    assert np.std(env.noise(asked(env, 20), np.random.default_rng(3))) == pytest.approx(1e-3, rel=0.1)


@pytest.mark.parametrize("settings", [{}, {"drift_at": 7}, {"traffic_ratio": 10.0}, {"action_sets": "fixed"}])
def test_scores_match_plain_numpy(settings):
    env = made(**settings)
    requests = asked(env)
    scores = plain_scores(env, requests)
    rows = np.arange(len(requests))
    np.testing.assert_allclose(env.best(requests), scores.max(axis=1))
    np.testing.assert_allclose(env.baseline(requests), scores[rows, requests.baseline])
    choices = Choices.of_index(requests, np.full(len(rows), 4), "greedy")
    np.testing.assert_allclose(env.expected(requests, choices), scores[:, 4])
    part = requests[5:33]  # a part was never remembered: the scores come by the other route
    np.testing.assert_allclose(env.best(part), scores[5:33].max(axis=1))
    np.testing.assert_allclose(env.baseline(part), env.baseline(requests)[5:33])


def test_a_baseline_given_as_vectors_is_scored():
    env = made()
    requests = asked(env)
    vectors = type(requests)(
        requests.task, requests.actions, requests.baseline_features(), requests.baseline_reward
    )
    np.testing.assert_allclose(env.baseline(vectors), env.baseline(requests))


def test_what_was_remembered_goes_with_its_requests():
    env = made()
    requests = asked(env)
    assert len(env._worth) == 1
    del requests
    assert len(env._worth) == 0


def test_spectrum_and_norms():
    values = np.linalg.svd(made(rank=3, kappa=9.0).theta, compute_uv=False)
    np.testing.assert_allclose(values[:4], [1.0, 1 / 3, 1 / 9, 0.0], atol=1e-12)
    tail = np.linalg.svd(made(decay=0.5).theta, compute_uv=False)
    np.testing.assert_allclose(tail[:5], [1.0, 1.0, 0.5, 0.25, 0.125])
    for tasks in (10, 40):
        norms = np.linalg.norm(made(tasks=tasks, normalise="unit-task", kappa=3.0).theta, axis=0)
        assert np.mean(norms**2) == pytest.approx(1.0)
    spread = [np.ptp(np.log(np.linalg.norm(made(tasks=50, imbalance=i).theta, axis=0))) for i in (1, 100)]
    assert spread[1] > spread[0] + 1.0


def test_an_outlier_lies_outside_the_subspace_at_its_own_length():
    plain, other = made(tasks=30).theta, made(tasks=30, outliers=1).theta
    moved = np.flatnonzero(np.abs(plain - other).max(axis=0) > 1e-9)
    assert len(moved) == 1
    assert np.abs(plain.T @ other[:, moved]).max() < 1e-12
    np.testing.assert_allclose(np.linalg.norm(other, axis=0), np.linalg.norm(plain, axis=0))


def test_drift_changes_the_tasks_and_keeps_the_representation():
    env = made(drift_at=7)
    before, after = env.theta_at(6), env.theta_at(7)
    assert np.linalg.norm(before - after) > 0.5
    assert np.linalg.matrix_rank(np.hstack([before, after]), tol=1e-9) == 2
    assert np.array_equal(made(drift_at=7, drift=0.0).theta_at(7), before)
    assert np.array_equal(env.theta, before)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("contexts", "mean", "square"),
    [
        ("gaussian", 0.0, 1.0),
        ("correlated", 0.0, 1.0),
        ("uniform", 0.0, 1.0),
        ("non-negative", np.sqrt(3) / 2, 1.0),
        ("shifted", 0.5, 1.25),
    ],
)
def test_context_moments(contexts, mean, square):
    """Seeded: 24,000 draws; 0.05 is above five standard errors of each moment."""
    x = asked(made(contexts=contexts, context_options={}), 40).actions
    assert x.mean() == pytest.approx(mean, abs=0.05)
    assert np.mean(x**2) == pytest.approx(square, abs=0.05)


@pytest.mark.statistical
def test_correlated_contexts_have_their_condition_number():
    """Seeded: 50,000 draws in 12 dimensions put the condition number within 10 %."""
    env = made(contexts="correlated", context_options={"condition": 50.0}, actions=10)
    x = asked(env, 500).actions.reshape(-1, 12)
    values = np.linalg.eigvalsh(x.T @ x / len(x))
    assert values[-1] / values[0] == pytest.approx(50.0, rel=0.1)
    assert asked(made(contexts="non-negative")).actions.min() >= 0


def test_fixed_action_sets_stay():
    requests = asked(made(action_sets="fixed"), 3)
    by_round = requests.actions.reshape(3, 10, 5, 12)
    np.testing.assert_array_equal(by_round[0], by_round[2])
    assert not np.array_equal(by_round[0, 0], by_round[0, 1])


def test_ragged_traffic():
    requests = asked(made(traffic_ratio=10.0), 200)
    counts = np.bincount(requests.task, minlength=10)
    assert counts.max() == 200
    assert counts.min() in (19, 20, 21)
    assert np.all(np.diff(requests.round) >= 0)


def test_reports_of_the_baseline_reward():
    def error(**settings):
        env = made(**settings)
        requests = asked(env, 200)
        return requests, requests.baseline_reward - env.baseline(requests)

    assert np.all(error()[1] == 0)
    assert np.all(np.isnan(error(baseline_known=False)[1]))
    np.testing.assert_allclose(error(baseline_bias=0.3)[1], 0.3)
    requests, noisy = error(baseline_reward_std=0.2)
    assert noisy.std() == pytest.approx(0.2, rel=0.1)
    assert np.all(requests.baseline_reward_std == 0.2)
    requests, noisy = error(baseline_reward_std=0.2, claimed_std=0.1)
    assert noisy.std() == pytest.approx(0.2, rel=0.1)
    assert np.all(requests.baseline_reward_std == 0.1)


@pytest.mark.statistical
def test_noise_laws():
    """Seeded: 40,000 draws; a t3's variance has no standard error, so its quartiles are checked instead."""
    env = made(noise_std=0.5, noise_spread=4.0)
    requests = asked(env, 4000)
    draws = env.noise(requests, np.random.default_rng(2))
    levels = [draws[requests.task == t].std() for t in range(10)]
    assert min(levels) == pytest.approx(0.125, rel=0.05)
    assert max(levels) == pytest.approx(2.0, rel=0.05)
    student = made(noise_std=0.5, noise_law="student").noise(requests, np.random.default_rng(2))
    assert np.median(np.abs(student)) == pytest.approx(0.5 * 0.7649 / np.sqrt(3), rel=0.03)


@pytest.mark.parametrize(
    "bad",
    [
        {"rank": 13},
        {"rank": 0},
        {"baseline_rank": 6},
        {"contexts": "cauchy"},
        {"normalise": "no"},
        {"kappa": 0.5},
        {"noise_std": -1.0},
        {"noise_std": np.nan},
        {"outliers": 11},
        {"drift": 2.0},
        {"action_sets": "new"},
    ],
)
def test_settings_outside_their_domain(bad):
    with pytest.raises(SettingError, match=next(iter(bad))):
        Synthetic(**{**SMALL, **bad})


def test_no_truth_before_reset():
    with pytest.raises(NotFittedError, match="reset"):
        _ = Synthetic().theta


def test_a_random_baseline_has_gaussian_features():
    """(x'θ)² is a sixth of ‖θ‖² on average for the fifth best of ten actions, all of it for a random one."""
    for place, share in ((5, 0.166), (None, 1.0)):
        env = Synthetic(dim=5, rank=1, tasks=20, baseline_rank=place)
        env.reset(np.random.default_rng(0))
        requests = env.requests(200, np.random.default_rng(1))
        norms = np.linalg.norm(env.theta, axis=0)[requests.task]
        assert np.mean((requests.baseline_reward / norms) ** 2) == pytest.approx(share, rel=0.1)
