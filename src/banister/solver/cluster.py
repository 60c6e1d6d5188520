"""The pool of rows that sit in other processes or on other machines, through Ray (`banister[ray]`).

For each question a few kilobytes go down and a (d, r) sum for each block comes up. A worker that dies is
started again by Ray and answers what it was asked: every question carries the point it is about.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from banister.data import Float, TaskData
from banister.errors import PoolError, SettingError
from banister.extras import RAY, need
from banister.solver.folder import Folder
from banister.solver.point import Point
from banister.solver.pool import Pool
from banister.solver.rows import slice_tasks, spans
from banister.solver.worker import Worker

_FREED = 10.0  # seconds that Ray may take to count a processor as free again


class RayPool(Pool):
    """Blocks shared among Ray actors of one processor each.

    Args:
        data: rows in memory, which are sent to the workers once; or a packed folder that every machine can
            read under the same path, of which each worker reads its own blocks.
        address: of a running cluster ("auto" finds the one of this machine); None starts one here, and stops
            it again when the pool is closed.
        shards: workers; by default as many as the cluster has processors free, at most one a block.
        timeout: seconds after which a question without an answer is an error.
        start_timeout: seconds for all workers to be ready.

    Examples:
        >>> pool = RayPool(data, shards=2)                              # doctest: +SKIP
        >>> with pool:                                                  # doctest: +SKIP
        ...     model = AltGDmin(rank=4).fit_data(pool)
    """

    def __init__(
        self,
        data: TaskData | str | Path,
        *,
        address: str | None = None,
        shards: int | None = None,
        timeout: float = 600.0,
        start_timeout: float = 60.0,
    ) -> None:
        if shards is not None and shards < 1:
            raise SettingError(f"shards={shards!r} must be a whole number of at least 1.")
        self._ray, self.timeout = import_ray(), timeout
        self._workers: list[Any] = []
        self._sent: list[Any] = []
        source = data if isinstance(data, TaskData) else Folder(Path(data).absolute())
        dtype = source.X.dtype if isinstance(source, TaskData) else source.dtype
        self._weights: tuple[Float, Any] | None = None
        self._owns_cluster = connect(self._ray, address, shards)
        try:
            spans_ = spans(source)
            shards = min(free_processors(self._ray, shards), len(spans_))
            super().__init__(source.labels, source.offsets, source.dim, dtype, shards=shards)
            self._start(source, spans_, start_timeout)
        except BaseException:
            self.close()
            raise

    def _start(self, source: TaskData | Folder, spans_: list[Any], timeout: float) -> None:
        actor = self._ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1)(_Actor)
        for part in np.array_split(np.arange(len(spans_)), self.shards):
            mine = [spans_[i] for i in part]
            sent = str(source.path) if isinstance(source, Folder) else [self._ray.put(_part(source, mine))]
            self._sent.append(sent)
            self._workers.append(actor.remote(mine))
        starting = [w.process.remote(sent) for w, sent in zip(self._workers, self._sent, strict=True)]
        self.processes = self._get(starting, timeout, "start")

    def _each(self, method: str, args: tuple[Any, ...]) -> list[Any]:
        args, weights = self._stored(args)
        asked = [
            worker.ask.remote(sent, method, args, weights)
            for worker, sent in zip(self._workers, self._sent, strict=True)
        ]
        return [answer for part in self._get(asked, self.timeout, method) for answer in part]

    def _stored(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        """Weights, as long as there are tasks, are stored once instead of travelling with each question."""
        weights = next((a.weights for a in args if isinstance(a, Point)), None)
        if weights is None:
            return args, None
        if self._weights is None or self._weights[0] is not weights:
            self._weights = (weights, self._ray.put(weights))
        bare = tuple(replace(a, weights=None) if isinstance(a, Point) else a for a in args)
        return bare, self._weights[1]

    def _get(self, asked: list[Any], timeout: float, what: str) -> list[Any]:
        try:
            answers: list[Any] = self._ray.get(asked, timeout=timeout)
        except self._ray.exceptions.GetTimeoutError:
            done = len(self._ray.wait(asked, num_returns=len(asked), timeout=0)[0])
            raise PoolError(
                f"{len(asked) - done} of {len(asked)} workers did not answer {what!r} within {timeout:g} s; "
                "look at `ray status`, or raise the time-out."
            ) from None
        except self._ray.exceptions.RayActorError as reason:
            raise PoolError(f"A worker was lost and could not be started again: {reason}") from None
        return answers

    def close(self) -> None:
        """End the workers, and the cluster if this pool started it."""
        for worker in self._workers:
            self._ray.kill(worker, no_restart=True)
        self._workers, self._sent = [], []
        if self._owns_cluster:
            self._ray.shutdown()
            self._owns_cluster = False


class _Actor:
    """A worker that opens its rows at the first question, which like every other says where they are.

    `sent` is a folder's path, or a list with the address of rows in Ray's store, where the pool keeps them.
    """

    def __init__(self, spans: Any) -> None:
        self._spans = spans
        self._worker: Worker | None = None

    def process(self, sent: Any) -> int:
        return self._opened(sent).process()

    def ask(self, sent: Any, method: str, args: tuple[Any, ...], weights: Float | None) -> list[Any]:
        return self._opened(sent).ask(method, args, weights)

    def _opened(self, sent: Any) -> Worker:
        if self._worker is None:
            source = sent if isinstance(sent, str) else import_ray().get(sent[0])
            self._worker = Worker(self._spans, source)
        return self._worker


@lru_cache(maxsize=1)
def import_ray() -> ModuleType:
    """The ray package, or an error that says how to get it."""
    need(RAY)
    import ray

    module: ModuleType = ray
    return module


def free_processors(ray: ModuleType, wanted: int | None) -> int:
    """As many as were asked for or are free; too many would wait for ever without a word.

    Ray counts the processor of finished work as free a little later, so where the cluster is large enough
    they are waited for.
    """
    least, until = wanted or 1, time.monotonic() + _FREED
    while (free := int(ray.available_resources().get("CPU", 0))) < least:
        large = int(ray.cluster_resources().get("CPU", 0)) >= least
        if large and time.monotonic() < until:
            time.sleep(0.05)
            continue
        raise PoolError(
            f"{least} worker(s) need one processor each, and the cluster has {free} free; ask for "
            "fewer shards, add machines, or wait for others to finish."
        )
    return wanted or free


def connect(ray: ModuleType, address: str | None, shards: int | None) -> bool:
    """Join the cluster, or start one on this machine; whether one was started."""
    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address is not None:
            ray.init(address=address, **quiet)
            return False
        ray.init(address="local", num_cpus=shards, include_dashboard=False, **quiet)
    except Exception as reason:  # a node that does not come up in time is a bare Exception
        raise PoolError(f"Ray could not be reached or started at {address!r}: {reason}") from None
    return True


def _part(data: TaskData, mine: list[Any]) -> list[TaskData]:
    return [slice_tasks(data, first, last) for first, last, _ in mine]
