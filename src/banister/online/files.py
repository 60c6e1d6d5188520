"""Where a store's two files are: the model at `path`, its ledger beside it; and how a file is written."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from banister.errors import DataFileError, InputError, ModelFileError
from banister.online.record import ModelRecord, digest_of


def check_path(path: Any) -> Path | None:
    """A path in a folder that exists, or None."""
    if path is None:
        return None
    if not isinstance(path, (str, Path)) or str(path) == "" or "\0" in str(path):
        raise InputError(f"path={path!r} must name a file, such as 'store.banister'.")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise InputError(f"path={str(path)!r} holds half of a surrogate pair, which no file has.") from None
    place = Path(path)
    if place.is_dir():
        raise InputError(f"path={str(path)!r} is a folder; give the name of a file inside it.")
    if not place.parent.is_dir():
        raise InputError(f"path={str(path)!r} lies in a folder that does not exist; make it first.")
    return place


def ledger_path(path: Path) -> Path:
    """The ledger of the model at `path`."""
    return path.with_name(path.name + ".ledger")


def remove_store(path: Path) -> None:
    """Remove a store that was made by a call that then failed."""
    ledger = str(ledger_path(path))
    for name in (str(path), *(ledger + end for end in ("", "-wal", "-shm", "-tail", "-lock"))):
        Path(name).unlink(missing_ok=True)


def missing(path: Any) -> ModelFileError:
    """The error for a store that is not there."""
    return ModelFileError(
        f"There is no store at {str(path)!r}: its ledger {str(path) + '.ledger'!r} is missing. Model and "
        "ledger belong together; copy stores with bandit.save."
    )


def is_current(path: Path, models: list[ModelRecord]) -> bool:
    """Whether the model file is the ledger's last; an error if it is none of the ledger's at all.

    Nothing is read of a file whose size no model has.
    """
    if not path.exists():
        return False
    sizes = {m.size for m in models}
    digest = digest_of(path.read_bytes()) if path.stat().st_size in sizes else b""
    if digest not in {m.digest for m in models}:
        raise ModelFileError(
            f"{path} is no model of the ledger beside it: it was altered, or they do not belong together. "
            "Restore both, or delete it: the ledger holds the model too."
        )
    return digest == models[-1].digest


def write_atomically(path: Path, data: bytes) -> None:
    """Either the old file or the new one is there, whatever happens; only its owner may read it.

    The name in between cannot be guessed, so nobody can have put a link there.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name + ".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
        sync_folder(path.parent)
    except OSError as reason:
        raise DataFileError(
            f"{path} cannot be written ({reason}): check the folder, its space and its permissions."
        ) from None


def sync_folder(path: Path) -> None:
    """A rename is durable once its directory is."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
