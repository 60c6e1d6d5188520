"""The bytes of a model: arrays in `.npz` and JSON metadata with a schema version. No pickle, no compression.

Bytes may come from anywhere, so nothing is believed: every array's kind and size is read from its header and
compared with the bytes that are there before anything is allocated.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.errors import ModelFileError

SCHEMA = 1
KIND = "banister.SafeBandit"
_DTYPES = tuple(np.dtype(kind) for kind in ("<f8", "<f4", "<i8", "<i2", "|i1", "|u1", "|b1"))
_MEMBERS = 1000  # arrays; a model has some twenty

Arrays = dict[str, NDArray[Any]]

_DAMAGE = (
    ValueError, KeyError, OSError, EOFError, RecursionError, RuntimeError, TypeError, IndexError, SyntaxError,
    zipfile.BadZipFile, NotImplementedError, OverflowError,
)  # fmt: skip


def pack(meta: dict[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a model file."""
    text = json.dumps({"kind": KIND, "schema": SCHEMA, **meta}, ensure_ascii=False)
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(data: bytes, where: str) -> tuple[dict[str, Any], Arrays]:
    """Metadata and arrays; an error says what is wrong. The zip's checksums find altered bytes."""
    try:
        arrays = _arrays(data)
        meta = json.loads(arrays.pop("meta").tobytes().decode())
    except _DAMAGE as reason:
        raise ModelFileError(
            f"{where} is not a whole model file ({reason}); restore it from a copy."
        ) from None
    if not isinstance(meta, dict) or meta.get("kind") != KIND:
        raise ModelFileError(f"{where} holds something other than a SafeBandit's model.")
    if meta.get("schema") != SCHEMA:
        raise ModelFileError(
            f"{where} has schema version {meta.get('schema')!r}; this version of banister reads {SCHEMA}."
        )
    return meta, arrays


def _arrays(data: bytes) -> Arrays:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if len(members) > _MEMBERS or sum(m.file_size for m in members) > len(data):
            raise ValueError("it claims to hold more than it has bytes for")
        if any(m.compress_type != zipfile.ZIP_STORED for m in members):
            raise ValueError("it is compressed, which no model is")
        return {m.filename.removesuffix(".npy"): _array(archive.read(m)) for m in members}


def _array(data: bytes) -> NDArray[Any]:
    """An array whose header agrees with the bytes behind it."""
    stream = io.BytesIO(data)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"an array has format {version}")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype not in _DTYPES:
        raise ValueError(f"an array holds {dtype}")
    if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError(f"an array of shape {shape} does not fit its bytes")
    flat = np.frombuffer(data, dtype=dtype, offset=stream.tell())
    return flat.reshape(shape, order="F" if fortran else "C").copy()


def require(
    arrays: Arrays, name: str, shape: tuple[int, ...], where: str, *, kind: str = "f", size: int = 8,
    finite: bool = True,
) -> NDArray[Any]:  # fmt: skip
    """An array by name, of the shape and kind expected ("f" floats, "i" whole numbers), `size` bytes each."""
    if name not in arrays:
        raise ModelFileError(f"{where} lacks the array {name!r}; restore it from a copy.")
    array = arrays[name]
    if array.shape != shape:
        raise ModelFileError(f"{where}: array {name!r} has shape {array.shape}, not {shape}.")
    if array.dtype.kind != kind or array.dtype.itemsize != size:
        raise ModelFileError(f"{where}: array {name!r} holds {array.dtype}, which it cannot.")
    if kind == "f" and (np.isnan(array).any() or (finite and not np.isfinite(array).all())):
        raise ModelFileError(f"{where}: array {name!r} holds NaN or infinity; restore it from a copy.")
    return array
