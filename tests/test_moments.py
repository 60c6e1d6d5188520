"""MethodOfMoments: a case by hand, the subspace on Gaussian data, the two stages, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister import errors
from banister.data import TaskData
from banister.estimators import moments
from banister.estimators.moments import MethodOfMoments, moment_subspace, subspace_coefficients


def make(counts, *, d=5, r=2, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((d, r)))[0]
    W = rng.standard_normal((r, len(counts)))
    codes = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((len(codes), d))
    y = np.einsum("ij,ji->i", X, (B @ W)[:, codes]) + noise * rng.standard_normal(len(codes))
    return TaskData.from_rows(X, y, codes, labels=range(len(counts))), B, W


def distance(B1, B2):
    """Subspace distance: how much of B2 lies outside the span of B1, operator norm."""
    return np.linalg.norm(B2 - B1 @ (B1.T @ B2), 2)


def test_two_dimensions_by_hand():
    # Rows (1, 0) with y = 2, (0, 2) with y = 1, (1, 1) with y = 1: Σ y² x x' is [[4+1, 1], [1, 4+1]],
    # whose top eigenvector is (1, 1)/√2 with eigenvalue 6; /3 rows = 2 and 4/3.
    data = TaskData.from_rows([[1, 0], [0, 2], [1, 1]], [2, 1, 1], ["a", "a", "b"])
    B, eigenvalues = moment_subspace(data, 1)
    np.testing.assert_allclose(np.abs(B.ravel()), [0.5**0.5] * 2)
    np.testing.assert_allclose(eigenvalues, [2, 4 / 3])
    # Task a in u = (1, 1)/√2: rows 1/√2 and √2, rewards 2 and 1: w = (2/√2 + √2)/(1/2 + 2) = 2√2/2.5.
    # Task b: row √2, reward 1: w = 1/√2. Theta = w u.
    model = MethodOfMoments(rank=1).fit_data(data)
    np.testing.assert_allclose(model.theta_, [[0.8, 0.5], [0.8, 0.5]])
    assert model.warnings_ == []


@pytest.mark.statistical
def test_recovers_the_subspace_from_many_gaussian_rows():
    # No noise: the moment matrix errs by about √(d/N)·(a few) relative to the gap; 5 seeds below 0.1,
    # and four times the rows must about halve it (mean ratio below 0.7).
    small, large = [], []
    for seed in range(5):
        for rows, into in ((500, small), (2000, large)):
            data, B, _ = make([rows] * 20, seed=seed)
            into.append(distance(MethodOfMoments(rank=2).fit_data(data).B_, B))
    assert max(large) < 0.1
    assert np.mean(large) < 0.7 * np.mean(small)


def test_coefficients_are_exact_in_the_true_subspace():
    data, B, W = make([2, 3, 7, 7, 40])
    np.testing.assert_allclose(subspace_coefficients(data, B), W, atol=1e-9)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=7).filter(any), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_coefficients_are_lstsqs(counts, seed):
    data, B, _ = make(counts, noise=1.0, seed=seed)
    W = subspace_coefficients(data, B)
    for t, (X, y) in enumerate(data):
        plain = np.linalg.lstsq(X @ B, y, rcond=None)[0] if len(y) else np.zeros(2)
        np.testing.assert_allclose(W[:, t], plain, atol=1e-6 * (1 + np.abs(plain).max()))


def test_chunks_add_up(monkeypatch):
    data, B, _ = make([30, 7, 30, 1], noise=0.1)
    whole, coefficients = moment_subspace(data, 2), subspace_coefficients(data, B)
    plain = (data.X * data.y[:, None] ** 2).T @ data.X / data.n_rows
    np.testing.assert_allclose(whole[1], np.linalg.eigvalsh(plain)[::-1], atol=1e-12)
    monkeypatch.setattr(moments, "_CHUNK", 11)
    np.testing.assert_allclose(moment_subspace(data, 2)[1], whole[1], rtol=1e-10)
    np.testing.assert_allclose(subspace_coefficients(data, B), coefficients, rtol=1e-10)


def test_stages_compose_over_two_data_sets():
    first, _, _ = make([40] * 6, seed=1)
    second, _, _ = make([9] * 6, seed=2)
    B, _ = moment_subspace(first, 2)
    both = MethodOfMoments(rank=2).fit_data(first)
    np.testing.assert_array_equal(B, both.B_)
    np.testing.assert_array_equal(both.W_, subspace_coefficients(first, B))
    assert subspace_coefficients(second, B).shape == (2, 6)
    np.testing.assert_allclose(B.T @ B, np.eye(2), atol=1e-12)


def test_short_and_empty_tasks_are_flagged():
    data, _, _ = make([30, 1, 0, 30])
    model = MethodOfMoments(rank=2).fit_data(data)
    assert "no rows" in model.warnings_[0]
    assert model.warnings_[0].endswith("2.")
    assert "least norm: 1." in model.warnings_[1]
    assert not model.theta_[:, 2].any()
    X, y = data.rows_of(1)
    np.testing.assert_allclose(model.predict(X, [1]), y)  # one row, two coefficients: fitted exactly
    z = (X @ model.B_)[0]
    assert abs(model.W_[:, 1] @ [z[1], -z[0]]) < 1e-9  # nothing where the row says nothing


def test_one_task_and_one_row():
    model = MethodOfMoments(rank=1).fit([[3.0, 4.0]], [10.0], ["only"])
    np.testing.assert_allclose(model.theta_.ravel(), [1.2, 1.6])


@pytest.mark.parametrize("rank", [0, 3, 1.5, True])
def test_impossible_rank(rank):
    data, _, _ = make([5, 5], d=4)
    with pytest.raises(errors.SettingError, match="rank"):
        MethodOfMoments(rank=rank).fit_data(data)


def test_bad_input():
    with pytest.raises(errors.NonFiniteError):
        MethodOfMoments(rank=1).fit([[np.nan]], [1.0], [0])
    with pytest.raises(errors.NotFittedError):
        MethodOfMoments().predict([[1.0]], [0])
    data, B, _ = make([5, 5])
    with pytest.raises(errors.UnknownTaskError, match="'x'"):
        MethodOfMoments(rank=1).fit_data(data).predict(data.X[:1], ["x"])
    with pytest.raises(errors.ShapeError, match="5 features"):
        subspace_coefficients(data, B[:3])
