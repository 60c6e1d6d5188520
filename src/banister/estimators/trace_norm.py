"""Trace-norm regression: the convex relaxation of "all tasks share a low-dimensional subspace".

It minimises, over `Theta` of shape (d, T),

    1/(2N) Σ_t ‖y_t − X_t theta_t‖² + lam ‖Theta‖_*          (‖·‖_*: sum of singular values, N: all rows)

With equal counts `n` this is `1/T` times the objective `1/(2n) Σ_t ‖…‖² + lam' ‖Theta‖_*`, `lam' = T lam`.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Literal, Self

import numpy as np

from banister.data import Float, Number, TaskData
from banister.errors import ConvergenceWarning, SettingError, ShapeError
from banister.estimators._batches import empty_task_warnings
from banister.estimators._gram import QuadraticLoss
from banister.estimators._trace_solver import Solution, Start, approach, largest_penalty, solve
from banister.estimators._trace_tuning import penalty_by_rate, penalty_by_validation
from banister.estimators.base import MultiTaskRegressor


class TraceNorm(MultiTaskRegressor):
    """Regression over many tasks with a penalty on the sum of singular values of `theta_`.

    Args:
        lam: the penalty, a positive number in the normalisation above; `"cv"`: validated on held-out rows
            along a warm-started path; `"rate"`: the size of the noise in the gradient, which for standardised
            features and `n` rows a task is `sd √((d + T)/n) / T` (see `banister.estimators._trace_tuning`).
            The rule is as good as `"cv"` on Gaussian features, and cheaper when there is little noise. It is
            too large where a policy picked the rows, and far too large for strongly correlated features
            (non-negative ratings, say): use `"cv"` there.
        noise: standard deviation of the rewards' noise for `"rate"`; estimated from the data if None.
        holdout: share of each task's rows held out by `"cv"`.
        tol: the fit stops when the duality gap, a bound on the distance to the optimum, is at most `tol`
            times the objective.
        max_iter: iterations at most.
        seed: of the choice of held-out rows.

    Attributes:
        theta_: parameters, shape (d, T).
        lam_: the penalty used.
        noise_: the noise level behind `lam="rate"`, else None.
        objective_, gap_: the objective, and a bound on how far above its optimum it is.
        converged_, n_iter_, history_: whether `tol` was reached, after how many iterations, and the objective
            at the start and after every fifth of them.
        path_: for `"cv"`, the penalties tried (fitted to the training rows) and their held-out mean squared
            errors, shape (k, 2); else None.

    Examples:
        >>> X, y = [[1.0, 0.0], [0.0, 1.0]] * 2, [4.0, 0.0, 0.0, 1.0]
        >>> model = TraceNorm(lam=0.5).fit(X, y, ["a", "a", "b", "b"])
        >>> model.theta_.round(6).tolist()           # here the solution lowers each singular value by N lam
        [[2.0, 0.0], [0.0, 0.0]]
    """

    lam_: float
    noise_: float | None
    objective_: float
    gap_: float
    converged_: bool
    n_iter_: int
    history_: list[float]
    path_: Float | None

    def __init__(
        self,
        *,
        lam: Number | Literal["cv", "rate"] = "cv",
        noise: float | None = None,
        holdout: float = 0.2,
        tol: float = 1e-6,
        max_iter: int = 5000,
        seed: int = 0,
    ) -> None:
        self.lam = lam
        self.noise = noise
        self.holdout = holdout
        self.tol = tol
        self.max_iter = max_iter
        self.seed = seed

    def fit_data(self, data: TaskData, *, theta0: Float | None = None) -> Self:
        """Fit data that is a `TaskData` already, starting from `theta0` (d, T), such as an earlier fit's."""
        self._theta0 = theta0
        return super().fit_data(data)

    def _fit(self, data: TaskData) -> None:
        self._check_settings()
        start: Start = _start(data, self.__dict__.pop("_theta0", None)), None
        loss = QuadraticLoss(data)
        self.path_, self.noise_ = None, None
        self.warnings_ += empty_task_warnings(data)
        start = self._choose_penalty(data, loss, start)
        if not start[0].any():
            start = approach(loss, self.lam_, max_iter=self.max_iter)
        theta, rho = start
        self._keep(solve(loss, self.lam_, theta, tol=self.tol, max_iter=self.max_iter, rho=rho))

    def _choose_penalty(self, data: TaskData, loss: QuadraticLoss, start: Start) -> Start:
        """Set `lam_`; the solution nearby, if one came up on the way, is where to start the fit."""
        if not isinstance(self.lam, str):
            self.lam_ = float(self.lam)
            return start
        if largest_penalty(loss) == 0.0:
            self.lam_ = 0.0
            self.warnings_.append("X'y is zero in every task, so theta = 0 whatever the penalty.")
            return np.zeros_like(start[0]), None
        lam = self.lam
        if lam == "cv" and int(data.counts.max()) < 2:
            self.warnings_.append("No task has two rows, so none is held out; lam follows 'rate' instead.")
            lam = "rate"
        if lam == "cv":
            rng = np.random.default_rng(self.seed)
            self.lam_, start, self.path_ = penalty_by_validation(data, self.holdout, rng, self.max_iter)
        else:
            self.lam_, start, self.noise_ = penalty_by_rate(data, loss, start, self.noise, self.max_iter)
        return start

    def _keep(self, solution: Solution) -> None:
        self.theta_ = np.ascontiguousarray(solution.theta.T)
        self.objective_, self.gap_ = solution.objective, solution.gap
        self.converged_, self.n_iter_, self.history_ = solution.converged, solution.n_iter, solution.history
        if not self.converged_:
            message = (
                f"TraceNorm stopped after {self.n_iter_} iterations with a relative gap of "
                f"{self.gap_ / self.objective_:.1e} (tol={self.tol:g}); "
                "raise max_iter or lam, or scale the features."
            )
            self.warnings_.append(message)
            warnings.warn(message, ConvergenceWarning, stacklevel=5)

    def _check_settings(self) -> None:
        if isinstance(self.lam, str):
            if self.lam not in ("cv", "rate"):
                raise SettingError(f"lam={self.lam!r} is unknown; give a positive number, 'cv' or 'rate'.")
        else:
            _check_positive("lam", self.lam, "; or 'cv' or 'rate'")
        if self.noise is not None:
            _check_positive("noise", self.noise, ", or None to estimate it")
        _check_positive("tol", self.tol)
        _check_positive("holdout", self.holdout)
        if self.holdout >= 1:
            raise SettingError(f"holdout={self.holdout!r} must be a share of the rows, between 0 and 1.")
        if (
            isinstance(self.max_iter, bool)
            or not isinstance(self.max_iter, (int, np.integer))
            or self.max_iter < 1
        ):
            raise SettingError(f"max_iter={self.max_iter!r} must be a whole number of at least 1.")


def _check_positive(name: str, value: object, else_: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < np.inf:
        raise SettingError(f"{name}={value!r} is not possible; give a positive number{else_}.")


def _start(data: TaskData, theta0: Float | None) -> Float:
    if theta0 is None:
        return np.zeros((data.n_tasks, data.dim))
    if theta0.shape != (data.dim, data.n_tasks):
        raise ShapeError(f"theta0 has shape {theta0.shape}; the data need {(data.dim, data.n_tasks)}.")
    return np.array(theta0.T, dtype=np.float64, order="C")
