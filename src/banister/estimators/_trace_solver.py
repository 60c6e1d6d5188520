"""Alternating directions for `min f(theta) + lam ‖theta‖_*`, stopped by a duality gap.

ADMM (Boyd et al. 2011) with over-relaxation: a step towards the loss's minimum by matrices inverted
beforehand, then a shrinkage of singular values. Unlike a gradient's, its steps do not mind features that are
strongly correlated. On MovieLens (d = 100, T = 5) a path
of 25 penalties takes 0.1 s, where accelerated gradients took 3.5 s and did not always arrive; on Gaussian
features the two are alike. The weight `rho` of a step is balanced while it runs (section 3.4.1 there), on
relative residuals, but not below half the harmonic mean of the loss's curvatures: less than nearly all of
them only shortens steps. On Gaussian features, where balancing alone went down to a hundredth of it, that
saves two iterations of three; correlated features have small curvatures, and there it changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from banister.data import Float
from banister.estimators._gram import QuadraticLoss
from banister.solver import top_singular_value

_CHECK_EVERY = 5
_BALANCE_EVERY = 20  # where the first weight is right, most fits end before it could be changed
_RELAX = 1.7
_BALANCED, _MOST, _TINY = 3.0, 4.0, 1e-150
_LEAST = 0.5  # of the harmonic mean of curvatures
_STRIDE = 3.0
_ROUGH = 1e-2
_MANY = 0.2
_EXACT_BELOW = 1e-5  # squaring the matrix loses thresholds this far below its norm

Start = tuple[Float, float | None]  # theta (T, d), and the weight rho to begin with if one is known


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the iteration ended: `theta` (T, d), its objective, a bound on its gap to the best, and how.

    `rho` is the weight of its last step, a good first one for a penalty nearby; `history` the objective at
    the start and whenever it was looked at.
    """

    theta: Float
    objective: float
    gap: float
    converged: bool
    n_iter: int
    history: list[float]
    rho: float | None


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


def approach(loss: QuadraticLoss, lam: float, *, max_iter: int) -> Start:
    """A start near the solution: rough fits from the largest penalty down to a few times `lam`."""
    theta: Float = np.zeros(loss.shape)
    rho: float | None = None
    penalty = largest_penalty(loss) / _STRIDE
    while penalty > _STRIDE * lam > 0.0:
        rough = solve(loss, penalty, theta, tol=_ROUGH, max_iter=max_iter, rho=rho)
        theta, rho = rough.theta, rough.rho
        penalty /= _STRIDE
    return theta, rho


def solve(
    loss: QuadraticLoss, lam: float, start: Float, *, tol: float, max_iter: int, rho: float | None = None
) -> Solution:
    """Minimise from `start` (T, d) until the gap is at most `tol` times the objective."""
    product, theta = loss.apply(start), start
    objective, gap = duality_gap(loss, lam, theta, product, _nuclear(theta))
    history, n_iter, rank = [objective], 0, 0
    if gap <= tol * objective:
        return Solution(theta, objective, gap, True, 0, history, rho)
    rho = loss.mean_curvature if rho is None else rho
    price = (loss.h - product) / (loss.n_rows * rho)  # of theta's not being where the loss wants it, over rho
    while gap > tol * objective and n_iter < max_iter:
        n_iter += 1
        wanted = loss.nearest(theta - price, rho)
        relaxed = _RELAX * wanted + (1.0 - _RELAX) * theta
        before, theta = theta, relaxed + price
        theta, nuclear, rank = shrink(theta, lam / rho, likely=rank)
        price = price + relaxed - theta
        if n_iter % _CHECK_EVERY == 0 or n_iter == max_iter:
            objective, gap = duality_gap(loss, lam, theta, loss.apply(theta), nuclear)
            history.append(objective)
        if n_iter % _BALANCE_EVERY == 0:
            least = min(1.0, _LEAST * loss.harmonic_curvature / rho)
            change = max(_balance(wanted, theta, before, price), least)
            rho, price = rho * change, price / change
    return Solution(theta, objective, gap, bool(gap <= tol * objective), n_iter, history, rho)


def _balance(wanted: Float, theta: Float, before: Float, price: Float) -> float:
    """By which factor `rho` should change: loss and penalty should agree as fast as theta settles."""
    apart = float(np.linalg.norm(wanted - theta)) / max(float(np.linalg.norm(theta)), _TINY)
    moved = float(np.linalg.norm(theta - before)) / max(float(np.linalg.norm(price)), _TINY)
    ratio = max(apart, _TINY) / max(moved, _TINY)
    near = 1.0 / _BALANCED <= ratio <= _BALANCED
    return 1.0 if near else float(np.clip(np.sqrt(ratio), 1.0 / _MOST, _MOST))


def _nuclear(theta: Float) -> float:
    return float(np.linalg.svd(theta, compute_uv=False).sum()) if theta.any() else 0.0
