"""`Store`: result rows on disk, one Parquet file per finished job, written whole or not at all.

```
RUN/cells/<point>/<trial>.<policies>.parquet   what is finished, readable from the names alone
RUN/results.parquet                            the same rows in one file, sorted
RUN/manifest.json                              settings, seeds, versions, machine, duration
```
"""

from __future__ import annotations

import io
import json
import os
import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banister.environments.storage import write_atomically
from banister.errors import DataFileError, SettingError
from banister.extras import STUDY, need
from banister.simulation.point import Point

if TYPE_CHECKING:
    import polars as pl

KEY = ("point", "trial", "policy", "epoch")
CLOCKS = ("seconds", "wall")  # the columns that are not the same in every run

_JOIN = "+"
_LONGEST = 200  # of a file name, which most file systems end at 255 bytes


@dataclass(frozen=True, kw_only=True)
class Job:
    """What one worker does at a time: some policies play one trial of one point."""

    point: Point
    trial: int
    policies: tuple[str, ...]
    seed: int

    def __post_init__(self) -> None:
        if len(_JOIN.join(self.policies)) > _LONGEST:
            raise SettingError(f"{len(self.policies)} policies are too many for one job; split it.")

    @property
    def path(self) -> Path:
        """Where its rows are kept, below the store's cells."""
        return Path(self.point.name) / f"{self.trial:05d}.{_JOIN.join(self.policies)}.parquet"


class Store:
    """The results of one run, in a folder.

    Examples:
        >>> import tempfile
        >>> store = Store(Path(tempfile.mkdtemp()))
        >>> store.finished()
        {}
    """

    def __init__(self, folder: str | Path) -> None:
        need(STUDY)
        self.folder = Path(folder)

    @property
    def cells(self) -> Path:
        """Where the finished jobs are."""
        return self.folder / "cells"

    def finished(self) -> dict[tuple[str, int], set[str]]:
        """The policies that have finished each (point, trial)."""
        found: dict[tuple[str, int], set[str]] = defaultdict(set)
        for path in self._files():
            trial, policies = path.stem.split(".", 1)
            found[path.parent.name, int(trial)].update(policies.split(_JOIN))
        return dict(found)

    def missing(self, jobs: list[Job]) -> list[Job]:
        """What is left of the jobs; of a job that is partly done, the policies that are not."""
        done = self.finished()
        left = []
        for job in jobs:
            have = done.get((job.point.name, job.trial), set())
            rest = tuple(name for name in job.policies if name not in have)
            if rest:
                left.append(Job(point=job.point, trial=job.trial, policies=rest, seed=job.seed))
        return left

    def keep(self, job: Job, rows: pl.DataFrame) -> None:
        """Write a job's rows; a job that is there already stays as it is."""
        target = self.cells / job.path
        if not target.exists():
            buffer = io.BytesIO()
            rows.write_parquet(buffer)
            write_atomically(target, buffer.getvalue())

    def rows(self) -> pl.DataFrame:
        """All rows, sorted by point, trial, policy and epoch."""
        import polars as pl

        files = self._files()
        if not files:
            return self._consolidated()
        frames = [pl.read_parquet(path) for path in files]
        return pl.concat(frames, how="diagonal_relaxed").sort(KEY)

    def consolidate(self) -> pl.DataFrame:
        """Write all rows into one file, and return them."""
        rows = self.rows()
        buffer = io.BytesIO()
        rows.write_parquet(buffer, compression="zstd")
        write_atomically(self.folder / "results.parquet", buffer.getvalue())
        return rows

    def clear(self) -> None:
        """Forget the finished jobs."""
        shutil.rmtree(self.cells, ignore_errors=True)

    def manifest(self) -> dict[str, Any]:
        """What is known of the run; empty before it began."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as reason:
            raise DataFileError(f"{self.folder}/manifest.json is not readable JSON: {reason}.") from reason
        return found

    def write_manifest(self, content: dict[str, Any]) -> None:
        """Replace what is known of the run."""
        write_atomically(self.folder / "manifest.json", json.dumps(content, indent=1, default=str).encode())

    def _consolidated(self) -> pl.DataFrame:
        import polars as pl

        path = self.folder / "results.parquet"
        if not path.is_file():
            raise DataFileError(
                f"{self.folder} holds no results: neither cells/ nor results.parquet. "
                "Make them with `banister run` or `banister reproduce`, or name another folder."
            )
        return pl.read_parquet(path)

    def _files(self) -> list[Path]:
        # A file being written begins with a dot; os.scandir does not sort, so sort here.
        return sorted(
            Path(entry.path)
            for folder in _scan(self.cells)
            if folder.is_dir()
            for entry in _scan(folder.path)
            if entry.name.endswith(".parquet") and not entry.name.startswith(".")
        )


def _scan(folder: str | Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []
