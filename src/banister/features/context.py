"""A context's columns, learned from a log and then frozen: a row of numbers for each request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from banister.data import Float
from banister.errors import InputError, SettingError
from banister.features.category import Category
from banister.features.date import Moment
from banister.features.frames import column
from banister.features.numeric import Numeric

Column = Numeric | Category | Moment


@dataclass(frozen=True)
class Spec:
    """Which columns a context has, and of which kind.

    Attributes:
        numeric, categorical, dates: names of columns.
        most: categories kept of each column.
    """

    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    most: int = 20

    def __post_init__(self) -> None:
        names = self.names
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise SettingError(f"The columns {sorted(twice)} are named twice; name each once.")
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1:
            raise SettingError(f"max_categories={self.most!r} must be a whole number, at least 1.")

    @property
    def names(self) -> tuple[str, ...]:
        """All columns, in the order of their features."""
        return (*self.numeric, *self.categorical, *self.dates)

    def learn(self, frame: Any) -> Context:
        """The columns as a log shows them."""
        learned: list[Column] = [Numeric.learn(_named(frame, n)) for n in self.numeric]
        learned += [Category.learn(_named(frame, n), self.most) for n in self.categorical]
        learned += [Moment.learn(_named(frame, n)) for n in self.dates]
        return Context(tuple(learned))


def names_of(value: Any, what: str) -> tuple[str, ...]:
    """A list of names, or an error that says how to write one."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SettingError(f"{what}={value!r} must be a list of names, such as ['age', 'basket'].")
    for name in value:
        if not isinstance(name, str) or not name:
            raise SettingError(f"{what} holds {name!r}; names are text that is not empty.")
    return tuple(value)


def _named(frame: Any, name: str) -> Any:
    return column(frame, name, "the context", "Name the columns in numeric=, categorical= and dates=.")


@dataclass(frozen=True)
class Context:
    """Learned columns: what makes features of raw values."""

    columns: tuple[Column, ...]

    @cached_property
    def width(self) -> int:
        """How many features."""
        return len(self.labels)

    @cached_property
    def labels(self) -> list[str]:
        """Names of the features."""
        return [label for c in self.columns for label in c.labels]

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Where each column's features stand."""
        found, at = {}, 0
        for c in self.columns:
            found[c.name] = slice(at, at + len(c.labels))
            at = found[c.name].stop
        return found

    def block(self, frame: Any, start: int, stop: int) -> Float:
        """Features (n, width) of the frame's rows from `start` to `stop`."""
        part = frame[start:stop]
        out = np.empty((len(part), self.width))
        for c in self.columns:
            c.fill(_named(part, c.name), out[:, self.slices[c.name]], start)
        return out

    @cached_property
    def _writers(self) -> list[tuple[str, Callable[[Any, list[float]], None]]]:
        return [(c.name, c.writer(self.slices[c.name].start)) for c in self.columns]

    def vector(self, context: Any) -> list[float]:
        """Features of one context, given as a mapping of raw values."""
        out, name = [0.0] * self.width, ""
        try:
            for name, write in self._writers:
                write(context[name], out)
        except (KeyError, TypeError, IndexError):
            self._complain(context)
            raise
        except OverflowError:
            raise InputError(
                f"context[{name!r}] is too large for a float; give a number that is not, or None."
            ) from None
        return out

    def _complain(self, context: Any) -> None:
        """Say what is wrong with a context that could not be read."""
        if not isinstance(context, Mapping):
            raise InputError(
                f"context={context!r} must map columns to values, such as {{{self.columns[0].name!r}: …}}."
            ) from None
        lacking = [c.name for c in self.columns if c.name not in context]
        if lacking:
            raise InputError(
                f"context lacks {', '.join(map(repr, lacking))}; it needs "
                f"{', '.join(c.name for c in self.columns)} (None where a value is unknown)."
            ) from None
