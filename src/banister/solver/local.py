"""The pools of this process: rows in memory or on disk, shared among threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from banister.data import TaskData
from banister.solver.block import Block
from banister.solver.folder import Folder
from banister.solver.pool import Pool
from banister.solver.rows import folder_blocks, memory_blocks
from banister.solver.threads import check_threads, in_threads


class _ThreadPool(Pool):
    """Blocks shared among the threads of this process."""

    threads: int
    _blocks: list[Block]

    def _each(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        blocks = self._blocks
        return in_threads(self.threads, lambda i: getattr(blocks[i], method)(*args), len(blocks))


class LocalPool(_ThreadPool):
    """Rows in memory.

    Args:
        data: the rows.
        threads: by default BANISTER_THREADS or all cores. Results do not depend on it.
    """

    def __init__(self, data: TaskData, *, threads: int | None = None) -> None:
        self.data, self.threads = data, check_threads(threads)
        super().__init__(data.labels, data.offsets, data.dim, data.X.dtype, shards=self.threads)
        self._blocks = memory_blocks(data)


class DiskPool(_ThreadPool):
    """A packed folder (see `pack`), larger than memory: every pass reads it once.

    Args:
        folder: where it is.
        threads: by default BANISTER_THREADS or all cores; each holds one block. Results do not depend on it.

    Examples:
        >>> import numpy as np, tempfile
        >>> from banister.solver.pack import pack_rows
        >>> X = np.random.default_rng(0).standard_normal((60, 3))
        >>> data = TaskData.from_rows(X, X[:, 0], np.arange(60) % 6)
        >>> folder = tempfile.mkdtemp() + "/packed"
        >>> _ = pack_rows(data, folder)
        >>> pool = DiskPool(folder)
        >>> pool.n_rows, pool.n_tasks, pool.dim
        (60, 6, 3)
    """

    def __init__(self, folder: str | Path, *, threads: int | None = None) -> None:
        self.folder, self.threads = Folder(folder), check_threads(threads)
        facts = self.folder
        super().__init__(facts.labels, facts.offsets, facts.dim, facts.dtype, shards=self.threads)
        self._blocks = folder_blocks(self.folder)


def as_pool(data: TaskData | Pool, threads: int | None = None) -> Pool:
    """A pool as it is; rows in memory as a pool of this process."""
    return LocalPool(data, threads=threads) if isinstance(data, TaskData) else data
