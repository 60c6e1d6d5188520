"""Rows of many tasks in one or two bytes a number, and how much wider that makes a bound.

A task's covariance is `V = (Σ⁻¹ + R'R)⁻¹` with `Σ = D + LL'` and rows R in units of their noise, and what is
shared enters through `away = V Σ⁻¹`. Only `R'R` matters, so R is first turned until `R D R'` is diagonal,
which spares decisions a factorisation. Stored are rows Ř near R: whole numbers times a step for each row, and
a correction by which `Ř L` is as good as exact. What that costs is known, since the fit has both.

*Rounding.* With `ε = ‖(R − Ř) Σ^½‖` a vector u with `u'(Σ⁻¹ + Ř'Ř)u = 1` has `|Řu| = sin φ`,
`|(R − Ř)u| ≤ ε cos φ`, so for the posterior V̌ of rows Ř

    |u'(R'R − Ř'Ř)u| ≤ ε sin 2φ + ε²cos²φ,    (1 − κ) V̌ ≤ V ≤ (1 + κ) V̌,    κ = ε/(1 − ε)

and `δ = (away − away̌)'x` has `δ'Σδ ≤ κ² x'V̌x`.

*Off the diagonal.* `I + ŘDŘ' = Λ⁻¹ + N`, N without a diagonal; decisions reckon as if N were 0, with the
variance Ṽ of the estimate that follows (`_row_kernels`). With `B = I + ŘΣŘ'` the weights of the rewards
differ from the best ones, b, by `(B − N)⁻¹N b`, and `|b|² ≤ x'V̌x`; so

    V̌ ≤ Ṽ ≤ (1 + τ²) V̌,    τ = ‖Λ^½N‖ √(1 + tied),    tied = ‖Λ^½NΛ^½‖

and `away` differs by δ with `δ'Σδ ≤ τ² x'V̌x` once more.

*Together.* What is open of the shared part, `O ≤ ω Σ`, and the left-over's standard errors, `left ≤ λ D`,
are squares of norms in away'x, and `(|a| + |δ|)² ≤ (1 + β) |a|² + (1 + 1/β) |δ|²` for any β. So all that a
decision asks for is never below its exact value once Ṽ is multiplied by

    more = 1 + β,    β = κ + τ² + (1 + 1/β) (κ + τ)² (ω + UP λ)

and its `away` by the root; and `(2 − more)` times what Ř says is never above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from banister.data import Float
from banister.safety import _row_kernels
from banister.safety._kernels import UP
from banister.safety.opened import Open
from banister.safety.posterior import Shared

MOST = 1.15  # `more` of any task, up to which fewer bytes will do
_USUALLY = 1.06  # `more` of most tasks of a block: standard errors within 3 %
_KINDS = (np.int8, np.int16)
_ROUNDING = 1e-9  # added to ε: what floating point makes of all this


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows of n tasks, each task's turned by `diagonal`.

    Attributes:
        codes: (n, r, p) whole numbers; or the rows themselves, exact.
        step: (n, r) what a code's unit is worth; fix: (n, r, k) what is added along `dual` (k, p).
    """

    codes: NDArray[Any]
    step: NDArray[np.float32]
    fix: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def exact(cls, R: Float, k: int) -> Stored:
        """The rows as they are."""
        n, r, _ = R.shape
        return cls(R, np.ones((n, r), np.float32), np.zeros((n, r, k), np.float32))

    @classmethod
    def rounded(cls, R: Float, kind: Any, L: Float) -> Stored:
        """To whole numbers of a kind, and what that took from their products with L."""
        top = np.iinfo(kind).max
        step = (np.abs(R).max(axis=2, initial=0.0) / top).astype(np.float32)
        unit = np.where(step > 0, step, 1.0).astype(float)[:, :, None]
        codes = np.clip(np.rint(R / unit), -top, top).astype(kind)
        return cls(codes, step, ((R - codes * unit) @ L).astype(np.float32))

    def one(self, task: int, dual: Float) -> Float:
        """(r, p) the rows that decisions reckon with, in an array of their own."""
        rows: Float = _row_kernels.decode(self.codes[task], self.step[task], self.fix[task], dual)
        return rows

    def rows(self, dual: Float) -> Float:
        """(n, r, p) those of all tasks."""
        return np.stack([self.one(task, dual) for task in range(len(self))])


class Kept(NamedTuple):
    """Rows of n tasks as decisions see them, with `more` and `tied` (n,) of the module."""

    rows: Stored
    more: Float
    tied: Float


@dataclass(frozen=True, eq=False)
class Storing:
    """Stores rows in as few bytes as keep `more` small.

    Attributes:
        wide: what tasks share; left: (p,) standard errors of the left-over.
        dual: (k, p) N with `N L = I`, the correction along which adds least to ε.
        omega: the least ω with `S⁻¹ ≤ ω (I ⊗ Σ)`, Σ being that of a task whose left-over is the common one.
    """

    wide: Shared
    left: Float
    dual: Float
    omega: float

    @classmethod
    def of(cls, wide: Shared, opened: Open, left: Float) -> Storing:
        """For what tasks share and what is open of it."""
        root = np.sqrt(wide.D)
        dual: Float = np.linalg.pinv(wide.L / root[:, None]) / root
        return cls(wide, left, dual, _omega(wide, opened))

    def store(self, R: Float, D: Float, c: Float) -> Kept:
        """Rows (n, r, p) of tasks with left-overs D (n, p) and coefficients c (n, q)."""
        R = diagonal(R, D)
        for kind in _KINDS:
            kept = self._kept(R, Stored.rounded(R, kind, self.wide.L), D, c)
            if (kept.more <= MOST).all() and np.median(kept.more) <= _USUALLY:
                return kept
        return exactly(R, self.wide.rank)

    def _kept(self, R: Float, stored: Stored, D: Float, c: Float) -> Kept:
        """With the module's formulas; `more` is infinite where the rows are too coarse."""
        rows = stored.rows(self.dual)
        E = R - rows
        epsilon = _norms(np.concatenate([E * np.sqrt(D)[:, None, :], E @ self.wide.L], axis=2)) + _ROUNDING
        tau, tied = _off_diagonal(rows, D)
        with np.errstate(divide="ignore", invalid="ignore"):
            kappa = np.where(epsilon < 1, epsilon / (1 - epsilon), np.inf)
            smaller = np.minimum(1.0, (D / self.wide.D).min(axis=1))
            omega = (c**2).sum(axis=1) * self.omega / smaller + UP * (self.left / D).max(axis=1)
            moved = (kappa + tau) ** 2 * omega
            half = (kappa + tau**2 + moved) / 2
            more = 1 + half + np.sqrt(half**2 + moved)
        return Kept(stored, np.where(np.isfinite(more) & (tied < 1), more, np.inf), tied)


def diagonal(R: Float, D: Float) -> Float:
    """Rows (n, min(r, p), p) with the same `R'R` as R (n, r, p), and `R D R'` diagonal; D is (n, p)."""
    root = np.sqrt(D)[:, None, :]
    _, size, turned = np.linalg.svd(R * root, full_matrices=False)
    rows: Float = size[:, :, None] * turned / root
    return rows


def exactly(R: Float, k: int) -> Kept:
    """Rows that `diagonal` has turned, as they are."""
    return Kept(Stored.exact(R, k), np.ones(len(R)), np.full(len(R), _ROUNDING))


def _off_diagonal(R: Float, D: Float) -> tuple[Float, Float]:
    """τ and `tied` (n,) of rows (n, r, p), bounds on both."""
    N = (R * D[:, None, :]) @ np.swapaxes(R, 1, 2)
    diagonal = np.einsum("nii->ni", N)
    share = 1 / np.sqrt(1 + diagonal)
    diagonal[...] = 0.0
    half = share[:, :, None] * N
    tied = _norms(half * share[:, None, :]) + _ROUNDING
    tau: Float = _norms(half) * np.sqrt(1 + tied)
    return tau, tied


def _omega(wide: Shared, opened: Open) -> float:
    q, _, p, _ = opened.blocks.shape
    C = np.linalg.cholesky(np.diag(wide.D) + wide.L @ wide.L.T)
    half = solve_triangular(C, opened.blocks.transpose(2, 0, 1, 3).reshape(p, -1), lower=True)
    half = half.reshape(p, q, q, p).transpose(3, 0, 1, 2).reshape(p, -1)
    scaled = solve_triangular(C, half, lower=True).reshape(p, p, q, q)
    whole = scaled.transpose(3, 0, 2, 1).reshape(q * p, q * p)
    return float(np.linalg.eigvalsh((whole + whole.T) / 2)[-1])


def _norms(F: Float) -> Float:
    """A bound (n,) on the spectral norm of each of F (n, r, m), at most r^(1/16) too large: `‖(FF')⁴‖^⅛`."""
    A = F @ np.swapaxes(F, 1, 2)
    size = np.trace(A, axis1=1, axis2=2)
    A = A / np.where(size > 0, size, 1.0)[:, None, None]
    for _ in range(2):
        A = A @ A
    fourth: Float = np.sqrt((A * A).sum(axis=(1, 2)))
    norms: Float = np.sqrt(size * fourth**0.25)
    return norms
