"""Logged rows a stretch at a time: what the ledger keeps of them, and how it is read back.

A block is kept as dense rows of float64, or, where arms make rows of a context, as the context's features and
the numbers of two arms: a million rows of five arms take a sixth of the room. Both are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from banister.contract import Bool
from banister.data import Float, Int
from banister.errors import DataFileError
from banister.features.base import Features
from banister.online.record import LogRecord

FEATURES = "features"  # of what the ledger keeps beside its rows
BLOCK = 4096  # rows of a block: some megabytes, whatever their number


class Block(NamedTuple):
    """A stretch of a log: tasks by their place in the log's labels, rewards, and rows as bytes."""

    task: Int
    y: Float
    baseline_reward: Float
    features: bytes
    baseline: bytes


class Log(Protocol):
    """Rows that can be handed on in blocks, as often as asked."""

    @property
    def labels(self) -> list[str]:
        """The tasks."""
        ...

    @property
    def dim(self) -> int:
        """d."""
        ...

    def __len__(self) -> int: ...

    def blocks(self) -> Iterator[Block]:
        """All rows, in order."""
        ...


class Rows(NamedTuple):
    """A block read back: rows (n, d), whether each is its baseline, and baselines on demand."""

    task: Int
    X: Float
    y: Float
    is_baseline: Bool
    baseline_reward: Float
    known_baselines: Float  # (m, d) of the rows whose baseline reward is known


def stretches(n: int) -> Iterator[slice]:
    """Slices of at most `BLOCK` rows."""
    return (slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK))


def is_coded(record: LogRecord) -> bool:
    """Whether a block holds contexts and arms: its baselines are then two numbers a row, not rows."""
    return len(record.baseline) != len(record.features)


def short(coded: Float, played: Int, usual: Int) -> tuple[bytes, bytes]:
    """The bytes of rows in their short form."""
    return coded.tobytes(), np.stack([played, usual], axis=1).astype(np.int32).tobytes()


def read_block(record: LogRecord, dim: int, features: Features | None) -> Rows:
    """A block of the ledger as rows."""
    task, y = np.frombuffer(record.task, dtype=np.int64), np.frombuffer(record.reward)
    known = np.frombuffer(record.baseline_reward)
    told = ~np.isnan(known)
    if not is_coded(record):
        X, usual = (np.frombuffer(blob).reshape(-1, dim) for blob in (record.features, record.baseline))
        _check_whole(task, X, y, usual, known)
        return Rows(task, X, y, (usual == X).all(axis=1), known, usual[told])
    if features is None:
        raise DataFileError(
            "The ledger has rows of named arms and no arms to read them with; restore it from a copy."
        )
    coded = np.frombuffer(record.features).reshape(len(y), -1)
    played, base = np.frombuffer(record.baseline, dtype=np.int32).reshape(-1, 2).T.astype(np.int64)
    _check_whole(task, coded, y, played, known)
    rows, known_baselines = features.expand(coded, played), features.expand(coded[told], base[told])
    return Rows(task, rows, y, played == base, known, known_baselines)


def _check_whole(*columns: Float | Int) -> None:
    if len({len(column) for column in columns}) > 1:
        raise DataFileError("The ledger has logged rows that are not whole; restore it from a copy.")
