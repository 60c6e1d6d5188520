"""`TaskData`: the rows of many tasks, held contiguously per task (ragged).

Everything that comes from outside passes through this door once. Behind it arrays are finite, of one float
type, C-contiguous and sorted by task, so that inner kernels can assume clean input.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banister.errors import InputError, NonFiniteError, ShapeError, UnknownTaskError

Float = NDArray[np.floating[Any]]
Int = NDArray[np.int64]
Number = float | np.floating[Any] | np.integer[Any]  # what a setting may be given as
Whole = int | np.integer[Any]

_CHUNK = 65536


@dataclass(frozen=True, eq=False)
class TaskData:
    """Rows of many tasks: task `t` owns rows `offsets[t]:offsets[t + 1]` of `X` and `y`.

    Attributes:
        X: features, shape (N, d), C-contiguous, sorted by task.
        y: rewards, shape (N,).
        offsets: shape (T + 1,).
        labels: the tasks' labels, one per task, in column order of every fitted model.

    Examples:
        >>> data = TaskData.from_rows([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [1, 2, 3], ["b", "a", "b"])
        >>> data.labels.tolist(), data.counts.tolist()
        (['a', 'b'], [1, 2])
        >>> data.rows_of(1)[1]
        array([1., 3.])
    """

    X: Float
    y: Float
    offsets: Int
    labels: NDArray[Any]

    @classmethod
    def from_rows(
        cls,
        X: Any,
        y: Any,
        tasks: Any,
        *,
        labels: Sequence[Hashable] | NDArray[Any] | None = None,
        dtype: Any = np.float64,
    ) -> TaskData:
        """Check rows and sort them by task; no copy of `X` where it is sorted and of the right type already.

        Args:
            X: (N, d) numbers: numpy, pandas, polars, or nested sequences.
            y: (N,) rewards.
            tasks: (N,) labels, anything hashable.
            labels: the tasks in the column order wanted, including tasks with no rows yet. By default the
                labels seen, sorted (in order of appearance where they cannot be compared).
            dtype: float64 or float32.
        """
        features = as_matrix(X, "X", dtype=dtype)
        rewards = as_vector(y, "y", dtype=dtype)
        codes, names = encode_labels(tasks, labels)
        if not len(features) == len(rewards) == len(codes):
            raise ShapeError(
                f"X has {len(features)} rows, y has {len(rewards)} and tasks has {len(codes)}; "
                "give one reward and one task label per row of X."
            )
        if len(features) == 0:
            raise InputError("There are no rows; give at least one row of features, reward and task.")
        return cls.from_codes(features, rewards, codes, names)

    @classmethod
    def from_codes(cls, X: Float, y: Float, codes: Int, labels: NDArray[Any]) -> TaskData:
        """Sort clean rows by their task code (an index into `labels`); trusted input, nothing is checked."""
        if np.any(codes[1:] < codes[:-1]):
            order = np.argsort(codes, kind="stable")
            X, y, codes = X[order], y[order], codes[order]
        offsets = np.zeros(len(labels) + 1, dtype=np.int64)
        np.cumsum(np.bincount(codes, minlength=len(labels)), out=offsets[1:])
        return cls(np.ascontiguousarray(X), np.ascontiguousarray(y), offsets, labels)

    @property
    def n_rows(self) -> int:
        """N, over all tasks."""
        return len(self.y)

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        """d."""
        return int(self.X.shape[1])

    @cached_property
    def counts(self) -> Int:
        """Rows of each task, shape (T,)."""
        return np.diff(self.offsets)

    @cached_property
    def codes(self) -> Int:
        """The task index of each row, shape (N,)."""
        return np.repeat(np.arange(self.n_tasks, dtype=np.int64), self.counts)

    def rows_of(self, t: int) -> tuple[Float, Float]:
        """Views of the features and rewards of task index `t`."""
        rows = slice(self.offsets[t], self.offsets[t + 1])
        return self.X[rows], self.y[rows]

    def __iter__(self) -> Iterator[tuple[Float, Float]]:
        return (self.rows_of(t) for t in range(self.n_tasks))

    def fitted(self, theta: Float) -> Float:
        """x_i'θ_t of every row for parameters (d, T), shape (N,)."""
        out = np.empty(self.n_rows)
        for t, (X, _) in enumerate(self):
            np.dot(X, theta[:, t], out=out[self.offsets[t] : self.offsets[t + 1]])
        return out

    def replace_y(self, y: Float) -> TaskData:
        """The same design with other rewards (sorted as `X` is)."""
        return TaskData(self.X, np.ascontiguousarray(y), self.offsets, self.labels)

    def index(self, tasks: Any) -> Int:
        """The index of each label; an error names the first unknown one and its row."""
        return encode_labels(tasks, self.labels)[0]


def plain(value: Any) -> Any:
    """A numpy number or truth value as Python's own; anything else as it is.

    Examples:
        >>> plain(np.int64(2)), plain(np.float32(0.5)), plain("auto")
        (2, 0.5, 'auto')
    """
    return value.item() if isinstance(value, np.generic) else value


def as_matrix(value: Any, name: str, *, dtype: Any = np.float64, dim: int | None = None) -> Float:
    """A finite (N, d) float array, or an error that names the row and column at fault."""
    array = _as_float(value, name, dtype)
    if array.ndim != 2:
        raise ShapeError(
            f"{name} must have two dimensions, rows by features; its shape is {array.shape}. Reshape your "
            f"data: {name}.reshape(1, -1) is a single row."
        )
    if array.shape[1] == 0:
        raise ShapeError(
            f"{name} has 0 feature(s) (shape={array.shape}) while a minimum of 1 is required; give at "
            "least one feature."
        )
    if dim is not None and array.shape[1] != dim:
        raise ShapeError(f"{name} has {array.shape[1]} features; {dim} are expected.")
    _check_finite(array, name, _column_names(value))
    return array


def as_vector(value: Any, name: str, *, dtype: Any = np.float64, size: int | None = None) -> Float:
    """A finite (N,) float array, or an error that names the entry at fault."""
    array = _as_float(value, name, dtype)
    if array.ndim != 1:
        raise ShapeError(f"{name} must have one dimension; its shape is {array.shape}.")
    if size is not None and len(array) != size:
        raise ShapeError(f"{name} has {len(array)} entries; {size} are expected.")
    _check_finite(array, name, None)
    return array


def encode_labels(
    tasks: Any, labels: Sequence[Hashable] | NDArray[Any] | None = None
) -> tuple[Int, NDArray[Any]]:
    """Task labels as indices into `labels` (by default: into the sorted labels seen), and those labels."""
    values = _label_array(tasks, "tasks")
    if labels is None:
        return _factorize(values)
    known = _label_array(labels, "labels")
    place = {label: i for i, label in enumerate(known.tolist())}
    if len(place) != len(known):
        raise InputError("labels holds the same task twice; give each task once.")
    return _lookup(values, place), known


def _lookup(values: NDArray[Any], place: dict[Hashable, int]) -> Int:
    try:
        return np.fromiter((place[v] for v in values.tolist()), dtype=np.int64, count=len(values))
    except TypeError:
        raise InputError(
            "tasks holds labels that are lists or tables; a label is text or a number."
        ) from None
    except KeyError:
        row, bad = next((i, v) for i, v in enumerate(values.tolist()) if v not in place)
        seen = ", ".join(repr(v) for v in list(place)[:3])
        raise UnknownTaskError(
            f"Row {row} names task {bad!r}, which is unknown ({len(place)} tasks are known: {seen}"
            f"{', …' if len(place) > 3 else ''}). Fit it first, or add it with add_tasks."
        ) from None


def _hashable(values: NDArray[Any]) -> dict[Any, None]:
    try:
        return dict.fromkeys(values.tolist())
    except TypeError as reason:
        raise InputError(f"Task labels must be hashable, such as text or numbers ({reason}).") from None


def _factorize(values: NDArray[Any]) -> tuple[Int, NDArray[Any]]:
    if values.dtype != object:
        names, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int64, copy=False), names
    seen = list(_hashable(values))
    with suppress(TypeError):  # labels of mixed kinds stay in order of appearance
        seen.sort()
    return _lookup(values, {v: i for i, v in enumerate(seen)}), object_array(seen)


def object_array(items: Sequence[Any]) -> NDArray[Any]:
    """A 1-D object array of the items as they are, tuples included."""
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


def joined_labels(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Both lists of labels in one array, each label as it was (1 and "1" stay two labels)."""
    if first.dtype.kind == second.dtype.kind:
        return np.concatenate([first, second])
    return object_array([*first.tolist(), *second.tolist()])


def _label_array(value: Any, name: str) -> NDArray[Any]:
    try:
        array = _from_sequence(value) if isinstance(value, (list, tuple)) else np.asarray(value)
    except (TypeError, ValueError, RecursionError) as reason:
        raise InputError(f"{name} cannot be read as labels ({reason}); give one per row.") from None
    if is_masked(array) or is_masked(value):
        raise InputError(f"{name} has masked entries; every row needs a task.")
    if array.ndim != 1:
        raise ShapeError(f"{name} must be one label per row; its shape is {array.shape}.")
    missing = _missing_label(array)
    if missing is not None:
        raise InputError(f"{name} has no label (NaN or None) at row {missing}; every row needs a task.")
    return array


def _from_sequence(value: Sequence[Any]) -> NDArray[Any]:
    """Labels of one simple kind as a typed array, others as the objects they are.

    numpy alone would turn 1 and "1" into one label, and a list of tuples into a matrix.
    """
    kinds = {type(v) for v in value}
    simple = len(kinds) == 1 and issubclass(next(iter(kinds)), (str, bool, int, float, np.generic))
    return np.asarray(value) if simple else object_array(list(value))


def _missing_label(array: NDArray[Any]) -> int | None:
    if array.dtype.kind == "f":
        bad = np.flatnonzero(np.isnan(array))
        return int(bad[0]) if len(bad) else None
    if array.dtype.kind == "M":
        bad = np.flatnonzero(np.isnat(array))
        return int(bad[0]) if len(bad) else None
    if array.dtype == object:
        return next((i for i, v in enumerate(array.tolist()) if _is_missing(v)), None)
    return None


def _is_missing(value: Any) -> bool:
    """None, NaN, and pandas' NA, which has no truth value."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def is_number(value: Any) -> bool:
    """A real number that a float can hold; truth values and spans of time are none."""
    numbers = (int, float, np.integer, np.floating)
    if isinstance(value, (bool, np.timedelta64)) or not isinstance(value, numbers):
        return False
    try:
        return bool(np.isfinite(float(value)))
    except OverflowError:
        return False


def is_masked(value: Any) -> bool:
    """Whether some entries are masked, whose values would be used all the same."""
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.getmaskarray(value).any())


def _is_float_type(dtype: Any) -> bool:
    try:
        return np.dtype(dtype) in (np.dtype(np.float64), np.dtype(np.float32)) and dtype is not None
    except (TypeError, ValueError, UnicodeEncodeError):
        return False


def _as_float(value: ArrayLike, name: str, dtype: Any) -> Float:
    if not _is_float_type(dtype):
        raise InputError(f"dtype must be float64 or float32, not {dtype!r}.")
    if is_masked(value):
        raise InputError(f"{name} has masked entries; fill them or leave those rows out.")
    if hasattr(value, "toarray"):
        raise InputError(f"{name} is sparse; give a dense array, such as {name}.toarray().")
    try:
        raw = np.asarray(value)
        if raw.dtype.kind == "c":
            raise TypeError(f"values of type {raw.dtype}. Complex data not supported")
        if raw.dtype.kind not in "fiubO":
            raise TypeError(f"values of type {raw.dtype}")
        if raw.dtype == object and any(isinstance(v, str) for v in raw.flat):
            raise TypeError("text")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(raw, dtype=dtype)
    except OverflowError:
        raise NonFiniteError(f"{name} holds an integer too large for a float; rescale that column.") from None
    except (TypeError, ValueError) as reason:
        raise InputError(
            f"{name} cannot be read as numbers ({reason}); encode text and missing values first."
        ) from None


def _check_finite(array: Float, name: str, columns: list[str] | None) -> None:
    with np.errstate(all="ignore"):
        if np.isfinite(np.vdot(array, array)):  # one read, and squares that overflow are found too
            return
    for start in range(0, len(array), _CHUNK):
        bad = np.argwhere(~np.isfinite(array[start : start + _CHUNK]))
        if len(bad):
            where = f"row {start + int(bad[0][0])}"
            if array.ndim == 2:
                column = int(bad[0][1])
                where += f", column {columns[column]!r}" if columns else f", column {column}"
            raise NonFiniteError(
                f"{name} has {array[start:][tuple(bad[0])]} at {where}; remove or impute such values (a "
                f"number that overflows {array.dtype} counts as infinite)."
            )
    raise NonFiniteError(
        f"{name} has values up to {float(np.abs(array).max()):.3g}, too large to square in {array.dtype}; "
        "rescale it."
    )


def _column_names(value: Any) -> list[str] | None:
    columns = getattr(value, "columns", None)
    return [str(c) for c in columns] if columns is not None else None
