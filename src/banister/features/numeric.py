"""A column of numbers: shifted and scaled as the log says, with a flag beside it where the log had gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from banister.data import Float
from banister.errors import InputError


@dataclass(frozen=True)
class Numeric:
    """`(x − mean) / scale`; a gap counts as the mean, and as 1 in the flag if the log had gaps.

    Where the log had none, a gap in a request is filled too, but there is no flag to learn what it means.

    Attributes:
        name: of the column.
        mean, scale: of the log's numbers; the scale of a constant column is 1.
        flag: whether the log had gaps.
    """

    kind: ClassVar[str] = "numeric"

    name: str
    mean: float
    scale: float
    flag: bool

    @classmethod
    def learn(cls, values: Any) -> Numeric:
        """From a polars column."""
        from sklearn.preprocessing import StandardScaler

        numbers = to_numbers(values, 0)
        gaps = np.isnan(numbers)
        if gaps.all():
            raise InputError(f"Column {values.name!r} is empty in every row; leave it out.")
        scaler = StandardScaler().fit(numbers[:, None])  # passes over NaN
        return cls(values.name, float(scaler.mean_[0]), float(scaler.scale_[0]), bool(gaps.any()))

    @property
    def labels(self) -> list[str]:
        """Names of the features it makes."""
        return [self.name, *[f"{self.name}: missing"] * self.flag]

    def fill(self, values: Any, out: Float, first: int) -> None:
        """Write the features of a polars column, whose first row is `first`, into `out` (n, width)."""
        numbers = to_numbers(values, first)
        gaps = np.isnan(numbers)
        np.subtract(numbers, self.mean, out=out[:, 0])
        out[:, 0] /= self.scale
        out[gaps, 0] = 0.0
        if self.flag:
            out[:, 1] = gaps

    def writer(self, at: int) -> Callable[[Any, list[float]], None]:
        """A function that writes one value's features into a list of zeros, from position `at`."""
        name, mean, scale, flag = self.name, self.mean, self.scale, self.flag

        def write(value: Any, out: list[float]) -> None:
            if type(value) is not float and type(value) is not int:
                value = one_number(name, value)
            scaled = (value - mean) / scale
            if scaled - scaled == 0.0:
                out[at] = scaled
            elif value != value:
                if flag:
                    out[at + 1] = 1.0
            else:
                raise InputError(f"context[{name!r}]={value!r} is too large; give a finite number, or None.")

        return write


def one_number(name: str, value: Any) -> float:
    """A number handed in for a column: NaN for a gap, or an error that says what else it was."""
    if value is None:
        return float("nan")
    if isinstance(value, (bool, np.bool_, int, float, np.integer, np.floating)):
        return float(value)
    try:
        missing = bool(value != value)
    except (TypeError, ValueError):  # pandas' NA has no truth value
        missing = True
    if missing:
        return float("nan")
    raise InputError(
        f"context[{name!r}]={value!r} must be a number, or None where it is unknown; name the column in "
        "categorical= or dates= if it holds something else."
    )


def to_numbers(values: Any, first: int) -> Float:
    """A polars column as float64, NaN at gaps; an error names column, row and what stands there."""
    import polars as pl

    kind = values.dtype
    if kind == pl.Null:
        return np.full(len(values), np.nan)
    if kind.is_temporal():
        raise InputError(f"Column {values.name!r} holds {kind}, not numbers; name it in dates=.")
    if not (kind.is_numeric() or kind == pl.Boolean):
        raise InputError(_not_numbers(values, first))
    numbers = np.asarray(values.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64)
    endless = np.isinf(numbers)
    if endless.any():
        raise InputError(
            f"Column {values.name!r} holds infinity at row {first + int(np.argmax(endless))}; leave it empty "
            "where it is unknown."
        )
    return numbers


def _not_numbers(values: Any, first: int) -> str:
    import polars as pl

    row, shown = 0, ""
    if values.dtype == pl.String:
        bad = values.is_not_null() & values.cast(pl.Float64, strict=False).is_null()
        row = int(bad.arg_max() or 0)
        shown = f": {values[row]!r} at row {first + row}"
    return (
        f"Column {values.name!r} holds {values.dtype}, not numbers{shown}; convert it, or name it in "
        "categorical=."
    )
