"""Accelerated proximal gradient for `min f(theta) + lam ‖theta‖_*`, stopped by a duality gap.

FISTA (Beck and Teboulle 2009) with the restart of O'Donoghue and Candès (2015, the gradient scheme). The step
is found by backtracking: the iterates have low rank, and along them the loss is several times flatter than
its Lipschitz constant says. The loss is quadratic, so products with the Gram matrices are carried along by
linearity and an accepted step costs one product and one shrinkage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from banister.data import Float
from banister.estimators._gram import QuadraticLoss
from banister.solver import top_singular_value

_CHECK_EVERY = 5
_RELAX = 0.7  # after a restart the step may grow again
_STRIDE = 3.0
_ROUGH = 1e-2
_MANY = 0.2
_EXACT_BELOW = 1e-5  # squaring the matrix loses thresholds this far below its norm


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the iteration ended: `theta` (T, d), its objective, a bound on its gap to the best, and how."""

    theta: Float
    objective: float
    gap: float
    converged: bool
    n_iter: int
    history: list[float]


def shrink(Z: Float, tau: float, *, likely: int = 0) -> tuple[Float, float, int]:
    """Singular values of `Z` lowered by `tau` (none below 0), their sum, and how many are left.

    Only the singular values above `tau` are needed, so it takes those eigenpairs of the smaller of `Z Z'`
    and `Z'Z`, six times faster than a whole SVD at 100 by 100. Thresholds too small for that take the SVD.
    Where many are `likely` to be left, all eigenpairs at once are cheaper.

    Examples:
        >>> shrink(np.diag([3.0, 1.0]), 2.0)[1:]
        (1.0, 1)
    """
    if tau <= _EXACT_BELOW * np.linalg.norm(Z):
        U, s, Vt = np.linalg.svd(Z, full_matrices=False)
        s = np.maximum(s - tau, 0.0)
        return (U * s) @ Vt, float(s.sum()), int(np.count_nonzero(s))
    wide = Z.shape[0] <= Z.shape[1]
    K = Z @ Z.T if wide else Z.T @ Z
    if likely > _MANY * len(K):
        squares, U = sla.eigh(K, driver="evd", check_finite=False)
        kept = squares > tau * tau
        squares, U = squares[kept], U[:, kept]
    else:
        squares, U = sla.eigh(K, subset_by_value=(tau * tau, np.inf), driver="evr", check_finite=False)
    s = np.sqrt(squares)
    keep = (U * (1.0 - tau / s)) @ U.T
    return (keep @ Z if wide else Z @ keep), float(np.sum(s - tau)), len(s)


def largest_penalty(loss: QuadraticLoss) -> float:
    """The smallest penalty whose solution is zero: `‖gradient at 0‖` in the operator norm."""
    return top_singular_value(loss.h) / loss.n_rows


def duality_gap(
    loss: QuadraticLoss, lam: float, theta: Float, product: Float, nuclear: float
) -> tuple[float, float]:
    """Objective at `theta`, and how far above the optimum it can be at most.

    The dual of the problem is `max (<u, y> - ‖u‖²/2)/N` over `‖[X_t'u_t]‖ <= N lam`; the residual, scaled as
    well as that constraint allows, is the point compared with.
    """
    N, rss = loss.n_rows, loss.squared_residual(theta, product)
    objective = rss / (2 * N) + lam * nuclear
    if rss == 0.0:
        return objective, objective
    along = loss.yy - float(np.vdot(loss.h, theta))
    steepest = top_singular_value(loss.h - product)
    most = N * lam / steepest if steepest > 0.0 else np.inf
    scale = min(max(along / rss, -most), most)
    return objective, max(0.0, objective - scale * (along - scale * rss / 2) / N)


def approach(loss: QuadraticLoss, lam: float, *, max_iter: int) -> Float:
    """A start (T, d) near the solution: rough fits from the largest penalty down to a few times `lam`."""
    theta: Float = np.zeros(loss.shape)
    penalty = largest_penalty(loss) / _STRIDE
    while penalty > _STRIDE * lam > 0.0:
        theta = solve(loss, penalty, theta, tol=_ROUGH, max_iter=max_iter).theta
        penalty /= _STRIDE
    return theta


def solve(loss: QuadraticLoss, lam: float, start: Float, *, tol: float, max_iter: int) -> Solution:
    """Minimise from `start` (T, d) until the gap is at most `tol` times the objective."""
    N, theta, product = loss.n_rows, start, loss.apply(start)
    objective, gap = duality_gap(loss, lam, theta, product, _nuclear(theta))
    history = [objective]
    old, old_product, t, L = theta, product, 1.0, _curvature(loss, product - loss.h)
    n_iter, rank = 0, 0
    while gap > tol * objective and n_iter < max_iter:
        n_iter += 1
        t_next = (1.0 + np.sqrt(1.0 + 4.0 * t * t)) / 2.0
        beta = (t - 1.0) / t_next
        point = theta + beta * (theta - old)
        point_product = product + beta * (product - old_product)
        new, new_product, nuclear, rank, L = _step(loss, lam, point, point_product, L, rank)
        restart = float(np.vdot(point - new, new - theta)) > 0.0
        t, L = (1.0, _RELAX * L) if restart else (t_next, L)
        old, old_product, theta, product = theta, product, new, new_product
        if n_iter % _CHECK_EVERY == 0 or n_iter == max_iter:
            objective, gap = duality_gap(loss, lam, theta, product, nuclear)
            history.append(objective)
        else:
            history.append(loss.squared_residual(theta, product) / (2 * N) + lam * nuclear)
    return Solution(theta, objective, gap, bool(gap <= tol * objective), n_iter, history)


def _step(
    loss: QuadraticLoss, lam: float, point: Float, product: Float, L: float, rank: int
) -> tuple[Float, Float, float, int, float]:
    """One proximal step from `point`, of about this rank, with the first `L` that bounds its curvature."""
    gradient = (product - loss.h) / loss.n_rows
    bound = float(loss.traces.max()) / loss.n_rows  # no direction is steeper
    while True:
        new, nuclear, rank = shrink(point - gradient / L, lam / L, likely=rank)
        new_product = loss.apply(new)
        step = new - point
        length = float(np.vdot(step, step))
        bend = float(np.vdot(step, new_product - product)) / loss.n_rows
        if bend <= L * length or bound <= L:
            return new, new_product, nuclear, rank, L
        L = min(bound, max(1.1 * L, 1.05 * bend / length))


def _curvature(loss: QuadraticLoss, direction: Float) -> float:
    """Curvature of the loss along a direction, the first guess of `L`."""
    length = float(np.vdot(direction, direction))
    if length == 0.0:
        return max(float(loss.traces.max()) / loss.n_rows, np.finfo(float).tiny)
    return float(np.vdot(direction, loss.apply(direction))) / (length * loss.n_rows)


def _nuclear(theta: Float) -> float:
    return float(np.linalg.svd(theta, compute_uv=False).sum()) if theta.any() else 0.0
