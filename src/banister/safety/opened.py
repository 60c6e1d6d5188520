"""What all rows leave open of the shared part: the covariance of (μ, L), and what it means for a task."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, lapack

from banister.data import Float
from banister.safety.posterior import symmetric


class Open:
    """Covariance `S⁻¹` of (μ, L), in blocks (q, q, p, p), q = k + 1: what all rows leave open of them."""

    def __init__(self, blocks: Float) -> None:
        q, _, p, _ = blocks.shape
        self.blocks, self._pairs = blocks, np.triu_indices(q)
        both = blocks + np.swapaxes(blocks, 0, 1)
        both[np.arange(q), np.arange(q)] /= 2
        self._sums = both[self._pairs].reshape(-1, p * p)

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
            return np.broadcast_to(self._sums.reshape(p, p), (len(c), p, p))
        return ((c[:, a] * c[:, b]) @ self._sums).reshape(len(c), p, p)

    @cached_property
    def packed(self) -> Float:
        """(pairs, p (p+1)/2) upper triangles of what goes with each product of two coefficients."""
        p = self.blocks.shape[2]
        return np.ascontiguousarray(symmetric(self._sums.reshape(-1, p, p))[:, *np.triu_indices(p)])

    def times(self, factor: float) -> Open:
        """That much more of it."""
        return Open(factor * self.blocks)


def _inverse(S: Float) -> Float:
    """Of a positive definite matrix."""
    factor, _ = cho_factor(S.T, lower=True, overwrite_a=True)
    lower, _ = lapack.dpotri(factor, lower=True, overwrite_c=True)
    inverse: Float = np.tril(lower)
    inverse += np.tril(lower, -1).T
    return inverse
