"""AltGDmin as a user meets it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import banister as bn
from banister.errors import ConvergenceWarning
from banister.estimators.paper import PaperSolver
from banister.solver import block
from problems import fifth_best, low_rank, problem, relative_error


def fitted(data, **settings):
    return bn.AltGDmin(**{"rank": 2, "threads": 1, **settings}).fit(data.X, data.y, data.codes)


def test_attributes_and_shapes():
    data, theta = problem(noise=0.01)
    model = fitted(data)
    assert model.B_.shape == (12, 2)
    assert model.W_.shape == (2, 15)
    np.testing.assert_allclose(model.B_.T @ model.B_, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(model.theta_, model.B_ @ model.W_, atol=1e-12)
    assert model.tasks_.tolist() == list(range(15))
    assert relative_error(model.theta_, theta) < 0.02
    assert model.converged_
    assert model.starts_agree_
    assert model.rank_ == 2
    assert model.history_[0] >= model.history_[-1] == pytest.approx(model.objective_)
    assert model.n_iter_ == len(model.history_) - 1
    assert model.n_passes_ > 0
    assert model.warnings_ == []
    assert not model.intercept_.any()


def test_prediction_is_the_linear_model():
    data, _ = problem()
    model = fitted(data)
    expected = [x @ model.theta_[:, t] for x, t in zip(data.X, data.codes, strict=True)]
    np.testing.assert_allclose(model.predict(data.X, data.codes), expected, atol=1e-12)
    assert model.predict(data.X[:0], []).shape == (0,)


def test_scikit_learn_conventions():
    model = bn.AltGDmin(rank=3, solver=PaperSolver(iterations=7), tol=1e-6)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert twin.set_params(rank=1).rank == 1
    assert "rank=3" in repr(model)
    assert not hasattr(clone(fitted(problem()[0])), "theta_")


def test_order_of_rows_and_kind_of_labels_do_not_matter():
    data, _ = problem()
    names = np.array([f"store-{t:02d}" for t in range(15)])
    model = fitted(data)
    order = np.random.default_rng(0).permutation(data.n_rows)
    other = bn.AltGDmin(rank=2).fit(data.X[order], data.y[order], names[data.codes[order]])
    assert other.tasks_.tolist() == names.tolist()
    np.testing.assert_allclose(other.theta_, model.theta_, atol=1e-8)


def test_pandas_and_polars():
    data, _ = problem()
    plain = fitted(data)
    columns = [f"f{j}" for j in range(12)]
    for frame, series in ((pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series)):
        X = frame({c: data.X[:, j] for j, c in enumerate(columns)})
        model = bn.AltGDmin(rank=2, threads=1).fit(X, series(data.y), series(data.codes))
        np.testing.assert_allclose(model.theta_, plain.theta_, atol=1e-12)
        np.testing.assert_allclose(model.predict(X, series(data.codes)), plain.predict(data.X, data.codes))


def test_results_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(block, "_SMALL", 1)
    data, _ = fifth_best(d=20, T=30, r=2, n=30, noise=0.01, seed=0)
    one, two = (fitted(data, threads=threads) for threads in (1, 2))
    np.testing.assert_allclose(one.theta_, two.theta_, rtol=1e-12, atol=1e-14)
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-12)


def test_fits_are_repeatable():
    data, _ = problem(n=4, noise=1.0)
    first, second = (_quietly(lambda: fitted(data, rank=3)) for _ in range(2))
    np.testing.assert_array_equal(first.theta_, second.theta_)


def _quietly(work):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return work()


def test_float32():
    data, theta = problem(noise=0.01, T=40)
    model = fitted(data, dtype="float32")
    assert model._data.dtype == np.float32
    assert model.converged_
    np.testing.assert_allclose(model.theta_, fitted(data).theta_, atol=2e-3)
    assert relative_error(model.theta_, theta) < 0.02


@pytest.mark.parametrize("shrink", [True, False])
def test_new_tasks_from_a_handful_of_rows(shrink):
    rng = np.random.default_rng(0)
    theta = low_rank(30, 60, 2, rng)
    X, tasks = rng.standard_normal((50 * 40, 30)), np.repeat(np.arange(50), 40)
    y = np.einsum("ij,ji->i", X, theta[:, tasks]) + 0.05 * rng.standard_normal(len(X))
    model = bn.AltGDmin(rank=2, shrink=shrink).fit(X, y, tasks)
    before, few = model.B_.copy(), np.repeat(np.arange(50, 60), 5)
    X_few = rng.standard_normal((50, 30))
    y_few = np.einsum("ij,ji->i", X_few, theta[:, few]) + 0.05 * rng.standard_normal(50)
    assert model.add_tasks(X_few, y_few, few) is model
    np.testing.assert_array_equal(model.B_, before)
    assert model.theta_.shape == (30, 60)
    assert model.tasks_.tolist() == list(range(60))
    assert relative_error(model.theta_[:, 50:], theta[:, 50:]) < 0.15  # five rows for thirty features
    mean, std = model.predict(X_few, few, return_std=True)
    assert np.isfinite(std).all()
    assert np.isfinite(mean).all()


def test_an_added_task_gets_what_least_squares_on_the_basis_gives():
    data, _ = problem()
    model, rng = fitted(data, shrink=False), np.random.default_rng(0)
    X, y = rng.standard_normal((6, 12)), rng.standard_normal(6)
    model.add_tasks(X, y, ["new"] * 6)
    np.testing.assert_allclose(model.W_[:, -1], np.linalg.lstsq(X @ model.B_, y, rcond=None)[0], atol=1e-8)
    assert model.tasks_.tolist() == [*range(15), "new"]
    assert model.predict(X, ["new"] * 6).shape == (6,)


def test_add_tasks_with_fewer_rows_than_the_rank():
    data, _ = problem()
    for shrink in (True, False):
        model = fitted(data, shrink=shrink)
        model.add_tasks(np.ones((1, 12)), [1.0], ["one row"])
        assert np.isfinite(model.theta_).all()
        assert np.isfinite(model.predict(np.ones((1, 12)), ["one row"], return_std=True)[1]).all()


@pytest.mark.parametrize("shrink", [True, False])
def test_intercepts(shrink):
    rng = np.random.default_rng(0)
    theta, levels = low_rank(10, 40, 2, rng), 5 * rng.standard_normal(40)
    X, tasks = 2.0 + rng.standard_normal((40 * 30, 10)), np.repeat(np.arange(40), 30)
    y = np.einsum("ij,ji->i", X, theta[:, tasks]) + levels[tasks] + 0.1 * rng.standard_normal(len(X))
    model = bn.AltGDmin(rank=2, fit_intercept=True, shrink=shrink).fit(X, y, tasks)
    assert relative_error(model.theta_, theta) < 0.1
    np.testing.assert_allclose(model.intercept_, levels, atol=0.5)
    assert model.noise_std_ == pytest.approx(0.1, rel=0.1)
    mean, std = model.predict(X, tasks, return_std=True)
    np.testing.assert_allclose(
        mean, np.einsum("ij,ji->i", X, model.theta_[:, tasks]) + model.intercept_[tasks]
    )
    truth = np.einsum("ij,ji->i", X, theta[:, tasks]) + levels[tasks]
    assert np.median(np.abs(mean - truth) / std) == pytest.approx(0.67, abs=0.1)
    model.add_tasks(X[:8], y[:8] + 3.0, ["same store, three higher"] * 8)
    assert model.intercept_[-1] == pytest.approx(model.intercept_[0] + 3.0, abs=1.0)


def test_fit_data_does_not_change_the_data():
    data, _ = problem()
    X, y = data.X.copy(), data.y.copy()
    fitted(data, fit_intercept=True).predict(data.X, data.codes, return_std=True)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, y)


def test_a_stored_model_holds_no_data():
    data, _ = problem(n=400)
    model = fitted(data)
    stored = pickle.dumps(model)
    assert len(stored) < data.X.nbytes / 4
    again = pickle.loads(stored)
    np.testing.assert_array_equal(again.predict(data.X, data.codes), model.predict(data.X, data.codes))
    again.add_tasks(data.X[:5], data.y[:5], ["new"] * 5)
    assert again.theta_.shape == (12, 16)
    assert model.theta_.shape == (12, 15)
    assert copy.deepcopy(model).theta_.shape == (12, 15)


def test_refitting_forgets():
    first, _ = problem(T=20)
    second, _ = problem(T=8, seed=1)
    model = fitted(first)
    model.predict(first.X, first.codes, return_std=True)
    model.fit(second.X, second.y, second.codes)
    fresh = fitted(second)
    for a, b in zip(
        model.predict(second.X, second.codes, return_std=True),
        fresh.predict(second.X, second.codes, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_a_failed_refit_leaves_an_unfitted_model():
    data, _ = problem()
    model = fitted(data)
    with pytest.raises(bn.errors.SettingError):
        model.set_params(rank=99).fit(data.X, data.y, data.codes)
    with pytest.raises(bn.errors.NotFittedError):
        model.predict(data.X, data.codes)


def test_an_unfinished_fit_warns_at_the_callers_line():
    data, _ = fifth_best(d=20, T=20, r=2, n=20, noise=0.1, seed=0)
    with pytest.warns(ConvergenceWarning, match="stopping rule") as caught:
        model = fitted(data, max_passes=1)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert any("stopping rule" in w for w in model.warnings_)


def test_shrinkage_is_the_fast_solvers_default_only():
    data, _ = problem(noise=0.3)
    assert hasattr(fitted(data), "prior_mean_")
    assert not hasattr(fitted(data, shrink=False), "prior_mean_")
    assert not hasattr(fitted(data, solver="paper"), "prior_mean_")
    assert hasattr(fitted(data, solver="paper", shrink=True), "prior_mean_")


def test_a_given_noise_level_is_used():
    data, _ = problem(noise=0.1)
    assert fitted(data, noise_std=0.7).noise_std_ == pytest.approx(0.7)
    assert fitted(data, noise_std=0.7, shrink=False).noise_std_ == pytest.approx(0.7)


def test_one_task_and_one_feature_work():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 1))
    model = bn.AltGDmin(rank=1).fit(X, 3 * X[:, 0], ["only"] * 30)
    np.testing.assert_allclose(model.theta_, [[3.0]], atol=1e-8)
    assert np.isfinite(model.predict(X, ["only"] * 30, return_std=True)[1]).all()
    assert bn.AltGDmin().fit(X, 3 * X[:, 0], ["only"] * 30).rank_ == 1


def test_full_rank_is_each_task_alone():
    data, _ = problem(d=3, T=5, r=3, n=30, noise=0.5)
    model = fitted(data, rank=3, shrink=False)
    alone = np.column_stack([np.linalg.lstsq(X, y, rcond=None)[0] for X, y in data])
    np.testing.assert_allclose(model.theta_, alone, atol=1e-8)
    assert np.isfinite(model.predict(data.X, data.codes, return_std=True)[1]).all()
