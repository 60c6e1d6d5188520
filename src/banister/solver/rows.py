"""Blocks over rows in memory, and over rows on disk."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import pairwise

from banister.data import TaskData
from banister.solver.block import Block, block_bounds
from banister.solver.folder import Folder


def memory_blocks(data: TaskData) -> list[Block]:
    """The blocks of rows in memory: views, no copies."""
    return [
        memory_block(slice_tasks(data, first, last), first, last, start) for first, last, start in spans(data)
    ]


def folder_blocks(folder: Folder) -> list[Block]:
    """The blocks of a packed folder."""
    return [folder_block(folder, first, last) for first, last, _ in spans(folder)]


def spans(data: TaskData | Folder) -> list[tuple[int, int, int]]:
    """Each block's first task, the one after its last, and its first row."""
    cuts = block_bounds(data.offsets, data.dim)
    return [(int(a), int(b), int(data.offsets[a])) for a, b in pairwise(cuts)]


def memory_block(data: TaskData, first: int, last: int, start: int) -> Block:
    """A block over `data`, the rows of its tasks alone."""
    return Block(first, last, start, partial(_as_it_is, data))


def folder_block(folder: Folder, first: int, last: int) -> Block:
    """A block whose files are open only while it works."""
    return Block(first, last, int(folder.offsets[first]), partial(folder.rows, first, last))


def slice_tasks(data: TaskData, first: int, last: int) -> TaskData:
    """A view of tasks `first` … `last − 1`."""
    if first == 0 and last == data.n_tasks:
        return data
    lo, hi = data.offsets[first], data.offsets[last]
    return TaskData(
        data.X[lo:hi], data.y[lo:hi], data.offsets[first : last + 1] - lo, data.labels[first:last]
    )


def _as_it_is(data: TaskData) -> AbstractContextManager[TaskData]:
    return nullcontext(data)
