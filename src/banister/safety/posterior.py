"""What the rows of a task say of it, given what tasks share: `θ_t = μ + L w_t + u_t`.

`w_t ~ N(0, I_k)` are coefficients of shared directions L (p, k), `u_t ~ N(0, diag D)` is what is left over,
the task's own. With a task's rows in units of their noise, `y = R θ + ε`, all follows from r × r matrices:

    G = (I + R D R')^{-1/2}       the inverse of a Cholesky factor: G'G is the inverse covariance of y given w
    W = G R,  v = G y             rows whose noise is white once u is integrated out;  H = W'W
    M = (I + L'H L)⁻¹             posterior covariance of w;  its mean w = M L'W'(v − W μ)
    P = I − W L M L'W'            the same once w is integrated out too: G'P G = (I + R Σ R')⁻¹, Σ = D + LL'
    e = v − W (μ + L w)           what shared coefficients leave;   θ̂ = μ + L w + D W'e,   y − R θ̂ = G'e
    K = W'P W = H − H L M L'H     covariance of the scores W'e
    V = (D − D H D) + J M J',     J = L − D H L: posterior covariance of θ

Arrays have one entry a task in front. Rows of zeros say nothing and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from banister.contract import Bool
from banister.data import Float
from banister.safety._posterior_kernels import (
    add_squares,
    coefficients,
    expected_scores,
    inverse_roots,
    less,
    open_rows,
    packed_less,
    packed_squares,
    squared,
    weighted_squares,
    whiten,
)
from banister.safety.factors import Information

_FREE = 1e-9  # of a task's own information: keeps the inverse of coefficients left free defined
_NOTHING = 1e-9  # precision of coefficients of a task without rows
ROUNDING = 1e-13  # of the prior variance: what is left of it beyond this many digits is not known


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
            {name: value for name, value in vars(self).items() if name in ("_white", "v", "packed", "b")}
        )
        return other

    @property
    def D(self) -> Float:
        """(T, p) or (1, p)."""
        return np.atleast_2d(self.shared.D)

    @cached_property
    def _white(self) -> tuple[Float, Float]:
        T, r, p = self.info.R.shape
        G, W = np.empty((T, r, r)), np.empty((T, r, p))
        whiten(self.info.R, self.D, G, W)
        return G, W

    @property
    def G(self) -> Float:
        """(T, r, r), lower triangles."""
        return self._white[0]

    @property
    def W(self) -> Float:
        """`G R`, (T, r, p)."""
        return self._white[1]

    @cached_property
    def v(self) -> Float:
        """`G y`, (T, r)."""
        return _times(self.G, self.info.y)

    @cached_property
    def H(self) -> Float:
        """`W'W` (T, p, p): the precision that rows give to `μ + L w`."""
        T, _, p = self.W.shape
        H = np.empty((T, p, p))
        squared(self.W, H)
        return H

    @cached_property
    def packed(self) -> Float:
        """Upper triangles of H, row after row, (T, p (p+1)/2)."""
        T, _, p = self.W.shape
        out = np.empty((T, p * (p + 1) // 2))
        packed_squares(self.W, out)
        return out

    @cached_property
    def b(self) -> Float:
        """`W'v`, (T, p)."""
        return _times(_turned(self.W), self.v)

    @cached_property
    def WL(self) -> Float:
        """`W L`, (T, r, k)."""
        return _each_row(self.W, self.shared.L)

    @cached_property
    def LHL(self) -> Float:
        """`L'H L`, (T, k, k)."""
        return _turned(self.WL) @ self.WL

    @cached_property
    def HL(self) -> Float:
        """`H L`, (T, p, k)."""
        return _turned(self.W) @ self.WL

    @cached_property
    def _coefficients(self) -> tuple[Float, Float]:
        T, k = len(self.W), self.shared.rank
        M, w = np.empty((T, k, k)), np.empty((T, k))
        coefficients(self.WL, self.v - _each_row(self.W, self.shared.mu), M, w)
        return M, w

    @property
    def M(self) -> Float:
        """(T, k, k)."""
        return self._coefficients[0]

    @property
    def w(self) -> Float:
        """(T, k)."""
        return self._coefficients[1]

    @cached_property
    def c(self) -> Float:
        """`(1, w_t)`, (T, k + 1)."""
        return np.concatenate([np.ones((len(self.w), 1)), self.w], axis=1)

    @cached_property
    def centre(self) -> Float:
        """`μ + L w_t`, (T, p)."""
        return self.shared.mu + self.w @ self.shared.L.T

    @cached_property
    def e(self) -> Float:
        """(T, r)."""
        return self.v - _times(self.W, self.centre)

    @cached_property
    def left(self) -> Float:
        """`G'e`: what is left of rows, in units of their noise, (T, r)."""
        return _times(_turned(self.G), self.e)

    @cached_property
    def Q(self) -> Float:
        """`W'e` (T, p): scores that no shared coefficient explains; their covariance is K."""
        return _times(_turned(self.W), self.e)

    @property
    def mean(self) -> Float:
        """θ̂, (T, p)."""
        return self.centre + self.shared.D * self.Q

    @cached_property
    def PW(self) -> Float:
        """`P W`, (T, r, p)."""
        return self._without_shared(self.W, self.WL, self.HL)

    @cached_property
    def PG(self) -> Float:
        """`P G`, (T, r, r)."""
        return self._without_shared(self.G, self.WL, _turned(self.G) @ self.WL)

    @property
    def K(self) -> Float:
        """(T, p, p)."""
        return self._without_shared(self.H, self.HL, self.HL)

    def _without_shared(self, A: Float, left: Float, right: Float) -> Float:
        """`A − left M right'`: what is left of A once shared coefficients are integrated out."""
        return A if self.shared.rank == 0 else less(A, left, self.M @ _turned(right))

    def information(self, tasks: Bool, out: Float) -> None:
        """Add `Σ K∘K` over some tasks to the upper triangle of `out` (p, p)."""
        add_squares(self.packed, self.HL, self.M @ _turned(self.HL), tasks, out)

    def squares(self, weights: Float) -> Float:
        """`Σ_ij K_ij² d_i d_j` of each task, (T,), for weights d (T, p)."""
        out = np.empty(len(self.H))
        weighted_squares(self.H, self.HL, self.M @ _turned(self.HL), weights, out)
        return out

    @cached_property
    def free(self) -> Float:
        """Roots `X` (T, p, k): the precision of `μ + L w` when w is not known beforehand is `H − X X'`.

        With the shrunk M in place of the inverse, coefficients that are noise would pass for information.
        """
        k = self.shared.rank
        size = np.trace(self.LHL, axis1=1, axis2=2) / max(k, 1)
        root = np.linalg.cholesky(self.LHL + (_FREE * size + _NOTHING)[:, None, None] * np.eye(k))
        return self.HL @ _turned(np.linalg.inv(root))

    @property
    def packed_free(self) -> Float:
        """Upper triangles of that precision, row after row, (T, p (p+1)/2)."""
        if self.shared.rank == 0:
            return self.packed
        out = np.empty_like(self.packed)
        packed_less(self.packed, self.free, out)
        return out

    def learned(self, opened: Float) -> Float:
        """`W O W'` (T, r, r) for what all rows leave open of the shared part, O (T, p, p)."""
        return (self.W @ opened) @ _turned(self.W)

    def learned_by(self, pairs: Float, sums: Float) -> Float:
        """The same for `O = Σ pairs_i sums_i`, with products of two coefficients (T, pairs); see `Open`."""
        T, r, _ = self.W.shape
        out = np.empty((T, r, r))
        open_rows(self.W, pairs, sums, out)
        return out

    def scores_expected(self, learned: Float) -> Float:
        """Diagonal of `K − K O K`, (T, p): what squares of Q are expected to be."""
        out = np.empty((len(self.W), self.W.shape[2]))
        expected_scores(self.W, self.PW, learned, out)
        return out

    def scores_covariance(self, learned: Float, tasks: Bool) -> Float:
        """`Σ K − K O K` over some tasks, (p, p)."""
        kept, p = self.W[tasks] - learned[tasks] @ self.PW[tasks], self.W.shape[2]
        return kept.reshape(-1, p).T @ self.PW[tasks].reshape(-1, p)

    def play_squares(self, noise: Float) -> Float:
        """Σ of squared residuals of the rows of plays, (T,), for their variances (T,)."""
        left, pairs = self.left, self.info.pairs
        plays = self.info.plays
        left = left[:, :plays] if pairs is None else np.sqrt(pairs.share) * left + pairs.play
        return noise * _sum("tr,tr->t", left, left)

    def label_squares(self, variance: Float) -> Float:
        """The same of the rows of labels."""
        left, pairs = self.left, self.info.pairs
        plays = self.info.plays
        left = left[:, plays:] if pairs is None else np.sqrt(1 - pairs.share) * left + pairs.label
        return variance * _sum("tr,tr->t", left, left)

    def spent(self, learned: Float) -> tuple[Float, Float]:
        """Rows of plays and of labels that went into the fit, (T,) each.

        They are the task's own, and its share in what all learned.
        """
        own = 1.0 - _sum("tri,tri->ti", self.G, self.PG)
        plays, total = own[:, : self.info.plays].sum(axis=1), own.sum(axis=1)
        if self.info.pairs is not None:
            plays = (self.info.pairs.share * own).sum(axis=1)
        shared = _sum("trs,trs->t", learned, self.PG @ _turned(self.PG))
        more: Float = 1.0 + shared / np.maximum(total, 1e-300)
        return plays * more, (total - plays) * more

    def covariance(self, opened: Float, into: tuple[Float, Float] | None = None) -> tuple[Float, Float]:
        """V with what is open of the shared part, and `away = I − Σ K`, (T, p, p) each.

        `away` is how an error of the shared part enters θ̂. `into` is where the two are to be written.
        """
        V, away = into or (np.empty_like(self.H), np.empty_like(self.H))
        D = np.broadcast_to(self.D, self.centre.shape)[:, :, None]
        own = -D * self.H
        np.einsum("tii->ti", own)[...] += 1.0
        J = self.shared.L - D * self.HL
        away[...] = self._without_shared(own, J, self.HL)
        # Sums of squares, exact to rounding where noise is tiny: V_u = (I − DH) D (I − DH)' + D W'G G'W D.
        parts = (
            own * np.sqrt(_turned(D)),
            D * (_turned(self.W) @ self.G),
            J @ _turned(inverse_roots(self.LHL)),
        )
        root = np.concatenate(parts, axis=2)
        np.matmul(root, _turned(root), out=V)
        prior = D[:, :, 0] + (self.shared.L**2).sum(axis=1)
        np.einsum("tii->ti", V)[...] += ROUNDING**2 * prior
        V[...] = symmetric(V + away @ opened @ _turned(away))
        return V, away


def symmetric(A: Float) -> Float:
    """The symmetric part, which rounding has not touched."""
    return (A + np.swapaxes(A, -1, -2)) / 2


def _turned(A: Float) -> Float:
    return np.swapaxes(A, 1, 2)


def _each_row(A: Float, B: Float) -> Float:
    """`A B` of each task, for B (p,) or (p, k), in one product."""
    product: Float = (A.reshape(-1, A.shape[2]) @ B).reshape(*A.shape[:2], *B.shape[1:])
    return product


def _times(A: Float, x: Float) -> Float:
    """`A x` of each task."""
    product: Float = (A @ x[:, :, None])[:, :, 0]
    return product


def _sum(rule: str, *arrays: Float) -> Float:
    result: Float = np.einsum(rule, *arrays)
    return result


def chunks(n: int, entries: int) -> list[slice]:
    """Slices of n tasks whose matrices of `entries` numbers stay in the processor's cache."""
    size = max(1, 2**18 // max(entries, 1))
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]
