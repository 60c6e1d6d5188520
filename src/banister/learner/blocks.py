"""Columns that grow by appending and never move."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 4096


class Blocks:
    """Rows that grow by appending and never move: no decision must wait for the copy of a long column.

    Args:
        width: of a row; 0 for numbers.
        dtype: theirs.
        block: rows for which room is made at once.
    """

    def __init__(self, width: int = 0, dtype: Any = np.float64, block: int = _BLOCK) -> None:
        self._block = block
        self._shape: tuple[int, ...] = (block, width) if width else (block,)
        self._dtype = dtype
        self._blocks: list[NDArray[Any]] = []
        self.size = 0

    def add(self, value: Any) -> None:
        """One row."""
        place = self.size % self._block
        if place == 0:
            self._blocks.append(np.empty(self._shape, self._dtype))
        self._blocks[-1][place] = value
        self.size += 1

    def extend(self, values: NDArray[Any]) -> None:
        """Many rows."""
        start = 0
        while start < len(values):
            place = self.size % self._block
            if place == 0:
                self._blocks.append(np.empty(self._shape, self._dtype))
            part = values[start : start + self._block - place]
            self._blocks[-1][place : place + len(part)] = part
            self.size += len(part)
            start += len(part)

    def pieces(self, first: int = 0) -> list[NDArray[Any]]:
        """Views of the rows from `first` on, in order; untouched by what is added later."""
        views = [b[: min(self._block, self.size - i * self._block)] for i, b in enumerate(self._blocks)]
        skipped, offset = divmod(first, self._block)
        rest = views[skipped:]
        return [rest[0][offset:], *rest[1:]] if rest else [np.empty((0, *self._shape[1:]), self._dtype)]


class Table:
    """Columns of rows of one kind: task first, decision number last (0 for logs)."""

    def __init__(self, *columns: Blocks, block: int = _BLOCK) -> None:
        self.columns = (Blocks(dtype=np.int64, block=block), *columns, Blocks(dtype=np.int64, block=block))

    def __len__(self) -> int:
        return self.columns[0].size

    def add(self, *values: Any) -> None:
        """One row."""
        for column, value in zip(self.columns, values, strict=True):
            column.add(value)

    def extend(self, *values: NDArray[Any]) -> None:
        """Many rows."""
        for column, part in zip(self.columns, values, strict=True):
            column.extend(part)

    def pieces(self, first: int = 0) -> list[list[NDArray[Any]]]:
        """Views of every column, in pieces."""
        return [c.pieces(first) for c in self.columns]
