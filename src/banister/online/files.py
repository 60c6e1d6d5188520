"""Where a store's two files are: the model at `path`, its ledger beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from banister.errors import InputError, ModelFileError


def check_path(path: Any) -> Path | None:
    """A path in a folder that exists, or None."""
    if path is None:
        return None
    if not isinstance(path, (str, Path)) or str(path) == "":
        raise InputError(f"path={path!r} must name a file, such as 'store.banister'.")
    place = Path(path)
    if place.is_dir():
        raise InputError(f"path={str(path)!r} is a folder; give the name of a file inside it.")
    if not place.parent.is_dir():
        raise InputError(f"path={str(path)!r} lies in a folder that does not exist; make it first.")
    return place


def ledger_path(path: Path) -> Path:
    """The ledger of the model at `path`."""
    return path.with_name(path.name + ".ledger")


def missing(path: Any) -> ModelFileError:
    """The error for a store that is not there."""
    return ModelFileError(
        f"There is no store at {str(path)!r}: its ledger {str(path) + '.ledger'!r} is missing. Model and "
        "ledger belong together; copy both."
    )
