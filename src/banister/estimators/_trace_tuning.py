"""How large the trace-norm penalty should be: by held-out rows, or by the size of the noise.

*Validation.* A path of penalties from the one whose solution is zero downwards, each fit started at the last.

*Rate.* A penalty of the size of the noise part of the gradient, `‖[X_t'e_t]‖/N`, keeps noise out of the
solution's spectrum. For noise of standard deviation `sd` the rule is
`sd √(max_t ‖X_t‖_F² + ‖Σ X_t'X_t‖) / N`, the two terms of Chevet's inequality with their squares added. For
standardised features and `n` rows in each of `T` tasks that is `sd √((d + T)/n) / T`. Theory asks for twice
the norm. At d = T = 100, rank 2, 50 to 200 rows a task (means of 3 seeds) twice made the error 1.4 to 1.6
times as large on Gaussian features with noise 0.001 to 0.3, where this rule matches "cv". On rows picked by a
policy (the fifth best of ten actions), noise 0.001, this rule's error is still 1.3 to 1.5 times that of "cv".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, TaskData
from banister.estimators._gram import QuadraticLoss
from banister.estimators._trace_solver import Start, largest_penalty, solve
from banister.estimators.moments import subspace_coefficients

_PATH = np.logspace(0, -5, 26)[1:]  # five penalties a decade
_PATH_TOL = 1e-3
_PATIENCE = 2
_WORTH = 1e-3  # ever smaller penalties cost ever more time; a thousandth of the error is not worth it
_INTERPOLATES = 1e-2
_RATE_STEPS = 15
_RATE_TOL = 1e-3
_RATE_START = 0.1
_LEAST = 1e-6  # of the largest penalty: on data without noise the rule alone would ask for zero


def penalty_by_validation(
    data: TaskData, holdout: float, rng: np.random.Generator, max_iter: int
) -> tuple[float, Start, Float]:
    """The penalty with the least held-out error, its `Start`, and the path (k, 2): penalty, error.

    The penalty found for the training rows is scaled by `√(N_train/N)`, as the noise in the gradient is.
    """
    fit_on, held_out = split_rows(data, holdout, rng)
    loss, check = QuadraticLoss(fit_on), QuadraticLoss(held_out)
    theta: Float = np.zeros(loss.shape)
    rho: float | None = None
    path = [(largest_penalty(loss), check.yy / check.n_rows)]
    start: Start = (theta, rho)
    best, since = path[0], 0
    for lam in _PATH * path[0][0]:
        fit = solve(loss, lam, theta, tol=_PATH_TOL, max_iter=max_iter, rho=rho)
        theta, rho = fit.theta, fit.rho
        path.append((lam, check.squared_residual(theta, check.apply(theta)) / check.n_rows))
        since += 1
        if path[-1][1] < (1.0 - _WORTH) * best[1]:
            best, start, since = path[-1], (theta, rho), 0
        if since == _PATIENCE or _interpolates(loss, theta, path[-1][1]):
            break
    return float(best[0] * np.sqrt(fit_on.n_rows / data.n_rows)), start, np.array(path)


def _interpolates(loss: QuadraticLoss, theta: Float, held_out_error: float) -> bool:
    """Whether the training rows are fitted so closely that a smaller penalty would change nothing."""
    return loss.squared_residual(theta, loss.apply(theta)) < _INTERPOLATES * held_out_error * loss.n_rows


def split_rows(data: TaskData, holdout: float, rng: np.random.Generator) -> tuple[TaskData, TaskData]:
    """Training and held-out rows, the same share of each task up to a random rounding; a task keeps one row.

    At least one row is held out if any task has two.
    """
    take = np.floor(holdout * data.counts + rng.random(data.n_tasks)).astype(np.int64)
    take = np.minimum(take, np.maximum(data.counts - 1, 0))
    if not take.any():
        take[np.argmax(data.counts)] = 1
    order = np.lexsort((rng.random(data.n_rows), data.codes))
    place = np.arange(data.n_rows) - data.offsets[data.codes]
    out = np.zeros(data.n_rows, dtype=bool)
    out[order[place < take[data.codes]]] = True
    return _rows(data, ~out), _rows(data, out)


def _rows(data: TaskData, chosen: NDArray[np.bool_]) -> TaskData:
    return TaskData.from_codes(data.X[chosen], data.y[chosen], data.codes[chosen], data.labels)


def penalty_by_rate(
    data: TaskData, loss: QuadraticLoss, start: Start, noise: float | None, max_iter: int
) -> tuple[float, Start, float]:
    """The penalty of the noise's size, where to start its fit, and the noise level.

    An unknown noise level and the fit are found in turn, as the paper's rival does: fit, estimate the noise
    from what the fit's subspace leaves, set the penalty, until it moves by less than a twentieth.
    """
    if noise is not None:
        return rate_penalty(loss, noise), start, noise
    largest, (theta, rho) = largest_penalty(loss), start
    lam, level = _RATE_START * largest, 0.0
    if theta.any():
        lam = _clip(rate_penalty(loss, noise_level(data, theta)), largest)
    for _ in range(_RATE_STEPS):
        fit = solve(loss, lam, theta, tol=_RATE_TOL, max_iter=max_iter, rho=rho)
        theta, rho = fit.theta, fit.rho
        level = noise_level(data, theta)
        before, lam = lam, _clip(rate_penalty(loss, level), largest)
        if abs(np.log(lam / before)) < 0.05:
            break
    return lam, (theta, rho), level


def _clip(lam: float, largest: float) -> float:
    return min(max(lam, _LEAST * largest), largest)


def rate_penalty(loss: QuadraticLoss, noise: float) -> float:
    """The size that noise of this standard deviation has in the gradient."""
    return noise * float(np.sqrt(loss.traces.max() + loss.pooled_norm)) / loss.n_rows


def noise_level(data: TaskData, theta: Float) -> float:
    """Noise standard deviation from the residuals of least squares in the span of `theta` (T, d).

    The penalised fit's own residuals would count its shrinkage as noise. Of many directions the strongest are
    kept whose parameters number at most half the rows.
    """
    _, s, Vt = np.linalg.svd(theta, full_matrices=False)
    ranks = np.arange(int(np.sum(s > 1e-8 * s[0])) + 1 if s[0] > 0 else 1)
    used = ranks * (data.dim - ranks) + np.minimum(data.counts, ranks[:, None]).sum(axis=1)
    k = int(ranks[used <= data.n_rows / 2][-1])
    if k == 0:
        return float(np.sqrt(np.mean(np.square(data.y))))
    W = subspace_coefficients(data, Vt[:k].T)
    residual = data.y - np.einsum("ij,ji->i", data.X @ Vt[:k].T, W[:, data.codes])
    return float(np.sqrt(np.sum(np.square(residual)) / (data.n_rows - used[k])))
