"""What every estimator shares: one door in (`fit`), one way out (`predict`), and the checks at both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banister.data import Float, Int, TaskData, Whole, as_matrix, as_vector, encode_labels
from banister.errors import InputError, NotFittedError, SettingError, ShapeError
from banister.estimators._sklearn import (
    BaseEstimator,
    RegressorMixin,
    SklearnNotFittedError,
    validate_data,
)
from banister.solver import Pool

Labels = ArrayLike | Sequence[Hashable]


class UnfittedError(NotFittedError, SklearnNotFittedError):
    """Our error, which scikit-learn's tools know too."""


class MultiTaskRegressor(RegressorMixin, BaseEstimator):
    """Linear regression over many tasks: `y = x' theta_t + noise`, one `theta_t` per task.

    Subclasses implement `_fit(data)` and set `theta_`; the rest is here. `fit`, `predict` and `score` ask for
    `tasks`, so that with scikit-learn's metadata routing on, `cross_val_score(model, X, y,
    params={"tasks": tasks})` and `GridSearchCV(model, grid).fit(X, y, tasks=tasks)` work as they stand.

    Attributes:
        theta_: parameters, shape (d, T), a column per task.
        tasks_: the tasks' labels, in column order.
        n_features_in_: d.
        feature_names_in_: the columns' names, where `X` had names that are all text.
        warnings_: what was noticed in the data or the fit, in words; empty if nothing.
    """

    __metadata_request__fit: ClassVar = {"tasks": True}
    __metadata_request__predict: ClassVar = {"tasks": True}
    __metadata_request__score: ClassVar = {"tasks": True}

    made_by_fit: ClassVar[str] = "theta_"  # the attribute that says that a fit went well

    theta_: Float
    tasks_: NDArray[Any]
    warnings_: list[str]

    def fit(self, X: ArrayLike, y: ArrayLike, tasks: Labels) -> Self:
        """Fit rows `X` (N, d), rewards `y` (N,) and task labels `tasks` (N,); any number of rows a task."""
        if y is None:  # what scikit-learn's tools pass where there are no targets
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        data = TaskData.from_rows(X, y, tasks, dtype=getattr(self, "dtype", np.float64))
        self.fit_data(data)
        validate_data(self, X, skip_check_array=True)  # notes the columns' names
        return self

    def fit_data(self, data: TaskData) -> Self:
        """Fit data that is a `TaskData` already."""
        self.__dict__.pop(self.made_by_fit, None)  # a fit that fails leaves no half-fitted model behind
        self.__dict__.pop("feature_names_in_", None)
        self.warnings_ = []
        self.tasks_, self.n_features_in_ = data.labels, data.dim
        self._fit(data)
        return self

    @abstractmethod
    def _fit(self, data: TaskData) -> None: ...

    def predict(self, X: ArrayLike, tasks: Labels) -> Float:
        """Expected rewards of rows `X` (m, d) for the tasks named, shape (m,)."""
        features, codes = self._check_rows(X, tasks)
        return self._predict(features, codes)

    def score(
        self, X: ArrayLike, y: ArrayLike, tasks: Labels, sample_weight: ArrayLike | None = None
    ) -> float:
        """The share of the variance of `y` that predictions explain, R²; 1 is perfect."""
        from sklearn.metrics import r2_score  # late: it takes longer to import than all else here

        mean = self.predict(X, tasks)
        truth = as_vector(y, "y", size=len(mean))
        return float(r2_score(truth, mean, sample_weight=sample_weight))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self.made_by_fit)

    def _predict(self, X: Float, codes: Int) -> Float:
        rewards: Float = np.einsum("ij,ji->i", X, self.theta_[:, codes])
        return rewards

    def _check_rows(self, X: Any, tasks: Any) -> tuple[Float, Int]:
        self._check_fitted()
        features = as_matrix(X, "X")
        if features.shape[1] != self.n_features_in_:
            raise ShapeError(
                f"X has {features.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        validate_data(
            self, X, skip_check_array=True, reset=False
        )  # warns of columns that changed their names
        codes, _ = encode_labels(tasks, self.tasks_)
        if len(codes) != len(features):
            raise ShapeError(f"X has {len(features)} rows and tasks has {len(codes)}; give one task per row.")
        return features, codes

    def _check_fitted(self) -> None:
        if not hasattr(self, self.made_by_fit):
            raise UnfittedError(f"This {type(self).__name__} has not been fitted; call fit first.")


def check_rank(rank: Whole, data: TaskData | Pool) -> int:
    """`rank` if it is possible for the data, else an error that says what is."""
    most = min(data.dim, data.n_tasks)
    whole = isinstance(rank, (int, np.integer)) and not isinstance(rank, (bool, np.timedelta64))
    if not whole or not 1 <= rank <= most:
        raise SettingError(
            f"rank={rank!r} is not possible: with {data.dim} features and {data.n_tasks} tasks it must be a "
            f"whole number from 1 to {most}."
        )
    return int(rank)


def label_list(labels: Sequence[Hashable] | NDArray[Any], codes: Any, most: int = 5) -> str:
    """A few labels by index, for messages."""
    names = [repr(np.asarray(labels, dtype=object)[c]) for c in list(codes)[:most]]
    return ", ".join(names) + (", …" if len(codes) > most else "")
