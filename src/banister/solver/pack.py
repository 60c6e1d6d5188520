"""Make a packed folder from Parquet or CSV files, or from rows in memory, in two passes of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banister.data import TaskData, as_matrix, as_vector
from banister.errors import DataFileError, InputError, listed
from banister.extras import LOGS, need
from banister.solver.folder import Folder, Writer

if TYPE_CHECKING:
    import polars as pl

_ROWS = 200_000  # rows held at a time


def pack(
    source: str | Path,
    folder: str | Path,
    *,
    task: str,
    reward: str,
    features: Sequence[str] | None = None,
    dtype: str = "float64",
) -> Folder:
    """Pack a Parquet or CSV file (or a pattern such as "log-*.parquet") and open the folder.

    Args:
        source: the file or files; rows in any order.
        folder: a new folder.
        task, reward: names of the columns that hold the task's label and the reward.
        features: names of the feature columns; by default all others.
        dtype: "float64", or "float32" for half the space.

    Examples:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> _ = (place / "log.csv").write_text("store,sold,price\\nb,3,1.5\\na,2,0.5\\nb,4,2.5\\n")
        >>> folder = pack(place / "log.csv", place / "packed", task="store", reward="sold")
        >>> folder.labels.tolist(), folder.offsets.tolist(), folder.features
        (['a', 'b'], [0, 1, 3], ['price'])
    """
    if dtype not in ("float64", "float32"):
        raise InputError(f"dtype={dtype!r} must be 'float64' or 'float32'.")
    with _readable(source):
        _pack(Path(source), Path(folder), task, reward, features, dtype)
    return Folder(folder)


def _pack(
    source: Path, folder: Path, task: str, reward: str, features: Sequence[str] | None, dtype: str
) -> None:
    frame = _scan(source)
    columns = _features(frame, task, reward, features)
    tally = frame.group_by(task).len().sort(task).collect(engine="streaming")
    if tally.height == 0:
        raise InputError(f"{source} has no rows; give at least one.")
    if tally[task].null_count():
        raise InputError(f"{source}: column {task!r} has rows without a label; every row needs a task.")
    labels, counts = _plain(tally[task].to_numpy()), tally["len"].to_numpy().astype(np.int64)
    with Writer(folder, labels, counts, columns, dtype) as writer:
        for first, batch in _batches(frame.select([task, reward, *columns])):
            where = f"{source}, rows from {first}"
            X = as_matrix(batch.select(columns), f"X ({where})", dtype=dtype)
            y = as_vector(batch[reward].to_numpy(), f"{reward} ({where})", dtype=dtype)
            writer.write(X, y, np.searchsorted(labels, _plain(batch[task].to_numpy())))


@contextmanager
def _readable(source: str | Path) -> Iterator[None]:
    """A file that is found to be damaged, wherever in it, is an error of this package."""
    need(LOGS)
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as reason:
        raise DataFileError(f"{source} cannot be read ({reason}).") from None


def pack_rows(data: TaskData, folder: str | Path) -> Folder:
    """Pack rows that are in memory."""
    labels = _plain(data.labels)
    if len(np.unique(labels)) < data.n_tasks:
        raise InputError(
            "Some labels differ only in kind, such as 1 and '1'; as text on disk they would be one."
        )
    names = [f"x{j}" for j in range(data.dim)]
    with Writer(folder, labels, data.counts, names, data.X.dtype) as writer:
        writer.write(data.X, data.y, data.codes)
    return Folder(folder)


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels as an array that needs no pickle: objects become text."""
    return labels.astype(str) if labels.dtype == object else labels


def _scan(source: Path) -> pl.LazyFrame:
    kind = source.suffix.lower()
    if kind not in (".parquet", ".csv"):
        raise DataFileError(f"{source} must end in .parquet or .csv.")
    if not list(source.parent.glob(source.name)):
        raise DataFileError(f"{source} does not exist.")
    if source.is_dir():
        raise DataFileError(f"{source} is a folder; name a file, or a pattern such as '*{kind}'.")
    import polars as pl

    return pl.scan_parquet(source) if kind == ".parquet" else pl.scan_csv(source)


def _features(frame: pl.LazyFrame, task: str, reward: str, features: Sequence[str] | None) -> list[str]:
    known = frame.collect_schema().names()
    wanted = [c for c in known if c not in (task, reward)] if features is None else list(features)
    for name in (task, reward, *wanted):
        if name not in known:
            raise InputError(f"There is no column {name!r}; the file has {listed(known, name)}.")
    if not wanted:
        raise InputError("There are no feature columns; name at least one.")
    return wanted


def _batches(frame: pl.LazyFrame) -> Iterator[tuple[int, Any]]:
    """The rows, some at a time, each with the index of its first row."""
    first = 0
    for batch in frame.collect_batches(chunk_size=_ROWS, maintain_order=True):
        yield first, batch
        first += batch.height
