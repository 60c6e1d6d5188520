"""Worlds drawn after those of `unseen.py` had led to new rules, to check the rules on others."""

from __future__ import annotations

import numpy as np

from unseen import unseen
from worlds import Float, Int, Level, World


class Giants(World):
    """Two tasks fifty times as large as the others, opposed to each other in all but two features."""

    T, holds = 25, False

    def setup(self) -> None:
        super().setup()
        self.theta *= 0.1
        way = self.rng.standard_normal(self.d)
        self.theta[:2] = 5 * np.stack([way, np.where(np.arange(self.d) < 2, way, -way)]) / np.sqrt(self.d)


class LogSizes(Level):
    """Effects of log-normal size in three directions beside a level; a tenth of the tasks has nearly all."""

    T, r, holds = 40, 3, False

    def setup(self) -> None:
        super().setup()
        self.theta[:, 1:] *= np.exp(1.5 * self.rng.standard_normal(self.T))[:, None]


class LoudContext(World):
    """Four arms with an intercept and a context each; rewards of one arm swing ten times as much."""

    T, K, d, holds = 20, 4, 8, False

    def setup(self) -> None:
        super().setup()
        self.theta[:, ::2] += 2.0

    def actions(self, t: Int) -> Float:
        x = np.stack([np.ones(len(t)), self.rng.standard_normal(len(t))], axis=1)
        return np.einsum("kl,mj->mklj", np.eye(self.K), x).reshape(len(t), self.K, self.d)

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return t % 3

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        loud = np.where(X[:, 6] != 0, 1.0, 0.1)
        return mean + loud * self.rng.standard_normal(len(t))


class LoudFeature(Level):
    """Noise grows with the size of one feature of nine, which the policy in place likes small."""

    holds = False

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.abs(A[:, :, 4]).argmin(axis=1)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + (0.05 + np.abs(X[:, 4])) * self.rng.standard_normal(len(t))


unseen("giants", Giants, 80, "afterwards")
unseen("log sizes", LogSizes, 80, "afterwards")
unseen("loud context", LoudContext, 150, "afterwards", explores=0.1)
unseen("loud feature", LoudFeature, 100, "afterwards")
