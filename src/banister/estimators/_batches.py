"""Tasks with equal counts, stacked, so that numpy's batched linear algebra can take them together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from banister.data import Float, Int, TaskData
from banister.estimators.base import label_list

_ROWS = 65536


def equal_batches(data: TaskData, max_rows: int = _ROWS) -> Iterator[tuple[Int, Float, Float]]:
    """Stacks of tasks with the same number of rows, at most about `max_rows` rows at once.

    Tasks without rows are left out. Neighbouring tasks are views of the data, others are copied.

    Yields:
        task indices (g,), features (g, n, d), rewards (g, n).

    Examples:
        >>> data = TaskData.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], [0, 0, 1])
        >>> [(tasks.tolist(), X.shape) for tasks, X, _ in equal_batches(data)]
        [([1], (1, 1, 1)), ([0], (1, 2, 1))]
    """
    for n in np.unique(data.counts[data.counts > 0]).tolist():
        tasks = np.flatnonzero(data.counts == n)
        size = max(1, max_rows // n)
        for start in range(0, len(tasks), size):
            group = tasks[start : start + size]
            yield group, *_stack(data, group, n)


def _stack(data: TaskData, group: Int, n: int) -> tuple[Float, Float]:
    shape = (len(group), n)
    if group[-1] - group[0] == len(group) - 1:
        rows = slice(data.offsets[group[0]], data.offsets[group[0]] + len(group) * n)
        return data.X[rows].reshape(*shape, -1), data.y[rows].reshape(shape)
    index = (data.offsets[group][:, None] + np.arange(n)).ravel()
    return data.X[index].reshape(*shape, -1), data.y[index].reshape(shape)


def empty_task_warnings(data: TaskData) -> list[str]:
    """A sentence about tasks without rows, if there are any."""
    empty = np.flatnonzero(data.counts == 0)
    if len(empty) == 0:
        return []
    return [f"{len(empty)} tasks have no rows and get theta = 0: {label_list(data.labels, empty)}."]
