"""A packed folder: the rows of many tasks as raw arrays on disk, sorted by task.

X.bin        features, (N, d), row after row, little-endian floats
y.bin        rewards, (N,)
offsets.npy  (T + 1,): task t owns rows offsets[t] … offsets[t + 1] − 1
labels.npy   the tasks' labels, (T,)
facts.json   format, rows, tasks, features and the float type: written last, so that a folder without it is
             one that was not finished
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, Int, TaskData
from banister.errors import DataFileError

FORMAT = 1
_PAGE = mmap.ALLOCATIONGRANULARITY  # a map may start only at a multiple of it


class Folder:
    """A packed folder, opened for reading; see `pack`.

    Attributes:
        path: where it is.
        labels, offsets: (T,) and (T + 1,).
        dim: d.
        dtype: float32 or float64.
        features: the names of the columns of X.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        facts = self._facts()
        self.dim, self.dtype = int(facts["dim"]), np.dtype(facts["dtype"])
        self.features: list[str] = list(facts["features"])
        self.offsets: Int = np.load(self.path / "offsets.npy", allow_pickle=False)
        self.labels: NDArray[Any] = np.load(self.path / "labels.npy", allow_pickle=False)
        self._check(int(facts["rows"]))

    def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = json.loads((self.path / "facts.json").read_text())
        except (OSError, ValueError) as reason:
            raise DataFileError(
                f"{self.path} is not a packed folder ({reason}); make one with `banister data pack`."
            ) from None
        if facts.get("format") != FORMAT:
            raise DataFileError(
                f"{self.path} has format {facts.get('format')!r}; this version reads {FORMAT}."
            )
        return facts

    def _check(self, rows: int) -> None:
        sizes = {"X.bin": rows * self.dim * self.dtype.itemsize, "y.bin": rows * self.dtype.itemsize}
        for name, size in sizes.items():
            file = self.path / name
            found = file.stat().st_size if file.exists() else -1
            if found != size:
                raise DataFileError(
                    f"{file} has {max(found, 0)} bytes where {size} are expected; pack the folder again."
                )
        if len(self.offsets) != len(self.labels) + 1 or self.offsets[-1] != rows:
            raise DataFileError(f"{self.path}: offsets, labels and rows disagree; pack the folder again.")

    @contextmanager
    def rows(self, first: int, last: int) -> Iterator[TaskData]:
        """The rows of tasks `first` … `last − 1` while the context lasts; memory is given back after it."""
        lo, hi = int(self.offsets[first]), int(self.offsets[last])
        with _mapped(self.path / "X.bin", lo * self.dim, hi * self.dim, self.dtype) as X:
            y = np.fromfile(self.path / "y.bin", self.dtype, count=hi - lo, offset=lo * self.dtype.itemsize)
            offsets = self.offsets[first : last + 1] - lo
            yield TaskData(X.reshape(hi - lo, self.dim), y, offsets, self.labels[first:last])


class Writer:
    """Writes a packed folder row by row, in any order of tasks.

    Args:
        path: a folder that does not exist yet, or is empty.
        labels: the tasks, (T,).
        counts: how many rows each will get, (T,).
        features: names of the columns of X.
        dtype: float32 or float64.
    """

    def __init__(
        self, path: str | Path, labels: NDArray[Any], counts: Int, features: list[str], dtype: Any
    ) -> None:
        self.path, self.labels, self.features = Path(path), labels, features
        self.dtype, self.offsets = np.dtype(dtype), np.concatenate([[0], np.cumsum(counts)])
        self._next = self.offsets[:-1].copy()
        self.path.mkdir(parents=True, exist_ok=True)
        if any(self.path.iterdir()):
            raise DataFileError(f"{self.path} is not empty; name a new folder.")

    def __enter__(self) -> Self:
        rows = max(int(self.offsets[-1]), 1)
        shape = (rows, len(self.features))
        self._X = np.memmap(self.path / "X.bin", self.dtype, "w+", shape=shape)
        self._y = np.memmap(self.path / "y.bin", self.dtype, "w+", shape=(rows,))
        return self

    def write(self, X: Float, y: Float, codes: Int) -> None:
        """Rows of any tasks, by index into `labels`; within a task rows keep the order of writing."""
        order = np.argsort(codes, kind="stable")
        sorted_codes = codes[order]
        tasks, starts, counts = np.unique(sorted_codes, return_index=True, return_counts=True)
        place = self._next[sorted_codes] + np.arange(len(codes)) - np.repeat(starts, counts)
        self._next[tasks] += counts
        self._X[place], self._y[place] = X[order], y[order]

    def __exit__(self, failed: object, *_: object) -> None:
        self._X.flush()
        self._y.flush()
        del self._X, self._y
        if failed is None:
            self._finish()
        else:  # half of it is of no use, and would be in the way of another attempt
            for name in ("X.bin", "y.bin"):
                (self.path / name).unlink()

    def _finish(self) -> None:
        np.save(self.path / "offsets.npy", self.offsets, allow_pickle=False)
        np.save(self.path / "labels.npy", self.labels, allow_pickle=False)
        facts = {
            "format": FORMAT,
            "rows": int(self.offsets[-1]),
            "tasks": len(self.labels),
            "dim": len(self.features),
            "dtype": self.dtype.name,
            "features": self.features,
        }
        (self.path / "facts.json").write_text(json.dumps(facts, indent=1))


@contextmanager
def _mapped(path: Path, first: int, last: int, dtype: np.dtype[Any]) -> Iterator[Float]:
    """Numbers `first` … `last − 1` of a file as an array that the system reads when they are needed."""
    lo, hi = first * dtype.itemsize, last * dtype.itemsize
    if lo == hi:
        yield np.empty(0, dtype)
        return
    start = lo - lo % _PAGE
    with path.open("rb") as file:
        view = mmap.mmap(file.fileno(), hi - start, access=mmap.ACCESS_READ, offset=start)
    # Unmapped as soon as nobody holds the array: closing by hand would fail while views of it exist.
    _read_ahead(view)
    yield np.frombuffer(view, dtype, count=last - first, offset=lo - start)


def _read_ahead(view: mmap.mmap) -> None:
    """Tell the system that all of it will be read, in order."""
    if hasattr(mmap, "MADV_SEQUENTIAL"):
        view.madvise(mmap.MADV_SEQUENTIAL)
