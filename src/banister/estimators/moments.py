"""Method of moments: the subspace from fourth moments of the data, then least squares within it.

For Gaussian features `E[y² x x'] = (E‖theta‖² + σ²) I + 2 E[theta theta']`, so the top eigenvectors of its
mean span the tasks' parameters (Tripuraneni, Jin and Jordan 2021; the rival "MoM" of the paper). For actions
picked by a policy the identity fails: along a parameter `y²` may be smaller than average, and then so is the
eigenvalue.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, Int, TaskData, Whole
from banister.errors import ShapeError
from banister.estimators._batches import empty_task_warnings, equal_batches
from banister.estimators.base import MultiTaskRegressor, check_rank, label_list

_CHUNK = 16384
_RCOND = 1e-10  # directions a task has practically not seen get no coefficient


class MethodOfMoments(MultiTaskRegressor):
    """Regression through the top eigenvectors of `mean y² x x'`.

    Args:
        rank: how many directions the tasks share.

    Attributes:
        B_: orthonormal basis, shape (d, r).
        W_: coefficients, shape (r, T).
        theta_: `B_ @ W_`, shape (d, T).
        eigenvalues_: all eigenvalues of the moment matrix, largest first, shape (d,).

    A task with fewer rows than `rank` gets the coefficients of least norm that fit it, and is named in
    `warnings_`. `moment_subspace` and `subspace_coefficients` are the two stages on their own, for learning
    the subspace from one data set and the coefficients from another, as the paper's study does.

    Examples:
        >>> rng = np.random.default_rng(0)
        >>> X, tasks = rng.standard_normal((4000, 3)), np.arange(4000) % 4
        >>> model = MethodOfMoments(rank=1).fit(X, X[:, 0] * (1 + tasks), tasks)
        >>> bool(abs(model.B_[0, 0]) > 0.99)
        True
    """

    B_: Float
    W_: Float
    eigenvalues_: Float

    def __init__(self, *, rank: Whole = 2) -> None:
        self.rank = rank

    def _fit(self, data: TaskData) -> None:
        self.B_, self.eigenvalues_ = moment_subspace(data, self.rank)
        self.W_ = subspace_coefficients(data, self.B_)
        self.theta_ = self.B_ @ self.W_
        self.warnings_ += short_task_warnings(data, self.B_.shape[1])


def moment_subspace(data: TaskData, rank: Whole) -> tuple[Float, Float]:
    """Top eigenvectors (d, r) of `mean y² x x'` over all rows, and all its eigenvalues (d,), largest first.

    Examples:
        >>> data = TaskData.from_rows([[1.0, 0.0], [0.0, 1.0]], [1.0, 3.0], ["a", "b"])
        >>> B, eigenvalues = moment_subspace(data, 1)
        >>> abs(B).ravel().tolist(), eigenvalues.tolist()
        ([0.0, 1.0], [4.5, 0.5])
    """
    rank = check_rank(rank, data)
    moment = np.zeros((data.dim, data.dim))
    for start in range(0, data.n_rows, _CHUNK):
        rows = slice(start, start + _CHUNK)
        scaled = data.X[rows] * data.y[rows, None]
        moment += scaled.T @ scaled
    values, vectors = np.linalg.eigh(moment / data.n_rows)
    return np.ascontiguousarray(vectors[:, ::-1][:, :rank]), np.maximum(values[::-1], 0.0)


def subspace_coefficients(data: TaskData, B: Float) -> Float:
    """Each task's least-squares coefficients in the span of `B` (d, r), shape (r, T).

    Where a task has fewer rows than `r` they are those of least norm; without rows they are 0.

    Examples:
        >>> data = TaskData.from_rows([[1.0, 5.0], [2.0, 0.0]], [3.0, 6.0], ["a", "a"])
        >>> subspace_coefficients(data, np.array([[1.0], [0.0]])).round(12)
        array([[3.]])
    """
    if B.ndim != 2 or B.shape[0] != data.dim:
        raise ShapeError(
            f"B has shape {B.shape}; the data have {data.dim} features, so give ({data.dim}, r)."
        )
    W = np.zeros((B.shape[1], data.n_tasks))
    for tasks, X, y in equal_batches(data, _CHUNK):
        inverse: NDArray[Any] = np.linalg.pinv(X @ B, rcond=_RCOND)
        W[:, tasks] = np.matmul(inverse, y[:, :, None])[:, :, 0].T
    return W


def short_task_warnings(data: TaskData, rank: int) -> list[str]:
    """Sentences about tasks with no rows, or fewer than `rank`."""
    short: Int = np.flatnonzero((data.counts > 0) & (data.counts < rank))
    said = empty_task_warnings(data)
    if len(short):
        said.append(
            f"{len(short)} tasks have fewer rows than rank={rank} and get the coefficients of least norm: "
            f"{label_list(data.labels, short)}."
        )
    return said
