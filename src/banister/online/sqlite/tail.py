"""The tail: a file beside the ledger to which a decision or a reward is appended before it is acknowledged.

One append costs a tenth of a transaction of SQLite. Records are moved on into the tables many at a time, and
stay in the tail until the disk is known to have the tables; then the tail begins anew, in the same file. What
follows the tables' own head is read back when a store is opened: each record is hashed with the head before
it, so that one which was cut short by a crash, or is left over from before, is not taken for one.
"""

from __future__ import annotations

import logging
import os
import secrets
import struct
from pathlib import Path

from banister.errors import DataFileError
from banister.online.files import sync_folder
from banister.online.head import Head
from banister.online.record import chained
from banister.online.sqlite.frames import MARK_BYTES, TailRecord, frame_at, record_of, size_of, top

SIZE = 1 << 22  # bytes of the file at most: a few thousand records
LARGEST = (
    1 << 18
)  # bytes of a record that goes through the tail; larger ones are written to the tables at once
_STEP = 1 << 18  # bytes by which it grows: where zeros stand already, a sync has only the record to write
_MOST = SIZE + _STEP  # bytes that a tail can have
_TOP = struct.Struct(f"<8s{MARK_BYTES}s48s")  # what it is, whose, and since which start of the machine
_KIND = b"bn-tail\x01"
_sync = getattr(os, "fdatasync", os.fsync)

_log = logging.getLogger("banister.online")


def tail_path(ledger: Path) -> Path:
    """Where a ledger's tail is."""
    return Path(f"{ledger}-tail")


class Tail:
    """The open tail of a ledger that is served from."""

    def __init__(self, path: Path, mark: bytes, handle: int) -> None:
        self._path, self._mark, self.handle = path, mark, handle
        self._room = os.lseek(handle, 0, os.SEEK_END)
        self._place = _TOP.size
        self.durable = False  # whether an append returns once the disk has it

    @classmethod
    def made(cls, path: Path) -> Tail:
        """A new one; the folder's entry is on the disk when this returns. What is there has been read."""
        mark = secrets.token_bytes(MARK_BYTES)
        try:
            path.unlink(missing_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            tail = cls._begun(path, mark, handle)
            sync_folder(path.parent)
        except OSError as reason:
            raise _unusable(path, reason) from None
        return tail

    @classmethod
    def again(cls, path: Path, mark: bytes) -> Tail:
        """The one that is there, whose records are all in the tables, from its beginning."""
        try:
            return cls._begun(path, mark, os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC))
        except OSError as reason:
            raise _unusable(path, reason) from None

    @classmethod
    def _begun(cls, path: Path, mark: bytes, handle: int) -> Tail:
        try:
            os.pwrite(handle, _TOP.pack(_KIND, mark, _boot()), 0)
            _sync(handle)
            return cls(path, mark, handle)
        except BaseException:
            os.close(handle)
            raise

    @property
    def name(self) -> str:
        """By which its ledger knows it."""
        return self._mark.hex()

    def has_room(self, content: bytes) -> bool:
        """Whether a record goes in; if not, it has to be written to the tables."""
        size = size_of(content)
        return size <= LARGEST and self._place + size <= SIZE

    @property
    def used(self) -> bool:
        """Whether it is time to begin anew."""
        return self._place > SIZE - LARGEST

    def append(self, content: bytes, head: Head) -> None:
        """One record, whose link and hash the head has; an error leaves the tail as it was."""
        try:
            begin = top(self._mark, content, head.links, head.hash)
            size, end = len(begin) + len(content), self._place + len(begin) + len(content)
            while end > self._room:
                self._room += _written(self.handle, [bytes(_STEP)], self._room)
            if _written(self.handle, [begin, content], self._place) != size:
                raise OSError("the disk took part of a record")
            if self.durable:
                _sync(self.handle)
        except OSError as reason:
            raise _unusable(self._path, reason) from None
        self._place = end

    def begin_anew(self) -> None:
        """From here on what it holds is not needed: the disk has the tables."""
        self._place = _TOP.size

    def close(self) -> None:
        """Leave the file."""
        os.close(self.handle)

    def remove(self) -> None:
        """Everything is in the tables, and they say that there is no tail."""
        self.close()
        self._path.unlink(missing_ok=True)


def _written(handle: int, parts: list[bytes], place: int) -> int:
    return os.pwritev(handle, parts, place)


def read_tail(path: Path, name: str | None) -> bytes | None:
    """A tail's bytes; None if there is none and need not be. `name` is by which the ledger knows it."""
    try:
        data = _bytes_of(path)
    except FileNotFoundError:
        if name is None:
            return None
        raise _foreign(path, "is missing") from None
    except OSError as reason:
        raise _unusable(path, reason) from None
    if name is not None and (len(data) < _TOP.size or data[:16] != _KIND + _mark(name)):
        raise _foreign(path, "belongs to another one, or is damaged")
    return data


def _bytes_of(path: Path) -> bytes:
    """No more than a tail can have; whatever was put there, this does not wait for it."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        return file.read(_MOST + 1)


def following(data: bytes, head: Head, path: Path) -> list[TailRecord]:
    """The records of a tail that follow a head: those that the tables lack."""
    if not data.startswith(_KIND) or not _TOP.size <= len(data) <= _MOST:
        raise _foreign(path, "is none")
    _, mark, boot = _TOP.unpack_from(data)
    found, link, hashed, place = [], head.links, head.hash, _TOP.size
    while (frame := frame_at(data, mark, place)) is not None and frame.link <= link + 1:
        if frame.link == link + 1:
            if chained(hashed, frame.content) != frame.head:
                break
            found.append(_record(frame.content, path))
            link, hashed = frame.link, frame.head
        place = frame.end
    _check_end(data, mark, place, link, path, boot)
    return found


def _record(content: bytes, path: Path) -> TailRecord:
    try:
        return record_of(content)
    except ValueError as reason:
        raise DataFileError(
            f"{path} holds a record that cannot be read ({reason}); restore a copy."
        ) from None


def _check_end(data: bytes, mark: bytes, place: int, link: int, path: Path, boot: bytes) -> None:
    """Records beyond one that cannot be read: the disk lost some with the machine, or they are damaged.

    While the machine has not been started anew, what was written is there whatever died; so it is damage.
    """
    later = 0
    while (place := data.find(mark, place)) >= 0:
        frame = frame_at(data, mark, place)
        later = max(later, frame.link if frame is not None else 0)
        place += 1
    if later <= link + 1:
        return
    if boot == _boot() != bytes(48):
        raise DataFileError(
            f"{path} has record {later} and lacks record {link + 1}: it is damaged, or the ledger beside it "
            "is older. Restore all of the store's files from one copy."
        )
    _log.warning(
        "%s: the machine went down before its disk had records %d to %d, which were acknowledged under "
        "durability='normal'", path, link + 1, later,
    )  # fmt: skip


def last_link(path: Path) -> int:
    """The last link that stands in a tail, which may be written to meanwhile; 0 if that cannot be told."""
    try:
        data = _bytes_of(path)
    except OSError:
        return 0
    last, place = 0, _TOP.size
    mark = data[8:16]
    while (frame := frame_at(data, mark, place)) is not None and frame.link > last:
        last, place = frame.link, frame.end
    return last


def _mark(name: str) -> bytes:
    try:
        return bytes.fromhex(name)
    except ValueError:
        return b""


def _boot() -> bytes:
    """Which start of the machine this is; zeros if it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()[:48].ljust(48, b"\0")
    except OSError:
        return bytes(48)


def _unusable(path: Path, reason: OSError) -> DataFileError:
    return DataFileError(
        f"{path} cannot be used ({reason}): check the folder, its space and its permissions."
    )


def _foreign(path: Path, what: str) -> DataFileError:
    return DataFileError(
        f"{path} {what}: a ledger that was not closed needs its own tail, and one that was closed has none. "
        "Copy all of a store's files together, or use bandit.save."
    )
