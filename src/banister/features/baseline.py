"""What the policy in place would play: an arm's name, an index, a rule, or a column of the log.

| `baseline=` | meaning |
| --- | --- |
| an arm's name | always that arm |
| a whole number | the arm with that index |
| a function of the row | a rule, or a model in production: it returns a name or an index |
| a column of the log | names (or indices) that were written down with each row |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from banister.data import Int, Whole
from banister.errors import InputError
from banister.features.base import Features
from banister.features.naming import known

Rule = Callable[[Any], Any]
Baseline = str | Whole | Rule


def baselines(spec: Any, features: Features, frame: Any) -> Int:
    """(n,) the index of the baseline among `features.names`, for each row of a log.

    A text that is both an arm and a column is an error. Functions are called once a row with a mapping of its
    raw values; everything else is done for all rows at once.

    Examples:
        >>> import polars as pl
        >>> from banister.features.arms import Arms
        >>> log = pl.DataFrame({"age": [20, 70], "usual": ["b", "a"]})
        >>> arms = Arms(["a", "b"])
        >>> [baselines(s, arms, log).tolist() for s in ("b", 0, "usual", lambda row: "ab"[row["age"] > 50])]
        [[1, 1], [0, 0], [1, 0], [0, 1]]
    """
    names = features.names
    if isinstance(spec, str):
        return _by_text(spec, features, frame)
    if callable(spec):
        answers = [place(spec(row), names, f"row {i}: ") for i, row in enumerate(frame.iter_rows(named=True))]
        return np.array(answers, dtype=np.int64)
    return np.full(len(frame), place(spec, names), dtype=np.int64)


def baseline_index(spec: Any, names: Sequence[str], context: Any) -> int:
    """The baseline's index among the names that one request offers."""
    return place(spec(context) if callable(spec) else spec, names)


def place(answer: Any, names: Sequence[str], where: str = "") -> int:
    """The index of a name or index, among names; an error says what there is."""
    if isinstance(answer, str):
        if answer not in names:
            raise InputError(
                f"{where}baseline={answer!r} is not on offer; {known(dict.fromkeys(names, 0), 'action')}."
            )
        return list(names).index(answer)
    if isinstance(answer, bool) or not isinstance(answer, (int, np.integer)):
        raise InputError(
            f"{where}baseline={answer!r} must be an action's name, its index, a function that returns one of "
            "these, or (for a log) a column."
        )
    if not 0 <= answer < len(names):
        raise InputError(
            f"{where}baseline={answer} names no action; there are {len(names)}, numbered from 0 to "
            f"{len(names) - 1}."
        )
    return int(answer)


def _by_text(spec: str, features: Features, frame: Any) -> Int:
    names, columns = features.names, frame.columns
    if spec in names and spec in columns:
        raise InputError(
            f"baseline={spec!r} is an arm and a column of the log; rename the column, or give the arm's "
            f"index {names.index(spec)}."
        )
    if spec in names:
        return np.full(len(frame), names.index(spec), dtype=np.int64)
    if spec not in columns:
        raise InputError(
            f"baseline={spec!r} is neither an arm nor a column; "
            f"{known(dict.fromkeys(names, 0), 'arm')}, the columns {', '.join(columns)}."
        )
    return _by_column(frame[spec], features)


def _by_column(values: Any, features: Features) -> Int:
    if not values.dtype.is_integer():
        return features.index(values)
    index = values.to_numpy()
    bad = np.flatnonzero(~((index >= 0) & (index < len(features.names))))
    if len(bad):
        raise InputError(
            f"Column {values.name!r} holds {values[int(bad[0])]} at row {bad[0]}; indices run from 0 to "
            f"{len(features.names) - 1}."
        )
    return np.asarray(index, dtype=np.int64)
