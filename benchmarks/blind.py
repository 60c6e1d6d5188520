"""Families invented after the last change of a rule, without a look at the rules."""

from __future__ import annotations

import numpy as np

from families import KNOWN, family
from worlds import Float, Int, Level, World


class Weekdays(Level):
    """The day of the week is known, as seven columns of zeros and ones, and shifts everything."""

    d = 17

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, -7:] = np.eye(7)[self.n % 7]
        return A


class BestPrice(Level):
    """There is a best price; only the price itself is listed."""

    holds = False

    def mean(self, t: Int, A: Float) -> Float:
        return super().mean(t, A) - 0.15 * (A[:, :, 1] - 0.5) ** 2


class Threshold(Level):
    """Free delivery above a threshold: a step that no column lists."""

    holds = False

    def mean(self, t: Int, A: Float) -> Float:
        return super().mean(t, A) + 0.4 * (A[:, :, 2] > 0.5)


class RareVisitors(Level):
    """Sixty tasks of which six ask in a round."""

    T = 60

    def tasks(self) -> Int:
        return self.rng.choice(self.T, 6, replace=False)


class Renovations(Level):
    """Now and then a task changes for good, each at its own time."""

    holds = False

    def change(self) -> None:
        for t in np.flatnonzero(self.rng.random(self.T) < 0.003):
            self.theta[t, 1:] = self.rng.permutation(self.theta[t, 1:])


class Bots(Level):
    """One reward in a hundred is off by thirty standard deviations, up or down."""

    holds = False

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        wild = self.rng.random(len(t)) < 0.01
        return super().reward(t, X, mean) + 30 * self.noise * wild * self.rng.choice((-1, 1), len(t))


class RoundedLabel(Level):
    """Claims are rounded to halves."""

    holds = False

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return np.round(2 * mean) / 2, 0.0


class ProudLabel(Level):
    """Claims are a tenth above the truth."""

    holds = False

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return 1.1 * mean, 0.0


class ModestLabel(Level):
    """Claims are a tenth below the truth: their floors are too low."""

    holds = False

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return 0.9 * mean, 0.0


class SomeLabels(Level):
    """One request in five comes with a claim, which is right."""

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return np.where(self.rng.random(len(t)) < 0.2, mean, np.nan), 0.0


class MovingOffers(Level):
    """What is offered moves on: after eighty rounds every feature has moved by three standard deviations."""

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 1:] += 3 * min(self.n / 80, 1.0)
        return A


class LearningIncumbent(Level):
    """The policy in place gets better: from the seventh best action to the second."""

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.argsort(-M, axis=1)[:, max(1, 6 - self.n // 15)]


class TwinColumns(Level):
    """Three columns are copies of others, one of them nearly so."""

    d = 13

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 10:12] = A[:, :, 1:3]
        A[:, :, 12] = A[:, :, 3] + 1e-3 * A[:, :, 12]
        return A


class NearZero(World):
    """Baselines earn next to nothing, now a little more, now a little less."""

    place = 4

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.abs(M).argmin(axis=1)


class Sparse(Level):
    """Each task reacts to two features of twenty, each to its own."""

    d, holds = 20, False

    def setup(self) -> None:
        super().setup()
        for row in self.theta[:, 1:]:
            row[:] = 0
            row[self.rng.choice(len(row), 2, replace=False)] = self.rng.normal(0, 0.7, 2)


class Blanks(Level):
    """A tenth of all features is missing and filled with zeros; the truth knows them."""

    holds = False

    def actions(self, t: Int) -> Float:
        self.true = super().actions(t)
        seen = self.true * (self.rng.random(self.true.shape) >= 0.1)
        seen[:, :, 0] = 1
        return seen

    def mean(self, t: Int, A: Float) -> Float:
        return super().mean(t, self.true)


for name, kind in {
    "weekdays": Weekdays, "best price": BestPrice, "threshold": Threshold, "rare visitors": RareVisitors,
    "renovations": Renovations, "bots": Bots, "some labels": SomeLabels, "moving offers": MovingOffers,
    "learning incumbent": LearningIncumbent, "twin columns": TwinColumns, "near zero": NearZero,
    "sparse": Sparse, "blanks": Blanks,
}.items():  # fmt: skip
    family("blind", name, kind, 200 if name == "rare visitors" else 110)
for name, kind in {
    "rounded label": RoundedLabel, "proud label": ProudLabel, "modest label": ModestLabel
}.items():  # fmt: skip
    family("blind", name, kind, 110, KNOWN)
