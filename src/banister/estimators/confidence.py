"""How sure a low-rank fit is of `x'θ_t`: the delta-method covariance.

In whitened coordinates, with `G_t = X_t'X_t`, `M_t = (B'G_tB)⁻¹`, `H_t = G_t − G_tBM_tB'G_t` and noise
variances `s_t²`:

    S = Σ_t (w_t w_t') ⊗ H_t / s_t²            on directions orthogonal to B (the gauge B → BR is pinned),
    a = x − G_tBM_tB'x,
    Var(x'θ̂_t) = s_t² x'BM_tB'x + (w_t ⊗ a)' S⁻¹ (w_t ⊗ a):

what the task's own rows leave open within the span, and what all rows together leave open of the span. No
`T` dense d×d matrices are kept: `S⁻¹` (rd×rd) serves every task with its small factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from banister.data import Float, Int, TaskData
from banister.solver import Pool, as_pool, regular

_ROUNDED = 1e-13


@dataclass(frozen=True, eq=False)
class LowRankCovariance:
    """Covariance of every `θ̂_t`, kept as a shared `S⁻¹` and per-task factors, in the data's coordinates.

    Attributes:
        N: A B, the basis in which the coefficients stand, (d, r).
        W: (T, r).
        own: (T, r, r) covariance of `ŵ_t` given B: s_t² M_t, or the posterior's under shrinkage.
        pull: (T, d, r) X_t'X_t N M_t: how an error of B moves `ŵ_t`.
        shared: (r, r, d, d) the blocks of A S⁻¹ A'.
    """

    N: Float
    W: Float
    own: Float
    pull: Float
    shared: Float

    @classmethod
    def of(
        cls,
        data: TaskData | Pool,
        A: Float,
        B: Float,
        W: Float,
        noise: Float,
        *,
        posterior: tuple[Float, Float] | None = None,
    ) -> LowRankCovariance:
        """From a fit: `A`, `B`, `W` (T, r) in whitened coordinates, noise variances (T,).

        `posterior` are the means and covariances of the coefficients under shrinkage; without it the
        coefficients are least squares.
        """
        S, gram, cross = as_pool(data).information(A, B, W, 1.0 / noise)
        means, own = posterior or (W, least_squares_covariance(gram, noise))
        lift = A - (A @ B) @ B.T  # only directions orthogonal to B move the model
        shared = lift @ _pinned_inverse(S, B) @ lift.T
        pull = np.linalg.inv(A).T @ (cross @ (own / noise[:, None, None]))
        return cls(A @ B, means, own, pull, shared)

    def extended(self, data: TaskData, W: Float, own: Float, noise: float) -> LowRankCovariance:
        """With the tasks of `data` too: their W (T', r), its covariances (T', r, r), the noise variance."""
        cross = np.stack([X.T @ (X @ self.N) for X, _ in data])
        return LowRankCovariance(
            self.N,
            np.vstack([self.W, W]),
            np.concatenate([self.own, own]),
            np.concatenate([self.pull, cross @ (own / noise)]),
            self.shared,
        )

    def variance(self, X: Float, codes: Int) -> Float:
        """Var(x'θ̂_t) of rows X (m, d) for task indices (m,), shape (m,)."""
        return by_task(self._task_variance, X, codes)

    def _task_variance(self, X: Float, t: int) -> Float:
        beta, spread = X @ self.N, self._spread(t)
        a = X - beta @ self.pull[t].T
        inner = np.einsum("mi,ij,mj->m", beta, self.own[t], beta)
        outer = np.einsum("mi,mi->m", a @ spread, a)
        # Where directions are wholly open, rounding of their variance is all that can be said of the others.
        rounding = _ROUNDED * np.einsum("mi,mi->m", a, a) * np.abs(spread).max()
        total: Float = np.maximum(inner, 0.0) + np.maximum(outer, rounding)
        return total

    def _spread(self, t: int) -> Float:
        """Σ_ab w_a w_b S⁻¹_ab, (d, d)."""
        spread: Float = self._spreads(np.array([t]))[0]
        return spread

    def _spreads(self, tasks: Int) -> Float:
        d, r = self.N.shape
        pairs = (self.W[tasks, :, None] * self.W[tasks, None, :]).reshape(len(tasks), r * r)
        return (pairs @ self.shared.reshape(r * r, d * d)).reshape(len(tasks), d, d)

    def of_task(self, t: int) -> Float:
        """The covariance of `θ̂_t`, (d, d)."""
        covariance: Float = self.of_tasks(np.array([t]))[0]
        return covariance

    def of_tasks(self, tasks: Int) -> Float:
        """The covariances of several `θ̂_t`, (n, d, d): L spread L' + N own N' with L = I − N pull'."""
        total, pull = self._spreads(tasks), self.pull[tasks]
        reach = total @ pull
        middle = np.swapaxes(pull, 1, 2) @ reach + self.own[tasks]
        # −N reach' − reach N' + N middle N' = −U N' − N U' with U = reach − N middle / 2
        half = (reach - self.N @ (middle / 2)) @ self.N.T
        total -= half
        total -= np.swapaxes(half, 1, 2)
        return total


def by_task(form: Callable[[Float, int], Float], X: Float, codes: Int) -> Float:
    """form(rows of a task, task) for every task among the rows X (m, d), put back in their order, (m,)."""
    out = np.empty(len(X))
    order = np.argsort(codes, kind="stable")
    bounds = np.flatnonzero(np.diff(codes[order], prepend=-1, append=-1))
    for lo, hi in pairwise(bounds):
        rows = order[lo:hi]
        out[rows] = form(X[rows], int(codes[rows[0]]))
    return out


def least_squares_covariance(gram: Float, noise: Float) -> Float:
    """s_t² (B'G_tB)⁻¹ of every task, (T, r, r)."""
    own: Float = noise[:, None, None] * np.linalg.inv(regular(gram))
    return own


def _pinned_inverse(S: Float, B: Float) -> Float:
    """S⁻¹ in blocks (r, r, d, d): the gauge (the span of B) pinned, unseen directions left very open."""
    r, d = S.shape[1:3]
    flat = S.transpose(0, 2, 1, 3).reshape(r * d, r * d)
    level = float(np.trace(flat)) / (r * d)
    level = level if level > 0 else 1.0
    gauge = level * np.kron(np.eye(r), B @ B.T)
    # S is the information on a change of B, which is orthonormal: 1 says that a direction is wholly unknown.
    # More openness than that means nothing, and would drown exact knowledge of others in rounding.
    least = min(1e-6 * level, 1.0)
    return _open_inverse(flat + gauge, least).reshape(r, d, r, d).transpose(0, 2, 1, 3)


def _open_inverse(matrix: Float, least: float) -> Float:
    """The inverse of a positive semi-definite matrix whose eigenvalues count as `least` or more."""
    eye = np.eye(len(matrix))
    try:
        factor = cho_factor(matrix + least * eye, lower=True, check_finite=False)
        inverse: Float = cho_solve(factor, eye, check_finite=False)
    except LinAlgError:
        # Rounding can leave eigenvalues below zero where rows repeat, as with fixed action sets.
        values, vectors = eigh(matrix)
        inverse = (vectors / np.maximum(values, least)) @ vectors.T
    return inverse
