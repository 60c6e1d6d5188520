"""Families invented without a look at the rules; two rules have been set with a look at them since."""

from __future__ import annotations

import numpy as np

from families import KNOWN, UNKNOWN, family
from worlds import Bool, Float, Int, Level, World


class Clusters(Level):
    """Three kinds of tasks; the difference between kinds is large, within a kind small."""

    holds = False

    def setup(self) -> None:
        super().setup()
        kind = self.rng.integers(3, size=self.T)
        self.theta[:, 1:] *= 0.2
        self.theta[:, 1:] += self.rng.standard_normal((3, self.d - 1))[kind] * 0.4


class OwnCorner(World):
    """Each task sees contexts around its own place: the price range of a shop."""

    place, holds = 3, False

    def setup(self) -> None:
        super().setup()
        self.centre = 3 * self.rng.standard_normal((self.T, 1, self.d))

    def actions(self, t: Int) -> Float:
        return self.centre[t] + 0.7 * super().actions(t)


class ChangingIncumbent(Level):
    """The policy in place is greedy by an estimate that somebody renews every 25 rounds."""

    def change(self) -> None:
        if self.n % 25 == 0:
            self.estimate = self.theta + 0.5 * self.rng.standard_normal(self.theta.shape)

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.einsum("mkd,md->mk", A, self.estimate[t]).argmax(1)


class EchoingNoise(Level):
    """Noise remembers the last round (0.9), and half of it is common to all tasks."""

    holds, noise = False, 0.3

    def setup(self) -> None:
        super().setup()
        self.last = np.zeros(self.T + 1)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        self.last = 0.9 * self.last + np.sqrt(1 - 0.81) * self.rng.standard_normal(self.T + 1)
        return mean + self.noise * (self.last[t] + self.last[-1]) / np.sqrt(2)


class Saturating(Level):
    """Rewards flatten out: twice the discount does not sell twice as much."""

    holds = False

    def mean(self, t: Int, A: Float) -> Float:
        return 3 * np.log1p(np.exp(super().mean(t, A) - 2))


class LateFeatures(Level):
    """Two features are zero for 40 rounds, then a release fills them, and they matter."""

    holds = False

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        if self.n < 40:
            A[:, :, -2:] = 0
        return A


class LateTasks(Level):
    """Tasks open one after another; the late ones share other directions than the early ones."""

    holds, T = False, 30

    def setup(self) -> None:
        super().setup()
        other = type(self).__mro__[1](int(self.rng.integers(2**31)), T=self.T)
        self.theta[15:, 1:] = other.theta[15:, 1:]

    def tasks(self) -> Int:
        return np.arange(min(self.T, 6 + self.n // 3))


class Stars(Level):
    """Ratings from one to five stars."""

    noise, holds = 0.6, False

    def mean(self, t: Int, A: Float) -> Float:
        """The mean of a rounded and clipped normal."""
        from scipy.special import ndtr

        raw = super().mean(t, A)
        return 1 + sum(ndtr((raw - (k + 0.5)) / self.noise) for k in range(1, 5))

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        raw = (X * self.theta[t]).sum(1) + self.noise * self.rng.standard_normal(len(t))
        return np.clip(np.rint(raw), 1, 5)


class Interaction(Level):
    """A product of two features matters, and nobody lists it."""

    holds, effect = False, 0.3

    def mean(self, t: Int, A: Float) -> Float:
        return super().mean(t, A) + self.effect * A[:, :, 1] * A[:, :, 2]


class Costs(Level):
    """Rewards are costs: all of them negative."""

    level, spread = -5.0, 1.0


class ThinManifold(Level):
    """Twenty features of which four factors explain nearly all."""

    d = 20

    def setup(self) -> None:
        super().setup()
        self.F = self.rng.standard_normal((4, self.d - 1)) / 2
        self.theta[:, 1:] *= 2

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 1:] = self.rng.standard_normal((*A.shape[:2], 4)) @ self.F + 0.05 * A[:, :, 1:]
        return A


class Forbidden(Level):
    """The policy in place never plays an action whose second feature is positive."""

    def base(self, t: Int, A: Float, M: Float) -> Int:
        allowed = np.where(A[:, :, 1] < 0, M, M - 1e6)
        return np.argsort(-allowed, axis=1)[:, 1]


class CappedLabel(Level):
    """The claimed baseline reward stops at a cap."""

    holds = False

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return np.minimum(mean, 3.2), 0.0


class StaleLabel(Level):
    """The claim comes from last year's model: right but for a tenth of the effects."""

    holds = False

    def setup(self) -> None:
        super().setup()
        self.old = self.theta + 0.1 * self.theta.std() * self.rng.standard_normal(self.theta.shape)

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return (x * self.old[t]).sum(1), 0.0


class OneBigTask(Level):
    """One task has nine tenths of the traffic."""

    T = 30

    def tasks(self) -> Int:
        return np.r_[np.zeros(27, dtype=int), self.rng.choice(np.arange(1, self.T), 3, replace=False)]


class Multiplicative(Level):
    """Effects in proportion to the level of a shop: large shops react more."""

    holds = False

    def setup(self) -> None:
        super().setup()
        size = np.exp(0.8 * self.rng.standard_normal((self.T, 1)))
        beta = 0.15 * self.rng.standard_normal(self.d)
        beta[0] = 1.0
        self.theta = 2 * size * beta


class Bundles(Level):
    """Actions are sets of zeros and ones, three in ten of them ones."""

    def actions(self, t: Int) -> Float:
        A = (self.rng.random((len(t), self.K, self.d)) < 0.3).astype(float)
        A[:, :, 0] = 1
        return A


class LostBursts(Level):
    """For one task in four, rewards are lost for twenty rounds at a time, then all are reported again."""

    def setup(self) -> None:
        super().setup()
        self.bursty = self.rng.random(self.T) < 0.25

    def arrives(self, mean: Float, y: Float) -> Bool:
        return ~(self.bursty & (self.n // 20 % 2 == 1))


for name, kind in {
    "clusters": Clusters, "own corner": OwnCorner, "changing incumbent": ChangingIncumbent,
    "echoing noise": EchoingNoise, "saturating": Saturating, "late features": LateFeatures,
    "late tasks": LateTasks, "stars": Stars, "omitted interaction": Interaction, "costs": Costs,
    "thin manifold": ThinManifold, "forbidden region": Forbidden, "one big task": OneBigTask,
    "multiplicative": Multiplicative, "bundles": Bundles, "lost bursts": LostBursts,
}.items():  # fmt: skip
    family("invented", name, kind, 110)
family("invented", "capped label", CappedLabel, 110, KNOWN)
family("invented", "stale label", StaleLabel, 110, KNOWN)
family("invented", "forbidden region, weak", Forbidden, 110, UNKNOWN, scale=0.3, noise=1.0)
