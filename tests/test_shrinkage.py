"""Shrinkage: the Bayesian formula, ranks that no longer matter, and tasks that borrow strength."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from banister.data import TaskData
from banister.errors import ConvergenceWarning
from banister.estimators.altgdmin import AltGDmin
from banister.estimators.shrinkage import Moments, RandomEffects, discounted, random_effects
from problems import problem


def population(*, d=20, T=80, seed=0, noise=1.0, counts=None):
    """Tasks around a shared mean, differing along two directions: train and test halves of ragged rows."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((d, 3)))[0]
    theta = B @ (
        np.array([[1.0], [0.0], [0.0]]) + np.array([[0.2], [0.4], [0.25]]) * rng.standard_normal((3, T))
    )
    counts = rng.integers(10, 80, T) if counts is None else counts

    def rows(n):
        X, tasks = rng.standard_normal((int(n.sum()), d)), np.repeat(np.arange(T), n)
        y = np.einsum("ij,ji->i", X, theta[:, tasks])
        return TaskData.from_rows(X, y + noise * rng.standard_normal(len(y)), tasks, labels=np.arange(T))

    return rows(counts), rows(np.full(T, 40)), theta


def explained(theta, test):
    error = test.y - np.einsum("ij,ji->i", test.X, theta[:, test.codes])
    return 1 - np.mean(error**2) / np.var(test.y)


def quiet_fit(data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return AltGDmin(**{"threads": 1, **settings}).fit_data(data)


def each_alone(data, lam=3.0):
    return np.column_stack([np.linalg.solve(X.T @ X + lam * np.eye(data.dim), X.T @ y) for X, y in data])


def test_posterior_is_the_direct_formula():
    data, _ = problem(T=6, counts=[0, 1, 3, 8, 20, 20], noise=0.5)
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 2)))[0]
    effects = random_effects(Moments.of(data, B), dim=12, noise=0.25)
    precision = np.linalg.inv(effects.cov)
    for t, (X, y) in enumerate(data):
        Z = X @ B
        P = np.linalg.inv(Z.T @ Z / 0.25 + precision)
        np.testing.assert_allclose(effects.W_cov[t], P, rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(
            effects.W[t], P @ (Z.T @ y / 0.25 + precision @ effects.mean), rtol=1e-6, atol=1e-10
        )


def test_em_is_at_a_fixed_point():
    data, _ = problem(T=60, noise=0.5)
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 2)))[0]
    effects = random_effects(Moments.of(data, B), dim=12, steps=5000, tol=1e-10)
    centred = effects.W - effects.W.mean(axis=0)
    np.testing.assert_allclose(effects.mean, effects.W.mean(axis=0), atol=1e-6)
    cov = centred.T @ centred / 60 + effects.W_cov.mean(axis=0)
    np.testing.assert_allclose(effects.cov, cov, rtol=1e-5, atol=1e-8)


@pytest.mark.statistical
def test_the_population_is_recovered():
    """2000 tasks of 30 rows: mean, covariance and noise within 5 %, some five standard errors."""
    rng = np.random.default_rng(0)
    T, n, B = 2000, 30, np.eye(5)[:, :2]
    W = np.array([1.0, -0.5]) + rng.standard_normal((T, 2)) @ np.diag([0.6, 0.3])
    X, tasks = rng.standard_normal((T * n, 5)), np.repeat(np.arange(T), n)
    y = np.einsum("ij,ij->i", X @ B, W[tasks]) + 0.7 * rng.standard_normal(T * n)
    effects = random_effects(Moments.of(TaskData.from_rows(X, y, tasks), B), dim=5)
    np.testing.assert_allclose(effects.mean, [1.0, -0.5], atol=0.05)
    np.testing.assert_allclose(effects.cov, np.diag([0.36, 0.09]), atol=0.02)
    assert effects.noise == pytest.approx(0.49, rel=0.05)


def test_explained_variance_is_flat_in_the_rank():
    train, test, _ = population()
    shrunk = [explained(quiet_fit(train, rank=r).theta_, test) for r in (3, 4, 5, 6, 8)]
    plain = [explained(quiet_fit(train, rank=r, shrink=False).theta_, test) for r in (3, 8)]
    assert max(shrunk) - min(shrunk) < 0.02
    assert plain[0] - plain[1] > 0.05  # without shrinkage the rank costs
    assert min(shrunk) > plain[0]


def test_better_than_alone_and_than_pooled():
    train, test, theta = population()
    ours = explained(quiet_fit(train, rank=5).theta_, test)
    alone = max(explained(each_alone(train, lam), test) for lam in (1.0, 3.0, 10.0, 30.0))
    pooled_theta = np.linalg.lstsq(train.X, train.y, rcond=None)[0]
    pooled = explained(np.repeat(pooled_theta[:, None], train.n_tasks, axis=1), test)
    assert ours > alone + 0.03
    assert ours > pooled + 0.03
    assert ours > explained(theta, test) - 0.05  # the truth itself explains no more than this


def test_tasks_with_few_rows_borrow_strength():
    counts = np.where(np.arange(80) % 4 == 0, 2, 60)
    train, _, theta = population(counts=counts)
    few = counts == 2
    errors = {
        s: np.linalg.norm(quiet_fit(train, rank=3, shrink=s).theta_[:, few] - theta[:, few])
        for s in (True, False)
    }
    assert errors[True] < 0.5 * errors[False]


def test_a_new_task_is_predicted_before_its_first_row():
    train, _, theta = population()
    model = quiet_fit(train, rank=3)
    X = np.random.default_rng(1).standard_normal((200, 20))
    mean, std = model.predict_unseen(X, return_std=True)
    np.testing.assert_array_equal(mean, model.predict_unseen(X))
    truth = X @ theta
    assert np.mean((mean[:, None] - truth) ** 2) < 0.5 * np.mean(truth**2)
    z = (truth - mean[:, None]) / std[:, None]
    assert 0.8 < np.std(z) < 1.2  # 80 tasks: the spread is that of the population


def test_identical_tasks_shrink_to_one():
    rng = np.random.default_rng(0)
    theta = rng.standard_normal(10)
    X, tasks = rng.standard_normal((600, 10)), np.repeat(np.arange(30), 20)
    data = TaskData.from_rows(X, X @ theta + rng.standard_normal(600), tasks)
    shrunk, plain = (quiet_fit(data, rank=2, shrink=s).theta_ for s in (True, False))
    truth = theta[:, None]
    assert np.linalg.norm(shrunk - truth) < 0.6 * np.linalg.norm(plain - truth)


def test_no_noise_is_left_alone():
    data, theta = problem(noise=0.0)
    np.testing.assert_allclose(quiet_fit(data, rank=2).theta_, theta, atol=1e-8)


def test_the_population_is_learned_from_a_sample_of_very_many_tasks(monkeypatch):
    from banister.estimators import shrinkage

    data, _ = problem(T=400, n=10, noise=0.5)
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 2)))[0]
    whole = random_effects(Moments.of(data, B), dim=12)
    monkeypatch.setattr(shrinkage, "_ENOUGH", 200)
    sampled = random_effects(Moments.of(data, B), dim=12)
    assert sampled.W.shape == whole.W.shape
    assert sampled.noise == pytest.approx(whole.noise, rel=0.1)


def test_discount_by_hand():
    """One direction, d = T = 4 (β = 1), unit noise, y² = 6.25: share √(4.25² − 4)/6.25 of it is signal."""
    rows = np.full(4, 1e9)  # so many that overfitting plays no part
    W = np.full((4, 1), 2.5 / np.sqrt(1e9))
    effects = RandomEffects(W[0], np.eye(1), 1.0, W, np.ones((4, 1, 1)))
    share = np.sqrt(4.25**2 - 4) / 6.25
    found = discounted(effects, W, rows, 4)
    np.testing.assert_allclose(found.W, W * share / (1 - 1 / 6.25), rtol=1e-6)
    np.testing.assert_allclose(found.mean, found.W[0])
    weak = discounted(effects, 0.79 * W, rows, 4)  # y = 1.975 < 2 = 1 + √β is what noise gives
    assert not weak.W.any()


def test_strong_directions_are_not_discounted():
    data, _ = problem(noise=1e-3, n=100)
    model = quiet_fit(data, rank=2)
    np.testing.assert_allclose(model._effects.W, model._means, rtol=1e-4)


def test_pure_noise_is_predicted_as_nothing():
    data, _ = problem(d=30, T=40, n=30)
    noise = np.random.default_rng(0).standard_normal(data.n_rows)
    model = quiet_fit(data.replace_y(noise), rank=2)
    plain = quiet_fit(data.replace_y(noise), rank=2, shrink=False)
    assert np.linalg.norm(model.theta_) < 0.1 * np.linalg.norm(plain.theta_)
    std = model.predict(data.X, data.codes, return_std=True)[1]
    assert np.median(std) > 0.1  # nothing is known, and the intervals say so


@pytest.mark.parametrize("noise", [1.0, 2.0, 3.0])
def test_the_discount_helps_where_noise_is_large(noise):
    discounted_errors, plain_errors = [], []
    for seed in range(4):
        data, theta = problem(d=40, T=40, r=2, n=40, noise=noise, seed=seed)
        model = quiet_fit(data, rank=2)
        random_effects_only = model._whitening.A @ model._basis @ model._means.T
        discounted_errors.append(np.linalg.norm(model.theta_ - theta))
        plain_errors.append(np.linalg.norm(random_effects_only - theta))
    assert np.mean(discounted_errors) <= np.mean(plain_errors)
