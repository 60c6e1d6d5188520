"""TaskRidge: closed form, GCV by brute force and as leave-one-out, standard errors, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard, null_space
from sklearn.linear_model import Ridge

from banister import errors
from banister.data import TaskData
from banister.estimators.ridge import TaskRidge, gcv_score


def make(counts, *, d=4, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((d, len(counts)))
    codes = np.repeat(np.arange(len(counts)), counts)
    X = rng.standard_normal((len(codes), d))
    y = np.einsum("ij,ji->i", X, theta[:, codes]) + noise * rng.standard_normal(len(codes))
    return TaskData.from_rows(X, y, codes, labels=range(len(counts))), theta


def closed_form(X, y, lam):
    return np.linalg.solve(X.T @ X + lam * np.eye(X.shape[1]), X.T @ y)


def brute_gcv(X, y, lam):
    hat = X @ np.linalg.solve(X.T @ X + lam * np.eye(X.shape[1]), X.T)
    rest = np.eye(len(y)) - hat
    return len(y) * np.sum((rest @ y) ** 2) / np.trace(rest) ** 2


def test_by_hand():
    # x = (1, 1, 1), y = (1, 2, 3), lam = 3: theta = 6 / (3 + 3); y'(I − A)y = 14 − 36/6, noise² = 8/3;
    # the variance at x = 2 is 4 · 8/3 / 6.
    model = TaskRidge(lam=3.0, fit_intercept=False).fit(np.ones((3, 1)), [1, 2, 3], ["a"] * 3)
    assert model.theta_[0, 0] == pytest.approx(1.0)
    assert model.noise_[0] == pytest.approx((8 / 3) ** 0.5)
    mean, std = model.predict([[2.0]], ["a"], return_std=True)
    assert (mean[0], std[0]) == (pytest.approx(2.0), pytest.approx((16 / 9) ** 0.5))


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any), st.floats(1e-3, 1e3), st.integers(0, 99)
)
@settings(max_examples=30, deadline=None)
def test_is_the_closed_form(counts, lam, seed):
    data, _ = make(counts, seed=seed)
    model = TaskRidge(lam=lam, fit_intercept=False).fit_data(data)
    for t, (X, y) in enumerate(data):
        np.testing.assert_allclose(model.theta_[:, t], closed_form(X, y, lam), atol=1e-9)


@pytest.mark.parametrize("n", [2, 4, 5, 30])
def test_gcv_penalty_is_the_brute_force_minimum(n):
    data, _ = make([n] * 6, noise=1.0, seed=n)
    model = TaskRidge(fit_intercept=False).fit_data(data)
    for t, (X, y) in enumerate(data):
        top = np.linalg.norm(X, 2) ** 2
        best = min(brute_gcv(X, y, top * g) for g in np.logspace(-8, 4, 2000))
        assert brute_gcv(X, y, model.lam_[t]) <= best * (1 + 1e-4)
        np.testing.assert_allclose(model.theta_[:, t], closed_form(X, y, model.lam_[t]), atol=1e-6)


def test_gcv_is_leave_one_out_where_all_rows_weigh_the_same():
    # Columns of a Hadamard matrix: every row has the same leverage, and then GCV is leave-one-out exactly.
    X = hadamard(8)[:, 1:5].astype(float)
    y = np.random.default_rng(0).standard_normal(8)
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    z = U.T @ y
    outside = np.array([y @ y - z @ z])
    for lam in (0.1, 2.0, 50.0):
        rows = [np.arange(8) != i for i in range(8)]
        left_out = [y[i] - X[i] @ closed_form(X[k], y[k], lam) for i, k in enumerate(rows)]
        score = gcv_score(np.array([[lam]]), s[None], z[None], outside, 8)[0, 0]
        assert score == pytest.approx(np.mean(np.square(left_out)))
        assert score == pytest.approx(brute_gcv(X, y, lam))


def test_gcv_adapts_to_the_noise():
    clean, theta = make([40] * 20, noise=1e-3)
    np.testing.assert_allclose(TaskRidge(fit_intercept=False).fit_data(clean).theta_, theta, atol=5e-3)
    rng = np.random.default_rng(0)
    noise_only = TaskRidge(fit_intercept=False).fit_data(clean.replace_y(rng.standard_normal(clean.n_rows)))
    assert np.median(noise_only.lam_) > 40  # more than the mean eigenvalue of X'X: shrunk by half or more


@pytest.mark.statistical
def test_gcv_beats_least_squares_when_rows_are_few():
    # 12 rows, 10 features, noise as large as the signal: over 200 tasks the mean error is well below.
    data, theta = make([12] * 200, d=10, noise=3.0)
    error = [
        np.sum((TaskRidge(lam=lam, fit_intercept=False).fit_data(data).theta_ - theta) ** 2)
        for lam in ("gcv", 1e-9)
    ]
    assert error[0] < 0.5 * error[1]


@pytest.mark.statistical
def test_standard_errors_are_calibrated_on_data_from_the_prior():
    # theta ~ N(0, I), noise 1: lam = 1 is the prior's. 2,000 tasks of 30 rows: the median of |z| has a
    # standard error of about 0.02, the noise estimate adds a little: ± 0.05; GCV's own lam errs more: ± 0.07.
    data, theta = make([30] * 2000, d=6, noise=1.0)
    x = np.random.default_rng(1).standard_normal((2000, 6))
    truth = np.einsum("ij,ji->i", x, theta)
    for lam, slack in ((1.0, 0.05), ("gcv", 0.07)):
        mean, std = (
            TaskRidge(lam=lam, fit_intercept=False)
            .fit_data(data)
            .predict(x, np.arange(2000), return_std=True)
        )
        assert np.median(np.abs(mean - truth) / std) == pytest.approx(0.6745, abs=slack)


@pytest.mark.parametrize("n", [2, 9])
def test_standard_errors_are_the_posteriors(n):
    data, _ = make([n, n])
    model = TaskRidge(lam=0.7, fit_intercept=False).fit_data(data)
    x = np.random.default_rng(0).standard_normal((5, 4))
    _, std = model.predict(x, [0, 1, 1, 0, 1], return_std=True)
    for i, t in enumerate([0, 1, 1, 0, 1]):
        X = data.rows_of(t)[0]
        variance = x[i] @ np.linalg.solve(X.T @ X + 0.7 * np.eye(4), x[i])
        assert std[i] == pytest.approx(model.noise_[t] * variance**0.5)


def test_single_rows_and_empty_tasks():
    data, _ = make([1, 0, 6])
    model = TaskRidge(fit_intercept=False).fit_data(data)
    assert "no rows" in model.warnings_[0]
    assert "one row" in model.warnings_[1]
    X, y = data.rows_of(0)
    np.testing.assert_allclose(model.theta_[:, 0], 0.5 * np.linalg.pinv(X) @ y)
    assert not model.theta_[:, 1].any()
    assert np.isnan(model.lam_[1])
    mean, std = model.predict(np.ones((3, 4)), [0, 1, 2], return_std=True)
    assert (mean[1], std[1]) == (0.0, np.inf)
    assert np.all(np.isfinite(std[[0, 2]]))


def test_features_all_zero():
    model = TaskRidge().fit(np.zeros((3, 2)), [1, 2, 3], [0, 0, 1])
    assert not model.theta_.any()


@pytest.mark.parametrize("lam", [-1.0, 0, np.nan, np.inf, "cv", True, None])
def test_bad_penalty(lam):
    with pytest.raises(errors.SettingError, match="lam"):
        TaskRidge(lam=lam).fit([[1.0]], [1.0], [0])


def test_bad_input():
    with pytest.raises(errors.NonFiniteError):
        TaskRidge().fit([[np.nan]], [1.0], [0])
    with pytest.raises(errors.NotFittedError):
        TaskRidge().predict([[1.0]], [0])
    model = TaskRidge().fit([[1.0], [2.0]], [1.0, 2.0], ["a", "a"])
    with pytest.raises(errors.UnknownTaskError, match="'b'"):
        model.predict([[1.0]], ["b"])
    with pytest.raises(errors.ShapeError):
        model.predict([[1.0, 2.0]], ["a"])


def test_the_intercept_by_hand():
    # Rows 1 and 3 earn 4 and 8: centred, x = ±1 and y = ±2, so theta = 4 / (2 + 2) = 1 at lam = 2, and the
    # level is 6 − 2·1. One degree of freedom is left: y'(I − A)y = 8 − 4·4/4 = 4 over n − 1 = 1 row; at the
    # mean row only the level is in doubt: 4/2.
    model = TaskRidge(lam=2.0).fit([[1.0], [3.0]], [4.0, 8.0], ["a", "a"])
    assert (model.theta_[0, 0], model.intercept_[0]) == (pytest.approx(1.0), pytest.approx(4.0))
    assert model.noise_[0] == pytest.approx(2.0)
    mean, std = model.predict([[2.0]], ["a"], return_std=True)
    assert (mean[0], std[0]) == (pytest.approx(6.0), pytest.approx(2.0**0.5))


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.floats(1e-2, 1e2), st.floats(-1e3, 1e3))
@settings(max_examples=30, deadline=None)
def test_the_intercept_is_scikit_learns(counts, lam, level):
    data, _ = make(counts)
    data = data.replace_y(data.y + level)
    model = TaskRidge(lam=lam).fit_data(data)
    for t, (X, y) in enumerate(data):
        alone = Ridge(alpha=lam).fit(X, y)
        np.testing.assert_allclose(model.theta_[:, t], alone.coef_, atol=1e-8)
        assert model.intercept_[t] == pytest.approx(alone.intercept_, abs=1e-6)


@pytest.mark.parametrize("n", [3, 5, 6, 30])
def test_gcv_with_an_intercept_is_the_brute_force_minimum(n):
    """Brute force in the coordinates of n − 1 orthonormal contrasts, in which no level is left."""
    data, _ = make([n] * 6, noise=1.0, seed=n)
    model = TaskRidge().fit_data(data.replace_y(data.y + 50.0))
    contrasts = null_space(np.ones((1, n))).T
    for t, (X, y) in enumerate(data):
        X, y = contrasts @ X, contrasts @ y
        top = np.linalg.norm(X, 2) ** 2
        best = min(brute_gcv(X, y, top * g) for g in np.logspace(-8, 4, 2000))
        assert brute_gcv(X, y, model.lam_[t]) <= best * (1 + 1e-4)
        np.testing.assert_allclose(model.theta_[:, t], closed_form(X, y, model.lam_[t]), atol=1e-6)


@pytest.mark.parametrize("n", [3, 9])
def test_standard_errors_count_the_doubt_in_the_level(n):
    """The posterior with a flat prior on the level: a constant column with a penalty next to nothing."""
    data, _ = make([n, n])
    model = TaskRidge(lam=0.7).fit_data(data)
    x = np.random.default_rng(0).standard_normal((4, 4))
    _, std = model.predict(x, [0, 1, 0, 1], return_std=True)
    penalty = np.diag([0.7] * 4 + [1e-9])
    for i, t in enumerate([0, 1, 0, 1]):
        X, one = np.column_stack([data.rows_of(t)[0], np.ones(n)]), np.append(x[i], 1.0)
        variance = one @ np.linalg.solve(X.T @ X + penalty, one)
        assert std[i] == pytest.approx(model.noise_[t] * variance**0.5)


def test_a_level_is_not_pulled_to_zero():
    """With a level of 100 and few rows, a penalised constant explains far less than a free one."""
    data, _ = make([8] * 50, noise=1.0)
    X = np.column_stack([data.X, np.ones(data.n_rows)])
    far = TaskData(X, data.y + 100.0, data.offsets, data.labels)
    rest = [np.mean((far.y - m.predict(X, far.codes)) ** 2) for m in fits(far)]
    assert rest[0] < 2.0
    assert rest[1] > 2 * rest[0]


def fits(data):
    return [TaskRidge(lam=10.0, fit_intercept=free).fit_data(data) for free in (True, False)]


def test_single_rows_give_their_level_and_two_rows_half_their_slope():
    data, _ = make([1, 2, 6])
    model = TaskRidge().fit_data(data)
    assert "2 rows" in model.warnings_[0]
    assert not model.theta_[:, 0].any()
    assert model.intercept_[0] == data.y[0]
    X, y = data.rows_of(1)
    np.testing.assert_allclose(model.theta_[:, 1], 0.5 * np.linalg.pinv(X - X.mean(0)) @ (y - y.mean()))
    _, std = model.predict(np.ones((2, 4)), [0, 1], return_std=True)
    assert std[0] == np.inf
    assert np.isfinite(std[1])
