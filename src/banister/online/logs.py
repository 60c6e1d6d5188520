"""Logs of the policy in place: Parquet, CSV or any DataFrame, with columns named by the user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from banister.data import Float, Int, as_matrix, as_vector
from banister.errors import InputError, ShapeError, listed
from banister.features.frames import Logs, column, read_frame
from banister.features.odd_values import not_a_number
from banister.online.door import check_index
from banister.online.log_blocks import Block, stretches


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

    @property
    def dim(self) -> int:
        """d."""
        return int(self.X.shape[1])

    def blocks(self) -> Iterator[Block]:
        """Stretches of the rows, as a ledger keeps them."""
        for at in stretches(len(self)):
            rows = self.X[at].tobytes(), self.baseline[at].tobytes()
            yield Block(self.task[at], self.y[at], self.baseline_reward[at], *rows)

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
    frame = read_frame(logs)
    if len(frame) == 0:
        raise InputError("The log has no rows.")
    labels, codes = task_labels(column(frame, task, "task"))
    X = as_matrix(_features(frame, features), "features")
    y = as_vector(numbers(column(frame, reward, "reward")), f"column {reward!r}")
    known = np.full(len(y), np.nan)
    if baseline_reward is not None:
        known = optional(column(frame, baseline_reward, "baseline_reward"), baseline_reward)
    offered = None if actions is None else _actions(column(frame, actions, "actions"), X)
    usual = X if baseline is None else _baselines(column(frame, baseline, "baseline"), offered)
    if propensity is None:
        return LogRows(labels, codes, X, y, usual, known, offered)
    if baseline is None:
        raise InputError(
            "A log with propensities explores: what was played is not what the policy in place would play. "
            "Name the column that says what would be, with baseline=..."
        )
    chance = propensities(column(frame, propensity, "propensity"), propensity)
    return LogRows(labels, codes, X, y, usual, known, offered, chance)


def task_labels(values: Any) -> tuple[list[str], Int]:
    """The tasks of a polars column in order of appearance, and the index of each row's."""
    import polars as pl

    if values.dtype.is_nested() or values.dtype == pl.Object:
        raise InputError(f"Column {values.name!r} holds {values.dtype}; a task is text or a number.")
    seen = values.unique(maintain_order=True).to_list()
    for value in seen:
        if value is None or value == "" or value != value:
            row = next(i for i, v in enumerate(values) if v is None or v == "" or v != v)
            raise InputError(f"Column {values.name!r} has no task at row {row}; every row needs one.")
    place: dict[str, int] = {}
    codes = [place.setdefault(str(v), len(place)) for v in seen]
    found = values.replace_strict(seen, codes, return_dtype=pl.Int64)
    return list(place), np.asarray(found.to_numpy(), dtype=np.int64)


def _features(frame: Any, features: str | Sequence[str]) -> Any:
    if isinstance(features, str):
        names = [c for c in frame.columns if fnmatchcase(c, features)]
        if not names:
            raise InputError(
                f"No column matches features={features!r}; the log has {listed(frame.columns, features)}."
            )
    else:
        if not isinstance(features, (list, tuple)):
            raise InputError(f"features={features!r} must be a pattern such as 'f*', or names of columns.")
        names = list(features)
        if not names:
            raise InputError("features names no column.")
    columns = [column(frame, name, "features") for name in names]
    if len(columns) == 1 and columns[0].dtype.is_nested():
        return _lists(columns[0])
    return np.column_stack([numbers(c) for c in columns])


def _lists(values: Any) -> Float:
    rows = values.to_list()
    widths = {len(r) if r is not None else 0 for r in rows}
    if len(widths) != 1:
        raise ShapeError(f"Column {values.name!r} holds lists of different lengths {sorted(widths)[:5]}.")
    return np.array(rows, dtype=float)


def numbers(values: Any) -> Float:
    """A polars column as floats; a gap is an error that names its row."""
    _check_numbers(values, "Boolean")
    missing = values.is_null()
    if missing.any():
        raise InputError(
            f"Column {values.name!r} is empty at row {missing.arg_max()}; remove or impute such rows."
        )
    return np.asarray(values.to_numpy(), dtype=float)


def _check_numbers(values: Any, *others: str) -> None:
    """A column must hold numbers, or one of the other kinds that can stand for them."""
    if not (values.dtype.is_numeric() or str(values.dtype) in others):
        where = not_a_number(values)
        remedy = "write a number there, or remove such rows" if where else "turn it into numbers first"
        raise InputError(
            f"Column {values.name!r} holds {values.dtype}, not numbers{': ' * bool(where)}{where}; {remedy}."
        )


def optional(values: Any, name: str) -> Float:
    """A polars column as floats, NaN at gaps."""
    _check_numbers(values, "Null", "Boolean")
    known = np.asarray(values.cast(float, strict=False).fill_null(np.nan).to_numpy(), dtype=float)
    if np.isinf(known).any():
        raise InputError(f"Column {name!r} holds infinity at row {int(np.argmax(np.isinf(known)))}.")
    return known


def propensities(values: Any, name: str) -> Float:
    """A polars column of probabilities."""
    chance = numbers(values)
    bad = np.flatnonzero(~((chance > 0) & (chance <= 1)))
    if len(bad):
        raise InputError(f"Column {name!r} is {chance[bad[0]]} at row {bad[0]}; a propensity lies in (0, 1].")
    return chance


def rows_a_day(frame: Any, name: str) -> float:
    """Rows a day, by a column of dates or times (text of the ISO form too).

    Examples:
        >>> import polars as pl
        >>> rows_a_day(pl.DataFrame({"when": ["2024-05-01", "2024-05-02", "2024-05-04"]}), "when")
        1.0
    """
    import polars as pl

    values = column(frame, name, "time")
    if values.dtype == pl.String:
        text, values = values, values.str.to_datetime(strict=False)
        bad = values.is_null() & text.is_not_null()
        if bad.any():
            row = bad.arg_max()
            raise InputError(f"Column {name!r} is {text[row]!r} at row {row}; give dates or times.")
    if not values.dtype.is_temporal() or values.drop_nulls().len() < 2:
        raise InputError(f"Column {name!r} holds {values.dtype}, which tells no days; give dates or times.")
    span = (values.max() - values.min()).total_seconds() / 86400
    if span <= 0:
        raise InputError(f"Column {name!r} holds one moment only; the rate of rows cannot be told from it.")
    return float(len(frame) / span)


def _baselines(values: Any, offered: list[Float] | None) -> Float:
    if offered is None:
        raise InputError(
            "baseline names an index among the actions on offer; name their column with actions=..."
        )
    index = [
        check_index(b, len(a), f"row {i}: ") for i, (b, a) in enumerate(zip(values, offered, strict=True))
    ]
    return np.stack([a[b] for a, b in zip(offered, index, strict=True)])


def _actions(values: Any, X: Float) -> list[Float]:
    sets = [as_matrix(rows, f"row {i}: actions", dim=X.shape[1]) for i, rows in enumerate(values.to_list())]
    for i, (offered, played) in enumerate(zip(sets, X, strict=True)):
        if not (offered == played).all(axis=1).any():
            raise InputError(f"Row {i}: what was played is not among its actions; list it there.")
    return sets
