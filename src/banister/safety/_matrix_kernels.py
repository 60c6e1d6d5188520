"""A task's covariance and `away`, multiplied with vectors: from dense matrices, or from rows directly.

`judge` and `mixture` ask for three things only: `V x`, `x'V x` and `away'x`. A dense belief has both
matrices; of a compact one they follow from the task's rows (`_row_kernels`). Rows that are not quite the
task's own make all of it `more` (see `stored`). Which of the two it is, is known when a kernel is compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

from banister.data import Float
from banister.safety._row_kernels import (
    Coded,
    least_of_rows,
    prepare,
    sketch_of_rows,
    square_of_rows,
    times_rows,
    turn_rows,
)
from banister.safety._small_kernels import add_transposed, product, quadratic
from banister.solver.kernels import compiled


class Dense(NamedTuple):
    """V and `away`, (p, p) of one task or (T, p, p) of all."""

    V: Float
    away: Float


Matrices = Dense | Coded


@compiled
def _turn_dense(of, x, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    add_transposed(of.away, x, out)


@compiled
def _sketch_dense(of, x, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    return 0.0


def taken(of: Any, task: int) -> Any:
    """One task's, ready for products: of all tasks' dense matrices its own, of a task as stored its rows."""
    if isinstance(of, Dense):
        return Dense(of.V[task], of.away[task]) if of.V.ndim == 3 else of
    return prepare(of)


def times(of: Any, x: Float, out: Float) -> None:
    """out = V x."""
    product(of.V, x, out) if isinstance(of, Dense) else times_rows(of, x, out)


def square(of: Any, x: Float, own: Float) -> Any:
    """x'V x; rows fill `own` (p,) with `away'x` on the way, see `completed`."""
    return quadratic(of.V, x) if isinstance(of, Dense) else square_of_rows(of, x, own)


def at_least(of: Any, x: Float, room: Float) -> Any:
    """A number not above x'V x that is cheap to have; 0 where none is. `room` (p,) is overwritten."""
    return 0.0 if isinstance(of, Dense) else least_of_rows(of, x, room)


def sketched(of: Any, x: Float, out: Float) -> Any:
    """The same for sums of x and others: out = that matrix times x; returns x'out."""
    return _sketch_dense(of, x, out) if isinstance(of, Dense) else sketch_of_rows(of, x, out)


def sure_share(of: Any) -> Any:
    """The share of V, and of what `away` adds, that is there for certain; the rest is for coarse rows."""
    return 1.0 if isinstance(of, Dense) else (2.0 - of.more) / of.more


def completed(of: Any, x: Float, own: Float) -> None:
    """own = away'x, after `square` of the same x."""
    if isinstance(of, Dense):
        _turn_dense(of, x, own)


def turned(of: Any, x: Float, out: Float) -> None:
    """out = away'x."""
    _turn_dense(of, x, out) if isinstance(of, Dense) else turn_rows(of, x, out)


def _is_dense(of: types.Type) -> bool:
    return getattr(of, "instance_class", None) is Dense


@overload(taken)
def _taken(of, task):  # type: ignore[no-untyped-def]
    if not _is_dense(of):
        return lambda of, task: prepare(of)
    if of.types[0].ndim == 3:
        return lambda of, task: Dense(of.V[task], of.away[task])
    return lambda of, task: of


@overload(times)
def _times(of, x, out):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, out: product(of.V, x, out)
    return lambda of, x, out: times_rows(of, x, out)


@overload(square)
def _square(of, x, own):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, own: quadratic(of.V, x)
    return lambda of, x, own: square_of_rows(of, x, own)


@overload(at_least)
def _at_least(of, x, room):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, room: 0.0
    return lambda of, x, room: least_of_rows(of, x, room)


@overload(sketched)
def _sketched(of, x, out):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, out: _sketch_dense(of, x, out)
    return lambda of, x, out: sketch_of_rows(of, x, out)


@overload(sure_share)
def _sure_share(of):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of: 1.0
    return lambda of: (2.0 - of.more) / of.more


@overload(completed)
def _completed(of, x, own):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, own: _turn_dense(of, x, own)
    return lambda of, x, own: None


@overload(turned)
def _turned(of, x, out):  # type: ignore[no-untyped-def]
    if _is_dense(of):
        return lambda of, x, out: _turn_dense(of, x, out)
    return lambda of, x, out: turn_rows(of, x, out)
