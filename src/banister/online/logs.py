"""Logs of the policy in place: Parquet, CSV or any DataFrame, with columns named by the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from banister.data import Float, Int, as_matrix, as_vector
from banister.errors import DataFileError, InputError, ShapeError
from banister.extras import LOGS, need
from banister.online.door import check_index

_MOST_LISTED = 50  # columns in a message: as many as can be read at a glance


class Frame(Protocol):
    """A table whose columns are asked for by name, such as a polars or pandas DataFrame."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""

    def __getitem__(self, name: Any, /) -> Any:
        """A column."""


Logs = str | Path | Frame | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class LogRows:
    """Clean rows.

    Attributes:
        labels: the tasks, in order of appearance.
        task: (n,) index into them.
        X: (n, d) what was played.
        y: (n,) what it earned.
        baseline: (n, d) what the policy in place would play; what was played, unless the log says otherwise.
        baseline_reward: (n,) what the baseline was expected to earn; NaN where unknown.
        actions: what was on offer, n arrays (K_i, d); None if the log does not say.
        propensity: (n,) the probability with which the logging policy played what it played; None if unknown.
    """

    labels: list[str]
    task: Int
    X: Float
    y: Float
    baseline: Float
    baseline_reward: Float
    actions: list[Float] | None = None
    propensity: Float | None = None

    def __len__(self) -> int:
        return len(self.y)

    def part(self, rows: Any) -> LogRows:
        """Some of the rows; labels stay."""
        picked = np.arange(len(self))[rows]
        return LogRows(
            self.labels,
            self.task[picked],
            self.X[picked],
            self.y[picked],
            self.baseline[picked],
            self.baseline_reward[picked],
            None if self.actions is None else [self.actions[i] for i in picked],
            None if self.propensity is None else self.propensity[picked],
        )


def read_logs(
    logs: Logs,
    *,
    task: str = "task",
    reward: str = "reward",
    features: str | Sequence[str] = "f*",
    baseline_reward: str | None = None,
    actions: str | None = None,
    baseline: str | None = None,
    propensity: str | None = None,
) -> LogRows:
    """Rows of a log.

    Args:
        logs: a path (.parquet, .csv), a polars or pandas DataFrame, or a mapping of columns.
        task, reward: names of columns.
        features: names of columns, a pattern that they match ("f*"), or one column of lists.
        baseline_reward: a column with what the baseline was expected to earn; empty where unknown.
        actions: a column of lists of lists, the features of all actions on offer.
        baseline: a column with the index, among those actions, of what the policy in place would play; needed
            where it explored and played something else. By default the baseline is what was played.
        propensity: a column with the logging policy's probability of what it played; needs `baseline`.

    Examples:
        >>> rows = read_logs({"shop": ["a", "b"], "f0": [1.0, 2.0], "won": [0, 1]}, task="shop", reward="won")
        >>> rows.labels, rows.X.tolist(), rows.y.tolist()
        (['a', 'b'], [[1.0], [2.0]], [0.0, 1.0])
    """
    frame = _frame(logs)
    if len(frame) == 0:
        raise InputError("The log has no rows.")
    labels, codes = _labels(_column(frame, task, "task"))
    X = as_matrix(_features(frame, features), "features")
    y = as_vector(_numbers(_column(frame, reward, "reward")), f"column {reward!r}")
    known = np.full(len(y), np.nan)
    if baseline_reward is not None:
        known = _optional(_column(frame, baseline_reward, "baseline_reward"), baseline_reward)
    offered = None if actions is None else _actions(_column(frame, actions, "actions"), X)
    usual = X if baseline is None else _baselines(_column(frame, baseline, "baseline"), offered)
    if propensity is None:
        return LogRows(labels, codes, X, y, usual, known, offered)
    if baseline is None:
        raise InputError(
            "A log with propensities explores: what was played is not what the policy in place would play. "
            "Name the column that says what would be, with baseline=..."
        )
    chance = _propensity(_column(frame, propensity, "propensity"), propensity)
    return LogRows(labels, codes, X, y, usual, known, offered, chance)


def _frame(logs: Any) -> Any:
    need(LOGS)
    import polars as pl

    if isinstance(logs, (str, Path)):
        return _file(Path(logs))
    if isinstance(logs, pl.DataFrame):
        return logs
    try:
        columns = logs.columns if hasattr(logs, "columns") else logs.keys()
        return pl.DataFrame(
            {str(c): np.asarray(logs[c]) if hasattr(logs, "columns") else logs[c] for c in columns}
        )
    except (AttributeError, TypeError, ValueError, pl.exceptions.PolarsError) as reason:
        raise InputError(
            f"logs of type {type(logs).__name__} cannot be read ({reason}); give a path, a DataFrame or a "
            "mapping of columns of equal length."
        ) from None


def _file(path: Path) -> Any:
    import polars as pl

    readers: dict[str, Any] = {".parquet": pl.read_parquet, ".csv": pl.read_csv}
    if path.suffix not in readers:
        raise DataFileError(f"{path} is neither .parquet nor .csv; convert it, or hand in a DataFrame.")
    if not path.is_file():
        raise DataFileError(f"{path} does not exist.")
    try:
        return readers[path.suffix](path)
    except (pl.exceptions.PolarsError, OSError) as reason:
        raise DataFileError(f"{path} cannot be read ({reason}).") from None


def _column(frame: Any, name: str, role: str) -> Any:
    if name not in frame.columns:
        raise InputError(
            f"The log has no column {name!r} for {role}; it has {_listed(frame.columns, name)}. Name it "
            f"with {role}=..."
        )
    return frame[name]


def _listed(columns: list[str], wanted: str) -> str:
    """All columns; of a great many, those most like the one wanted, and how many others there are."""
    if len(columns) <= _MOST_LISTED:
        return ", ".join(columns)
    near = get_close_matches(wanted, columns, n=_MOST_LISTED, cutoff=0.0)
    return f"{', '.join(near)} and {len(columns) - len(near)} others"


def _labels(column: Any) -> tuple[list[str], Int]:
    values = column.to_list()
    for row, value in enumerate(values):
        if value is None or value == "" or value != value:
            raise InputError(f"Column {column.name!r} has no task at row {row}; every row needs one.")
    place: dict[str, int] = {}
    codes = np.array([place.setdefault(str(v), len(place)) for v in values], dtype=np.int64)
    return list(place), codes


def _features(frame: Any, features: str | Sequence[str]) -> Any:
    if isinstance(features, str):
        names = [c for c in frame.columns if fnmatchcase(c, features)]
        if not names:
            raise InputError(
                f"No column matches features={features!r}; the log has {_listed(frame.columns, features)}."
            )
    else:
        names = list(features)
        if not names:
            raise InputError("features names no column.")
    columns = [_column(frame, name, "features") for name in names]
    if len(columns) == 1 and columns[0].dtype.is_nested():
        return _lists(columns[0])
    return np.column_stack([_numbers(c) for c in columns])


def _lists(column: Any) -> Float:
    rows = column.to_list()
    widths = {len(r) if r is not None else 0 for r in rows}
    if len(widths) != 1:
        raise ShapeError(f"Column {column.name!r} holds lists of different lengths {sorted(widths)[:5]}.")
    return np.array(rows, dtype=float)


def _numbers(column: Any) -> Float:
    if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
        raise InputError(f"Column {column.name!r} holds {column.dtype}, not numbers; encode it first.")
    missing = column.is_null()
    if missing.any():
        raise InputError(
            f"Column {column.name!r} is empty at row {missing.arg_max()}; remove or impute such rows."
        )
    return np.asarray(column.to_numpy(), dtype=float)


def _optional(column: Any, name: str) -> Float:
    values = np.asarray(column.cast(float, strict=False).fill_null(np.nan).to_numpy(), dtype=float)
    if np.isinf(values).any():
        raise InputError(f"Column {name!r} holds infinity at row {int(np.argmax(np.isinf(values)))}.")
    return values


def _propensity(column: Any, name: str) -> Float:
    values = _numbers(column)
    bad = np.flatnonzero(~((values > 0) & (values <= 1)))
    if len(bad):
        raise InputError(f"Column {name!r} is {values[bad[0]]} at row {bad[0]}; a propensity lies in (0, 1].")
    return values


def _baselines(column: Any, offered: list[Float] | None) -> Float:
    if offered is None:
        raise InputError(
            "baseline names an index among the actions on offer; name their column with actions=..."
        )
    index = [
        check_index(b, len(a), f"row {i}: ") for i, (b, a) in enumerate(zip(column, offered, strict=True))
    ]
    return np.stack([a[b] for a, b in zip(offered, index, strict=True)])


def _actions(column: Any, X: Float) -> list[Float]:
    sets = [as_matrix(rows, f"row {i}: actions", dim=X.shape[1]) for i, rows in enumerate(column.to_list())]
    for i, (offered, played) in enumerate(zip(sets, X, strict=True)):
        if not (offered == played).all(axis=1).any():
            raise InputError(f"Row {i}: what was played is not among its actions; list it there.")
    return sets
