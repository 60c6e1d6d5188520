"""A column of dates or times: where the moment stands in the day, the week and the year."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from math import cos, pi, sin
from typing import Any, ClassVar

import numpy as np

from banister.data import Float
from banister.errors import InputError

_DAY = 86_400.0
# Seconds of each cycle, and from when it is counted: 1970-01-01 was a Thursday, so weeks begin on Mondays.
_CYCLES = {"day": (_DAY, 0.0), "week": (7 * _DAY, 3 * _DAY), "year": (365.2425 * _DAY, 0.0)}
# A cycle is kept if the log saw enough of it: two weeks for the week, one year for the year. Less would
# teach a trend and call it a season.
_NEEDED = {"day": _DAY, "week": 14 * _DAY, "year": 365.0 * _DAY}


@dataclass(frozen=True)
class Moment:
    """Sine and cosine of the day, the week and the year, as far as the log is long enough to show them.

    Times with a zone are taken at UTC; those without one as they stand. Give requests as the log has them.

    Attributes:
        name: of the column.
        cycles: which of "day", "week", "year".
        flag: whether the log had gaps.
    """

    kind: ClassVar[str] = "date"

    name: str
    cycles: tuple[str, ...]
    flag: bool

    @classmethod
    def learn(cls, values: Any) -> Moment:
        """From a polars column."""
        seconds = to_seconds(values, 0)
        known = seconds[~np.isnan(seconds)]
        if len(known) == 0:
            raise InputError(f"Column {values.name!r} is empty in every row; leave it out.")
        span = float(known.max() - known.min())
        timed = bool((known % _DAY != 0).any())
        cycles = tuple(c for c in _CYCLES if span >= _NEEDED[c] and (c != "day" or timed))
        if not cycles:
            raise InputError(
                f"Column {values.name!r} spans {span / _DAY:.1f} days: too short to tell what the time of "
                "day, the day of the week (14 days) or the season (a year) does. Leave it out, or give a "
                "longer log."
            )
        return cls(values.name, cycles, len(known) < len(seconds))

    @property
    def labels(self) -> list[str]:
        """Names of the features it makes."""
        waves = [f"{self.name}: {f} of the {c}" for c in self.cycles for f in ("sine", "cosine")]
        return [*waves, *[f"{self.name}: missing"] * self.flag]

    def fill(self, values: Any, out: Float, first: int) -> None:
        """Write the features of a polars column, whose first row is `first`, into `out` (n, width)."""
        seconds = to_seconds(values, first)
        gaps = np.isnan(seconds)
        for i, cycle in enumerate(self.cycles):
            length, start = _CYCLES[cycle]
            angle = (2 * pi / length) * ((seconds + start) % length)
            out[:, 2 * i], out[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
        out[gaps] = 0.0
        if self.flag:
            out[:, -1] = gaps

    def writer(self, at: int) -> Callable[[Any, list[float]], None]:
        """A function that writes one value's features into a list of zeros, from position `at`."""
        name, waves, flag = self.name, [_CYCLES[c] for c in self.cycles], self.flag
        last = at + 2 * len(waves)

        def write(value: Any, out: list[float]) -> None:
            seconds = one_moment(name, value)
            if seconds is None:
                if flag:
                    out[last] = 1.0
                return
            place = at
            for length, start in waves:
                angle = (2 * pi / length) * ((seconds + start) % length)
                out[place], out[place + 1] = sin(angle), cos(angle)
                place += 2

        return write


def one_moment(name: str, value: Any) -> float | None:
    """Seconds since 1970 of a date or time handed in; None for a gap."""
    if value is None or value != value:  # NaT and NaN differ from themselves
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InputError(
                f"context[{name!r}]={value!r} is no date; write it as 2024-05-31 or 2024-05-31T14:30:00."
            ) from None
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / 1e6
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC).timestamp()
    raise InputError(f"context[{name!r}]={value!r} must be a date, a time, or text such as 2024-05-31.")


def to_seconds(values: Any, first: int) -> Float:
    """A polars column as seconds since 1970, NaN at gaps."""
    import polars as pl

    kind = values.dtype
    moments = values
    if kind == pl.String:
        moments = _parsed(values)
        bad = values.is_not_null() & moments.is_null()
        if bad.any():
            row = int(bad.arg_max())
            raise InputError(
                f"Column {values.name!r} holds {values[row]!r} at row {first + row}, which is no date; write "
                "dates as 2024-05-31 or 2024-05-31T14:30:00."
            )
    elif kind not in (pl.Date, pl.Datetime, pl.Null):
        raise InputError(f"Column {values.name!r} holds {kind}, not dates; name it in numeric= instead.")
    micro = moments.cast(pl.Datetime("us")).cast(pl.Int64)
    return np.asarray(micro.cast(pl.Float64).fill_null(float("nan")).to_numpy(), dtype=np.float64) / 1e6


def _parsed(values: Any) -> Any:
    """Text as moments, null where it is none."""
    import polars as pl

    try:
        return values.str.to_datetime(strict=False, time_unit="us")
    except pl.exceptions.PolarsError:  # not one row looks like a date
        return pl.Series(values.name, [None] * len(values), dtype=pl.Datetime("us"))
