"""Who may write to a store: one process, with a lock of its own, while the files are those it opened.

SQLite's own locks are POSIX ones, which any `close` of the same file in the same process drops, and a fork
copies a connection without its locks. So a store has a lock file beside it, held with `flock`, which neither
can undo; and before each call the guard looks whether process, lock and files are still the same. It keeps
the files open and closes them after SQLite has, since that would drop SQLite's locks.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from weakref import WeakSet

from banister.errors import DataFileError, StoreError

_TRIES = 10  # a lock file that its last owner removes at this moment is made anew
_size, _END = os.lseek, os.SEEK_END  # a third of what a stat costs
_TICK = 100_000_000  # nanoseconds: a file system's clock ticks every 10 ms or faster


class Guard:
    """Holds the lock of one ledger from construction until `release`."""

    def __init__(self, ledger: Path) -> None:
        self._ledger, self._lock = str(ledger), f"{ledger}-lock"
        self._folder = str(ledger.parent)
        self._pid = os.getpid()
        handle = self._acquire()
        self._files = [_File(self._lock, handle, "so another process may be writing")]
        self._grown: list[_File] = []  # those that grow
        self._seen = 0  # when the folder changed last, once every file was looked for after that
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

    def watch(self, end: str) -> int:
        """From now on the ledger, or what is beside it with this ending, must stay this file: its handle."""
        path = self._ledger + end
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            raise StoreError(f"{path} is gone; restore the store from a copy.") from None
        file = _File(path, handle, "so restore it, or a copy made with bandit.save")
        self._files.append(file)
        self._grown.append(file)
        return handle

    def check(self) -> None:
        """An error if this process, the lock or a file is not the one that the store was opened with.

        A file that is removed, moved or replaced changes its folder; one that is cut is shorter than it was.
        """
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self._ledger} was opened by process {self._pid} and is used in its child {os.getpid()}; "
                "open the store after the fork, in the one process that serves."
            )
        folder = _stat(self._folder)
        if folder is None or folder.st_ctime_ns != self._seen:
            self._look(folder)
        for file in self._grown:
            size = _size(file.handle, 0, _END)
            if size != file.size:
                file.check_size(size)

    def _look(self, folder: os.stat_result | None) -> None:
        """Look for every file by its name.

        A change within the same tick of the file system's clock leaves the folder's time as it was, so that
        is believed only once it is long past.
        """
        for file in self._files:
            file.check_place()
        past = 0 if folder is None else time.time_ns() - folder.st_ctime_ns
        self._seen = folder.st_ctime_ns if folder is not None and past > _TICK else 0

    @property
    def own_process(self) -> bool:
        """Whether this is the process that opened the store."""
        return os.getpid() == self._pid

    def release(self) -> None:
        """Give the lock back, and leave no file behind."""
        if self._files and self.own_process and self._files[0].stands:
            os.unlink(self._lock)
        self.let_go()

    def let_go(self) -> None:
        """Close the handles only: a forked child must not keep its parent's lock alive."""
        while self._files:
            os.close(self._files.pop().handle)


class _File:
    """A file that must stay the one that it is, and may only grow."""

    __slots__ = ("_device", "_number", "_path", "_so", "handle", "size")

    def __init__(self, path: str, handle: int, so: str) -> None:
        found = os.fstat(handle)
        self._path, self.handle, self._so = path, handle, so
        self._number, self._device, self.size = found.st_ino, found.st_dev, found.st_size

    @property
    def stands(self) -> bool:
        """Whether its name still means this file."""
        now = _stat(self._path)
        return now is not None and (now.st_ino, now.st_dev) == (self._number, self._device)

    def check_place(self) -> None:
        """An error if its name means another file, or none."""
        if not self.stands:
            raise self._lost("is gone" if _stat(self._path) is None else "was replaced by another file")

    def check_size(self, size: int) -> None:
        """An error if this is less than it was."""
        if size < self.size:
            raise self._lost(f"was cut from {self.size} to {size} bytes")
        self.size = size

    def _lost(self, what: str) -> StoreError:
        return StoreError(
            f"{self._path} {what} while the store was open, {self._so}; nothing more is taken in. Close this "
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
