"""The guess at ‖θ‖: by hand, exact once baselines determine θ, and within a factor of 3 elsewhere."""

import numpy as np
import pytest
from scipy.stats import chi2

import banister as bn
from banister.contract import Requests
from banister.safety.norm_guess import NormGuess

E = np.eye(2)


def asked(features, rewards, std=0.0, task=None):
    """Requests with one action each, which is the baseline."""
    X = np.array(features, dtype=float)
    index = np.zeros(len(X), dtype=np.int64)
    return Requests(index if task is None else np.array(task), X[:, None], index, np.array(rewards), std)


def guessed(requests, n_tasks=1):
    guess = NormGuess(n_tasks, delta=0.01)
    guess.see(requests)
    return guess.bound()


def test_two_baselines_determine_two_numbers():
    """θ = (3, 4) from x = (1, 0) and (0, 1): its norm is 5."""
    np.testing.assert_allclose(guessed(asked(E, [3.0, 4.0])), [1.01 * 5.0], rtol=1e-6)


def test_one_baseline_by_hand():
    """x = (1, 0), r = 3: one direction known, of energy 9; the other by the 1 % quantile of χ²_1."""
    rest = 9 / chi2.ppf(0.01, 1) / (np.pi / (2 + np.pi - 2))
    np.testing.assert_allclose(guessed(asked(E[:1], [3.0])), [1.01 * np.sqrt(9 + rest)], rtol=1e-6)


def test_a_baseline_met_again_teaches_nothing():
    once, often = (guessed(asked([E[0]] * n, [3.0] * n)) for n in (1, 20))
    np.testing.assert_allclose(once, often, rtol=1e-3)


def test_scale_of_rewards_and_features():
    """‖θ‖ follows both: θ → 10 θ and x → x/2 make it 20 times as large."""
    rng = np.random.default_rng(0)
    X, theta = rng.standard_normal((4, 9)), rng.standard_normal(9)
    base = guessed(asked(X, X @ theta))
    np.testing.assert_allclose(guessed(asked(X / 2, 10 * (X @ theta))), 20 * base, rtol=1e-9)


def test_errors_of_the_rewards_are_not_taken_for_theta():
    """Twenty baselines of θ = 0.1·1 in forty dimensions, each reward off by 1: the norm is 0.63."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 40))
    r = X @ np.full(40, 0.1) + rng.standard_normal(20)
    told, untold = (guessed(asked(X, r, std=std))[0] for std in (1.0, 0.0))
    assert 0.63 < told < untold


@pytest.mark.parametrize("rewards", [[np.nan] * 3, [0.0] * 3])
def test_what_says_nothing_leaves_it_open(rewards):
    assert np.isinf(guessed(asked(np.ones((3, 2)), rewards))).all()


def test_a_task_never_seen_stays_open():
    bound = guessed(asked(E, [3.0, 4.0], task=[0, 0]), n_tasks=2)
    assert np.isinf(bound[1])
    assert np.isfinite(bound[0])


def test_round_by_round_is_all_at_once_whenever_it_is_renewed():
    env = bn.Synthetic(dim=6, rank=2, tasks=5, actions=5, baseline_rank=2)
    env.reset(np.random.default_rng(0))
    requests = env.requests(8, np.random.default_rng(1))
    running, whole = NormGuess(5, delta=0.05), NormGuess(5, delta=0.05)
    for n in range(8):
        running.see(requests[requests.round == n])
        found = running.bound()
    whole.see(requests)
    np.testing.assert_allclose(found, whole.bound())


def ratios(env, rounds, *, pooled=False):
    rng = np.random.default_rng(0)
    env.reset(rng)
    guess = NormGuess(1 if pooled else env.n_tasks, delta=0.01)
    requests = env.requests(rounds, rng)
    guess.see(requests, np.zeros(len(requests), dtype=np.int64) if pooled else None)
    return guess.bound() / np.linalg.norm(env.theta, axis=0)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"contexts": "correlated"},
        {"contexts": "uniform"},
        {"contexts": "non-negative"},
        {"contexts": "shifted"},
        {"kappa": 10.0, "rank": 4},
        {"normalise": "unit-task"},
    ],
    ids=str,
)
def test_within_a_factor_of_three_after_half_as_many_rounds_as_features(settings):
    found = ratios(bn.Synthetic(**{"dim": 60, "tasks": 60, **settings}), 30)
    assert np.all(found < 5.0)
    assert np.median(found) < 3.0
    assert np.mean(found >= 1.0) > 0.9
    np.testing.assert_allclose(
        ratios(bn.Synthetic(**{"dim": 60, "tasks": 60, **settings}), 90), 1.01, rtol=0.01
    )


@pytest.mark.parametrize("place", [1, 2, 9])
def test_a_baseline_that_is_far_from_middling_is_taken_for_one_a_little_longer(place):
    env = bn.Synthetic(dim=60, tasks=60, baseline_rank=place)
    assert np.all(ratios(env, 30) < 5.5)
    assert np.all(ratios(env, 50) < 3.0)


@pytest.mark.parametrize(
    "env", [bn.Synthetic.example(), bn.MovieLens.example()], ids=["synthetic", "movielens"]
)
def test_exact_on_the_examples(env):
    np.testing.assert_allclose(ratios(env, 20), 1.01, rtol=0.005)


def test_pooled_baselines_determine_a_shared_theta_sooner():
    env = bn.MovieLens.example()
    np.testing.assert_allclose(ratios(env, 4, pooled=True), 1.01, rtol=0.005)
