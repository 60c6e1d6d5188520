"""Worlds with hard rewards, claims or times: clicks, revenue, averages as labels, seasons and drifts."""

from __future__ import annotations

import numpy as np

from worlds import Bool, Float, Int, Level, Paper, ScriptLevel, World


class ScriptAverage(ScriptLevel):
    """The task's mean is passed as this request's baseline reward."""

    holds = False

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return self.theta[t, 0] + 0.3, 0.0


class HeavyTails(Paper):
    """Student's t noise with 3 degrees of freedom."""

    holds = False

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + self.noise * self.rng.standard_t(3, len(t)) / np.sqrt(3)


class Heteroscedastic(World):
    """Noise that grows with |x|², and a few long actions."""

    holds = False

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[self.rng.random(A.shape[:2]) < 0.05] *= 5
        return A

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + self.noise * (X**2).sum(1) / self.d * self.rng.standard_normal(len(t))


class LoudHighs(Level):
    """Noise in proportion to the expected reward, as in sales."""

    holds = False

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return mean + 0.2 * np.abs(mean) * self.rng.standard_normal(len(t))


class Clicks(Level):
    """Bernoulli rewards; probabilities are linear, clipped at the ends."""

    level, spread, T, effect, holds = 0.4, 0.05, 40, 0.12, False
    low, high = 0.01, 0.99

    def setup(self) -> None:
        super().setup()
        self.theta[:, 1:] *= self.effect

    def mean(self, t: Int, A: Float) -> Float:
        return np.clip(super().mean(t, A), self.low, self.high)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return (self.rng.random(len(t)) < mean).astype(float)


class RareClicks(Level):
    """Logistic click rates near 2 %."""

    level, spread, T, holds = -4.0, 0.3, 40, False

    def mean(self, t: Int, A: Float) -> Float:
        return 1 / (1 + np.exp(-super().mean(t, A)))

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return (self.rng.random(len(t)) < mean).astype(float)


class Counts(Level):
    """Poisson counts with a mean that is linear."""

    holds = False

    def mean(self, t: Int, A: Float) -> Float:
        return np.maximum(super().mean(t, A), 0.05)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return self.rng.poisson(mean).astype(float)


class Revenue(Level):
    """Mostly nothing, else a log-normal basket."""

    holds, buys, sigma = False, 0.2, 1.0

    def mean(self, t: Int, A: Float) -> Float:
        return np.maximum(super().mean(t, A), 0.05)

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        basket = np.exp(self.sigma * self.rng.standard_normal(len(t)) - self.sigma**2 / 2)
        return np.where(self.rng.random(len(t)) < self.buys, mean / self.buys * basket, 0.0)


class Average(Level):
    """The baseline's long-run mean of each task as the label of every request."""

    holds = False

    def setup(self) -> None:
        super().setup()
        rng = np.random.default_rng(5)
        A = rng.standard_normal((400, self.K, self.d))
        A[:, :, 0] = 1
        self.long_run = np.array([np.sort(A @ th, axis=1)[:, -self.place].mean() for th in self.theta])

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return self.long_run[t], 0.0


class AverageWithoutLevel(Average):
    """The same where tasks have no level."""

    def setup(self) -> None:
        super().setup()
        self.theta[:, 0] = 0
        rng = np.random.default_rng(5)
        A = rng.standard_normal((400, self.K, self.d))
        self.long_run = np.array([np.sort(A @ th, axis=1)[:, -self.place].mean() for th in self.theta])


class RunningAverage(Level):
    """The mean of what was earned so far as the label."""

    holds = False

    def setup(self) -> None:
        super().setup()
        self.sum, self.count = np.zeros(self.T), np.zeros(self.T)

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return np.where(self.count[t] > 0, self.sum[t] / np.maximum(self.count[t], 1), mean), 0.0

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        y = super().reward(t, X, mean)
        np.add.at(self.sum, t, y)
        np.add.at(self.count, t, 1)
        return y


class PartAverage(Level):
    """A label that knows only half of the features; the others are averaged out."""

    holds = False

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        half = self.d // 2
        return (x[:, :half] * self.theta[t, :half]).sum(1), 0.0


class NoisyLabel(Level):
    """An estimate with an honest standard error."""

    error, told = 0.1, 1.0  # `told`: the share of the error that is owned up to

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        return mean + self.error * self.rng.standard_normal(len(t)), self.error * self.told


class WrongNow(Level):
    """Exact labels, but for one in a hundred that is off by `off` of what the baseline usually earns."""

    often, off, holds = 0.01, 1.0, False

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        wrong = self.rng.random(len(t)) < self.often
        side = self.rng.choice([-1.0, 1.0], len(t))
        return mean + wrong * side * self.off * np.abs(mean).mean(), 0.0


class Season(Level):
    """Every reward rises and falls with the season, which no feature shows."""

    holds, height, period = False, 0.5, 40.0

    def mean(self, t: Int, A: Float) -> Float:
        return super().mean(t, A) + self.height * np.sin(2 * np.pi * self.n / self.period)


class SeasonalTaste(Level):
    """Effects, not levels, follow the season."""

    holds, height, period = False, 0.5, 40.0

    def setup(self) -> None:
        super().setup()
        self.usual = self.theta.copy()

    def change(self) -> None:
        wave = self.height * np.sin(2 * np.pi * self.n / self.period)
        self.theta[:, 1:] = self.usual[:, 1:] * (1 + wave)


class Drift(Level):
    """At one round some tasks, or all, change."""

    holds, at, who = False, 60, 1  # `who`: how many tasks change

    def change(self) -> None:
        if self.n == self.at:
            fresh = type(self)(int(self.rng.integers(2**31)), T=self.T, at=-1)
            self.theta[: self.who, 1:] = fresh.theta[: self.who, 1:]


class Wander(Level):
    """All parameters walk slowly at random."""

    holds, step = False, 0.02

    def change(self) -> None:
        self.theta[:, 1:] += self.step / np.sqrt(self.d) * self.rng.standard_normal((self.T, self.d - 1))


class HiddenLows(Level):
    """Half of the rewards in the lowest third are never reported."""

    holds = False

    def arrives(self, mean: Float, y: Float) -> Bool:
        low = y < np.quantile(y, 1 / 3)
        return ~(low & (self.rng.random(len(y)) < 0.5))
