"""Who may write to a store: one process, with a lock of its own, while the files are those it opened.

SQLite's own locks are POSIX ones, which any `close` of the same file in the same process drops, and a fork
copies a connection without its locks. So a store has a lock file beside it, held with `flock`, which neither
can undo; and before each call the guard looks whether process, lock and files are still the same.
"""

from __future__ import annotations

import os
from pathlib import Path
from weakref import WeakSet

from banister.errors import DataFileError, StoreError

_TRIES = 10  # a lock file that its last owner removes at this moment is made anew


class Guard:
    """Holds the lock of one ledger from construction until `release`."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = str(ledger)
        self._wal, self._lock = self._ledger + "-wal", self._ledger + "-lock"
        self._pid = os.getpid()
        self._handle: int | None = self._acquire()
        self._files = [_File(self._lock, self._own, "so another process may be writing")]
        _GUARDS.add(self)

    def _acquire(self) -> int:
        for _ in range(_TRIES):
            handle = self._open()
            if not _flock(handle):
                os.close(handle)
                raise DataFileError(
                    f"{self._ledger} cannot be used: another process serves from it; stop that one first, "
                    "ask it, or look with SafeBandit.open_read_only."
                )
            if _same(os.fstat(handle), _stat(self._lock)):
                self._own = os.fstat(handle)
                return handle
            os.close(handle)
        raise DataFileError(f"{self._lock} is made and removed all the time; find out by whom.")

    def _open(self) -> int:
        try:
            return os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as reason:
            raise DataFileError(
                f"{self._lock} cannot be opened ({reason}): check the folder, its space and its permissions."
            ) from None

    def watch(self) -> None:
        """From now on the ledger and its write-ahead log must stay the files that they are."""
        for path in (self._ledger, self._wal):
            found = _stat(path)
            if found is None:
                raise StoreError(f"{path} is gone; restore the store from a copy.")
            self._files.append(_File(path, found, "so restore it, or a copy made with bandit.save"))

    def check(self) -> None:
        """An error if this process, the lock or a file is not the one that the store was opened with."""
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self._ledger} was opened by process {self._pid} and is used in its child {os.getpid()}; "
                "open the store after the fork, in the one process that serves."
            )
        for file in self._files:
            try:
                now = os.stat(file.path)
            except OSError:
                raise file.lost(None) from None
            if now.st_ino != file.number or now.st_dev != file.device or now.st_size < file.size:
                raise file.lost(now)
            file.size = now.st_size

    @property
    def own_process(self) -> bool:
        """Whether this is the process that opened the store."""
        return os.getpid() == self._pid

    def release(self) -> None:
        """Give the lock back, and leave no file behind."""
        if self._handle is None:
            return
        if self.own_process and _same(self._own, _stat(self._lock)):
            os.unlink(self._lock)
        self.let_go()

    def let_go(self) -> None:
        """Close the handle only: a forked child must not keep its parent's lock alive."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class _File:
    """A file that must stay the one that it is, and may only grow."""

    __slots__ = ("_so", "device", "number", "path", "size")

    def __init__(self, path: str, found: os.stat_result, so: str) -> None:
        self.path, self.number, self.device, self.size = path, found.st_ino, found.st_dev, found.st_size
        self._so = so

    def lost(self, now: os.stat_result | None) -> StoreError:
        """The error for a file that is not what it was."""
        what = "is gone" if now is None else "was replaced by another file"
        if now is not None and (now.st_ino, now.st_dev) == (self.number, self.device):
            what = f"was cut from {self.size} to {now.st_size} bytes"
        return StoreError(
            f"{self.path} {what} while the store was open, {self._so}; nothing more is taken in. Close this "
            "bandit and load the store again."
        )


_GUARDS: WeakSet[Guard] = WeakSet()


def _let_go_in_child() -> None:
    for guard in _GUARDS:
        guard.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def _flock(handle: int) -> bool:
    """Whether the lock is ours now."""
    try:
        import fcntl
    except ImportError:
        raise DataFileError(
            "A store on disk needs the file locks of Linux or macOS; use path=None here."
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _same(a: os.stat_result, b: os.stat_result | None) -> bool:
    return b is not None and a.st_ino == b.st_ino and a.st_dev == b.st_dev
