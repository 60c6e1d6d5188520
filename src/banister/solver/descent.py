"""The default solver: whitened variable projection by Levenberg-Marquardt with matrix-free PCG.

It minimises `f(B) = Σ_t ω_t min_w ‖y_t − X_t B w‖²` over orthonormal `B`. The paper's gradient step needs
Gaussian contexts to have a sensible length; data that a policy collected are not Gaussian, so here the
design is whitened by its pooled second moment and the step comes from the Gauss-Newton model of `f`. Once
steps lower `f` by little, the exact Hessian replaces that model: where residuals are large (much noise, a
rank that is too high) Gauss-Newton alone converges slowly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from banister.data import Float
from banister.solver.passes import Passes
from banister.solver.whitening import Whitening

_INNER = 50  # PCG steps at most within one outer step
_NEWTON = 0.01  # after a step that lowers f by a smaller share, the exact Hessian takes over
_NEGLIGIBLE = 0.01  # of the tolerance: an inner step that gains less is not worth its pass
_STALLED = 1e12  # damping beyond which no step can make progress


@dataclass
class Solution:
    """Where a solve ended: value, status and statistics.

    Attributes:
        B: orthonormal in the data's coordinates, (d, r).
        W: (r, T) least-squares coefficients in that basis.
        objective: Σ ω_t ‖y_t − X_t B w_t‖².
        converged: the stopping rule was met.
        passes: passes over the data.
        iterations: outer steps.
        history: objective after each outer step, the start first.
    """

    B: Float
    W: Float
    objective: float
    converged: bool
    passes: int
    iterations: int
    history: list[float] = field(default_factory=list)


def minimise(
    passes: Passes,
    whitening: Whitening,
    B: Float,
    *,
    tol: float = 1e-8,
    max_passes: int = 400,
    good_enough: float = -np.inf,
) -> Solution:
    """Levenberg-Marquardt from `B` (orthonormal, whitened coordinates).

    Stops when an accepted step's actual and predicted decrease are both below `tol` of the objective, when
    the objective is zero to rounding, or once it falls below `good_enough`.
    """
    start, state = passes.count, _Place(passes, whitening, B)
    zero = rounding_level(passes)
    mu, growth, first_norm = 1e-2, 2.0, max(float(np.linalg.norm(state.g)), np.finfo(float).tiny)
    history, converged = [state.f], state.f <= zero
    while not converged and passes.count - start < max_passes and state.f > good_enough and mu < _STALLED:
        inner_tol = max(1e-8, min(0.1, np.sqrt(np.linalg.norm(state.g) / first_norm)))
        D, predicted = _step(state, mu, inner_tol, _NEGLIGIBLE * tol * state.f)
        trial = _Place(passes, whitening, _retract(state.B, D))
        actual = (state.f - trial.f) / 2
        small = predicted <= tol * state.f / 2
        if actual > 1e-4 * predicted:
            converged = small and actual <= tol * state.f / 2
            gain = min(actual / max(predicted, np.finfo(float).tiny), 10.0)
            mu *= max(1 / 3, 1 - (2 * gain - 1) ** 3)
            growth, state = 2.0, trial
            state.exact = passes.ridge == 0 and actual <= _NEWTON * history[-1]
            history.append(state.f)
            converged = converged or state.f <= zero
        else:
            # No decrease where the model promises next to none: the rest is rounding.
            converged = small and abs(actual) <= tol * state.f
            mu, growth = mu * growth, growth * 2
    return _finish(state, converged, passes.count - start, history)


class _Place:
    """A value of `B` with its objective, projected gradient and the size of its coefficients."""

    def __init__(self, passes: Passes, whitening: Whitening, B: Float) -> None:
        self.passes, self.whitening, self.B, self.exact = passes, whitening, B, False
        self.raw = whitening.A @ B
        self.f, slope = passes.gradient(self.raw)
        self.g = self.project(whitening.A.T @ slope)
        S = passes.spread
        self.S = S + 1e-12 * max(np.trace(S), np.finfo(float).tiny) * np.eye(len(S))

    def project(self, D: Float) -> Float:
        """Remove the part of D within the span of B, which does not change the model."""
        out: Float = D - self.B @ (self.B.T @ D)
        return out

    def hessian(self, D: Float) -> Float:
        """The Hessian of f/2 here, applied to D."""
        product = self.passes.hessian(self.whitening.A @ D, exact=self.exact, at=self.raw)
        return self.project(self.whitening.A.T @ product)


def _step(point: _Place, mu: float, tol: float, negligible: float) -> tuple[Float, float]:
    """The damped Gauss-Newton step and the decrease of f/2 that the undamped model predicts for it."""
    inverse = np.linalg.inv(point.S) / (1 + mu)

    def damped(D: Float) -> Float:
        product: Float = point.hessian(D) + mu * D @ point.S
        return product

    def precondition(R: Float) -> Float:
        return point.project(R @ inverse)

    D, residual = _pcg(damped, -point.g, precondition, tol, negligible)
    if point.exact and not D.any():  # no convexity here: Gauss-Newton's model always has it
        point.exact = False
        D, residual = _pcg(damped, -point.g, precondition, tol, negligible)
    hessian_D = -point.g - residual - mu * D @ point.S
    return D, float(-np.vdot(point.g, D) - 0.5 * np.vdot(D, hessian_D))


def _pcg(
    apply: Callable[[Float], Float],
    b: Float,
    precondition: Callable[[Float], Float],
    tol: float,
    negligible: float,
) -> tuple[Float, Float]:
    """Preconditioned conjugate gradients for matrices; the solution and its residual.

    Ends at the tolerance, or once a step lowers the quadratic by less than `negligible`.
    """
    x, residual = np.zeros_like(b), b.copy()
    z = precondition(residual)
    direction, rz = z, float(np.vdot(residual, z))
    target = tol**2 * rz
    for _ in range(_INNER):
        if rz <= target or rz <= 0.0:
            break
        product = apply(direction)
        curvature = float(np.vdot(direction, product))
        if curvature <= 0.0:
            break
        step = rz / curvature
        x += step * direction
        residual -= step * product
        if step * rz <= 2 * negligible:
            break
        z = precondition(residual)
        rz, old = float(np.vdot(residual, z)), rz
        direction = z + (rz / old) * direction
    return x, residual


def _retract(B: Float, D: Float) -> Float:
    """The orthonormal factor of B + D nearest to it (polar decomposition)."""
    moved = B + D
    values, vectors = np.linalg.eigh(moved.T @ moved)  # at least 1, since D is orthogonal to B
    nearest: Float = moved @ (vectors / np.sqrt(values)) @ vectors.T
    return nearest


def rounding_level(passes: Passes) -> float:
    """An objective this small is zero in the data's precision."""
    return float((100 * np.finfo(passes.pool.dtype).eps) ** 2 * passes.energy)


def _finish(place: _Place, converged: bool, passes: int, history: list[float]) -> Solution:
    """Back to the data's coordinates: Θ = A B W = Q (R W) with QR = A B."""
    Q, R = np.linalg.qr(place.raw)
    W = place.passes.coefficients(place.raw)
    return Solution(Q, R @ W.T, place.f, converged, passes, len(history) - 1, history)
