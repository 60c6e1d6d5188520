"""Many trials on many cores, resumable: what is finished is written at once, so a kill loses nothing else.

Every job has its own seed and runs on one thread, so the rows do not depend on the number of workers, on the
order in which jobs finish, or on how often the run was interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from banister.errors import SettingError
from banister.simulation.store import Job, Store

if TYPE_CHECKING:
    import polars as pl

    from banister.solver import RayWorkers

Play = Callable[[Job], "pl.DataFrame"]

THREADS = "BANISTER_THREADS"


def run_jobs(
    jobs: list[Job], play: Play, folder: str | Path, *, workers: int = 0, ray: RayWorkers | None = None
) -> Iterator[Job]:
    """Do the jobs and keep their rows in the folder's store; yields each job as it finishes.

    Args:
        jobs: what to do, in the order in which it should be begun.
        play: a job's rows; a function that can be imported, since other processes call it.
        folder: of the store.
        workers: processes; 0 for one per core, 1 to stay in this process.
        ray: a cluster that plays in their place; rows come back to this process, which keeps them.
    """
    if ray is not None:
        for i, rows in ray.each(_rows, [(job, play) for job in jobs]):
            Store(folder).keep(jobs[i], rows)
            yield jobs[i]
        return
    if workers < 0:
        raise SettingError(f"jobs={workers} must be a number of workers, or 0 for one per core.")
    workers = min(workers or cores(), max(len(jobs), 1))
    if workers == 1:
        with one_thread():
            for job in jobs:
                yield _finish(job, play, folder)
        return
    from joblib import Parallel, delayed, parallel_config

    with one_thread(), parallel_config(backend="loky", inner_max_num_threads=1):
        pool = Parallel(
            n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch=2 * workers
        )
        yield from pool(delayed(_finish)(job, play, folder) for job in jobs)


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _rows(job: Job, play: Play) -> pl.DataFrame:
    with one_thread():
        return play(job)


def _finish(job: Job, play: Play, folder: str | Path) -> Job:
    Store(folder).keep(job, play(job))
    return job


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for BLAS and for the kernels, here and in the processes started meanwhile."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    before = os.environ.get(THREADS)
    os.environ[THREADS] = "1"
    try:
        with threadpool_limits(1):
            yield
    finally:
        if before is None:
            del os.environ[THREADS]
        else:
            os.environ[THREADS] = before
