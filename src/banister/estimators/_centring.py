"""Per-task levels: rows and rewards are centred within their task, and the levels are put back afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.data import Float, Int, TaskData


@dataclass(frozen=True)
class Centring:
    """Each task's mean features (T, d) and mean reward (T,); zeros for a task with no rows."""

    features: Float
    rewards: Float

    @classmethod
    def of(cls, data: TaskData) -> Centring:
        """The means of the tasks in `data`."""
        features = np.zeros((data.n_tasks, data.dim))
        rewards = np.zeros(data.n_tasks)
        for t in np.flatnonzero(data.counts):
            X, y = data.rows_of(int(t))
            features[t], rewards[t] = X.mean(axis=0, dtype=float), y.mean(dtype=float)
        return cls(features, rewards)

    def apply(self, data: TaskData) -> TaskData:
        """A centred copy of the data."""
        X, y = data.X.copy(), data.y.copy()
        for t in range(data.n_tasks):
            rows = slice(data.offsets[t], data.offsets[t + 1])
            X[rows] -= self.features[t].astype(X.dtype)
            y[rows] -= y.dtype.type(self.rewards[t])
        return TaskData(X, y, data.offsets, data.labels)

    def intercepts(self, theta: Float) -> Float:
        """What makes each task's prediction at its mean features its mean reward, shape (T,)."""
        levels: Float = self.rewards - np.einsum("td,dt->t", self.features, theta)
        return levels

    def centred(self, X: Float, codes: Int) -> Float:
        """Rows of X relative to their tasks' means."""
        return X - self.features[codes]

    def extended(self, other: Centring) -> Centring:
        """With more tasks."""
        return Centring(
            np.vstack([self.features, other.features]), np.concatenate([self.rewards, other.rewards])
        )
