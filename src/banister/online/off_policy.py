"""What another policy would have earned on logged decisions whose probabilities are known.

With logged rewards `r_i`, the logging policy's probabilities `p_i`, and `w_i = 1{the policy plays what was
played} / p_i`:

* inverse propensity:  mean of `w_i r_i`; unbiased, noisy where probabilities are small.
* self-normalised:     Σ w_i r_i / Σ w_i; a little bias, less noise.
* doubly robust:       mean of `q(new_i) + w_i (r_i − q(played_i))`; right if either the probabilities or the
                       model q are, and least noisy where q is good.

Intervals are normal ones from the rows' spread (the delta method for the ratio). Where the rows show no
spread (no click among three rows) they have no bounds: a width of zero would be an accident.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.contract import Bool
from banister.data import Float
from banister.errors import InputError, ShapeError

_Z = 1.959963984540054
_FEW = 2.0  # rows of equal weight, below which a spread says nothing: the interval is then without bounds


@dataclass(frozen=True)
class Estimate:
    """A mean reward: `value` with a 95 % interval, how it was found, and how many rows it rests on."""

    value: float
    low: float
    high: float
    method: str
    rows: float


def inverse_propensity(reward: Float, propensity: Float, same: Bool, *, than: Bool | None = None) -> Estimate:
    """Inverse propensity score; with `than`, the matches of another policy, the gain over that one.

    Examples:
        >>> r, p = np.array([1.0, 0.0, 1.0, 1.0]), np.full(4, 0.5)
        >>> inverse_propensity(r, p, np.array([True, False, True, False])).value
        1.0
    """
    w = _weights(reward, propensity, same)
    other = None if than is None else _weights(reward, propensity, than)
    value = w * reward if other is None else (w - other) * reward
    return _of_rows(value, "inverse propensity", w, other)


def self_normalised(reward: Float, propensity: Float, same: Bool, *, than: Bool | None = None) -> Estimate:
    """Self-normalised inverse propensity score; an error if nothing matches. `than` as above.

    Examples:
        >>> r, p = np.array([1.0, 0.0, 3.0]), np.array([0.5, 0.5, 0.25])
        >>> round(self_normalised(r, p, np.array([True, True, True])).value, 3)
        1.75
    """
    w = _weights(reward, propensity, same)
    value, error = _ratio(w, reward)
    other = None if than is None else _weights(reward, propensity, than)
    if other is not None:
        less, more = _ratio(other, reward)
        value, error = value - less, error - more
    spread = float(np.sqrt(np.sum(error**2)))
    return _estimate(value, spread, "self-normalised", w, other)


def doubly_robust(
    reward: Float, propensity: Float, same: Bool, q_played: Float, q_new: Float, *,
    than: Bool | None = None, q_than: Float | None = None,
) -> Estimate:  # fmt: skip
    """Doubly robust, with a model's predictions for what was played and for what the policy plays.

    With `than` and `q_than`, the matches of another policy and the predictions for it, the gain over it.

    Examples:
        >>> r, p, same = np.array([1.0, 2.0]), np.array([0.5, 0.5]), np.array([True, False])
        >>> doubly_robust(r, p, same, q_played=np.array([1.0, 2.0]), q_new=np.array([1.0, 3.0])).value
        2.0
    """
    w = _weights(reward, propensity, same)
    if than is None or q_than is None:
        return _of_rows(q_new + w * (reward - q_played), "doubly robust", w)
    other = _weights(reward, propensity, than)
    values = q_new - q_than + (w - other) * (reward - q_played)
    return _of_rows(values, "doubly robust", w, other)


def direct(values: Float, spread: float, method: str) -> Estimate:
    """A model's own opinion: the mean of its predictions, and the model's standard error of that mean."""
    value = float(values.mean())
    spread = spread if spread > 0.0 else float("inf")
    return Estimate(value, value - _Z * spread, value + _Z * spread, method, float(len(values)))


def _weights(reward: Float, propensity: Float, same: Bool) -> Float:
    if not len(reward) == len(propensity) == len(same) or len(reward) == 0:
        raise ShapeError(
            f"There are {len(reward)} rewards, {len(propensity)} propensities and {len(same)} matches; give "
            "equally many, at least one."
        )
    if not np.all((propensity > 0) & (propensity <= 1)):
        raise InputError("Propensities must lie in (0, 1].")
    return np.where(same, 1.0 / propensity, 0.0)


def _ratio(w: Float, reward: Float) -> tuple[float, Float]:
    """Σ w r / Σ w, and each row's share of its error (the delta method)."""
    total = float(w.sum())
    if total == 0.0:
        raise InputError("The policy never plays what was logged; there is nothing to weigh.")
    value = float(w @ reward) / total
    return value, w * (reward - value) / total


def _of_rows(values: Float, method: str, w: Float, other: Float | None = None) -> Estimate:
    spread = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")
    return _estimate(float(values.mean()), spread, method, w, other)


def _estimate(value: float, spread: float, method: str, w: Float, other: Float | None) -> Estimate:
    """With its interval; without bounds where the rows show no spread, or none speaks for a difference."""
    telling = w if other is None else np.where(w != other, w, 0.0)
    rows = _effective(telling)
    if not spread > 0.0 or rows < _FEW:
        spread = float("inf")
    return Estimate(value, value - _Z * spread, value + _Z * spread, method, rows)


def _effective(w: Float) -> float:
    """Rows of equal weight that the weights amount to (Kish)."""
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares > 0 else 0.0
