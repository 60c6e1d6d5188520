"""What all rows leave open of the shared part: the covariance of (μ, L), and what it means for a task."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from banister.data import Float
from banister.safety._posterior_kernels import whole_blocks
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
        self.sums: Float = blocks[self._pairs]
        for i, (a, b) in enumerate(zip(*self._pairs, strict=True)):
            if a < b:
                self.sums[i] += blocks[b, a]

    @classmethod
    def of_precision(cls, S: Float, q: int) -> Open:
        """From S (q p, q p), which is overwritten."""
        p = len(S) // q
        blocks = np.empty((q, q, p, p))
        lower, _ = lapack.dpotri(root(S), lower=True, overwrite_c=True)
        whole_blocks(lower.T, blocks)
        return cls(blocks)

    def products(self, c: Float) -> Float:
        """`c_a c_b` of coefficients (T, q), in the order of `sums`, (T, pairs)."""
        a, b = self._pairs
        return np.ascontiguousarray(c[:, a] * c[:, b])

    def of(self, c: Float) -> Float:
        """`(c ⊗ I)' S⁻¹ (c ⊗ I)` of each task, (T, p, p), for coefficients c (T, q)."""
        n, p = len(self.sums), self.blocks.shape[2]
        if n == 1 and (c == 1.0).all():  # without directions it is the same of every task
            return np.broadcast_to(self.sums[0], (len(c), p, p))
        return (self.products(c) @ self.sums.reshape(n, -1)).reshape(len(c), p, p)

    @cached_property
    def packed(self) -> Float:
        """(pairs, p (p+1)/2) upper triangles of what goes with each product of two coefficients."""
        p = self.blocks.shape[2]
        return np.ascontiguousarray(symmetric(self.sums)[:, *np.triu_indices(p)])

    def times(self, factor: float) -> Open:
        """That much more of it."""
        return Open(factor * self.blocks)


def root(S: Float) -> Float:
    """A matrix whose lower triangle is the Cholesky factor of S, of which the upper triangle is read.

    S is overwritten.
    """
    factor, failed = lapack.dpotrf(S.T, lower=True, clean=False, overwrite_a=True)
    if failed:
        raise np.linalg.LinAlgError(f"the leading minor {failed} of a precision is not positive")
    found: Float = factor
    return found
