"""Numbers after a line of JSON: quick to read, and exact to the bit.

A body of this kind is one line of JSON, a line break, and little-endian 64-bit floats. The line says what the
numbers are. It may end with spaces: numbers that begin at a multiple of 8 bytes need not be moved.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from banister.data import Float
from banister.errors import ShapeError

PACKED = "application/vnd.banister.numbers"  # the content-type of such a body


def pack(line: bytes, numbers: Sequence[Float]) -> bytes:
    """A body of a line and the numbers of arrays, in order.

    Examples:
        >>> body = pack(b'{"shape": [1, 2]}', [np.array([[1.0, 2.0]])])
        >>> body[:24], len(body)
        (b'{"shape": [1, 2]}      \\n', 40)
        >>> line, found = unpack(body)
        >>> line.strip(), shaped(found, [(1, 2)])
        (b'{"shape": [1, 2]}', array([[[1., 2.]]]))
    """
    spaces = b" " * (-(len(line) + 1) % 8)
    return b"".join([line, spaces, b"\n", *(np.asarray(n, dtype="<f8").tobytes() for n in numbers)])


def unpack(body: bytes | bytearray) -> tuple[bytes | bytearray, Float]:
    """The line of a body, and all its numbers."""
    end = body.find(b"\n")
    rest = len(body) - end - 1
    if end < 0 or rest % 8:
        raise ShapeError(
            "A body of this kind is one line of JSON, a line break, and 8 bytes for each number; it has "
            + ("no line break." if end < 0 else f"{rest} bytes after the line.")
        )
    numbers: Float = np.frombuffer(body, dtype="<f8", offset=end + 1) if rest else np.zeros(0)
    return body[:end], numbers if numbers.flags.aligned else numbers.copy()


def shaped(numbers: Float, shapes: Sequence[tuple[int, int]]) -> Float | list[Float]:
    """Matrices of these shapes, one after the other; (m, K, d) if all are alike."""
    sizes = [rows * columns for rows, columns in shapes]
    if sum(sizes) != len(numbers):
        raise ShapeError(
            f"The shapes need {sum(sizes)} numbers; {len(numbers)} follow the line of JSON, as they may in a "
            f"body whose content-type is {PACKED}."
        )
    if shapes and all(shape == shapes[0] for shape in shapes):
        return numbers.reshape(len(shapes), *shapes[0])
    parts = np.split(numbers, np.cumsum(sizes[:-1])) if sizes else []
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
