"""What every estimator shares: one door in (`fit`), one way out (`predict`), and the checks at both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from banister.data import Float, Int, TaskData, as_matrix, encode_labels
from banister.errors import NotFittedError, SettingError, ShapeError
from banister.solver import Pool


class MultiTaskRegressor(BaseEstimator):
    """Linear regression over many tasks: `y = x' theta_t + noise`, one `theta_t` per task.

    Subclasses implement `_fit(data)` and set `theta_`; the rest is here.

    Attributes:
        theta_: parameters, shape (d, T), a column per task.
        tasks_: the tasks' labels, in column order.
        warnings_: what was noticed in the data or the fit, in words; empty if nothing.
    """

    made_by_fit: ClassVar[str] = "theta_"  # the attribute that says that a fit went well

    theta_: Float
    tasks_: NDArray[Any]
    warnings_: list[str]

    def fit(self, X: Any, y: Any, tasks: Any) -> Self:
        """Fit rows `X` (N, d), rewards `y` (N,) and task labels `tasks` (N,); any number of rows a task."""
        return self.fit_data(TaskData.from_rows(X, y, tasks, dtype=getattr(self, "dtype", np.float64)))

    def fit_data(self, data: TaskData) -> Self:
        """Fit data that is a `TaskData` already."""
        self.__dict__.pop(self.made_by_fit, None)  # a fit that fails leaves no half-fitted model behind
        self.warnings_ = []
        self.tasks_ = data.labels
        self._fit(data)
        return self

    @abstractmethod
    def _fit(self, data: TaskData) -> None: ...

    def predict(self, X: Any, tasks: Any) -> Float:
        """Expected rewards of rows `X` (m, d) for the tasks named, shape (m,)."""
        features, codes = self._check_rows(X, tasks)
        return self._predict(features, codes)

    @property
    def _dim(self) -> int:
        return int(self.theta_.shape[0])

    def _predict(self, X: Float, codes: Int) -> Float:
        rewards: Float = np.einsum("ij,ji->i", X, self.theta_[:, codes])
        return rewards

    def _check_rows(self, X: Any, tasks: Any) -> tuple[Float, Int]:
        self._check_fitted()
        features = as_matrix(X, "X", dim=self._dim)
        codes, _ = encode_labels(tasks, self.tasks_)
        if len(codes) != len(features):
            raise ShapeError(f"X has {len(features)} rows and tasks has {len(codes)}; give one task per row.")
        return features, codes

    def _check_fitted(self) -> None:
        if not hasattr(self, self.made_by_fit):
            raise NotFittedError(f"This {type(self).__name__} has not been fitted; call fit first.")


def check_rank(rank: int, data: TaskData | Pool) -> int:
    """`rank` if it is possible for the data, else an error that says what is."""
    most = min(data.dim, data.n_tasks)
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 1 <= rank <= most:
        raise SettingError(
            f"rank={rank!r} is not possible: with {data.dim} features and {data.n_tasks} tasks it must be a "
            f"whole number from 1 to {most}."
        )
    return int(rank)


def label_list(labels: Sequence[Hashable] | NDArray[Any], codes: Any, most: int = 5) -> str:
    """A few labels by index, for messages."""
    names = [repr(np.asarray(labels, dtype=object)[c]) for c in list(codes)[:most]]
    return ", ".join(names) + (", …" if len(codes) > most else "")
