"""Confidence: the delta method by brute force, and calibration on data from the model."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from banister.estimators.altgdmin import AltGDmin
from banister.estimators.rank import whiten_basis
from banister.solver import Passes, Whitening, minimise, regular
from problems import fifth_best, problem


def refit_theta(data, y, B):
    """Θ̂ as a function of the rewards, by a warm solve to high accuracy."""
    passes, whitening = Passes(data.replace_y(y), B.shape[1], threads=1), Whitening.of(data)
    start = whiten_basis(whitening, B, np.zeros((B.shape[1], data.n_tasks)))[0]
    solution = minimise(passes, whitening, start, tol=1e-13, max_passes=2000)
    return solution.B @ solution.W


@pytest.mark.parametrize("noise", [1e-3, 0.02])
def test_variance_is_that_of_numerical_differentiation(noise):
    """Var = σ² Σ_i (∂θ̂/∂y_i)²; Gauss-Newton drops terms of the size of the noise, hence the tolerance."""
    data, _ = problem(d=6, T=7, r=2, counts=[9, 10, 12, 8, 15, 20, 11], noise=noise, seed=2)
    model = AltGDmin(rank=2, shrink=False, noise_std=noise, threads=1).fit_data(data)
    probe, step = np.random.default_rng(0).standard_normal((7, 6)), 0.05 * noise
    variance = np.zeros(7)
    for i in range(data.n_rows):
        shifted = []
        for sign in (1.0, -1.0):
            y = data.y.copy()
            y[i] += sign * step
            shifted.append(np.einsum("td,dt->t", probe, refit_theta(data, y, model.B_)))
        variance += (noise * (shifted[0] - shifted[1]) / (2 * step)) ** 2
    std = model.predict(probe, np.arange(7), return_std=True)[1]
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=20 * noise)


def test_of_task_is_the_matrix_behind_the_variance():
    data, _ = problem(noise=0.1)
    for shrink in (True, False):
        model = AltGDmin(rank=2, shrink=shrink, threads=1).fit_data(data)
        x = np.random.default_rng(0).standard_normal((4, 12))
        std = model.predict(x, [3, 3, 3, 3], return_std=True)[1]
        covariance = model._materialise().of_task(3)
        np.testing.assert_allclose(std**2, np.einsum("mi,ij,mj->m", x, covariance, x), rtol=1e-8)


def test_order_of_rows_does_not_matter():
    data, _ = problem()
    model = AltGDmin(rank=2, threads=1).fit_data(data)
    X, tasks = data.X[::7], data.codes[::7]
    order = np.random.default_rng(0).permutation(len(X))
    std = model.predict(X, tasks, return_std=True)[1]
    np.testing.assert_allclose(
        model.predict(X[order], tasks[order], return_std=True)[1], std[order], rtol=1e-12
    )


def test_interval_is_symmetric_and_grows_with_the_level():
    data, _ = problem()
    model = AltGDmin(rank=2, threads=1).fit_data(data)
    mean, std = model.predict(data.X[:5], data.codes[:5], return_std=True)
    low, high = model.interval(data.X[:5], data.codes[:5])
    np.testing.assert_allclose((low + high) / 2, mean)
    np.testing.assert_allclose(high - mean, 1.959963985 * std, rtol=1e-8)
    wide = model.interval(data.X[:5], data.codes[:5], level=0.99)
    assert np.all(wide[0] < low)
    assert np.all(wide[1] > high)


def test_more_noise_is_less_sure_and_the_noise_is_estimated():
    quiet = AltGDmin(rank=2, threads=1).fit_data(problem(noise=0.1, n=40)[0])
    loud = AltGDmin(rank=2, threads=1).fit_data(problem(noise=0.4, n=40)[0])
    assert quiet.noise_std_ == pytest.approx(0.1, rel=0.1)
    assert loud.noise_std_ == pytest.approx(0.4, rel=0.1)
    x, t = np.ones((1, 12)), [0]
    assert loud.predict(x, t, return_std=True)[1] > 2 * quiet.predict(x, t, return_std=True)[1]


def test_a_stored_model_is_as_sure():
    data, _ = problem()
    model = AltGDmin(rank=2, threads=1).fit_data(data)
    copy = pickle.loads(pickle.dumps(model))
    for a, b in zip(
        model.predict(data.X, data.codes, return_std=True), copy.predict(data.X, data.codes, return_std=True),
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(a, b)


def standardised(make, settings, seeds):
    z = []
    for seed in seeds:
        data, theta = make(seed)
        model = AltGDmin(rank=2, threads=1, **settings).fit_data(data)
        rng = np.random.default_rng(1000 + seed)
        x, tasks = rng.standard_normal((400, data.dim)), rng.integers(0, data.n_tasks, 400)
        mean, std = model.predict(x, tasks, return_std=True)
        z.append((mean - np.einsum("ij,ji->i", x, theta[:, tasks])) / std)
    return np.abs(np.concatenate(z))


DESIGNS = {
    "isotropic": lambda seed: problem(d=20, T=40, r=2, n=30, noise=0.3, seed=seed),
    "ragged": lambda seed: problem(
        d=20, T=40, r=2, noise=0.3, seed=seed, counts=np.random.default_rng(seed).integers(8, 60, 40)
    ),
    "fifth best": lambda seed: fifth_best(d=20, T=20, r=2, n=60, noise=0.02, seed=seed),
}


@pytest.mark.statistical
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("shrink", [True, False])
def test_calibration(design, shrink):
    """On data from the model: median |z| 0.67 ± 0.05 and 95th percentile 1.96 ± 0.15 over 12 × 400 errors."""
    z = standardised(DESIGNS[design], {"shrink": shrink}, range(12))
    assert np.median(z) == pytest.approx(0.6745, abs=0.05)
    assert np.quantile(z, 0.95) == pytest.approx(1.96, abs=0.15)


@pytest.mark.statistical
def test_calibration_of_added_tasks():
    """Tasks added from eight rows each are as well calibrated: the same tolerance."""
    z = []
    for seed in range(12):
        data, theta = problem(d=20, T=60, r=2, n=30, noise=0.3, seed=seed)
        old = slice(0, int(data.offsets[40]))
        model = AltGDmin(rank=2, threads=1).fit(data.X[old], data.y[old], data.codes[old])
        few = (np.arange(data.n_rows) % 30 < 8) & (data.codes >= 40)
        model.add_tasks(data.X[few], data.y[few], data.codes[few])
        rng = np.random.default_rng(seed)
        x, tasks = rng.standard_normal((400, 20)), rng.integers(40, 60, 400)
        mean, std = model.predict(x, tasks, return_std=True)
        z.append(np.abs((mean - np.einsum("ij,ji->i", x, theta[:, tasks])) / std))
    z = np.concatenate(z)
    assert np.median(z) == pytest.approx(0.6745, abs=0.05)
    assert np.quantile(z, 0.95) == pytest.approx(1.96, abs=0.15)


def test_repeated_rows_leave_unseen_directions_open() -> None:
    """A fixed catalogue: each task repeats one row, so S has rank far below its size."""
    rng = np.random.default_rng(3)
    d, T = 12, 8
    rows = np.repeat(rng.standard_normal((T, d)) * 1e3, 30, axis=0)
    tasks = np.repeat(np.arange(T), 30)
    y = rows @ rng.standard_normal(d) + 1e-3 * rng.standard_normal(len(rows))
    model = AltGDmin(rank=2, shrink=False).fit(rows, y, tasks)
    _, seen = model.predict(rows[::30], np.arange(T), return_std=True)
    _, unseen = model.predict(rng.standard_normal((T, d)) * 1e3, np.arange(T), return_std=True)
    assert np.all(np.isfinite(unseen))
    assert np.median(unseen) > 100 * np.median(seen)


def test_what_a_task_with_too_few_rows_leaves_open_is_large_and_finite():
    """Fewer rows than the rank, or none: the Gram matrix has no inverse, and gets one."""
    gram = np.stack([np.zeros((2, 2)), np.diag([4.0, 0.0]), np.diag([4.0, 2.0])])
    inverse = np.linalg.inv(regular(gram))
    assert np.isfinite(inverse).all()
    assert inverse[0, 0, 0] > 1e9
    assert inverse[1, 1, 1] > 1e9
    np.testing.assert_allclose(inverse[2], np.diag([0.25, 0.5]), rtol=1e-8)
