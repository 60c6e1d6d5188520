"""TraceNorm: hand-checked shrinkage, cvxpy's optimum, optimality conditions, tuning, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister import errors
from banister.data import TaskData
from banister.estimators._gram import QuadraticLoss
from banister.estimators._trace_solver import duality_gap, largest_penalty, shrink, top_singular_value
from banister.estimators._trace_tuning import noise_level, rate_penalty, split_rows
from banister.estimators.trace_norm import TraceNorm


def make(counts, *, d=6, r=2, noise=0.1, seed=0):
    """Rows of a rank-r model with the given counts (zeros included), and its parameters."""
    rng = np.random.default_rng(seed)
    counts = np.asarray(counts)
    theta = rng.standard_normal((d, r)) @ rng.standard_normal((r, len(counts)))
    codes = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((len(codes), d))
    y = np.einsum("ij,ji->i", X, theta[:, codes]) + noise * rng.standard_normal(len(codes))
    return TaskData.from_rows(X, y, codes, labels=range(len(counts))), theta


def objective(data, theta, lam):
    rss = sum(np.sum((y - X @ theta[:, t]) ** 2) for t, (X, y) in enumerate(data))
    return rss / (2 * data.n_rows) + lam * np.linalg.norm(theta, "nuc")


def gradient(data, theta):
    return np.stack([X.T @ (X @ theta[:, t] - y) for t, (X, y) in enumerate(data)], axis=1) / data.n_rows


def cvxpy_optimum(data, lam):
    import cvxpy as cp

    theta = cp.Variable((data.dim, data.n_tasks))
    rows = [cp.sum_squares(y - X @ theta[:, t]) for t, (X, y) in enumerate(data) if len(y)]
    problem = cp.Problem(cp.Minimize(sum(rows) / (2 * data.n_rows) + lam * cp.normNuc(theta)))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return problem.value


EVEN, RAGGED, WIDE = [8] * 5, [1, 2, 2, 9, 0, 4, 30], [2] * 9


def test_identity_design_shrinks_singular_values():
    # X_t = I: the loss is ‖Y − Θ‖²/(2N) with Y = diag(4, 1), N = 4; lam = 0.5 lowers 4 and 1 by N lam = 2.
    model = TraceNorm(lam=0.5).fit([[1, 0], [0, 1]] * 2, [4, 0, 0, 1], [0, 0, 1, 1])
    np.testing.assert_allclose(model.theta_, [[2, 0], [0, 0]], atol=1e-6)
    assert model.objective_ == pytest.approx((4 + 1) / 8 + 0.5 * 2, rel=1e-6)


def test_one_task_is_the_euclidean_norm():
    # One column: the trace norm is ‖θ‖, so with X = I and N = 2 the length 5 of (3, 4) falls by N lam = 1.
    model = TraceNorm(lam=0.5).fit([[1, 0], [0, 1]], [3, 4], ["a", "a"])
    np.testing.assert_allclose(model.theta_.ravel(), [2.4, 3.2], atol=1e-6)


def test_one_row():
    # x = 2, y = 3, lam = 1: (3 − 2θ)²/2 + |θ| is least at θ = 5/4.
    model = TraceNorm(lam=1.0).fit([[2.0]], [3.0], ["a"])
    assert model.theta_[0, 0] == pytest.approx(1.25, abs=1e-6)


@pytest.mark.parametrize("counts", [EVEN, RAGGED, WIDE], ids=["even", "ragged", "two rows each"])
@pytest.mark.parametrize("ratio", [0.3, 0.01])
def test_objective_is_cvxpys(counts, ratio):
    data, _ = make(counts)
    lam = ratio * largest_penalty(QuadraticLoss(data))
    model = TraceNorm(lam=lam).fit_data(data)
    best = cvxpy_optimum(data, lam)
    assert model.converged_
    assert model.objective_ == pytest.approx(best, rel=1e-6)
    assert model.objective_ == pytest.approx(objective(data, model.theta_, lam), rel=1e-10)
    assert model.objective_ - model.gap_ <= best * (1 + 1e-8)


@pytest.mark.parametrize("counts", [EVEN, RAGGED, WIDE], ids=["even", "ragged", "two rows each"])
def test_optimality_conditions(counts):
    data, _ = make(counts)
    lam = 0.1 * largest_penalty(QuadraticLoss(data))
    theta = TraceNorm(lam=lam, tol=1e-12).fit_data(data).theta_
    U, s, Vt = np.linalg.svd(theta, full_matrices=False)
    k = int(np.sum(s > 1e-6 * s[0]))
    pull = -gradient(data, theta) / lam  # must lie in the subdifferential of the trace norm
    np.testing.assert_allclose(U[:, :k].T @ pull @ Vt[:k].T, np.eye(k), atol=1e-5)
    assert np.linalg.norm(pull, 2) <= 1 + 1e-5


def test_large_penalty_gives_zero_and_a_smaller_one_does_not():
    data, _ = make(EVEN)
    most = np.linalg.norm(gradient(data, np.zeros((6, 5))), 2)
    zero = TraceNorm(lam=most * (1 + 1e-9)).fit_data(data)
    assert not zero.theta_.any()
    assert zero.converged_
    assert TraceNorm(lam=most * 0.99).fit_data(data).theta_.any()


def test_warm_start_reaches_the_same_optimum_sooner():
    data, _ = make([20] * 10, noise=0.5)
    cold = TraceNorm(lam=0.02).fit_data(data)
    warm = TraceNorm(lam=0.02).fit_data(data, theta0=cold.theta_)
    assert warm.n_iter_ == 0
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    far = TraceNorm(lam=0.02).fit_data(data, theta0=np.ones((6, 10)))
    assert far.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    assert len(far.history_) == far.n_iter_ // 5 + 1
    assert far.history_[-1] == far.objective_


def test_order_and_names_of_tasks_do_not_matter():
    data, _ = make([5, 9, 7])
    names = np.array(["c", "a", "b"])[data.codes]
    mixed = np.random.default_rng(1).permutation(data.n_rows)
    model = TraceNorm(lam=0.05, tol=1e-10).fit(data.X[mixed], data.y[mixed], names[mixed])
    plain = TraceNorm(lam=0.05, tol=1e-10).fit_data(data)
    assert model.tasks_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.theta_, plain.theta_[:, [1, 2, 0]], atol=1e-6)
    np.testing.assert_allclose(model.predict(data.X, names), plain.predict(data.X, data.codes), atol=1e-5)


def test_single_precision_data():
    data, _ = make(RAGGED)
    single = TaskData.from_rows(data.X, data.y, data.codes, labels=data.labels, dtype=np.float32)
    got, want = TraceNorm(lam=0.05).fit_data(single), TraceNorm(lam=0.05).fit_data(data)
    assert got.objective_ == pytest.approx(want.objective_, rel=1e-5)


def test_a_fit_cut_short_says_so():
    data, _ = make(EVEN)
    with pytest.warns(errors.ConvergenceWarning, match="2 iterations"):
        model = TraceNorm(lam=1e-4, max_iter=2, tol=1e-12).fit_data(data)
    assert not model.converged_
    assert model.gap_ > 0
    assert "max_iter" in model.warnings_[0]


@pytest.mark.parametrize("lam", ["cv", "rate"])
def test_tuned_fit_is_near_the_best_penalty_in_hindsight(lam):
    data, theta = make([12] * 30, d=20, noise=0.3)
    tuned = TraceNorm(lam=lam).fit_data(data)
    grid = tuned.lam_ * np.logspace(-1.5, 1.5, 13)
    errors_ = [np.linalg.norm(TraceNorm(lam=x, tol=1e-4).fit_data(data).theta_ - theta) for x in grid]
    assert np.linalg.norm(tuned.theta_ - theta) <= 1.15 * min(errors_)


def test_cv_is_seeded_and_shows_its_path():
    data, _ = make([6] * 8)
    one, two, other = (TraceNorm(seed=s).fit_data(data) for s in (3, 3, 4))
    np.testing.assert_array_equal(one.theta_, two.theta_)
    np.testing.assert_array_equal(one.path_, two.path_)
    assert not np.array_equal(one.path_, other.path_)
    assert np.all(np.diff(one.path_[:, 0]) < 0)


def test_rate_in_the_case_it_is_known_by():
    # Orthonormal rows scaled so that X_t'X_t = n I: sd √((d + T)/n) / T exactly.
    d, T, n, sd = 4, 5, 8, 0.7
    block = np.vstack([np.eye(d), -np.eye(d)]) * np.sqrt(n / 2)
    data = TaskData.from_rows(np.tile(block, (T, 1)), np.arange(n * T), np.repeat(np.arange(T), n))
    assert rate_penalty(QuadraticLoss(data), sd) == pytest.approx(sd * np.sqrt((d + T) / n) / T, rel=1e-12)
    assert TraceNorm(lam="rate", noise=sd).fit_data(data).lam_ == pytest.approx(sd * np.sqrt(9 / 8) / 5)


@pytest.mark.statistical
def test_noise_is_estimated():
    # 1,000 rows less 98 parameters: the standard error of the estimate is 2.4 %; 5 seeds within 10 %.
    for seed in range(5):
        data, theta = make([25] * 40, d=15, noise=0.4, seed=seed)
        assert TraceNorm(lam="rate").fit_data(data).noise_ == pytest.approx(0.4, rel=0.1)
        assert noise_level(data, theta.T) == pytest.approx(0.4, rel=0.1)


def test_split_is_stratified():
    data, _ = make([1, 2, 10, 0, 50])
    fit_on, held_out = split_rows(data, 0.2, np.random.default_rng(0))
    assert fit_on.n_rows + held_out.n_rows == data.n_rows
    assert np.all(fit_on.counts[data.counts > 0] >= 1)
    assert held_out.counts[[0, 2, 3, 4]].tolist() == [0, 2, 0, 10]
    joined = np.sort(np.concatenate([fit_on.y, held_out.y]))
    np.testing.assert_array_equal(joined, np.sort(data.y))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any), st.integers(1, 7), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_products_are_those_of_the_rows(counts, d, seed):
    data, _ = make(counts, d=d, r=1, seed=seed)
    loss, theta = QuadraticLoss(data), np.random.default_rng(seed).standard_normal((len(counts), d))
    plain = np.stack([X.T @ (X @ theta[t]) for t, (X, _) in enumerate(data)])
    product = loss.apply(theta)
    np.testing.assert_allclose(product, plain, atol=1e-10)
    rss = sum(np.sum((y - X @ theta[t]) ** 2) for t, (X, y) in enumerate(data))
    assert loss.squared_residual(theta, product) == pytest.approx(rss, rel=1e-9, abs=1e-9)


@given(st.integers(1, 8), st.integers(1, 8), st.floats(0, 3), st.integers(0, 99), st.sampled_from([0, 8]))
@settings(max_examples=60, deadline=None)
def test_shrink_is_the_svds(m, n, tau, seed, likely):
    Z = np.random.default_rng(seed).standard_normal((m, n))
    U, s, Vt = np.linalg.svd(Z, full_matrices=False)
    low = np.maximum(s - tau, 0)
    got, nuclear, left = shrink(Z, tau, likely=likely)
    np.testing.assert_allclose(got, (U * low) @ Vt, atol=1e-9)
    assert nuclear == pytest.approx(low.sum(), abs=1e-9)
    assert left == np.count_nonzero(low)
    assert top_singular_value(Z) == pytest.approx(s[0])


@given(st.integers(0, 99), st.floats(0.01, 0.9))
@settings(max_examples=20, deadline=None)
def test_gap_bounds_the_distance_to_the_optimum_anywhere(seed, ratio):
    data, _ = make([4, 3, 7], d=3, seed=seed)
    loss = QuadraticLoss(data)
    lam = ratio * largest_penalty(loss)
    best = TraceNorm(lam=lam, tol=1e-9).fit_data(data).objective_
    theta = np.random.default_rng(seed).standard_normal((3, 3))
    value, gap = duality_gap(loss, lam, theta, loss.apply(theta), float(np.linalg.norm(theta, "nuc")))
    assert value == pytest.approx(objective(data, theta.T, lam))
    assert value - gap <= best * (1 + 1e-9)


def test_task_without_rows_gets_zero_and_a_warning():
    data, _ = make(RAGGED)
    for lam in (0.01, "cv", "rate"):
        model = TraceNorm(lam=lam).fit_data(data)
        assert not model.theta_[:, 4].any()
        assert "no rows" in model.warnings_[0]
        assert model.predict(np.ones((1, 6)), [4])[0] == 0


def test_one_row_a_task_cannot_be_held_out():
    data, _ = make([1] * 30)
    model = TraceNorm(lam="cv").fit_data(data)
    assert "rate" in model.warnings_[0]
    assert model.noise_ is not None


@pytest.mark.parametrize("lam", ["cv", "rate", 0.1])
def test_rewards_all_zero(lam):
    model = TraceNorm(lam=lam).fit(np.eye(3), np.zeros(3), [0, 0, 1])
    assert not model.theta_.any()
    assert model.converged_


def test_constant_feature_and_collinear_features():
    data, _ = make(EVEN)
    X = np.column_stack([data.X, np.ones(data.n_rows), data.X[:, 0]])
    model = TraceNorm(lam="cv").fit(X, data.y, data.codes)
    assert model.converged_
    np.testing.assert_allclose(model.theta_[0], model.theta_[7], atol=1e-3)


@pytest.mark.parametrize(
    "bad",
    [
        {"lam": -1.0},
        {"lam": 0.0},
        {"lam": np.nan},
        {"lam": "gcv"},
        {"lam": True},
        {"noise": -0.1, "lam": "rate"},
        {"holdout": 1.0},
        {"tol": 0.0},
        {"max_iter": 0},
    ],
)
def test_bad_settings(bad):
    data, _ = make(EVEN)
    with pytest.raises(errors.SettingError, match=next(iter(bad))):
        TraceNorm(**bad).fit_data(data)


def test_bad_input():
    X, y, tasks = np.eye(2), np.ones(2), [0, 1]
    with pytest.raises(errors.NonFiniteError, match="row 1"):
        TraceNorm().fit([[1.0, 2.0], [np.nan, 1.0]], y, tasks)
    with pytest.raises(errors.NonFiniteError):
        TraceNorm().fit(X, [1.0, np.inf], tasks)
    with pytest.raises(errors.ShapeError):
        TraceNorm().fit(X, np.ones(3), tasks)
    with pytest.raises(errors.NotFittedError):
        TraceNorm().predict(X, tasks)
    model = TraceNorm(lam=0.1).fit(X, y, tasks)
    with pytest.raises(errors.UnknownTaskError, match="7"):
        model.predict(X, [0, 7])
    with pytest.raises(errors.ShapeError, match="theta0"):
        model.fit_data(TaskData.from_rows(X, y, tasks), theta0=np.zeros((3, 2)))
