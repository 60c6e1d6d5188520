"""Checks of settings that several policies share."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.errors import SettingError


def check_positive(name: str, value: Any) -> float:
    """A positive, finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < np.inf:
        raise SettingError(f"{name}={value!r} is not possible; give a positive number.")
    return float(value)


def check_count(name: str, value: Any) -> int:
    """A whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise SettingError(f"{name}={value!r} is not possible; give a whole number of at least 1.")
    return int(value)


def check_probability(name: str, value: Any) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < 1:
        raise SettingError(f"{name}={value!r} must be a probability strictly between 0 and 1.")
    return float(value)


def check_levels(name: str, value: Any) -> None:
    """None, or numbers that are not negative, NaN or infinite."""
    if value is not None and not np.all((np.asarray(value) >= 0) & np.isfinite(value)):
        raise SettingError(f"{name}={value!r} must be finite and not negative, or None to estimate it.")


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    """One of the words known."""
    if value not in known:
        raise SettingError(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, known))}.")
