"""Rows that grow by appending."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Rows:
    """Columns of equal length that grow by appending; capacity doubles, so appending is cheap."""

    def __init__(self) -> None:
        self._columns: list[NDArray[Any]] = []
        self.size = 0

    def append(self, *columns: NDArray[Any]) -> None:
        """Add rows; the first call fixes the columns' types and widths."""
        more = len(columns[0])
        if not self._columns:
            self._columns = [np.empty((max(more, 64), *c.shape[1:]), dtype=c.dtype) for c in columns]
        needed = self.size + more
        if needed > len(self._columns[0]):
            self._columns = [_grown(c, max(needed, 2 * len(c))) for c in self._columns]
        for own, new in zip(self._columns, columns, strict=True):
            own[self.size : needed] = new
        self.size = needed

    def columns(self) -> list[NDArray[Any]]:
        """Views of the rows so far."""
        return [c[: self.size] for c in self._columns]


def _grown(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    larger = np.empty((capacity, *column.shape[1:]), dtype=column.dtype)
    larger[: len(column)] = column
    return larger
