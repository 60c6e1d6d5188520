"""Ridge regression of each task alone: the rival that shares nothing.

It minimises `‖y_t − X_t theta_t − c_t‖² + lam_t ‖theta_t‖²` for every task, with `lam_t` by generalised
cross-validation (Golub, Heath and Wahba 1979): with the hat matrix
`A = X_t (X_t'X_t + lam I)⁻¹ X_t'`, the minimum of

    GCV(lam) = n ‖(I − A) y‖² / tr(I − A)²

One SVD `X_t = U diag(s) V'` serves every `lam`: in the coordinates `z = U'y` the matrix `I − A` is diagonal.

The intercept `c_t` is not penalised: rows and rewards are centred within their task. That leaves what n − 1
rows without an intercept would tell (n rows that sum to zero are a rotation of them), so n − 1 takes the
place of n above.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
import scipy.linalg as sla
from numpy.typing import ArrayLike

from banister.data import Float, Int, Number, TaskData, is_number
from banister.errors import SettingError
from banister.estimators._batches import empty_task_warnings, equal_batches
from banister.estimators._centring import Centring
from banister.estimators.base import Labels, MultiTaskRegressor, label_list

_GRID = np.logspace(-10, 4, 71)  # times the largest eigenvalue of X_t'X_t: from no shrinkage to nothing left
_REFINE = np.linspace(-1.0, 1.0, 21)  # one grid step either way


class TaskRidge(MultiTaskRegressor):
    """Ridge regression of each task alone.

    Args:
        lam: the penalty, a positive number for all tasks, or `"gcv"`: chosen for each task by generalised
            cross-validation. For a single row that criterion does not depend on `lam`; such a task gets the
            penalty that halves its least-norm fit, and is named in `warnings_`.
        fit_intercept: a level of its own for each task, which no penalty pulls to zero; it takes one row of
            each task.

    Attributes:
        theta_: parameters, shape (d, T).
        intercept_: levels, shape (T,); zeros without `fit_intercept`.
        lam_: the penalty of each task, shape (T,); NaN for a task whose rows tell nothing of theta.
        noise_: each task's noise level, shape (T,), under the prior `theta_t ~ N(0, noise²/lam I)` for which
            ridge is the posterior mean: `noise² = y'(I − A)y / n`. NaN like `lam_`.

    Examples:
        >>> model = TaskRidge(lam=2.0).fit([[1.0], [3.0], [1.0]], [4.0, 8.0, 5.0], ["a", "a", "b"])
        >>> model.theta_, model.intercept_
        (array([[1., 0.]]), array([4., 5.]))
    """

    intercept_: Float
    lam_: Float
    noise_: Float

    def __init__(self, *, lam: Number | Literal["gcv"] = "gcv", fit_intercept: bool = True) -> None:
        self.lam = lam
        self.fit_intercept = fit_intercept

    def _fit(self, data: TaskData) -> None:
        fixed = self._fixed_penalty()
        self._centring = Centring.of(data) if self.fit_intercept else None
        if self._centring is not None:
            data = self._centring.apply(data)
        self._data = data  # by reference: standard errors need the rows of the tasks asked for
        self.theta_ = np.zeros((data.dim, data.n_tasks))
        self.lam_ = np.full(data.n_tasks, np.nan)
        self.noise_ = np.full(data.n_tasks, np.nan)
        for tasks, X, y in equal_batches(data):
            if X.shape[1] > self.fit_intercept:  # a single row tells its task's level alone
                self._fit_batch(tasks, X, y, fixed)
        self.intercept_ = np.zeros(data.n_tasks)
        if self._centring is not None:
            self.intercept_ = self._centring.intercepts(self.theta_)
        self._note(data, fixed)

    def _fit_batch(self, tasks: Int, X: Float, y: Float, fixed: float | None) -> None:
        n = X.shape[1] - self.fit_intercept  # rows that are left to tell of theta
        U, s, Vt = np.linalg.svd(X, full_matrices=False)
        U, s, Vt = U[:, :, :n], s[:, :n], Vt[:, :n]  # n + 1 centred rows span n directions
        z, outside = _coordinates(U, y)
        lam = gcv_penalty(s, z, outside, n) if fixed is None else np.full(len(tasks), fixed)
        damped = s**2 + lam[:, None]
        self.theta_[:, tasks] = np.matmul((s * z / damped)[:, None, :], Vt)[:, 0].T
        left = np.sum(lam[:, None] / damped * z**2, axis=1) + outside
        self.lam_[tasks], self.noise_[tasks] = lam, np.sqrt(left / n)

    def _note(self, data: TaskData, fixed: float | None) -> None:
        self.warnings_ += empty_task_warnings(data)
        if fixed is None:
            self.warnings_ += _few_row_warnings(data, 1 + self.fit_intercept)

    def _fixed_penalty(self) -> float | None:
        if not isinstance(self.fit_intercept, (bool, np.bool_)):
            raise SettingError(f"fit_intercept={self.fit_intercept!r} must be True or False.")
        lam: Any = self.lam
        if isinstance(lam, str) and lam == "gcv":
            return None
        if not (is_number(lam) and lam > 0):
            raise SettingError(f"lam={lam!r} is not possible; give a positive number or 'gcv'.")
        return float(lam)

    @overload
    def predict(self, X: ArrayLike, tasks: Labels, *, return_std: Literal[False] = ...) -> Float: ...
    @overload
    def predict(self, X: ArrayLike, tasks: Labels, *, return_std: Literal[True]) -> tuple[Float, Float]: ...
    def predict(
        self, X: ArrayLike, tasks: Labels, *, return_std: bool = False
    ) -> Float | tuple[Float, Float]:
        """Expected rewards of rows `X` (m, d) for the tasks named, shape (m,); if asked, standard errors too.

        The standard error is the posterior's of `x'theta_t` under the prior of `noise_`, so it counts the
        shrinkage too. It takes `lam_` as known: with few rows it is on the small side. It is infinite for a
        task whose rows do not tell its noise.
        """
        features, codes = self._check_rows(X, tasks)
        mean = self._predict(features, codes)
        if not return_std:
            return mean
        std = np.full(len(features), np.inf)
        away = features if self._centring is None else self._centring.centred(features, codes)
        for t in np.unique(codes):
            if np.isfinite(self.noise_[t]):
                std[codes == t] = self._std(away[codes == t], int(t))
        return mean, std

    def _predict(self, X: Float, codes: Int) -> Float:
        return super()._predict(X, codes) + self.intercept_[codes]

    def _std(self, x: Float, t: int) -> Float:
        """`√(x' Σ x)`, `Σ = noise² (X'X + lam I)⁻¹ = noise²/lam (I − X'(XX' + lam I)⁻¹X)`.

        With an intercept `x` is relative to the task's mean row, and the mean reward adds `noise²/n`.
        """
        X, lam = self._data.rows_of(t)[0], float(self.lam_[t])
        if len(X) >= X.shape[1]:
            factor = np.linalg.cholesky(X.T @ X + lam * np.eye(X.shape[1]))
            variance = np.sum(sla.solve_triangular(factor, x.T, lower=True) ** 2, axis=0)
        else:
            factor = np.linalg.cholesky(X @ X.T + lam * np.eye(len(X)))
            seen = np.sum(sla.solve_triangular(factor, X @ x.T, lower=True) ** 2, axis=0)
            variance = np.maximum(0.0, np.sum(x**2, axis=1) - seen) / lam
        level = 0.0 if self._centring is None else 1.0 / len(X)
        return np.asarray(self.noise_[t] * np.sqrt(variance + level))


def _coordinates(U: Float, y: Float) -> tuple[Float, Float]:
    """`U'y` (g, k) and the squared length (g,) of what is left of `y` (g, n) outside the span of `U`."""
    z = np.matmul(y[:, None, :], U)[:, 0]
    if U.shape[1] == U.shape[2]:
        return z, np.zeros(len(y))
    return z, np.sum((y - np.matmul(U, z[:, :, None])[:, :, 0]) ** 2, axis=1)


def gcv_score(lam: Float, s: Float, z: Float, outside: Float, n: int) -> Float:
    """GCV of penalties `lam` (g, m) for tasks of `n` rows, singular values `s` (g, k), `z = U'y` (g, k)."""
    rest = lam[:, :, None] / (s[:, None, :] ** 2 + lam[:, :, None])
    squares = np.sum((rest * z[:, None, :]) ** 2, axis=2) + outside[:, None]
    return np.asarray(n * squares / (np.sum(rest, axis=2) + (n - s.shape[1])) ** 2)


def gcv_penalty(s: Float, z: Float, outside: Float, n: int) -> Float:
    """The penalty (g,) with the least GCV: over a grid of fourteen decades, then within its best cell."""
    top = np.where(s[:, :1] > 0, s[:, :1] ** 2, 1.0)  # features all zero: any penalty gives zero
    if n == 1:
        return top[:, 0]
    each = np.arange(len(s))
    coarse = top * _GRID
    centre = np.argmin(gcv_score(coarse, s, z, outside, n), axis=1)
    fine = coarse[each, centre][:, None] * (_GRID[1] / _GRID[0]) ** _REFINE
    return np.asarray(fine[each, np.argmin(gcv_score(fine, s, z, outside, n), axis=1)])


def _few_row_warnings(data: TaskData, n: int) -> list[str]:
    """Tasks with the `n` rows from which GCV cannot choose: one, or two of which one is the intercept's."""
    few = np.flatnonzero(data.counts == n)
    if len(few) == 0:
        return []
    rows = "one row" if n == 1 else f"{n} rows"
    return [
        f"{len(few)} tasks have {rows}, too few to choose lam by GCV, and get half their least-norm fit: "
        f"{label_list(data.labels, few)}."
    ]
