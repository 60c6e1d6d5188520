"""The default solver: optimality, the same optimum as another method, and honest endings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from banister.data import TaskData
from banister.solver import (
    LocalPool,
    Passes,
    Spectra,
    Whitening,
    minimise,
    nothing_left,
    ranked,
    solve,
    starts,
)
from banister.solver.descent import _pcg, _Place, _retract
from problems import fifth_best, problem, relative_error


def solved(data, r, **options):
    passes = Passes(data, r, threads=1, weights=options.pop("weights", None))
    return solve(passes, Whitening.of(data), rng=np.random.default_rng(0), **options)


def objective(data, B, W, weights=None):
    weights = np.ones(data.n_tasks) if weights is None else weights
    return sum(weights[t] * np.sum((y - X @ (B @ W[:, t])) ** 2) for t, (X, y) in enumerate(data))


def lbfgs(data, B, W, weights):
    """SciPy's L-BFGS on (B, W) with analytic gradients."""
    d, r = B.shape
    X, y, codes, omega = data.X, data.y, data.codes, weights[data.codes]

    def value(z):
        B, W = z[: d * r].reshape(d, r), z[d * r :].reshape(-1, r)
        XB = X @ B
        e = np.einsum("ir,ir->i", XB, W[codes]) - y
        grad_W = np.zeros_like(W)
        np.add.at(grad_W, codes, (omega * e)[:, None] * XB)
        grad_B = X.T @ ((omega * e)[:, None] * W[codes])
        return float(omega @ e**2), 2 * np.concatenate([grad_B.ravel(), grad_W.ravel()])

    start = np.concatenate([B.ravel(), W.T.ravel()])
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30}
    return minimize(value, start, jac=True, method="L-BFGS-B", options=options).fun


CASES = {
    "isotropic": {},
    "ragged": {"counts": [0, 1, 2, 3, 5, 8, 13, 21, 34, 40, 40, 7, 9, 11, 30], "noise": 0.3},
    "wide": {"d": 40, "T": 10, "n": 60},
    "rank three": {"r": 3, "n": 25, "noise": 0.5},
}


def test_every_pass_is_counted():
    data, _ = problem(d=4, T=3, r=1, n=6)
    passes, B = Passes(data, 1, threads=1), np.eye(4)[:, :1]
    passes.gradient(B)
    assert passes.count == 1
    passes.hessian(B)
    assert passes.count == 2
    passes.gradient(np.eye(4)[:, 1:2])
    passes.hessian(B, at=B)  # elsewhere: the workspaces are made again
    assert passes.count == 5


@pytest.mark.parametrize("case", CASES)
def test_the_gradient_vanishes_at_the_solution(case):
    data, _ = problem(**CASES[case])
    r = CASES[case].get("r", 2)
    solution, agreed = solved(data, r)
    assert solution.converged
    assert agreed
    passes = Passes(data, r, threads=1)
    value, gradient = passes.gradient(solution.B)
    assert value == pytest.approx(solution.objective, rel=1e-9)
    assert np.linalg.norm(gradient) <= 1e-4 * np.sqrt(value) * np.linalg.norm(data.X, 2)
    np.testing.assert_allclose(solution.B.T @ solution.B, np.eye(r), atol=1e-12)
    assert objective(data, solution.B, solution.W) == pytest.approx(value, rel=1e-8)


@pytest.mark.parametrize("case", CASES)
def test_the_optimum_is_that_of_lbfgs_on_both_factors(case):
    data, _ = problem(**CASES[case])
    weights = np.linspace(0.5, 2.0, data.n_tasks)
    solution, _ = solved(data, CASES[case].get("r", 2), weights=weights)
    rng = np.random.default_rng(1)
    B, W = (part + 0.05 * rng.standard_normal(part.shape) for part in (solution.B, solution.W))
    found = lbfgs(data, B, W, weights)
    assert solution.objective == pytest.approx(found, rel=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_pure_noise_and_too_high_a_rank_are_solved_to_the_end(seed):
    """Gauss-Newton alone would creep here: a much stricter solve from its end gains less than 1e-8."""
    data, _ = problem(d=20, T=25, n=15, seed=seed)
    data = data.replace_y(np.random.default_rng(seed).standard_normal(data.n_rows))
    solution, _ = solved(data, 3)
    assert solution.converged
    passes, whitening = Passes(data, 3, threads=1), Whitening.of(data)
    start = np.linalg.qr(whitening.inverse @ solution.B)[0]
    polished = minimise(passes, whitening, start, tol=1e-14, max_passes=3000)
    assert solution.objective == pytest.approx(polished.objective, rel=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_no_noise_is_solved_exactly(seed):
    data, theta = problem(noise=0.0, seed=seed)
    solution, agreed = solved(data, 2)
    assert solution.converged
    assert agreed
    assert relative_error(solution.B @ solution.W, theta) < 1e-10


def test_zero_rewards_are_a_solution_at_once():
    data, _ = problem()
    solution, _ = solved(data.replace_y(np.zeros(data.n_rows)), 2)
    assert solution.converged
    assert solution.objective == 0.0
    assert not solution.W.any()


def test_a_warm_start_takes_fewer_passes_to_the_same_optimum():
    data, _ = fifth_best(d=30, T=30, r=2, n=30, noise=0.01, seed=0)
    cold, _ = solved(data, 2, check=False)
    less = TaskData.from_codes(
        *(a[np.arange(900) % 30 < 24] for a in (data.X, data.y, data.codes)), data.labels
    )
    earlier, _ = solved(less, 2)
    warm, _ = solved(data, 2, warm=earlier.B, check=False)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-8)
    assert warm.passes < cold.passes


def test_the_objective_never_rises():
    for seed in range(5):
        data, _ = problem(n=5, noise=1.0, seed=seed)
        passes = Passes(data, 3, threads=1)
        B = np.linalg.qr(np.random.default_rng(seed).standard_normal((12, 3)))[0]
        history = minimise(passes, Whitening.of(data), B).history
        assert np.all(np.diff(history) <= 0)


def test_too_small_a_budget_is_said():
    data, _ = fifth_best(d=20, T=20, r=2, n=20, noise=0.1, seed=1)
    passes = Passes(data, 2, threads=1)
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((20, 2)))[0]
    solution = minimise(passes, Whitening.of(data), B, max_passes=5)
    assert not solution.converged
    assert solution.passes < 5 + 52  # one outer step may overshoot by its inner ones


def test_policy_collected_data_are_fitted():
    data, theta = fifth_best(d=40, T=40, r=2, n=40, noise=1e-3, seed=0)
    solution, agreed = solved(data, 2)
    assert solution.converged
    assert agreed
    assert relative_error(solution.B @ solution.W, theta) < 0.01


def test_correlated_features_are_fitted():
    rng = np.random.default_rng(0)
    data, _theta = problem(noise=0.0)
    mix = np.linalg.qr(rng.standard_normal((12, 12)))[0] * np.geomspace(1, 1e-4, 12)
    warped = TaskData(data.X @ mix, data.y, data.offsets, data.labels)
    solution, _ = solved(warped, 2)
    assert solution.converged
    fitted = np.einsum("ij,ji->i", warped.X, (solution.B @ solution.W)[:, data.codes])
    np.testing.assert_allclose(fitted, data.y, atol=1e-8)


def test_whitening_undoes_itself_and_whitens():
    data, _ = problem(d=6)
    whitening = Whitening.of(data)
    np.testing.assert_allclose(whitening.A @ whitening.inverse, np.eye(6), atol=1e-10)
    second_moment = data.X.T @ data.X / data.n_rows
    np.testing.assert_allclose(whitening.A.T @ second_moment @ whitening.A, np.eye(6), atol=1e-4)


def test_a_start_never_vouches_for_itself(monkeypatch):
    """Where the spectral start did not convince, the search goes on from its end and from the others."""
    data, _ = problem(n=6, noise=0.5)
    passes, whitening = Passes(data, 2, threads=1), Whitening.of(data)
    seen = []
    monkeypatch.setattr(starts, "explains", lambda *_: False)
    monkeypatch.setattr(starts, "_search", lambda p, w, given, *_: seen.append(given) or (None, False))
    solve(passes, whitening, rng=np.random.default_rng(0))
    white, raw, pooled = Spectra(passes.pool, whitening, 2).starts(2)
    np.testing.assert_array_equal(seen[0][:2], [raw, pooled])
    assert len(seen[0]) == 3
    assert not np.allclose(seen[0][2] @ seen[0][2].T, white @ white.T, atol=1e-6)
    solve(passes, whitening, warm=np.eye(12)[:, :2], rng=np.random.default_rng(0))
    np.testing.assert_array_equal(seen[1][:3], [white, raw, pooled])


def test_an_optimum_that_only_one_start_reached_is_not_trusted(monkeypatch):
    """The budget ends after one descent: what it found is given back, and called unproven."""
    data, _ = problem(n=6, noise=0.5)
    monkeypatch.setattr(starts, "explains", lambda *_: False)
    monkeypatch.setattr(starts, "_more_starts", lambda *_: iter(()))
    solution, trusted = solve(
        Passes(data, 2, threads=1), Whitening.of(data), rng=np.random.default_rng(0), max_passes=2000
    )
    assert solution.converged
    assert not trusted


def test_a_first_optimum_that_leaves_something_unexplained_is_compared_with_others(monkeypatch):
    data, _ = problem()
    searched = []
    monkeypatch.setattr(starts, "_search", lambda *a: searched.append(a) or (None, False))
    for explained, searches in ((True, 0), (False, 1)):
        monkeypatch.setattr(starts, "explains", lambda *_, answer=explained: answer)
        solve(Passes(data, 2, threads=1), Whitening.of(data), rng=np.random.default_rng(0))
        assert len(searched) == searches


def test_a_direction_made_of_noise_explains_nothing():
    """One direction more than there are: it is weak, and a fit that has it is not trusted at once."""
    data, _ = problem(d=8, T=60, r=2, n=60, noise=0.1)
    found = []
    for rank in (2, 3):
        passes, whitening = Passes(data, rank, threads=1), Whitening.of(data)
        start = Spectra(passes.pool, whitening, rank).white(rank)
        solution = minimise(passes, whitening, start, tol=1e-10)
        found.append(starts.explains(passes, whitening, solution))
    assert found == [True, False]


def test_steps_stay_on_the_manifold():
    """The gradient and what the Hessian makes of a step are tangent, and a step ends at an orthonormal B."""
    data, _ = problem(n=6, noise=0.5)
    whitening, rng = Whitening.of(data), np.random.default_rng(0)
    B, D = np.linalg.qr(rng.standard_normal((12, 2)))[0], rng.standard_normal((12, 2))
    place = _Place(Passes(data, 2, threads=1), whitening, B)
    for tangent in (place.g, place.project(D), place.hessian(D)):
        np.testing.assert_allclose(B.T @ tangent, 0.0, atol=1e-10 * np.abs(tangent).max())
    moved = _retract(B, place.project(D))
    np.testing.assert_allclose(moved.T @ moved, np.eye(2), atol=1e-12)


def test_conjugate_gradients_solve_and_stop_where_the_model_bends_down():
    b = np.array([[1.0], [2.0]])
    scale = np.array([[4.0], [5.0]])
    x, residual = _pcg(lambda D: scale * D, b, lambda R: R, 1e-12, 0.0)
    np.testing.assert_allclose(x, b / scale, atol=1e-10)
    np.testing.assert_allclose(residual, 0.0, atol=1e-10)
    x, residual = _pcg(lambda D: -scale * D, b, lambda R: R, 1e-12, 0.0)
    np.testing.assert_array_equal(x, 0.0)
    np.testing.assert_array_equal(residual, b)


def squeezed(factor):
    """A problem with one feature scaled down."""
    data, _ = problem(d=6, T=10, n=30)
    scale = np.append(np.ones(5), factor)
    return TaskData(data.X * scale, data.y, data.offsets, data.labels)


@pytest.mark.parametrize(("factor", "complete"), [(1.0, True), (1e-2, True), (1e-3, False), (0.0, False)])
def test_a_direction_that_the_ridge_drowns_is_noticed(factor, complete):
    assert Whitening.of(squeezed(factor)).complete is complete


def test_no_start_goes_alone_where_a_direction_is_drowned(monkeypatch):
    monkeypatch.setattr(starts, "explains", lambda *_: True)
    calls = []
    monkeypatch.setattr(starts, "ranked", lambda *a: calls.append(len(a[2])) or ranked(*a))
    for factor in (1.0, 1e-3):
        data = squeezed(factor)
        solve(Passes(data, 2, threads=1), Whitening.of(data), rng=np.random.default_rng(0))
    assert calls == [3]


def test_nothing_left_is_a_bound_on_the_largest_eigenvalue():
    data, _ = problem(r=3)
    passes, whitening = Passes(data, 1, threads=1), Whitening.of(data)
    passes.gradient(np.eye(12)[:, :1])
    top = float(np.linalg.eigvalsh(whitening.A.T @ passes.residual_moment() @ whitening.A)[-1])
    assert nothing_left(passes, whitening, 1.001 * top)
    assert not nothing_left(passes, whitening, 0.999 * top)


def test_a_guess_counts_the_directions_of_the_spectrum():
    data, _ = problem(d=10, T=40, r=2, n=60, noise=0.01)
    pool, whitening = LocalPool(data, threads=1), Whitening.of(data)
    assert Spectra(pool, whitening, 5).outstanding(3.0) == 2
    assert Spectra(pool, whitening, 5).outstanding(1e9) == 1
    assert Spectra(pool, whitening, 5).outstanding(0.0) == 5


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_a_guess_does_not_depend_on_units(unit):
    data, _ = problem(d=10, T=40, r=2, n=60, noise=0.01)
    data = TaskData(unit * data.X, data.y, data.offsets, data.labels)
    assert Spectra(LocalPool(data, threads=1), Whitening.of(data), 5).outstanding(3.0) == 2


def test_spectral_starts_are_those_of_the_tasks_correlations():
    data, _ = problem(d=6, T=10, r=2, n=30)
    pool, whitening = LocalPool(data, threads=1), Whitening.of(data)
    h = np.column_stack([X.T @ y / np.sqrt(len(y)) for X, y in data])
    white, raw, pooled = Spectra(pool, whitening, 2).starts(2)
    for found, expected in ((white, whitening.A.T @ h), (raw, None), (pooled, None)):
        np.testing.assert_allclose(found.T @ found, np.eye(2), atol=1e-12)
        if expected is not None:
            top = np.linalg.svd(expected)[0][:, :2]
            np.testing.assert_allclose(found @ found.T, top @ top.T, atol=1e-8)
    back = np.linalg.qr(whitening.A @ raw)[0]
    top = np.linalg.svd(h)[0][:, :2]
    np.testing.assert_allclose(back @ back.T, top @ top.T, atol=1e-8)
    mean = whitening.A.T @ (data.X.T @ data.y)
    mean /= np.linalg.norm(mean)
    assert np.linalg.norm(pooled @ (pooled.T @ mean)) == pytest.approx(1.0, abs=1e-10)
