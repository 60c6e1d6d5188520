"""Where data files and computed arrays are kept, and how they are written: whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banister.errors import DataFileError, DataWarning

Arrays = dict[str, NDArray[Any]]

DATA_VARIABLE = "BANISTER_DATA"


def cache_folder() -> Path:
    """The folder of this user for what can be made again; it need not exist yet."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "banister"


def data_folders() -> list[Path]:
    """Where data sets are looked for, first to last: `BANISTER_DATA`, then the user's cache folder."""
    chosen = os.environ.get(DATA_VARIABLE)
    own = [Path(chosen).expanduser()] if chosen else []
    return [*own, cache_folder() / "data"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees the old one or the new one and nothing between."""
    try:
        _write(path, content)
    except OSError as reason:
        raise DataFileError(
            f"{path} cannot be written ({reason.strerror or reason}); make room there, or choose another "
            "place."
        ) from reason


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)  # mkstemp's 0600 would hide a shared data folder from its other users
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def cached_arrays(
    folder: Path | None, kind: str, settings: Mapping[str, Any], compute: Callable[[], Arrays]
) -> Arrays:
    """The arrays computed for these settings: read if they were kept whole, else computed and kept.

    A file that is damaged is computed again; a folder that cannot be written to costs a warning, not the
    result.

    Args:
        folder: where files are kept; None keeps nothing.
        kind: begins the file's name.
        settings: everything the result depends on, as JSON can hold it; their hash ends the file's name.
        compute: makes the arrays.
    """
    if folder is None:
        return compute()
    key = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode()).hexdigest()
    path = folder / f"{kind}-{key[:32]}.npz"
    arrays = _read_arrays(path, key)
    if arrays is None:
        arrays = compute()
        _keep_arrays(path, key, arrays)
    return arrays


def _read_arrays(path: Path, key: str) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as stored:  # each member has a CRC, checked as it is read
            arrays = {name: stored[name] for name in stored.files}
        # No CRC covers the list of members: one may be missing without a word.
        return arrays if arrays.pop("key").tolist() == [key, *sorted(arrays)] else None
    except Exception:  # a damaged file can fail in any way, and is made again whatever the way
        return None


def _keep_arrays(path: Path, key: str, arrays: Arrays) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, key=np.array([key, *sorted(arrays)]), **arrays)
    try:
        write_atomically(path, buffer.getvalue())
    except DataFileError as reason:
        warnings.warn(
            f"{reason} What was computed will be computed again next time; give cache= a folder you may "
            "write to.",
            DataWarning,
            stacklevel=4,
        )
