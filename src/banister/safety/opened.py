"""What all rows leave open of the shared part: the covariance of (μ, L), and what it means for a task."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from banister.data import Float
from banister.safety.posterior import symmetric


class Open:
    """Covariance `S⁻¹` of (μ, L), in blocks (q, q, p, p), q = k + 1: what all rows leave open of them.

    Attributes:
        blocks: (q, q, p, p).
        sums: (pairs, p, p) what goes with each product `c_a c_b` of two coefficients, a ≤ b.
    """

    def __init__(self, blocks: Float) -> None:
        q = len(blocks)
        self.blocks, self._pairs = blocks, np.triu_indices(q)
        both = blocks + np.swapaxes(blocks, 0, 1)
        both[np.arange(q), np.arange(q)] /= 2
        self.sums: Float = both[self._pairs]

    @classmethod
    def of_precision(cls, S: Float, q: int) -> Open:
        """From S (q p, q p), which is overwritten."""
        p = len(S) // q
        return cls(_inverse(S).reshape(q, p, q, p).transpose(0, 2, 1, 3).copy())

    def of(self, c: Float) -> Float:
        """`(c ⊗ I)' S⁻¹ (c ⊗ I)` of each task, (T, p, p), for coefficients c (T, q)."""
        a, b = self._pairs
        p = self.blocks.shape[2]
        if len(a) == 1 and (c == 1.0).all():  # without directions it is the same of every task
            return np.broadcast_to(self.sums[0], (len(c), p, p))
        return ((c[:, a] * c[:, b]) @ self.sums.reshape(len(a), -1)).reshape(len(c), p, p)

    @cached_property
    def packed(self) -> Float:
        """(pairs, p (p+1)/2) upper triangles of what goes with each product of two coefficients."""
        p = self.blocks.shape[2]
        return np.ascontiguousarray(symmetric(self.sums)[:, *np.triu_indices(p)])

    def times(self, factor: float) -> Open:
        """That much more of it."""
        return Open(factor * self.blocks)


def _inverse(S: Float) -> Float:
    """Of a positive definite matrix, of which the upper triangle is read."""
    lower, _ = lapack.dpotri(root(S), lower=True, overwrite_c=True)
    inverse: Float = np.tril(lower)
    inverse += np.tril(lower, -1).T
    return inverse


def root(S: Float) -> Float:
    """A matrix whose lower triangle is the Cholesky factor of S, of which the upper triangle is read.

    S is overwritten.
    """
    factor, failed = lapack.dpotrf(S.T, lower=True, clean=False, overwrite_a=True)
    if failed:
        raise np.linalg.LinAlgError(f"the leading minor {failed} of a precision is not positive")
    found: Float = factor
    return found
