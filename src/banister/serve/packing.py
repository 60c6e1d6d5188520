"""A matrix as JSON: base64 of little-endian float64, quick to read and exact to the bit."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from banister.data import Float
from banister.errors import ShapeError


def pack(matrix: Any) -> dict[str, Any]:
    """(K, d) numbers as JSON.

    Examples:
        >>> pack([[1.0, 2.0]])
        {'shape': [1, 2], 'float64': 'AAAAAAAA8D8AAAAAAAAAQA=='}
        >>> unpack((1, 2), base64.b64decode("AAAAAAAA8D8AAAAAAAAAQA=="))
        array([[1., 2.]])
    """
    rows = np.ascontiguousarray(matrix, dtype="<f8")
    return {"shape": list(rows.shape), "float64": base64.b64encode(rows.tobytes()).decode()}


def unpack(shape: tuple[int, int], data: bytes) -> Float:
    """(K, d) from the bytes of its numbers."""
    if min(shape) < 0 or 8 * shape[0] * shape[1] != len(data):
        raise ShapeError(
            f"actions.float64 has {len(data)} bytes; shape={list(shape)} needs 8 for each number."
        )
    values: Float = np.frombuffer(data, dtype="<f8").reshape(shape)
    return values
