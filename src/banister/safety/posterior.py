"""What the rows of a task say of it, given what tasks share: `θ_t = μ + L w_t + u_t`.

`w_t ~ N(0, I_k)` are coefficients of shared directions L (p, k), `u_t ~ N(0, diag D)` is what is left over,
the task's own. With a task's rows in units of their noise, `y = R θ + ε`, all follows from r × r matrices:

    C = (I + R D R')⁻¹            covariance of y once u is integrated out, inverted
    M = (I + L'R'C R L)⁻¹         posterior covariance of w;  its mean w = M L'R'C (y − R μ)
    C_K = C − C R L M L'R'C       the same once w is integrated out too: (I + R Σ R')⁻¹, Σ = D + LL'
    e = y − R (μ + L w)           what shared coefficients leave;   θ̂ = μ + L w + D R'C e,   y − R θ̂ = C e
    V = Σ − Σ R'C_K R Σ           posterior covariance of θ

Arrays have one entry a task in front. Rows of zeros say nothing and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from banister.data import Float
from banister.safety.factors import Information

_FREE = 1e-9  # of a task's own information: keeps the inverse of coefficients left free defined
_NOTHING = 1e-9  # precision of coefficients of a task without rows
_ROUNDING = 1e-13  # of the prior variance: what is left of it beyond this many digits is not known


@dataclass(frozen=True, eq=False)
class Shared:
    """What tasks have in common: mean `mu` (p,), directions `L` (p, k), left-over variances `D`.

    `D` is (p,), or (T, p) where tasks have left-overs of their own size.
    """

    mu: Float
    L: Float
    D: Float

    @property
    def rank(self) -> int:
        """k."""
        return int(self.L.shape[1])


@dataclass(frozen=True, eq=False)
class Posterior:
    """A few tasks given what tasks share; the module's formulas, each computed when it is asked for."""

    info: Information
    shared: Shared

    def given(self, shared: Shared) -> Posterior:
        """The same rows and left-over with another mean and other directions; what they share is kept."""
        other = Posterior(self.info, shared)
        vars(other).update(
            {name: value for name, value in vars(self).items() if name in ("C", "CR", "H", "b")}
        )
        return other

    @property
    def R(self) -> Float:
        """(T, r, p)."""
        return self.info.R

    @cached_property
    def C(self) -> Float:
        """(T, r, r)."""
        RD = self.R * (self.shared.D if self.shared.D.ndim == 1 else self.shared.D[:, None, :])
        A = RD @ _turned(self.R)
        np.einsum("tii->ti", A)[...] += 1.0
        return np.linalg.inv(A)

    @cached_property
    def CR(self) -> Float:
        """`C R`, (T, r, p)."""
        return self.C @ self.R

    @cached_property
    def H(self) -> Float:
        """`R'C R` (T, p, p): the precision that rows give to `μ + L w`."""
        return _turned(self.R) @ self.CR

    @cached_property
    def b(self) -> Float:
        """`R'C y`, (T, p)."""
        return _sum("trp,tr->tp", self.CR, self.info.y)

    @cached_property
    def CRL(self) -> Float:
        """`C R L`, (T, r, k)."""
        return self.CR @ self.shared.L

    @cached_property
    def LHL(self) -> Float:
        """`L'R'C R L`, (T, k, k)."""
        return _turned(self.R @ self.shared.L) @ self.CRL

    @cached_property
    def M(self) -> Float:
        """(T, k, k)."""
        return np.linalg.inv(np.eye(self.shared.rank) + self.LHL)

    @cached_property
    def w(self) -> Float:
        """(T, k)."""
        right = _sum("trk,tr->tk", self.CRL, self.info.y - self.R @ self.shared.mu)
        return _sum("tab,tb->ta", self.M, right)

    @property
    def c(self) -> Float:
        """`(1, w_t)`, (T, k + 1)."""
        return np.concatenate([np.ones((len(self.w), 1)), self.w], axis=1)

    @cached_property
    def centre(self) -> Float:
        """`μ + L w_t`, (T, p)."""
        return self.shared.mu + self.w @ self.shared.L.T

    @cached_property
    def Ce(self) -> Float:
        """What is left of rows in units of their noise, (T, r)."""
        e = self.info.y - _sum("trp,tp->tr", self.R, self.centre)
        return _sum("trs,ts->tr", self.C, e)

    @cached_property
    def Q(self) -> Float:
        """`R'C e` (T, p): scores that no shared coefficient explains; their covariance is K."""
        return _sum("trp,tr->tp", self.R, self.Ce)

    @property
    def mean(self) -> Float:
        """θ̂, (T, p)."""
        return self.centre + self.shared.D * self.Q

    @cached_property
    def CK(self) -> Float:
        """`C_K`, (T, r, r)."""
        if self.shared.rank == 0:
            return self.C
        return self.C - self.CRL @ self.M @ _turned(self.CRL)

    @cached_property
    def CKR(self) -> Float:
        """`C_K R`, (T, r, p)."""
        return self.CK @ self.R

    @cached_property
    def K(self) -> Float:
        """`R'C_K R`, (T, p, p)."""
        return _turned(self.R) @ self.CKR

    def free_precision(self) -> Float:
        """Precision of `μ + L w` when w is not known beforehand, (T, p, p).

        With the shrunk M in place of the inverse, coefficients that are noise would pass for information.
        """
        if self.shared.rank == 0:
            return self.H
        size = _sum("taa->t", self.LHL) / self.shared.rank
        free = np.linalg.inv(self.LHL + (_FREE * size + _NOTHING)[:, None, None] * np.eye(self.shared.rank))
        CF = self.C - self.CRL @ free @ _turned(self.CRL)
        return _turned(self.R) @ (CF @ self.R)

    def learned(self, opened: Float) -> Float:
        """`R O R'` (T, r, r) for what all rows leave open of the shared part, O (T, p, p)."""
        return (self.R @ opened) @ _turned(self.R)

    def scores_expected(self, learned: Float) -> Float:
        """Diagonal of `K − K O K`, (T, p): what squares of Q are expected to be."""
        kept = _sum("trp,trp->tp", self.R, self.CKR)
        return np.maximum(kept - _sum("trp,trp->tp", self.CKR, learned @ self.CKR), 0.0)

    def play_squares(self, noise: Float) -> Float:
        """Σ of squared residuals of the rows of plays, (T,), for their variances (T,)."""
        left = self.Ce[:, : self.info.plays]
        return noise * _sum("tr,tr->t", left, left)

    def label_squares(self, variance: Float) -> Float:
        """The same of the rows of labels."""
        left = self.Ce[:, self.info.plays :]
        return variance * _sum("tr,tr->t", left, left)

    def spent(self, learned: Float) -> tuple[Float, Float]:
        """Rows of plays and of labels that went into the fit, (T,) each.

        They are the task's own, and its share in what all learned.
        """
        own = 1.0 - _sum("tii->ti", self.CK)
        plays, total = own[:, : self.info.plays].sum(axis=1), own.sum(axis=1)
        shared = _sum("tij,tjk,tki->t", self.CK, self.CK, learned)
        more: Float = 1.0 + shared / np.maximum(total, 1e-300)
        return plays * more, (total - plays) * more

    def covariance(self, opened: Float) -> tuple[Float, Float]:
        """V with what is open of the shared part, and `away = I − Σ K`, (T, p, p) each.

        `away` is how an error of the shared part enters θ̂.
        """
        D = np.broadcast_to(self.shared.D, self.centre.shape)
        RS = self.R * D[:, None, :] + (self.R @ self.shared.L) @ self.shared.L.T
        gain = _turned(RS) @ self.CK
        away = -(gain @ self.R)
        np.einsum("tii->ti", away)[...] += 1.0
        # Joseph's form of Σ − Σ R'C_K R Σ: sums of squares, exact to rounding where noise is tiny.
        near = away @ self.shared.L
        V = (away * D[:, None, :]) @ _turned(away) + near @ _turned(near) + gain @ _turned(gain)
        prior = D + (self.shared.L**2).sum(axis=1)
        np.einsum("tii->ti", V)[...] += _ROUNDING**2 * prior
        return symmetric(V + away @ opened @ _turned(away)), away


def symmetric(A: Float) -> Float:
    """The symmetric part, which rounding has not touched."""
    return (A + np.swapaxes(A, -1, -2)) / 2


def _turned(A: Float) -> Float:
    return np.swapaxes(A, 1, 2)


def _sum(rule: str, *arrays: Float) -> Float:
    result: Float = np.einsum(rule, *arrays, optimize=len(arrays) > 2)
    return result


def chunks(n: int, entries: int) -> list[slice]:
    """Slices of n tasks whose matrices of `entries` numbers stay in the processor's cache."""
    size = max(1, 2**16 // max(entries, 1))
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
