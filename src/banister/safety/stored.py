"""Rows of many tasks in one or two bytes a number, and how much wider that makes a bound.

A task's covariance is `V = (Σ⁻¹ + R'R)⁻¹` with `Σ = D + LL'` and rows R in units of their noise, and what is
shared enters through `away = V Σ⁻¹`. Stored are rows Ř near R: whole numbers times a step for each row, and a
correction by which `Ř L` is as good as exact. What that costs is known, since the fit has both: with
`ε = ‖(R − Ř) Σ^½‖` a vector u with `u'(Σ⁻¹ + Ř'Ř)u = 1` has `|Řu| = sin φ`, `|(R − Ř)u| ≤ ε cos φ`, so

    |u'(R'R − Ř'Ř)u| ≤ ε sin 2φ + ε²cos²φ,    (1 − κ) V̌ ≤ V ≤ (1 + κ) V̌,    κ = ε/(1 − ε)

and `δ = (away − away̌)'x` has `δ'Σδ ≤ κ² x'V̌x`. What is open of the shared part, `O ≤ ω Σ`, and the
left-over's standard errors, `left ≤ λ D`, then add at most `κ (ω + UP λ) x'V̌x` to what Ř makes of them. All
that a decision asks for is therefore never below its exact value once V̌ is multiplied by

    more = (1 + κ) (1 + κ (ω + UP λ))

and `away̌` by its root; and `(2 − more)` times what Ř says is never above it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from banister.data import Float
from banister.safety import _matrix_kernels
from banister.safety._kernels import UP
from banister.safety.opened import Open
from banister.safety.posterior import Shared

MOST = 1.15  # `more` of any task, up to which fewer bytes will do
_USUALLY = 1.06  # `more` of most tasks of a block: standard errors within 3 %
_KINDS = (np.int8, np.int16)
_ROUNDING = 1e-9  # added to ε: what floating point makes of all this


@dataclass(frozen=True, eq=False)
class Stored:
    """Rows of n tasks.

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
        rows: Float = _matrix_kernels.decode(self.codes[task], self.step[task], self.fix[task], dual)
        return rows

    def rows(self, dual: Float) -> Float:
        """(n, r, p) those of all tasks."""
        return np.stack([self.one(task, dual) for task in range(len(self))])


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

    def store(self, R: Float, D: Float, c: Float) -> tuple[Stored, Float]:
        """Rows (n, r, p) of tasks with left-overs D (n, p) and coefficients c (n, q), and `more` (n,)."""
        for kind in _KINDS:
            stored = Stored.rounded(R, kind, self.wide.L)
            more = self._more(R - stored.rows(self.dual), D, c)
            if (more <= MOST).all() and np.median(more) <= _USUALLY:
                return stored, more
        return Stored.exact(R, self.wide.rank), np.ones(len(R))

    def _more(self, E: Float, D: Float, c: Float) -> Float:
        """The module's formula for errors E (n, r, p); infinite where the rows are too coarse."""
        epsilon = _norms(np.concatenate([E * np.sqrt(D)[:, None, :], E @ self.wide.L], axis=2)) + _ROUNDING
        with np.errstate(divide="ignore", invalid="ignore"):
            kappa = np.where(epsilon < 1, epsilon / (1 - epsilon), np.inf)
            smaller = np.minimum(1.0, (D / self.wide.D).min(axis=1))
            omega = (c**2).sum(axis=1) * self.omega / smaller
            more: Float = (1 + kappa) * (1 + kappa * (omega + UP * (self.left / D).max(axis=1)))
        return more


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
