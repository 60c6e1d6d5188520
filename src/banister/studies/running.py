"""Carry out a workload: what is missing, in parallel, kept as it finishes; then one results file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from banister.errors import DataFileError
from banister.simulation.many import cores, run_jobs
from banister.simulation.point import MOVIELENS, Point
from banister.simulation.store import Job, Store
from banister.studies import costs, manifest
from banister.studies.play import play
from banister.studies.workload import Workload

if TYPE_CHECKING:
    import polars as pl

    from banister.solver import RayWorkers

_NOTED = 20.0  # seconds between notes of progress in the manifest


@dataclass
class Runner:
    """A workload and the folder its results are kept in.

    Attributes:
        workload: what to run.
        folder: where.
        workers: processes; 0 for one per core.
        header: the manifest of a run that begins now.
        ray: a cluster to play on in place of processes here.
    """

    workload: Workload
    folder: Path
    header: dict[str, Any]
    workers: int = 0
    ray: RayWorkers | None = None

    def __post_init__(self) -> None:
        self.store = Store(self.folder)
        self.workers = self.workers or (cores() if self.ray is None else self.ray.shares)

    def missing(self) -> list[Job]:
        """What is still to do."""
        return self.store.missing(self.workload.jobs())

    def costs(self) -> costs.Costs:
        """Seconds per trial: this run's own where there are any."""
        own: costs.Costs = {}
        with suppress(DataFileError):
            own = costs.measured(self.store.rows())
        return costs.merged(own, costs.shipped())

    def estimate(self, jobs: list[Job]) -> float:
        """Expected wall seconds of these jobs."""
        known = self.costs()
        return sum(costs.job_seconds(job, known) for job in jobs) / self.workers

    def run(self, jobs: list[Job]) -> Iterator[Job]:
        """Do the jobs; each is yielded once its rows are on disk. The manifest grows a session."""
        record = manifest.resume(self.store, self.header)
        earlier, began, told, done = record["sessions"], datetime.now(UTC), monotonic(), 0

        def note() -> None:
            record["sessions"] = [*earlier, manifest.session(began, done, self.workers)]
            self.store.write_manifest(record)

        note()
        try:
            for job in run_jobs(jobs, play, self.folder, workers=self.workers, ray=self.ray):
                done += 1
                if monotonic() - told > _NOTED:  # so that a kill leaves the session in the manifest too
                    told = monotonic()
                    note()
                yield job
        finally:
            note()

    def collect(self) -> pl.DataFrame:
        """All rows, in one file and in hand."""
        return self.store.consolidate()


def missing_data() -> str:
    """Why MovieLens cannot be used here; "" if it can."""
    from banister.environments.ratings import find_ratings, source_for

    try:
        find_ratings(source_for(None, None), None)
    except DataFileError as reason:
        return str(reason)
    return ""


def prepare(points: list[Point], tell: Callable[[str], None]) -> None:
    """Factorise the ratings once, before several workers would each do it."""
    for point in points:
        if point.environment == MOVIELENS:
            tell(point.name)
            point.build()
