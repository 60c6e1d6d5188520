"""What rows tell of the representation: a sum over tasks, and small factors of each."""

from __future__ import annotations

import numpy as np

from banister.data import Float, TaskData

_CHUNK = 2_000_000  # numbers held at a time


def information(data: TaskData, A: Float, B: Float, W: Float, precision: Float) -> tuple[Float, Float, Float]:
    """S (r, r, d, d) without the gauge, B'G_tB (T, r, r) and G_tB (T, d, r), in whitened coordinates.

    `S = Σ_t p_t (w_t w_t') ⊗ H_t` with G_t = A'X_t'X_tA, M_t = (B'G_tB)⁻¹ and H_t = G_t − G_tBM_tB'G_t.
    """
    d, r = B.shape
    T = data.n_tasks
    pairs = np.zeros((r * r, d * d))
    gram, cross = np.empty((T, r, r)), np.empty((T, d, r))
    step = max(1, _CHUNK // (d * d))
    for first in range(0, T, step):
        last = min(first + step, T)
        G = np.stack([_gram(data.rows_of(t)[0], A) for t in range(first, last)])
        cross[first:last] = G @ B
        gram[first:last] = B.T @ cross[first:last]
        spanned = cross[first:last] @ np.linalg.inv(regular(gram[first:last]))
        G -= spanned @ np.swapaxes(cross[first:last], 1, 2)
        weights = W[first:last, :, None] * W[first:last, None, :] * precision[first:last, None, None]
        pairs += weights.reshape(last - first, r * r).T @ G.reshape(last - first, d * d)
    return pairs.reshape(r, r, d, d), gram, cross


def regular(gram: Float) -> Float:
    """Fewer rows than the rank give a singular Gram matrix; what it leaves open is large, not infinite."""
    r = gram.shape[1]
    trace = np.trace(gram, axis1=1, axis2=2)
    ridge = np.where(trace > 0, 1e-10 * trace / r, 1e-10)
    return gram + ridge[:, None, None] * np.eye(r)


def _gram(X: Float, A: Float) -> Float:
    white = X.astype(float, copy=False) @ A
    return white.T @ white
