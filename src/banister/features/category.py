"""A column of categories: a feature for each that the log shows often enough, one for all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import numpy as np

from banister.data import Float
from banister.errors import InputError


@dataclass(frozen=True)
class Category:
    """One feature a category, but for the first, which is the ordinary case: none of them is set.

    A category that the log did not show, or too seldom, sets the feature `other`. A gap has a feature of its
    own if the log had gaps, and counts as `other` if it had none.

    Attributes:
        name: of the column.
        levels: the categories as text, the most frequent first.
        flag: whether the log had gaps.
    """

    kind: ClassVar[str] = "categorical"

    name: str
    levels: tuple[str, ...]
    flag: bool

    @classmethod
    def learn(cls, values: Any, most: int) -> Category:
        """From a polars column; at most `most` categories, the most frequent ones.

        Counting is polars': scikit-learn's encoder sorts a million texts a column.
        """
        import polars as pl

        texts = to_texts(values)
        counts = texts.drop_nulls().alias("level").value_counts(name="n")
        if len(counts) == 0:
            raise InputError(f"Column {values.name!r} is empty in every row; leave it out.")
        ordered = counts.sort([pl.col("n"), pl.col("level")], descending=[True, False])
        return cls(values.name, tuple(ordered["level"].head(most).to_list()), bool(texts.has_nulls()))

    @property
    def labels(self) -> list[str]:
        """Names of the features it makes."""
        own = [f"{self.name}={level}" for level in self.levels[1:]]
        return [*own, *[f"{self.name}: missing"] * self.flag, f"{self.name}: other"]

    @property
    def _other(self) -> int:
        return len(self.levels) - 1 + self.flag

    @property
    def _gap(self) -> int:
        return len(self.levels) - 1  # its own feature, or `other` where the log had no gaps

    def fill(self, values: Any, out: Float, first: int) -> None:
        """Write the features of a polars column into `out` (n, width)."""
        import polars as pl

        places = list(range(-1, len(self.levels) - 1))
        texts = to_texts(values)
        codes = texts.replace_strict(
            list(self.levels), places, default=pl.lit(self._other), return_dtype=pl.Int64
        )
        code = np.where(texts.is_null().to_numpy(), self._gap, codes.to_numpy())
        out[:] = 0.0
        rows = np.flatnonzero(code >= 0)
        out[rows, code[rows]] = 1.0

    def writer(self, at: int) -> Callable[[Any, list[float]], None]:
        """A function that writes one value's features into a list of zeros, from position `at`."""
        places: dict[Any, int] = {level: at + i for i, level in enumerate(self.levels[1:])}
        places[self.levels[0]] = -1
        name, gap, other = self.name, at + self._gap, at + self._other

        def write(value: Any, out: list[float]) -> None:
            text = value if type(value) is str else one_text(name, value)
            place = places.get(text, other) if text else gap
            if place >= 0:
                out[place] = 1.0

        return write


def one_text(name: str, value: Any) -> str | None:
    """A category handed in, as `to_texts` writes it; None for a gap."""
    if value is None:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return number_text(float(value))
    if isinstance(value, (list, tuple, dict, set, np.ndarray, datetime, np.datetime64)):
        raise InputError(f"context[{name!r}]={value!r} must be one category, such as text or a number.")
    try:
        return str(value) if value == value else None
    except (TypeError, ValueError):  # pandas' NA has no truth value
        return None


def number_text(value: float) -> str | None:
    """3.0 and 3 are one category: pandas turns whole numbers into fractions where a column has gaps."""
    if value != value:
        return None
    return str(int(value)) if value.is_integer() else repr(value)


def to_texts(values: Any) -> Any:
    """A polars column as text, null at gaps (empty text is a gap)."""
    import polars as pl

    kind = values.dtype
    if kind.is_nested() or kind in (pl.Object, pl.Binary, pl.Datetime, pl.Duration, pl.Time):
        raise InputError(
            f"Column {values.name!r} holds {kind}, not categories; name it in dates= if it holds times, or "
            "make it text or a number first."
        )
    if kind.is_float():
        seen = values.unique().to_list()
        texts = [None if v is None else number_text(v) for v in seen]
        return values.replace_strict(seen, texts, return_dtype=pl.String)
    texts = values if kind == pl.String else values.cast(pl.String)
    return pl.select(pl.when(texts != "").then(texts)).to_series().alias(values.name)
