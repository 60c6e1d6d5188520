"""The door: what an application hands in is checked here, once, before anything changes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, Int, as_matrix, is_masked
from banister.errors import InputError, NonFiniteError, ShapeError
from banister.solver.kernels import compiled

_NAN = math.nan


class Request(NamedTuple):
    """One clean request.

    Attributes:
        label: the task.
        actions: (K, d) float64, C-contiguous.
        baseline: index of the policy in place's action.
        high: the baseline reward, or the upper end of an interval that holds it; NaN if unknown.
        low: the lower end; equal to `high` where the reward is known.
        std: standard error of a known baseline reward.
    """

    label: str
    actions: Float
    baseline: int
    high: float
    low: float
    std: float


def check_request(
    task: Any, actions: Any, baseline: Any, reward: Any, std: Any, dim: int | None, where: str = ""
) -> Request:
    """A clean request, or an error that says what is wrong with it."""
    label = check_task(task, where)
    matrix = check_actions(actions, dim, where)
    index = check_index(baseline, len(matrix), where)
    if type(reward) is float and reward - reward == 0.0 and std == 0.0:  # the common case, without detours
        return Request(label, matrix, index, reward, reward, 0.0)
    low, high = check_baseline_reward(reward, where)
    return Request(label, matrix, index, high, low, _check_std(std, where))


def check_task(task: Any, where: str = "") -> str:
    """A task's label: text that is not empty."""
    if type(task) is str and task.isascii() and task and "\0" not in task:  # the common case
        return task
    if isinstance(task, str) and task:
        return _encodable(str(task), f"{where}task")
    raise InputError(f"{where}task={task!r} must be text that is not empty, such as 'store-17'.")


def check_tasks(tasks: Any) -> list[str]:
    """Labels of many requests, or an error that names the request at fault."""
    labels = list(tasks)
    if all(type(task) is str for task in labels) and all(labels):
        joined = "".join(labels)
        if joined.isascii() and "\0" not in joined:  # the common case, all at once
            return labels
    return [check_task(task, f"request {i}: ") for i, task in enumerate(labels)]


def check_key(key: Any) -> str | None:
    """A caller's own name for a call, or None."""
    if key is None:
        return None
    if isinstance(key, str) and key:
        return _encodable(str(key), "key")
    raise InputError(f"key={key!r} must be text that is not empty and names this one call, or None.")


def check_keys(keys: Any, m: int) -> list[str | None]:
    """A key or None for each of m calls."""
    if keys is None:
        return [None] * m
    found = [check_key(key) for key in check_sequence(keys, "keys")]
    if len(found) != m:
        raise ShapeError(f"There are {m} requests and {len(found)} keys; give one per request, or None.")
    return found


def check_why(why: Any) -> str:
    """A reason in words."""
    if isinstance(why, str) and why.strip():
        return _encodable(str(why), "why")
    raise InputError(f"why={why!r} must say in words why the reward was wrong; it is kept in the ledger.")


def _encodable(text: str, name: str) -> str:
    """Text that a database can hold: lone surrogates and NUL are no characters."""
    if "\0" in text or (not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)):
        raise InputError(f"{name}={text!r} holds NUL or half of a surrogate pair, which is no text.")
    return text


@compiled
def squares_finite(numbers):  # type: ignore[no-untyped-def]
    """Whether the sum of squares is finite: then no number is NaN, infinite, or too large to be squared."""
    total = 0.0
    for i in range(numbers.shape[0]):
        total += numbers[i] * numbers[i]
    return math.isfinite(total)


def check_actions(actions: Any, dim: int | None, where: str = "") -> Float:
    """(K, d) finite numbers, K at least 1."""
    if type(actions) is np.ndarray and actions.dtype == np.float64 and actions.ndim == 2:
        matrix = np.ascontiguousarray(actions)
        if matrix.size == 0 or not squares_finite(matrix.reshape(-1)):
            matrix = as_matrix(actions, f"{where}actions")
    else:
        matrix = as_matrix(actions, f"{where}actions")
    if len(matrix) == 0:
        raise ShapeError(f"{where}actions has no rows; offer at least one action.")
    if dim is not None and matrix.shape[1] != dim:
        raise ShapeError(
            f"{where}actions has {matrix.shape[1]} features; this bandit works with {dim}, as its first rows "
            "did."
        )
    return matrix


def is_whole(value: Any) -> bool:
    """A whole number; truth values are none, nor are numpy's spans of time, which count as integers there."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def check_sequence(values: Any, name: str) -> list[Any] | NDArray[Any]:
    """Entries in order, whose number is known."""
    unordered = isinstance(values, (str, bytes, bytearray, Mapping, Set))
    if (
        unordered
        or not (hasattr(values, "__len__") and hasattr(values, "__getitem__"))
        or isinstance(values, type)
    ):
        raise InputError(f"{name} must be a list, a tuple or an array, not {type(values).__name__}.")
    if isinstance(values, np.ndarray) and values.ndim == 0:
        raise InputError(f"{name} must be a list, a tuple or an array, not one number.")
    if is_masked(values):
        raise InputError(f"{name} has masked entries; fill them or leave them out.")
    try:
        iter(values)
        return values if isinstance(values, np.ndarray) else list(values)
    except TypeError as reason:
        raise InputError(f"{name} cannot be read as a sequence ({reason}).") from None


def check_index(baseline: Any, n_actions: int, where: str = "") -> int:
    """A whole number that names one of the actions."""
    if type(baseline) is int and 0 <= baseline < n_actions:
        return baseline
    if not is_whole(baseline):
        raise InputError(
            f"{where}baseline={baseline!r} must be the index of the action that the policy in place would "
            "play; add that action to the list if it is not there."
        )
    if not 0 <= baseline < n_actions:
        raise InputError(
            f"{where}baseline={baseline} names no action; there are {n_actions}, numbered from 0 to "
            f"{n_actions - 1}."
        )
    return int(baseline)


def check_indices(baselines: list[Any], n_actions: Int) -> Int:
    """The same of many requests, with as many actions each; an error names the request at fault."""
    if all(type(baseline) is int for baseline in baselines):
        with suppress(OverflowError):
            given = np.array(baselines, dtype=np.int64)
            if (given >= 0).all() and (given < n_actions).all():
                return given
    rows = enumerate(zip(baselines, n_actions.tolist(), strict=True))
    return np.array([check_index(b, n, f"request {i}: ") for i, (b, n) in rows], dtype=np.int64)


def check_baseline_reward(value: Any, where: str = "") -> tuple[float, float]:
    """(low, high) of a baseline reward given as a number, an interval or None."""
    if value is None:
        return _NAN, _NAN
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise ShapeError(
                f"{where}baseline_reward={value!r} must be a number, (low, high), or None if it is unknown."
            )
        low, high = (check_number(v, "baseline_reward", where) for v in value)
        if low > high:
            raise InputError(
                f"{where}baseline_reward={value!r} has its ends in the wrong order; swap the two."
            )
        return low, high
    number = check_number(value, "baseline_reward", where)
    return number, number


def check_number(value: Any, name: str, where: str = "") -> float:
    """One finite number."""
    if type(value) is float and value - value == 0.0:
        return value
    if not (is_whole(value) or isinstance(value, (float, np.floating))):
        raise InputError(f"{where}{name}={value!r} must be a number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise NonFiniteError(f"{where}{name}={value!r} must be finite.")
    return number


def check_id(value: Any) -> int:
    """A decision's id."""
    if type(value) is int:
        return value
    if not is_whole(value):
        raise InputError(f"id={value!r} must be the whole number that a decision came with.")
    return int(value)


def _check_std(value: Any, where: str) -> float:
    std = check_number(value, "baseline_reward_std", where)
    if std < 0:
        raise InputError(
            f"{where}baseline_reward_std={value!r} must not be negative; 0 where the reward is exact."
        )
    return std
