"""The theory's door: every argument is checked here once, and an error names the value at fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.errors import SettingError

Values = NDArray[np.float64]


def real(name: str, value: Any) -> Values:
    """`value` as finite floats."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(
            f"{name}={value!r} is not a number; give a number or an array of numbers."
        ) from None
    return _require(name, array, np.isfinite, "a finite number")


def positive(name: str, value: Any) -> Values:
    """Finite and above 0."""
    return _require(name, real(name, value), lambda v: v > 0, "a number above 0")


def non_negative(name: str, value: Any) -> Values:
    """Finite and at least 0."""
    return _require(name, real(name, value), lambda v: v >= 0, "a number of at least 0")


def at_least_one(name: str, value: Any) -> Values:
    """Finite and at least 1: a condition number, an incoherence."""
    return _require(name, real(name, value), lambda v: v >= 1, "a number of at least 1")


def open_unit(name: str, value: Any) -> Values:
    """Strictly between 0 and 1: a failure probability, a conservatism level."""
    return _require(name, real(name, value), lambda v: (v > 0) & (v < 1), "strictly between 0 and 1")


def unit(name: str, value: Any) -> Values:
    """From 0 to 1, ends included: a mixing weight."""
    return _require(name, real(name, value), lambda v: (v >= 0) & (v <= 1), "from 0 to 1")


def count(name: str, value: Any, *, least: int = 1) -> Values:
    """A whole number of at least `least`: rows, tasks, iterations."""
    words = f"a whole number of at least {least}"
    return _require(name, real(name, value), lambda v: (v >= least) & (v == np.floor(v)), words)


def theorem_rho(value: Any) -> Values:
    """`rho` in [0, 0.25] ∪ [0.75, 1], the range in which Theorems T5, l9 and T10 are stated."""
    words = "in [0, 0.25] or [0.75, 1], the range in which the paper states this theorem"
    return _require("rho", unit("rho", value), lambda v: (v <= 0.25) | (v >= 0.75), words)


def gap_square(rho: Values) -> Values:
    """(1 − 2ρ)², the number every epoch-1 constant of the paper is divided by."""
    return np.asarray((1.0 - 2.0 * rho) ** 2)


def _require(name: str, array: Values, good: Callable[[Values], Any], words: str) -> Values:
    ok = np.asarray(good(array))
    if ok.all():
        return array
    place = np.unravel_index(int(np.argmin(ok)), ok.shape)
    where = f" at index {tuple(int(i) for i in place)}" if array.ndim else ""
    raise SettingError(f"{name}={float(array[place])!r}{where} is not possible: it must be {words}.")
