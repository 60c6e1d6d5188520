"""Estimators in scikit-learn's tools: its own checks, clones, grids, cross-validation with routed tasks."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone, is_regressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

import banister as bn
from banister.errors import InputError, NotFittedError

MODELS = [bn.AltGDmin(rank=1), bn.TraceNorm(), bn.MethodOfMoments(rank=1), bn.TaskRidge()]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)

# What scikit-learn asks and we refuse, with the reason.
EXCEPTIONS = {
    "check_dtype_object": "dictionaries among numbers are our InputError, a ValueError; a TypeError is asked",
    "check_supervised_y_2d": "a column of rewards (n, 1) is an error here, not a warning: it may be a matrix",
}


def with_one_task(model):
    """The estimator without its third argument: all rows are one task's, as scikit-learn's checks need."""
    kind = type(model)

    def tasks_of(X):
        return np.zeros(X.shape[0] if hasattr(X, "shape") else len(np.asarray(X)))

    class OneTask(kind):
        __init__ = kind.__init__

        def fit(self, X, y):
            return super().fit(X, y, tasks_of(X))

        def predict(self, X):
            return kind.predict(self, X, tasks_of(X))

        def score(self, X, y):
            return r2_score(y, self.predict(X))

    OneTask.__name__ = OneTask.__qualname__ = kind.__name__
    globals()[kind.__name__] = OneTask  # where pickle looks for it
    return OneTask(**model.get_params())


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [with_one_task(model) for model in MODELS], expected_failed_checks=lambda _: EXCEPTIONS, xfail_strict=True
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    theta = np.outer([1.0, -2.0, 0.5, 0.0], rng.standard_normal(12))
    tasks = rng.permutation(np.repeat([f"shop-{t}" for t in range(12)], 20))
    X = rng.standard_normal((240, 4))
    y = np.einsum("ij,ji->i", X, theta[:, [int(t[5:]) for t in tasks]]) + 0.1 * rng.standard_normal(240)
    return X, y, tasks


@every_model
def test_cross_validation_routes_the_tasks(model, rows):
    """The same as by hand: fit on four fifths, predict the last, R²."""
    X, y, tasks = rows
    folds = KFold(5)
    with config_context(enable_metadata_routing=True):
        scores = cross_val_score(model, X, y, params={"tasks": tasks}, cv=folds)
    for score, (train, test) in zip(scores, folds.split(X), strict=True):
        fitted = clone(model).fit(X[train], y[train], tasks[train])
        assert score == pytest.approx(r2_score(y[test], fitted.predict(X[test], tasks[test])))


def test_a_grid_finds_the_rank(rows):
    X, y, tasks = rows
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(bn.AltGDmin(shrink=False), {"rank": [1, 3]}, cv=3).fit(X, y, tasks=tasks)
        assert search.best_params_ == {"rank": 1}
    assert search.best_estimator_.rank_ == 1


def test_a_pipeline_passes_the_tasks_on(rows):
    X, y, tasks = rows
    with config_context(enable_metadata_routing=True):
        line = make_pipeline(StandardScaler(), bn.TaskRidge()).fit(X, y, tasks=tasks)
        assert line.score(X, y, tasks=tasks) > 0.9


def test_score_by_hand():
    model = bn.TaskRidge(lam=1e-9).fit([[0.0], [2.0]], [1.0, 5.0], ["a", "a"])  # y = 1 + 2x
    assert model.score([[0.0], [1.0]], [1.0, 3.0], ["a", "a"]) == pytest.approx(1.0)
    assert model.score([[0.0], [1.0]], [0.0, 2.0], ["a", "a"]) == pytest.approx(0.0, abs=1e-6)  # 1 − 2/2
    weighted = model.score([[0.0], [1.0]], [1.0, 5.0], ["a", "a"], sample_weight=[3.0, 1.0])
    assert weighted == pytest.approx(1 - 4 / 12)  # mean 2: 3·1² + 3², left 2²
    with pytest.raises(InputError, match="y has 1 entries"):
        model.score([[0.0], [1.0]], [3.0], ["a", "a"])


@every_model
def test_clones_parameters_and_page(model, rows):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert is_regressor(copy)
    assert type(model).__name__ in copy._repr_html_()
    name, value = next(iter(model.get_params().items()))
    assert copy.set_params(**{name: value}) is copy
    fitted = pickle.loads(pickle.dumps(copy.fit(*rows)))
    assert np.array_equal(fitted.predict(rows[0], rows[2]), copy.predict(rows[0], rows[2]))


@every_model
def test_an_unfitted_model_is_an_error_of_both_houses(model, rows):
    from sklearn.exceptions import NotFittedError as Theirs

    with pytest.raises(Theirs):
        check_is_fitted(clone(model))
    with pytest.raises(Theirs) as error:
        clone(model).predict(rows[0], rows[2])
    assert isinstance(error.value, NotFittedError)


def test_names_of_columns_are_kept_and_compared(rows):
    X, y, tasks = rows
    frame = pd.DataFrame(X, columns=["price", "age", "hour", "stock"])
    model = bn.TaskRidge().fit(frame, y, tasks)
    assert model.feature_names_in_.tolist() == ["price", "age", "hour", "stock"]
    assert model.n_features_in_ == 4
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["age", "price", "hour", "stock"]], tasks)
    with pytest.raises(ValueError, match="X has 3 features, but TaskRidge is expecting 4"):
        model.predict(X[:, :3], tasks)
    assert not hasattr(clone(model).fit(frame, y, tasks).fit(X, y, tasks), "feature_names_in_")


def test_one_task_is_scikit_learns_ridge(rows):
    X, y, _ = rows
    ours = bn.TaskRidge(lam=3.0).fit(X, y, np.zeros(len(X)))
    np.testing.assert_allclose(ours.theta_[:, 0], Ridge(alpha=3.0).fit(X, y).coef_)
