"""The pool of rows that are in this process, shared among threads."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import pairwise
from typing import Any

from banister.data import TaskData
from banister.solver.block import Block, block_bounds
from banister.solver.pool import Pool
from banister.solver.threads import check_threads, in_threads


class LocalPool(Pool):
    """Rows in memory; the compiled passes run in threads.

    Args:
        data: the rows.
        threads: by default BANISTER_THREADS or all cores. Results do not depend on it.
    """

    def __init__(self, data: TaskData, *, threads: int | None = None) -> None:
        self.data, self.threads = data, check_threads(threads)
        super().__init__(data.labels, data.offsets, data.dim, data.X.dtype, shards=self.threads)
        self._blocks = memory_blocks(data)

    def _each(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        blocks = self._blocks
        if len(blocks) == 1:
            return [getattr(blocks[0], method)(*args)]
        return in_threads(self.threads, lambda i: getattr(blocks[i], method)(*args), len(blocks))


def memory_blocks(data: TaskData) -> list[Block]:
    """The blocks of rows in memory: views, no copies."""
    cuts = block_bounds(data.offsets, data.dim)
    return [
        Block(int(a), int(b), int(data.offsets[a]), partial(_open, slice_tasks(data, int(a), int(b))))
        for a, b in pairwise(cuts)
    ]


def slice_tasks(data: TaskData, first: int, last: int) -> TaskData:
    """A view of tasks `first` … `last − 1`."""
    if first == 0 and last == data.n_tasks:
        return data
    lo, hi = data.offsets[first], data.offsets[last]
    return TaskData(data.X[lo:hi], data.y[lo:hi], data.offsets[first : last + 1] - lo, data.labels[first:last])


def _open(data: TaskData) -> AbstractContextManager[TaskData]:
    return nullcontext(data)


def as_pool(data: TaskData | Pool, threads: int | None = None) -> Pool:
    """A pool as it is; rows in memory as a pool of this process."""
    return LocalPool(data, threads=threads) if isinstance(data, TaskData) else data
