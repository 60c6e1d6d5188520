"""The rows that a fit is made from, by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from banister.data import Float, Int
from banister.safety.factors import Factors, Information
from banister.safety.pairs import Merged

_MOST_RANK = 15  # directions; beyond, the left-over D is as good and cheaper


@dataclass(frozen=True, eq=False)
class Rows:
    """What a fit is made from.

    Attributes:
        plays, labels: factors of the rows.
        claimed: (T,) the variance that labels claim.
        telling: (T,) rewards of each task that are not its most common one: a task that has only earned zeros
            does not know its noise.
    """

    plays: Factors
    labels: Factors
    claimed: Float
    telling: Float

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.plays.n)

    @property
    def dim(self) -> int:
        """p."""
        return int(self.plays.R.shape[2])

    def of_tasks(self, tasks: Int | slice) -> Rows:
        """The rows of some tasks."""
        plays, labels = self.plays.of_tasks(tasks), self.labels.of_tasks(tasks)
        return Rows(plays, labels, self.claimed[tasks], self.telling[tasks])

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Those of consecutive tasks, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            Factors.joined([rows.plays for rows in parts]),
            Factors.joined([rows.labels for rows in parts]),
            np.concatenate([rows.claimed for rows in parts]),
            np.concatenate([rows.telling for rows in parts]),
        )

    def information(self, noise: Float, label_level: float) -> Information:
        """Every row in units of its noise.

        Args:
            noise: (T,) variance of each task's rewards.
            label_level: the least variance of a label, whatever it claims.
        """
        return Information.of(self.merged, noise, np.maximum(self.claimed, label_level))

    @cached_property
    def merged(self) -> Merged:
        """Plays and labels, of the same features one row."""
        return Merged.of(self.plays, self.labels)

    def total(self) -> tuple[float, float]:
        """The sum of squares of rewards and labels, and how many there are."""
        square = self.plays.yy.sum() + self.labels.yy.sum()
        return float(square), float(self.plays.n.sum() + self.labels.n.sum())

    def most_directions(self) -> int:
        """How many directions its rows carry."""
        return carried(max(float(self.plays.n.sum()), float(self.labels.n.sum())), self.dim, self.n_tasks)


def carried(rows: float, p: int, n_tasks: int) -> int:
    """The largest k that rows of so many tasks carry: twice as many as there are parameters.

    Examples:
        >>> carried(800, p=101, n_tasks=100), carried(1000, p=101, n_tasks=100)
        (1, 2)
    """
    most = max(min(n_tasks - 2, p - 1, _MOST_RANK), 0)
    return max((k for k in range(most + 1) if needed(k, p, n_tasks) <= rows), default=0)


def needed(k: int, p: int, n_tasks: int) -> int:
    """Rows that carry k directions, with `k (p + T − k) + p` parameters."""
    return 2 * (k * (p + n_tasks - k) + p)


def mean_square(total: float, rows: float) -> float:
    """Of so many rewards and labels whose squares add up to `total`; never nothing."""
    return max(total / max(rows, 1.0), 1e-300)
