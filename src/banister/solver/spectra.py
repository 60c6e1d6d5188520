"""Where to start: subspaces of first estimates that need no fit, from two passes over the data."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import eigh

from banister.data import Float
from banister.solver.low_rank import noise_norm
from banister.solver.pool import Pool
from banister.solver.whitening import Whitening


class Spectra:
    """Spectral subspaces of the whitened data, of the raw data, and of what a pooled model leaves.

    They are made when first asked for, and serve every rank up to `most`. Columns `h_t/√n_t`, h_t = X_t'y_t,
    have equal noise whatever the rows of a task.
    """

    def __init__(self, pool: Pool, whitening: Whitening, most: int) -> None:
        self._pool, self._whitening, self._most = pool, whitening, most

    def starts(self, rank: int) -> list[Float]:
        """Three orthonormal bases (d, rank) in whitened coordinates."""
        left = np.column_stack([self._pooled, self._rest[:, :rank]])
        return [self.white(rank), from_raw(self._whitening, self._raw[:, :rank]), _basis(left)[:, :rank]]

    def white(self, rank: int) -> Float:
        """The subspace of the whitened data alone: one pass, where the others need a second."""
        return np.ascontiguousarray(self._white[:, :rank])

    def outstanding(self, factor: float) -> int:
        """How many directions of the whitened data exceed `factor` times what noise would give; at least 1.

        All of the rewards count as noise here, so that this is mostly too few.
        """
        pool = self._pool
        edge = noise_norm(pool.dim, pool.n_tasks) ** 2
        moment = self._whitened(self._sums[0])
        strength = np.einsum("di,de,ei->i", self._white, moment, self._white)
        above = int(np.sum(strength > factor * edge * pool.energy() / pool.n_rows))
        return min(max(above, 1), self._most)

    @cached_property
    def _sums(self) -> tuple[Float, Float]:
        return self._pool.correlations(np.zeros(self._pool.dim))

    @cached_property
    def _white(self) -> Float:
        return top_vectors(self._whitened(self._sums[0]), self._most)

    @cached_property
    def _raw(self) -> Float:
        return top_vectors(self._sums[0], self._most)

    @cached_property
    def _pooled(self) -> Float:
        pooled: Float = self._whitening.A.T @ self._sums[1] / self._pool.n_rows
        return pooled

    @cached_property
    def _rest(self) -> Float:
        rest, _ = self._pool.correlations(self._whitening.A @ self._pooled)
        return top_vectors(self._whitened(rest), self._most)

    def _whitened(self, moment: Float) -> Float:
        white: Float = self._whitening.A.T @ moment @ self._whitening.A
        return white


def from_raw(whitening: Whitening, B: Float) -> Float:
    """An orthonormal basis, in whitened coordinates, of the span of B in the data's."""
    return _basis(whitening.inverse @ B)


def top_singular_value(matrix: Float) -> float:
    """The largest singular value, through the smaller Gram matrix."""
    d, T = matrix.shape
    gram = matrix @ matrix.T if d <= T else matrix.T @ matrix
    last = len(gram) - 1
    top = eigh(gram, eigvals_only=True, subset_by_index=(last, last), check_finite=False)
    return float(np.sqrt(max(0.0, top[0])))


def top_vectors(gram: Float, count: int) -> Float:
    """Eigenvectors of the `count` largest eigenvalues, the largest first."""
    d = len(gram)
    vectors = eigh(gram, subset_by_index=(d - count, d - 1), check_finite=False)[1]
    return np.ascontiguousarray(vectors[:, ::-1])


def _basis(columns: Float) -> Float:
    return np.linalg.qr(columns)[0]
