"""Worlds for the safety grid that were written without sight of the rules: every stated assumption holds.

Rewards are linear in the listed features, noise has mean zero and is independent between rows, parameters do
not move, claims are exact, and rewards that stay away are like those that come. Their author had read
docs/safety.md and the public interface, and the names of the other families, but none of the code.
"""

from __future__ import annotations

import numpy as np

from families import BOTH, FAMILIES, Family
from worlds import Float, Int, Level, World

ALPHAS = (0.02, 0.1, 0.5, 0.05, 0.3)


class Curve(World):
    """Tasks lie on a closed curve that bends through all features: no small subspace, no normal law."""

    T, d, holds = 30, 12, False

    def setup(self) -> None:
        turn = self.rng.uniform(0, 2 * np.pi, self.T)
        order = 1 + np.arange(self.d) // 2
        wave = np.where(np.arange(self.d) % 2, np.cos(np.outer(turn, order)), np.sin(np.outer(turn, order)))
        self.theta = wave / order


class UnequalClusters(World):
    """Twenty-five small tasks alike, four of middle size, and one large one; each kind points elsewhere."""

    T, holds = 30, False

    def setup(self) -> None:
        kind = np.repeat([0, 1, 2], [25, 4, 1])
        centre = self.rng.standard_normal((3, self.d)) * np.array([[0.1], [0.4], [2.0]])
        spread = np.array([0.02, 0.1, 0.0])[kind, None]
        self.theta = centre[kind] + spread * self.rng.standard_normal((self.T, self.d))


class ParetoSizes(World):
    """Tasks share two directions, and their sizes have a tail so heavy that it has no variance."""

    T, holds = 30, False

    def setup(self) -> None:
        super().setup()
        self.theta *= 0.2 * (1 + self.rng.pareto(1.3, self.T))[:, None]


class NewRule(Level):
    """The policy in place follows one feature; half way somebody replaces it by a rule on another one."""

    holds = False

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return A[:, :, 1 if self.n < 50 else 2].argmax(axis=1)


class Apprentice(Level):
    """The policy in place learns: in each task it is greedy by a ridge fit of what it saw itself."""

    holds = False

    def setup(self) -> None:
        super().setup()
        self.G = np.tile(np.eye(self.d), (self.T, 1, 1))
        self.g = np.zeros((self.T, self.d))

    def base(self, t: Int, A: Float, M: Float) -> Int:
        guess = np.linalg.solve(self.G[t], self.g[t][..., None])
        b = (A @ guess)[..., 0].argmax(axis=1)
        x, y = A[np.arange(len(t)), b], M[np.arange(len(t)), b] + self.rng.standard_normal(len(t))
        self.G[t] += x[:, :, None] * x[:, None]
        self.g[t] += x * y[:, None]
        return b


class BestOrWorst(Level):
    """The policy in place is perfect in every second task, and plays the worst in the others."""

    holds = False

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.where(t % 2, M.argmax(axis=1), M.argmin(axis=1))


class Homeland(World):
    """What a task is offered lies around its own parameters: fans of crime are shown crime."""

    holds = False

    def actions(self, t: Int) -> Float:
        size = np.linalg.norm(self.theta, axis=1, keepdims=True)
        return super().actions(t) + 2 * (self.theta / size)[t][:, None]


class RareFlags(Level):
    """Thirty flags, most of them seldom set, some first seen late; each is worth a lot or costs a lot."""

    T, d, holds = 20, 33, False

    def setup(self) -> None:
        super().setup()
        self.theta[:, 3:] = self.rng.normal(0, 1.5, 30) + self.rng.normal(0, 0.3, (self.T, 30))
        self.often = 0.5 / (1 + np.arange(30.0))

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 3:] = self.rng.random((len(t), self.K, 30)) < self.often
        return A


class ProfitAndLoss(World):
    """Half of the tasks earn and half lose; effects are as large as levels, so floors change side."""

    holds = False

    def setup(self) -> None:
        super().setup()
        self.theta[:, 0] = self.rng.standard_normal(self.T) * np.where(np.arange(self.T) % 2, 1.0, 0.1)

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 0] = 1.0
        return A


class SlowStrangers(Level):
    """Rewards of task t arrive after t rounds, and the slower a task, the less it is like the first ones."""

    T, holds = 30, False

    def setup(self) -> None:
        super().setup()
        own = self.rng.standard_normal((self.T, self.d - 1)) / np.sqrt(self.d)
        share = np.linspace(0, 1, self.T)[:, None]
        self.theta[:, 1:] = (1 - share) * self.theta[:, 1:] + share * own

    def delays(self, t: Int) -> Int:
        return t


class ZipfOpenings(Level):
    """Traffic by Zipf's law over fifty tasks; small ones open late, with effects three times as large."""

    T, holds = 50, False

    def setup(self) -> None:
        super().setup()
        self.theta[:, 1:] *= np.linspace(1, 3, self.T)[:, None]
        self.odds = 1 / (1 + np.arange(self.T))

    def tasks(self) -> Int:
        open_now = min(self.T, 5 + self.n // 2)
        odds = self.odds[:open_now] / self.odds[:open_now].sum()
        return self.rng.choice(open_now, size=15, p=odds)


class Twins(Level):
    """Twelve actions are four, each thrice, apart by a thousandth and by a millionth."""

    K, holds = 12, False

    def actions(self, t: Int) -> Float:
        A = self.rng.standard_normal((len(t), self.K, self.d))
        for copy, apart in ((1, 1e-3), (2, 1e-6)):
            A[:, 4 * copy : 4 * copy + 4] = A[:, :4] + apart * A[:, 4 * copy : 4 * copy + 4]
        A[:, :, 0] = 1.0
        return A


class Wide(World):
    """Eighty features and twelve tasks: for most of the run rows are few beside what is asked of them."""

    T, d, r, noise, holds = 12, 80, 3, 0.02, False


class LoudArms(World):
    """Six arms without context; their noise goes from a twentieth to two, and the quiet one is in place."""

    T, K, d, holds = 25, 6, 6, False
    loud = np.geomspace(0.05, 2, 6)

    def setup(self) -> None:
        self.theta = 2 + self.rng.standard_normal(6) * 0.5 + self.rng.standard_normal((self.T, 6)) * 0.3

    def actions(self, t: Int) -> Float:
        return np.tile(np.eye(6), (len(t), 1, 1))

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.zeros(len(t), dtype=int)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + self.loud[X.argmax(axis=1)] * self.rng.standard_normal(len(t))


class TwoWide(World):
    """Two tasks, fifty features, nothing in common."""

    T, d, r, holds = 2, 50, 2, False


class ManyNarrow(Level):
    """Two hundred tasks with two features beside their level; forty ask in a round."""

    T, d, holds = 200, 3, False

    def tasks(self) -> Int:
        return self.rng.choice(self.T, 40, replace=False)


class Turnover(World):
    """Each task has a list of six items; every round one is replaced, and the oldest is in place."""

    K, holds = 6, False

    def setup(self) -> None:
        super().setup()
        self.theta[:, 0] = 2.0
        self.items = super().actions(np.arange(self.T))

    def actions(self, t: Int) -> Float:
        self.items[:, self.n % self.K] = self.rng.standard_normal((self.T, self.d))
        self.items[:, :, 0] = 1.0
        return self.items[t].copy()

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.full(len(t), (self.n + 1) % self.K)


class TimidBaseline(Level):
    """Features are amounts with a long tail; the policy in place takes the smallest sum of them."""

    holds = False

    def actions(self, t: Int) -> Float:
        A = np.exp(super().actions(t))
        A[:, :, 0] = 1.0
        return A

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return A.sum(axis=2).argmin(axis=1)


class Opposites(Level):
    """Every task has an opposite that likes what it dislikes; nothing is right for both."""

    T, holds = 24, False

    def setup(self) -> None:
        super().setup()
        self.theta[12:, 1:] = -self.theta[:12, 1:]


class Recipes(World):
    """Features are shares that add up to one: a constant is hidden in them."""

    holds = False

    def setup(self) -> None:
        super().setup()
        self.theta = 2 + 2 * self.theta

    def actions(self, t: Int) -> Float:
        return self.rng.dirichlet(np.full(self.d, 0.5), (len(t), self.K))


class Lopsided(Level):
    """Noise is one-sided: small losses nearly always, now and then a large win; its mean is zero."""

    holds = False

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + 0.3 * (self.rng.standard_gamma(0.2, len(t)) - 0.2) / np.sqrt(0.2)


def unseen(name: str, kind: type[World], rounds: int, group: str = "unseen", **settings: float) -> None:
    """Name one family, with alphas from .02 to .5."""
    FAMILIES[name] = Family(
        group, lambda seed: kind(seed, **settings), rounds, BOTH, lambda seed: ALPHAS[seed % len(ALPHAS)]
    )


for name, kind, rounds in (
    ("curve", Curve, 90), ("unequal clusters", UnequalClusters, 80), ("pareto sizes", ParetoSizes, 80),
    ("new rule", NewRule, 100), ("apprentice", Apprentice, 100), ("best or worst", BestOrWorst, 80),
    ("homeland", Homeland, 80), ("rare flags", RareFlags, 100), ("profit and loss", ProfitAndLoss, 80),
    ("slow strangers", SlowStrangers, 100), ("zipf openings", ZipfOpenings, 150), ("twins", Twins, 80),
    ("wide", Wide, 60), ("two wide", TwoWide, 150), ("many narrow", ManyNarrow, 100),
    ("turnover", Turnover, 90), ("timid baseline", TimidBaseline, 80), ("opposites", Opposites, 80),
    ("recipes", Recipes, 100), ("lopsided", Lopsided, 100),
):  # fmt: skip
    unseen(name, kind, rounds)
unseen("loud arms", LoudArms, 200, explores=0.1)
unseen("in millionths", Level, 80, scale=1e-6, level=3e-6, spread=1e-6)
unseen("in millions", Level, 80, scale=1e6, level=3e6, spread=1e6)
