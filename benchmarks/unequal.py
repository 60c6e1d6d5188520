"""Worlds whose noise is very unequal, in ways that applications meet; all else is as the promise asks.

Expected rewards are linear with a parameter for each task, noise has mean zero and is independent between
rows, and nothing drifts. They were written and committed before their first run, by a reader of `worlds.py`,
`hardships.py`, `families.py`, `players.py` and `certificate.py` who had not read the rules that judge noise.
"""

from __future__ import annotations

import numpy as np

from families import family
from worlds import Arms, Float, Int, World


class LevelArms(Arms):
    """Arms × context around a common level; subclasses say how loud a row is."""

    holds, level = False, 2.0

    def setup(self) -> None:
        super().setup()
        self.theta[:, :: self.p] += self.level

    def arm(self, X: Float) -> Int:
        """Which arm each row played: the block that holds the constant."""
        return X[:, :: self.p].argmax(axis=1)

    def loudness(self, t: Int, X: Float) -> Float:
        """The noise's standard deviation of each row."""
        return np.full(len(t), self.noise)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + self.loudness(t, X) * self.rng.standard_normal(len(t))


class Jackpots(LevelArms):
    """Four customer segments, one-hot; in one of them every arm pays rarely, and then 25 times its mean."""

    T, K, p = 24, 3, 5
    shares, segment, wins = (0.5, 0.3, 0.15, 0.05), 2, 0.04

    def context(self, t: Int) -> Float:
        drawn = self.rng.choice(4, len(t), p=self.shares)
        return np.c_[np.ones(len(t)), np.eye(4)[drawn]]

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        rare = X[:, 1 + self.segment :: self.p].sum(axis=1) > 0
        won = self.rng.random(len(t)) < self.wins
        return np.where(rare, mean * won / self.wins, super().reward(t, X, mean))


class Batches(LevelArms):
    """Conversion rates of batches, whose size goes by market and arm, from one visitor to a thousand."""

    T, K, p, markets = 60, 4, 2, 3

    def setup(self) -> None:
        super().setup()
        usual = self.rng.uniform(0.15, 0.4, (self.K, self.p)) * (1, 0.5)
        own = self.rng.uniform(0.6, 1.3, (self.T, 1, 1)) * self.rng.uniform(0.8, 1.2, (self.T, self.K, 1))
        self.theta = (own * usual).reshape(self.T, -1)
        self.visitors = self.rng.choice((1, 5, 50, 1000), (self.markets, self.K))

    def context(self, t: Int) -> Float:
        return np.c_[np.ones(len(t)), self.rng.integers(2, size=len(t))]

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        n = self.visitors[t % self.markets, self.arm(X)]
        return self.rng.binomial(n, mean) / n


class Sales(World):
    """Non-negative features; sales are exponential, and shops differ in size a hundredfold."""

    T, d, K, holds = 40, 8, 12, False

    def setup(self) -> None:
        size = np.exp(self.rng.uniform(np.log(0.3), np.log(30), (self.T, 1)))
        W, B = self.rng.uniform(0.2, 1, (self.T, self.r)), self.rng.uniform(0, 1, (self.d, self.r))
        self.theta = size * W @ B.T / self.d

    def actions(self, t: Int) -> Float:
        return self.rng.uniform(0, 1, (len(t), self.K, self.d))

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean * self.rng.standard_exponential(len(t))


class CorrelatedPair(World):
    """Two columns go together; noise grows with the first, and the policy in place keeps that column low."""

    T, d, K, holds, level, together = 16, 25, 10, False, 2.0, 0.95

    def setup(self) -> None:
        super().setup()
        self.theta[:, :2] *= 3
        self.theta[:, -1] = self.level

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 1] = self.together * A[:, :, 0] + np.sqrt(1 - self.together**2) * A[:, :, 1]
        A[:, :, -1] = 1
        return A

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return A[:, :, 0].argmin(axis=1)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + self.noise * np.exp(1.3 * np.maximum(X[:, 0], 0)) * self.rng.standard_normal(len(t))


class Discounts(World):
    """Discounts of 0 to 40 % × context; what a discount returns is log-normal, the wilder the deeper."""

    T, K, p, holds, level, wild = 30, 5, 5, False, 3.0, 4.0

    def setup(self) -> None:
        self.d = 2 * self.p
        super().setup()
        self.theta[:, 0] += self.level
        self.theta[:, self.p :] *= 5

    def actions(self, t: Int) -> Float:
        C = self.rng.uniform(-1, 1, (len(t), 1, self.p)).repeat(self.K, axis=1)
        C[:, :, 0] = 1
        depth = np.linspace(0, 0.4, self.K)[:, None]
        return np.concatenate([C, depth * C], axis=2)

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return t % 2

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        sigma = 0.1 + self.wild * X[:, self.p]
        return mean * np.exp(sigma * self.rng.standard_normal(len(t)) - sigma**2 / 2)


class LateArm(LevelArms):
    """A new arm is offered from one round on, and its rewards are twenty times as loud."""

    T, K, p, arrival = 20, 5, 4, 80

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        return A if self.n >= self.arrival else A[:, :-1]

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return t % (self.K - 1)

    def loudness(self, t: Int, X: Float) -> Float:
        return self.noise * np.where(self.arm(X) == self.K - 1, 20.0, 1.0)


class FewLoudTasks(LevelArms):
    """Every arm is quiet in most tasks and forty times as loud in three of them."""

    T, K, p, few = 48, 5, 2, 3

    def setup(self) -> None:
        super().setup()
        loud = np.argsort(self.rng.random((self.T, self.K)), axis=0) < self.few
        self.louder = np.where(loud, 40.0, 1.0)

    def loudness(self, t: Int, X: Float) -> Float:
        return self.noise * self.louder[t, self.arm(X)]


class OneWildArm(LevelArms):
    """Few tasks, no context, and an arm whose noise is Student's t with 3 degrees of freedom."""

    T, K, p, wild = 8, 4, 1, 1.5

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return t % (self.K - 1)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        tails = self.wild * self.rng.standard_t(3, len(t)) / np.sqrt(3)
        return np.where(self.arm(X) == self.K - 1, mean + tails, super().reward(t, X, mean))


family("unequal", "a segment of jackpots", Jackpots, 200, explores=0.1)
family("unequal", "rates of batches", Batches, 120, explores=0.1)
family("unequal", "sales of shops", Sales, 110)
family("unequal", "a loud one of two columns", CorrelatedPair, 150, explores=0.05)
family("unequal", "discounts", Discounts, 200, explores=0.1)
family("unequal", "a late, loud arm", LateArm, 200, explores=0.1)
family("unequal", "arms loud in few tasks", FewLoudTasks, 150, explores=0.05)
family("unequal", "one arm of wild tails", OneWildArm, 300, explores=0.1)
