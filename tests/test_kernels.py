"""Each compiled kernel against a plain numpy twin."""

from __future__ import annotations

import numpy as np
import pytest

from banister.data import TaskData
from banister.errors import SettingError
from banister.solver import LocalPool, Passes, block, kernels
from problems import problem

RAGGED = [0, 1, 2, 7, 30, 1, 0, 13]
FULL = [0, 12, 10, 17, 30, 11, 0, 13]


def ragged(r, dtype=np.float64, counts=RAGGED):
    return problem(d=9, T=len(counts), r=r, counts=counts, seed=r, dtype=dtype)[0]


def twin(data, B, weights, ridge):
    """Value, half gradient, W and Minv by definition; the same tiny ridge keeps few rows defined."""
    value, gradient, Ws, Ms = 0.0, np.zeros_like(B), [], []
    for t, (X, y) in enumerate(data):
        Z = X.astype(float) @ B
        M = Z.T @ Z
        least = 1e-11 * np.trace(M) if np.trace(M) > 0 else 1.0
        Minv = np.linalg.inv(M + (ridge + least) * np.eye(B.shape[1]))
        w = Minv @ (Z.T @ y)
        w = w + Minv @ (Z.T @ y - M @ w - ridge * w)
        e = y - Z @ w
        value += weights[t] * (e @ e + ridge * w @ w)
        gradient -= weights[t] * np.outer(X.T @ e, w)
        Ws.append(w)
        Ms.append(Minv)
    return value, gradient, np.array(Ws), np.array(Ms)


def hessian_twin(data, B, D, weights, W, Minv):
    total = np.zeros_like(B)
    for t, (X, _) in enumerate(data):
        Z, u = X @ B, X @ (D @ W[t])
        total += weights[t] * np.outer(X.T @ (u - Z @ (Minv[t] @ (Z.T @ u))), W[t])
    return total


@pytest.mark.parametrize("r", range(1, 8))
@pytest.mark.parametrize(("ridge", "counts"), [(0.0, FULL), (0.7, RAGGED)])
def test_value_gradient_and_hessian_match_numpy(r, ridge, counts):
    data, rng = ragged(r, counts=counts), np.random.default_rng(r)
    B, D = np.linalg.qr(rng.standard_normal((9, r)))[0], rng.standard_normal((9, r))
    weights = rng.uniform(0.5, 2.0, data.n_tasks)
    passes = Passes(data, r, weights=weights, threads=1)
    passes.ridge = ridge
    value, gradient = passes.gradient(B)
    value_, gradient_, W_, Minv_ = twin(data, B, weights, ridge)
    assert value == pytest.approx(value_, rel=1e-10)
    np.testing.assert_allclose(gradient, gradient_, atol=1e-10 * np.abs(gradient_).max())
    np.testing.assert_allclose(passes.coefficients(B), W_, atol=1e-10 * np.abs(W_).max())
    spread = (W_ * (weights * data.counts)[:, None]).T @ W_
    np.testing.assert_allclose(passes.spread, spread, atol=1e-10 * np.abs(spread).max())
    product = hessian_twin(data, B, D, weights, W_, Minv_)
    np.testing.assert_allclose(passes.hessian(D), product, atol=1e-10 * np.abs(product).max())


def test_an_inverse_stays_finite_where_rounding_takes_a_pivot_below_zero():
    for seed in range(8):
        v = np.random.default_rng(seed).standard_normal(6)
        inverse = np.empty((6, 6))
        kernels.invert_gram(np.tril(np.outer(v, v)) * 1e20, 1.0, inverse, np.zeros((6, 6)))
        assert np.isfinite(inverse).all()


def test_one_row_determines_one_coefficient():
    data = TaskData.from_rows([[2.0, 0.0], [0.0, 3.0]], [4.0, 6.0], ["a", "b"])
    passes = Passes(data, 1, threads=1)
    B = np.array([[0.6], [0.8]])
    assert passes.gradient(B)[0] == pytest.approx(0.0, abs=1e-18)
    np.testing.assert_allclose(passes.coefficients(B)[:, 0], [4.0 / 1.2, 6.0 / 2.4], rtol=1e-12)


def test_gradient_is_the_derivative_of_the_value():
    data, rng = problem(seed=3)[0], np.random.default_rng(3)
    B, D = np.linalg.qr(rng.standard_normal((12, 2)))[0], rng.standard_normal((12, 2))
    passes = Passes(data, 2, threads=1)
    h = 1e-5
    slope = (passes.gradient(B + h * D)[0] - passes.gradient(B - h * D)[0]) / (2 * h)
    assert slope == pytest.approx(2 * float(np.sum(passes.gradient(B)[1] * D)), rel=1e-6)


@pytest.mark.parametrize("r", [1, 2, 5])
def test_exact_hessian_is_the_derivative_of_the_gradient(r):
    data, rng = ragged(r, counts=FULL), np.random.default_rng(r)
    B, D = np.linalg.qr(rng.standard_normal((9, r)))[0], rng.standard_normal((9, r))
    passes, h = Passes(data, r, threads=1, weights=rng.uniform(0.5, 2.0, 8)), 1e-5
    numerical = (passes.gradient(B + h * D)[1] - passes.gradient(B - h * D)[1]) / (2 * h)
    passes.gradient(B)
    exact = passes.hessian(D, exact=True)
    np.testing.assert_allclose(exact, numerical, atol=1e-7 * np.abs(exact).max())


def test_a_task_with_fewer_rows_than_the_rank_gets_the_minimum_norm_answer():
    data, rng = ragged(4), np.random.default_rng(4)
    B = np.linalg.qr(rng.standard_normal((9, 4)))[0]
    passes = Passes(data, 4, threads=1)
    passes.gradient(B)
    for t in np.flatnonzero((data.counts > 0) & (data.counts < 4)):
        X, y = data.rows_of(t)
        np.testing.assert_allclose(passes.coefficients(B)[t], np.linalg.pinv(X @ B) @ y, atol=1e-4)
        np.testing.assert_allclose(X @ B @ passes.coefficients(B)[t], y, atol=1e-6)
    assert not passes.coefficients(B)[data.counts == 0].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_threads_do_not_change_results(dtype, monkeypatch):
    monkeypatch.setattr(block, "_SMALL", 1)
    data, rng = problem(T=40, n=15, seed=1, dtype=dtype)[0], np.random.default_rng(1)
    B, D = np.linalg.qr(rng.standard_normal((12, 2)))[0], rng.standard_normal((12, 2))
    results = []
    for threads in (1, 2):
        passes = Passes(data, 2, threads=threads)
        results.append([*passes.gradient(B), passes.coefficients(B), passes.hessian(D)])
        results[-1] += [*passes.pool.correlations(np.ones(12)), *passes.pool.moments(B)]
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_blocks_cover_every_task_once(monkeypatch):
    monkeypatch.setattr(block, "_SMALL", 1)
    cuts = block.block_bounds(ragged(2).offsets, 9)
    assert cuts[0] == 0
    assert cuts[-1] == 8
    assert np.all(np.diff(cuts) > 0)
    assert len(cuts) > 3


def test_correlations_match_numpy():
    data, p = ragged(3), np.random.default_rng(3).standard_normal(9)
    for centre in (np.zeros(9), p):
        expected = np.stack([X.T @ (y - X @ centre) for X, y in data])
        np.testing.assert_allclose(block.task_correlations(data, centre), expected, atol=1e-12)


@pytest.mark.parametrize("r", range(1, 8))
def test_moments_match_numpy(r):
    data, rng = ragged(r), np.random.default_rng(r)
    B = rng.standard_normal((9, r))
    gram, cross, W, rss = LocalPool(data, threads=1).moments(B)
    for t, (X, y) in enumerate(data):
        Z = X @ B
        np.testing.assert_allclose(gram[t], Z.T @ Z, atol=1e-10)
        np.testing.assert_allclose(cross[t], Z.T @ y, atol=1e-10)
        assert rss[t] == pytest.approx(np.sum((y - Z @ np.linalg.pinv(Z) @ y) ** 2), abs=1e-8)
        if len(y) > r:
            np.testing.assert_allclose(W[t], np.linalg.lstsq(Z, y, rcond=None)[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("r", range(1, 8))
def test_posteriors_match_the_formula(r):
    rng = np.random.default_rng(r)
    A = rng.standard_normal((5, r, r + 2))
    gram = A @ A.transpose(0, 2, 1)
    gram[0] = 0.0  # a task with no rows keeps the prior
    gap, mean, root = rng.standard_normal((5, r)), rng.standard_normal(r), rng.standard_normal((r, r))
    gap[0] = 0.0
    W, P = np.empty((5, r)), np.empty((5, r, r))
    kernels.posteriors(gram, gap, root, 0.3, mean, W, P)
    expected = np.linalg.inv(gram / 0.3 + np.linalg.inv(root @ root.T))
    np.testing.assert_allclose(P, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(W, mean + np.einsum("tij,tj->ti", expected, gap) / 0.3, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("r", [1, 3, 6])
def test_float32_agrees_with_float64(r):
    single, double = ragged(r, np.float32), ragged(r)
    B = np.linalg.qr(np.random.default_rng(r).standard_normal((9, r)))[0]
    value32, gradient32 = Passes(single, r, threads=1).gradient(B)
    value64, gradient64 = Passes(double, r, threads=1).gradient(B)
    assert value32 == pytest.approx(value64, rel=1e-4)
    np.testing.assert_allclose(gradient32, gradient64, atol=1e-3 * np.abs(gradient64).max())


def test_nan_is_not_hidden_by_fast_arithmetic():
    X = np.full((3, 2), np.nan)
    data = TaskData(X, np.ones(3), np.array([0, 3]), np.array(["a"]))
    assert np.isnan(Passes(data, 1, threads=1).gradient(np.eye(2)[:, :1])[0])


@pytest.mark.parametrize("threads", [0, -1, "many"])
def test_bad_threads(threads):
    with pytest.raises(SettingError, match="at least 1"):
        Passes(ragged(1), 1, threads=threads)


def test_threads_from_the_environment(monkeypatch):
    monkeypatch.setenv("BANISTER_THREADS", "3")
    assert LocalPool(ragged(1)).threads == 3
