"""Every kind of bad input has an error or a note that says what, where and what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from banister import errors
from banister.data import TaskData
from banister.estimators.altgdmin import AltGDmin
from banister.estimators.paper import PaperSolver
from problems import problem

X = np.random.default_rng(0).standard_normal((6, 2))
Y = np.arange(6.0)
TASKS = ["a", "a", "b", "b", "c", "c"]


def changed(array, place, value):
    out = np.array(array, dtype=object if isinstance(value, (str, int)) else float)
    out[place] = value
    return out


def fit(X=X, y=Y, tasks=TASKS, **settings):
    return AltGDmin(**{"rank": 1, "threads": 1, **settings}).fit(X, y, tasks)


BAD = {
    "nan in X": (
        {"X": changed(X, (3, 1), np.nan)},
        errors.NonFiniteError,
        r"X has nan at row 3, column 1; remove",
    ),
    "inf in X": ({"X": changed(X, (0, 0), np.inf)}, errors.NonFiniteError, r"X has inf at row 0, column 0"),
    "-inf in y": ({"y": changed(Y, 5, -np.inf)}, errors.NonFiniteError, r"y has -inf at row 5"),
    "null in polars": (
        {"X": pl.DataFrame({"age": [1.0, None, 2, 3, 4, 5], "fee": [1.0] * 6})},
        errors.NonFiniteError,
        r"row 1, column 'age'",
    ),
    "nan in pandas": (
        {"X": pd.DataFrame({"age": [1.0] * 6, "fee": [1, 2, 3, 4, 5, np.nan]})},
        errors.NonFiniteError,
        r"row 5, column 'fee'",
    ),
    "short y": ({"y": Y[:5]}, errors.ShapeError, r"X has 6 rows, y has 5 and tasks has 6; give one"),
    "short tasks": ({"tasks": TASKS[:4]}, errors.ShapeError, r"tasks has 4"),
    "no rows": ({"X": X[:0], "y": Y[:0], "tasks": []}, errors.InputError, r"There are no rows"),
    "one dimension": ({"X": Y}, errors.ShapeError, r"X must have two dimensions.*shape is \(6,\)"),
    "no features": ({"X": X[:, :0]}, errors.ShapeError, r"at least one feature"),
    "two-dimensional y": ({"y": X}, errors.ShapeError, r"y must have one dimension"),
    "ragged rows": ({"X": [[1.0], [1.0, 2.0]]}, errors.InputError, r"X cannot be read as numbers"),
    "text in X": ({"X": changed(X, (0, 0), "red")}, errors.InputError, r"encode text"),
    "numbers as text": ({"X": X.astype(str)}, errors.InputError, r"encode text"),
    "complex": ({"X": X.astype(complex)}, errors.InputError, r"complex"),
    "huge integer": (
        {"X": changed(X, (2, 1), 10**400)},
        errors.NonFiniteError,
        r"integer too large for a float",
    ),
    "unsquarable": (
        {"y": Y * 1e200},
        errors.NonFiniteError,
        r"y has values up to 5e\+200, too large to square",
    ),
    "float32 overflow": ({"X": X * 1e39, "dtype": "float32"}, errors.NonFiniteError, r"overflows float32"),
    "missing label": ({"tasks": ["a", None, *TASKS[2:]]}, errors.InputError, r"no label .* at row 1"),
    "nan label": ({"tasks": [1.0, 1.0, 2.0, np.nan, 2.0, 2.0]}, errors.InputError, r"at row 3"),
    "NA label": ({"tasks": pd.Series(["a", pd.NA] * 3, dtype="string")}, errors.InputError, r"at row 1"),
    "NaT label": ({"tasks": np.array(["NaT"] * 6, dtype="M8[D]")}, errors.InputError, r"at row 0"),
    "unhashable label": ({"tasks": [["a"], {"b"}, 1, 2, 3, 4]}, errors.InputError, r"must be hashable"),
    "matrix of labels": ({"tasks": np.ones((6, 2))}, errors.ShapeError, r"one label per row"),
    "rank over d": (
        {"rank": 3},
        errors.SettingError,
        r"rank=3 is not possible: with 2 features and 3 tasks.*1 to 2",
    ),
    "rank 0": ({"rank": 0}, errors.SettingError, r"rank=0"),
    "rank 1.5": ({"rank": 1.5}, errors.SettingError, r"rank=1.5"),
    "rank True": ({"rank": True}, errors.SettingError, r"rank=True"),
    "rank word": ({"rank": "two"}, errors.SettingError, r"rank='two'"),
    "solver": ({"solver": "slow"}, errors.SettingError, r"solver='slow' must be"),
    "noise": ({"noise_std": 0.0}, errors.SettingError, r"noise_std=0.0"),
    "noise nan": ({"noise_std": np.nan}, errors.SettingError, r"noise_std=nan"),
    "tol": ({"tol": 0}, errors.SettingError, r"tol=0"),
    "max_passes": ({"max_passes": 0}, errors.SettingError, r"max_passes=0"),
    "threads": ({"threads": 0}, errors.SettingError, r"threads=0"),
    "dtype": ({"dtype": "float16"}, errors.InputError, r"dtype must be float64 or float32"),
    "seed": ({"seed": -1}, errors.SettingError, r"seed=-1"),
}


@pytest.mark.parametrize("name", BAD)
def test_fit_says_what_is_wrong(name):
    arguments, kind, message = BAD[name]
    with pytest.raises(kind, match=message) as caught:
        fit(**arguments)
    assert isinstance(caught.value, errors.BanisterError)
    assert isinstance(caught.value, ValueError)


def test_rank_over_the_number_of_tasks():
    with pytest.raises(errors.SettingError, match="from 1 to 2"):
        AltGDmin(rank=3).fit(np.eye(4), np.ones(4), [0, 0, 1, 1])


def test_duplicate_labels():
    with pytest.raises(errors.InputError, match="same task twice"):
        TaskData.from_rows(X, Y, TASKS, labels=["a", "b", "c", "a"])


def test_prediction_checks_rows_and_tasks():
    model = fit()
    with pytest.raises(errors.UnknownTaskError, match=r"Row 1 names task 'z'.*add_tasks") as caught:
        model.predict(X[:2], ["a", "z"])
    assert isinstance(caught.value, KeyError)
    assert "\\n" not in str(caught.value)
    with pytest.raises(errors.ShapeError, match="3 features, but AltGDmin is expecting 2"):
        model.predict(np.ones((1, 3)), ["a"])
    with pytest.raises(errors.ShapeError, match="X has 2 rows and tasks has 1"):
        model.predict(X[:2], ["a"])
    with pytest.raises(errors.NonFiniteError, match="row 0, column 1"):
        model.predict([[0.0, np.nan]], ["a"])
    with pytest.raises(errors.SettingError, match=r"level=1\.5"):
        model.interval(X[:1], ["a"], level=1.5)
    with pytest.raises(errors.UnknownTaskError):
        fit(tasks=[1, 1, 2, 2, 3, 3]).predict(X[:1], ["1"])


def test_not_fitted():
    for use in (lambda m: m.predict(X, TASKS), lambda m: m.interval(X, TASKS), lambda m: m.predict_unseen(X)):
        with pytest.raises(errors.NotFittedError, match="call fit first"):
            use(AltGDmin(rank=1))
    with pytest.raises(errors.NotFittedError, match="call fit first"):
        AltGDmin(rank=1).add_tasks(X, Y, TASKS)
    with pytest.raises(errors.NotFittedError, match="shrink=True"):
        fit(shrink=False).predict_unseen(X)


def test_add_tasks_checks():
    model = fit()
    with pytest.raises(errors.InputError, match=r"Task\(s\) 'a' are in the model already"):
        model.add_tasks(X[:2], Y[:2], ["a", "z"])
    with pytest.raises(errors.ShapeError, match="3 features; 2 are expected"):
        model.add_tasks(np.ones((1, 3)), [1.0], ["z"])
    assert model.tasks_.tolist() == ["a", "b", "c"]


def notes(data, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.ConvergenceWarning)
        return AltGDmin(**{"rank": 2, "threads": 1, **settings}).fit_data(data)


def test_a_task_with_fewer_rows_than_the_rank_is_flagged_and_fitted():
    data, _ = problem(T=6, counts=[1, 20, 20, 20, 20, 20])
    for shrink, rule in ((True, "lean on the population"), (False, "minimum-norm")):
        model = notes(data, shrink=shrink)
        assert any(
            "1 task(s) have fewer rows than the rank 2 (0)" in w and rule in w for w in model.warnings_
        )
        assert np.isfinite(model.theta_).all()


def test_an_empty_task_is_flagged_and_gets_the_population():
    data, _ = problem(T=6, counts=[0, 20, 20, 20, 20, 20])
    model = notes(data)
    assert any("fewer rows than the rank 2 (0)" in w for w in model.warnings_)
    np.testing.assert_allclose(model.W_[:, 0], model.prior_mean_, atol=1e-12)
    assert np.isfinite(model.predict(data.X[:1], [0], return_std=True)).all()
    assert not notes(data, shrink=False).theta_[:, 0].any()


def test_a_constant_feature_is_flagged():
    data, theta = problem()
    X = np.column_stack([data.X, np.full(data.n_rows, 3.0), np.zeros(data.n_rows)])
    model = notes(TaskData(X, data.y, data.offsets, data.labels))
    assert any("column(s) [12, 13] are constant" in w for w in model.warnings_)
    assert np.linalg.norm(model.theta_[:12] - theta) < 0.2 * np.linalg.norm(theta)
    assert np.abs(model.theta_[13]).max() < 1e-8
    centred = notes(TaskData(X, data.y, data.offsets, data.labels), fit_intercept=True)
    assert any("constant within every task" in w for w in centred.warnings_)


def test_fewer_rows_than_parameters_is_flagged():
    data, _ = problem(n=3, noise=0.01)
    model = notes(data)
    assert any("45 rows for 50 parameters" in w for w in model.warnings_)
    assert np.isfinite(model.theta_).all()
    assert np.isfinite(model.predict(data.X, data.codes, return_std=True)[1]).all()


def test_splitting_needs_rows():
    data, _ = problem(n=10)
    with pytest.raises(errors.InputError, match=r"Splitting into 11 sets.*has 10; use at most 4"):
        AltGDmin(rank=2, solver=PaperSolver(iterations=5, split=True)).fit_data(data)


@pytest.mark.parametrize(
    "settings", [{"iterations": 0}, {"c": 0.0}, {"rho": 0.5}, {"rho": -0.1}, {"sigma_max": 0.0}]
)
def test_paper_settings(settings):
    with pytest.raises(errors.SettingError, match=next(iter(settings))):
        PaperSolver(**settings)


def test_one_constant_column_is_a_level_and_no_fault():
    rng = np.random.default_rng(0)
    X, tasks = rng.standard_normal((60, 3)), np.repeat(np.arange(6), 10)
    y = X.sum(axis=1) + 0.1 * rng.standard_normal(60)

    def complaints(more, **settings):
        model = AltGDmin(rank=1, **settings).fit(np.column_stack([X, more]), y, tasks)
        return [w for w in model.warnings_ if "constant" in w]

    assert not complaints(np.ones(60))
    assert complaints(np.zeros(60))
    assert complaints(np.ones((60, 2)))
    assert complaints(np.ones(60), fit_intercept=True)
