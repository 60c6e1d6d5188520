"""Where compiled kernels are kept: a cache that cannot be written is not an error.

numba keeps them beside the sources, or in the user's cache, or in `NUMBA_CACHE_DIR`. In a container none of
these may be writable, and numba then refuses to compile at all. So that a read-only folder that `banister
warm-up` has filled can be used, it is copied to a private one for the life of the process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path


def ready() -> None:
    """Make sure that numba has a folder for what it compiles; nothing is done where it has one."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(chosen)] if chosen else [Path(__file__).parent / "__pycache__", _user_cache()]
    if not any(_writable(place) for place in places):
        _use_private(Path(chosen) if chosen else None)


def _user_cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "numba"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _use_private(filled: Path | None) -> None:
    """A folder of this process alone, which nobody else can have put anything into."""
    try:
        private = tempfile.mkdtemp(prefix="banister-")
    except OSError:  # nowhere at all: numba will say so if a kernel is needed
        return
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    if filled is not None and filled.is_dir():
        shutil.copytree(filled, private, dirs_exist_ok=True)
        for folder, _, _ in os.walk(private):
            os.chmod(folder, 0o700)  # the copy has the rights of what it was copied from
    os.environ["NUMBA_CACHE_DIR"] = private
    if "numba" in sys.modules:
        sys.modules["numba"].config.CACHE_DIR = private
