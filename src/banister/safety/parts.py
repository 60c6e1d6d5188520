"""Parts of the features that are never there together, and factors of rows that make use of it.

Where each arm has coefficients of its own, a row is zero in the other arms' columns: of five arms with 43
features each, 86 of 258 columns are in use. Rows of one arm are reduced among themselves first, in their own
columns and those that all share, and only what is left in the shared ones is put together: a tenth of the
arithmetic, the same moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import lapack
from scipy.sparse.csgraph import connected_components

from banister.contract import Bool
from banister.data import Float, Int

_WORTH = 0.6  # of all columns: what a row may use at most for parts to be worth their trouble
_MANY = 64  # parts: with more, the small decompositions cost what they spare


@dataclass(frozen=True, eq=False)
class Parts:
    """Columns that belong to one part each, and those that all parts share.

    Attributes:
        own: the columns of each part.
        shared: all others.
    """

    own: list[Int]
    shared: Int

    @classmethod
    def of(cls, X: Float) -> Parts | None:
        """What the zeros of some rows (n, d) suggest; None where they suggest nothing worth while.

        Columns that are used beside many others are taken as shared until the rest falls apart.
        """
        used = (X != 0.0).astype(np.float32)
        together = used.T @ used > 0.0
        unused = ~together.any(axis=0)
        together[np.ix_(unused, unused)] = True  # an arm that was not played yet: one part of its own
        company = together.sum(axis=0)
        found = [_split(together, company > limit) for limit in np.unique(company)]
        best = min(found, key=_in_use, default=None)
        if best is None or _in_use(best) > _WORTH * X.shape[1] or len(best.own) > _MANY:
            return None
        return best

    def reduced(self, rows: Float) -> Float | None:
        """A factor of rows (n, d + 2) whose last two columns are shared; None if a row is in two parts."""
        d = rows.shape[1] - 2
        shared = np.append(self.shared, [d, d + 1])
        whose = self._whose(rows)
        if whose is None:
            return None
        made, left = [], [rows[whose < 0][:, shared]]
        for part, own in enumerate(self.own):
            columns = np.append(own, shared)
            mine = rows[np.flatnonzero(whose == part)[:, None], columns]
            factor, rest = _eliminated(mine, len(own))
            made.append(_spread(factor, columns, d + 2))
            left.append(rest)
        made.append(_spread(triangle(np.concatenate(left)), shared, d + 2))
        return np.concatenate(made)

    def _whose(self, rows: Float) -> Int | None:
        """(n,) the part that each row is in, −1 for none; None if one is in two."""
        touched: Bool = np.stack([(rows[:, own] != 0.0).any(axis=1) for own in self.own])
        if (touched.sum(axis=0) > 1).any():
            return None
        return np.where(touched.any(axis=0), touched.argmax(axis=0), -1)


def triangle(rows: Float) -> Float:
    """A factor with no more rows than columns."""
    return rows if len(rows) <= rows.shape[1] else _upper(rows)


def _upper(rows: Float) -> Float:
    """The triangle (or, of fewer rows than columns, trapezium) of a QR decomposition."""
    n, width = min(rows.shape), rows.shape[1]
    both, _, _, _ = lapack.dgeqrf(rows)
    factor: Float = np.where(_above(n, width), both[:n], 0.0)
    return factor


@lru_cache(maxsize=256)
def _above(n: int, width: int) -> Bool:
    """(n, width) where a triangle's entries are."""
    return np.arange(n)[:, None] <= np.arange(width)


def _eliminated(rows: Float, n: int) -> tuple[Float, Float]:
    """Rows that hold all there is of the first `n` columns, and what is left of the others."""
    if len(rows) <= n:
        return rows, rows[:0, n:]
    factor = _upper(rows)
    return factor[:n], factor[n:, n:]


def _spread(rows: Float, columns: Int, width: int) -> Float:
    out = np.zeros((len(rows), width))
    out[:, columns] = rows
    return out


def _split(together: Bool, shared: Bool) -> Parts:
    """The parts into which columns fall once some are shared."""
    rest = np.flatnonzero(~shared)
    n, part = connected_components(together[np.ix_(rest, rest)], directed=False)
    return Parts([rest[part == i] for i in range(n)], np.flatnonzero(shared))


def _in_use(parts: Parts) -> int:
    """The most columns that a row uses."""
    return len(parts.shared) + max((len(own) for own in parts.own), default=0)
