"""A matrix as JSON: base64 of little-endian float64, quick to read and exact to the bit."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from banister.data import Float
from banister.errors import ShapeError


def pack(matrix: Any) -> dict[str, Any]:
    """(K, d) numbers as JSON.

    Examples:
        >>> pack([[1.0, 2.0]])
        {'shape': [1, 2], 'float64': 'AAAAAAAA8D8AAAAAAAAAQA=='}
        >>> unpack(**pack([[1.0, 2.0]]))
        array([[1., 2.]])
    """
    rows = np.ascontiguousarray(matrix, dtype="<f8")
    return {"shape": list(rows.shape), "float64": base64.b64encode(rows.tobytes()).decode()}


def unpack(shape: Any, float64: str) -> Float:
    """(K, d) what `pack` made."""
    try:
        values = np.frombuffer(base64.b64decode(float64, validate=True), dtype="<f8")
    except (binascii.Error, ValueError) as reason:
        raise ShapeError(f"actions.float64 is no base64 of float64 values ({reason}).") from None
    if min(shape) < 0 or shape[0] * shape[1] != len(values):
        raise ShapeError(f"actions.float64 holds {len(values)} numbers; shape={list(shape)} says otherwise.")
    return values.reshape(shape)
