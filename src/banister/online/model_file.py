"""The model file: arrays in `.npz` and JSON metadata with a schema version. No pickle, written atomically."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.errors import ModelFileError

SCHEMA = 1
KIND = "banister.SafeBandit"

Arrays = dict[str, NDArray[Any]]


def pack(meta: dict[str, Any], arrays: Arrays) -> bytes:
    """The bytes of a model file."""
    text = json.dumps({"kind": KIND, "schema": SCHEMA, **meta}, ensure_ascii=False)
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def unpack(data: bytes, where: str) -> tuple[dict[str, Any], Arrays]:
    """Metadata and arrays; an error says what is wrong. The zip's checksums find altered bytes."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes().decode())
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, NotImplementedError) as reason:
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


def require(arrays: Arrays, name: str, shape: tuple[int, ...], where: str) -> NDArray[Any]:
    """An array by name, of the shape expected."""
    if name not in arrays:
        raise ModelFileError(f"{where} lacks the array {name!r}; restore it from a copy.")
    if arrays[name].shape != shape:
        raise ModelFileError(f"{where}: array {name!r} has shape {arrays[name].shape}, not {shape}.")
    return arrays[name]


def write_atomically(path: Path, data: bytes) -> None:
    """Either the old file or the new one is there, whatever happens."""
    beside = path.with_name(path.name + ".tmp")
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    """A rename is durable once its directory is."""
    if os.name == "nt":  # directories cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
