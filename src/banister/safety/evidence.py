"""What a certificate is made from: rewards of what was played, and the baseline rewards that were known.

A known baseline reward is a label like any other, and often a far better one than a noisy reward: the row
(x_b, r_b) with standard error s_b. Both kinds of rows go into one fit, each weighted by its own noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.contract import Outcomes, Requests
from banister.data import Float, Int

_SAMPLE = 4096  # offered actions remembered, for calibration


class Rows:
    """Columns of equal length that grow by appending; capacity doubles, so appending is cheap."""

    def __init__(self) -> None:
        self._columns: list[Float] = []
        self.size = 0

    def append(self, *columns: Float) -> None:
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

    def columns(self) -> list[Float]:
        """Views of the rows so far."""
        return [c[: self.size] for c in self._columns]


def _grown(column: Float, capacity: int) -> Float:
    larger = np.empty((capacity, *column.shape[1:]), dtype=column.dtype)
    larger[: len(column)] = column
    return larger


@dataclass(frozen=True, eq=False)
class Observations:
    """Rows of one kind: what was played and earned, or baselines and their rewards.

    Attributes:
        task: (n,) task indices.
        X: (n, d).
        y: (n,) rewards or baseline rewards.
        std: (n,) how well `y` is said to be known; 0 for rewards, whose noise is estimated.
    """

    task: Int
    X: Float
    y: Float
    std: Float

    def __len__(self) -> int:
        return len(self.y)


class Evidence:
    """All rows seen so far, in the order in which they came."""

    def __init__(self, *, labels: bool = True) -> None:
        self.use_labels = labels
        self._plays, self._labels = Rows(), Rows()
        self._offered: tuple[Int, Float] | None = None

    def see(self, requests: Requests) -> None:
        """Take in requests: known baseline rewards are labels, and some actions are kept for calibration."""
        if len(requests) == 0:
            return
        known = ~np.isnan(requests.baseline_reward)
        if self.use_labels and known.any():
            X = requests.baseline_features()
            std = np.asarray(requests.baseline_reward_std)
            if known.all():
                self._labels.append(requests.task, X, requests.baseline_reward, std)
            else:
                self._labels.append(
                    requests.task[known], X[known], requests.baseline_reward[known], std[known]
                )
        self._remember(requests)

    def learn(self, outcomes: Outcomes) -> None:
        """Take in rewards."""
        if len(outcomes):
            self._plays.append(outcomes.task, outcomes.features, outcomes.reward)

    @property
    def n_plays(self) -> int:
        """Rewards so far."""
        return self._plays.size

    def plays(self) -> Observations | None:
        """What was played and earned; None before the first reward."""
        if self._plays.size == 0:
            return None
        task, X, y = self._plays.columns()
        return Observations(task, X, y, np.zeros(len(y)))  # type: ignore[arg-type]

    def labels(self) -> Observations | None:
        """Baselines whose reward was known; None if there were none."""
        return Observations(*self._labels.columns()) if self._labels.size else None  # type: ignore[arg-type]

    def offered(self) -> tuple[Int, Float] | None:
        """A sample of recently offered actions: tasks (n,) and features (n, d)."""
        return self._offered

    def _remember(self, requests: Requests) -> None:
        m, n_actions, _ = requests.actions.shape
        rows = np.arange(0, m, max(1, -(-m // _SAMPLE)))
        # Which action of a row is kept turns with the row, so that every position is seen.
        new = requests.task[rows], requests.actions[rows, (rows + m) % n_actions]
        if self._offered is None:
            self._offered = new
            return
        task = np.concatenate([new[0], self._offered[0]])[:_SAMPLE]
        self._offered = task, np.concatenate([new[1], self._offered[1]])[:_SAMPLE]
