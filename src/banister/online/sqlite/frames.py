"""What the tail of a ledger is made of: a record as it is hashed, its place in the chain, the head after it.

Only single decisions and rewards stand in a tail; everything else is written to the tables at once.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from banister.online.record import DECISION, REWARD, DecisionRecord, RewardRecord

MARK_BYTES = 8
_FRAME = struct.Struct(f"<{MARK_BYTES}sIq32s")  # mark, bytes of content, link, head after it

TailRecord = DecisionRecord | RewardRecord


class Frame(NamedTuple):
    """One record of a tail, not yet known to be whole."""

    link: int
    head: bytes
    content: bytes
    end: int  # where the next one would begin


def size_of(content: bytes) -> int:
    """Bytes of a frame."""
    return _FRAME.size + len(content)


def top(mark: bytes, content: bytes, link: int, head: bytes) -> bytes:
    """What stands before the content."""
    return _FRAME.pack(mark, len(content), link, head)


def frame_at(data: bytes, mark: bytes, place: int) -> Frame | None:
    """The frame that begins at a place; None if none does."""
    if place < 0 or place + _FRAME.size > len(data):
        return None
    found, size, link, head = _FRAME.unpack_from(data, place)
    begin = place + _FRAME.size
    if found != mark or begin + size > len(data):
        return None
    return Frame(link, head, data[begin : begin + size], begin + size)


def record_of(content: bytes) -> TailRecord:
    """The record that has this content; a ValueError if there is none."""
    try:
        return _decision(content[8:]) if content.startswith(b"decision") else _reward(content)
    except struct.error as reason:
        raise ValueError(str(reason)) from None


def _reward(content: bytes) -> RewardRecord:
    if not content.startswith(b"reward"):
        raise ValueError("neither a decision nor a reward")
    number, time, value, size = REWARD.unpack_from(content, 6)
    (key,) = _parts(content[6 + REWARD.size :], [size])
    return RewardRecord(number, time, value, _text(key))


def _decision(content: bytes) -> DecisionRecord:
    *numbers, certified, bound, floor, low, high, std, probability, n, digest = DECISION.unpack_from(content)[
        :15
    ]
    sizes = DECISION.unpack_from(content)[15:]
    reason, odds, promise, limited_by, baseline, *rows, key = _parts(content[DECISION.size :], sizes)
    if reason is None or baseline is None or certified not in (0, 1):
        raise ValueError("a decision without reason or baseline")
    texts = _text(promise), _text(limited_by)
    judged = bool(certified), reason.decode(), bound, floor, low, high, std, probability, odds, *texts
    return DecisionRecord._make((*numbers, *judged, n, digest, baseline, *rows, _text(key)))


def _parts(data: bytes, sizes: list[int] | tuple[int, ...]) -> list[bytes | None]:
    """What the lengths cut the rest into; −1 stands for None."""
    found: list[bytes | None] = []
    place = 0
    for size in sizes:
        if size < -1 or place + size > len(data):
            raise ValueError("a length that is none")
        found.append(None if size == -1 else data[place : place + size])
        place += max(size, 0)
    if place != len(data):
        raise ValueError("more than its lengths say")
    return found


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
