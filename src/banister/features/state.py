"""Learned columns and settings to JSON and back, bit for bit: floats are written in hexadecimal."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from banister.errors import ModelFileError
from banister.features.category import Category
from banister.features.context import Column, Context
from banister.features.date import Moment
from banister.features.numeric import Numeric

_KINDS: dict[str, Any] = {c.kind: c for c in (Numeric, Category, Moment)}


def context_state(context: Context | None) -> list[dict[str, Any]] | None:
    """Learned columns as JSON can hold them."""
    return None if context is None else [_column_state(c) for c in context.columns]


def context_from(state: Any) -> Context | None:
    """Learned columns from what `context_state` wrote."""
    return None if state is None else Context(tuple(_column_from(s) for s in state))


def _column_state(column: Column) -> dict[str, Any]:
    values = {f.name: getattr(column, f.name) for f in fields(column)}
    return {"kind": column.kind, **{k: v.hex() if type(v) is float else v for k, v in values.items()}}


def _column_from(state: dict[str, Any]) -> Column:
    values = dict(state)
    cls = _KINDS[values.pop("kind")]
    for field in fields(cls):
        value = values[field.name]
        if field.type == "float":
            values[field.name] = float.fromhex(value)
        elif isinstance(value, list):
            values[field.name] = tuple(value)
    column: Column = cls(**values)
    return column


def parsed(text: Any, kind: str, schema: int) -> dict[str, Any]:
    """The JSON object of one kind of features, or an error that says what it is instead."""
    try:
        state = json.loads(text)
    except (TypeError, ValueError) as reason:
        raise ModelFileError(
            f"These features are not JSON ({reason}); restore the file from a copy."
        ) from None
    if not isinstance(state, dict) or state.get("kind") != kind:
        raise ModelFileError(f"This JSON holds no {kind}; it was not written by to_json of one.")
    if state.get("schema") != schema:
        raise ModelFileError(
            f"These {kind} have schema {state.get('schema')!r}; this version of banister reads {schema}."
        )
    return state
