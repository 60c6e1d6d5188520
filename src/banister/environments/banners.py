"""`Banners` and `Revenue`: the same few arms in every request, a context, and clicks or money in return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy.special import ndtr, ndtri

from banister.contract import Requests
from banister.data import Float, Int
from banister.environments.linked import LinkedEnvironment, arrivals, sigmoid, uneven_traffic
from banister.errors import SettingError

_SEASON_STEPS = 12  # a season is followed in this many steps


@dataclass(kw_only=True, eq=False)
class Banners(LinkedEnvironment):
    """Stores × fixed arms × contexts with clicks; the incumbent arm is the third best on average.

    The features are one block per arm, `(1, context)` in the block of the arm shown and 0 elsewhere. A click
    has the probability `sigmoid(x'θ_t)`. Tasks share `rank` directions of how they differ; nothing of the
    baseline's reward is reported.

    Args:
        tasks, arms, contexts, rank: T, K, features of the context, shared directions.
        effects: "different"; "none": all arms are worth the same; "harmful": all others are worse.
        change: "never"; "flip": from round `period` what was better than the incumbent is as much worse;
            "seasons": all click rates rise and fall together, a sine of `period` rounds.
        period: rounds until the flip, or of one season.

    Examples:
        >>> env = Banners(tasks=3)
        >>> rng = np.random.default_rng(0)
        >>> env.reset(rng)
        >>> asked = env.requests(2, rng)
        >>> asked.actions.shape, bool(np.isnan(asked.baseline_reward).all())
        ((6, 5, 35), True)
    """

    tasks: int = 40
    arms: int = 5
    contexts: int = 6
    rank: int = 3
    effects: Literal["different", "none", "harmful"] = "different"
    change: Literal["never", "flip", "seasons"] = "never"
    period: int = 1250
    level: float = -1.9  # click rates of about 0.05 to 0.3
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__init__()
        _check(self)
        self.change_points = (self.period,) if self.change == "flip" else ()

    @classmethod
    def example(cls) -> Self:
        """A small instance for the contract tests, with a truth that changes."""
        return cls(tasks=8, arms=4, contexts=2, rank=2, change="flip", period=2)

    def reset(self, rng: np.random.Generator) -> None:
        """Draw the truth of a new trial: traffic, effects, levels, and who the incumbent is."""
        self._worth.clear()
        self.traffic: Float = uneven_traffic(self.tasks, rng)
        theta = self._draw_effects(rng)
        theta[:, :, 0] += (self.level + 0.35 * rng.standard_normal(self.tasks))[:, None]
        theta[:, :, 1:] += rng.normal(0.0, 0.25, self.contexts)
        self.incumbent = self._find_incumbent(theta, rng)
        later = self._later(theta)
        self._thetas = np.stack([theta, *later]).reshape(1 + len(later), self.tasks, -1)

    def phase(self, rounds: Int) -> Int:
        """0 before the flip and 1 after it; or the step of the season."""
        if self.change == "flip":
            return (rounds >= self.period).astype(np.int64)
        if self.change == "seasons":
            return (rounds * _SEASON_STEPS // self.period) % _SEASON_STEPS
        return super().phase(rounds)

    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """The requests of `rounds` rounds, the first of which is round number `start`."""
        task, context = np.empty(0, dtype=np.int64), np.empty((0, self.contexts))
        parts = [self._one_round(rng) for _ in range(rounds)]
        if parts:
            task = np.concatenate([t for t, _ in parts])
            context = np.concatenate([c for _, c in parts])
        actions = arm_blocks(np.column_stack([np.ones(len(task)), context]), self.arms)
        baseline = np.full(len(task), self.incumbent)
        unknown = np.full(len(task), np.nan)
        round_ = np.repeat(np.arange(start, start + rounds), self.tasks)
        return Requests(task, actions, baseline, unknown, 0.0, round_)

    def link(self, scores: Float) -> Float:
        """Click probabilities."""
        return sigmoid(scores)

    def reward(self, requests: Requests, expected: Float, noise: Float) -> Float:
        """A click where the uniform number is below its probability."""
        return (noise < expected).astype(np.float64)

    def _one_round(self, rng: np.random.Generator) -> tuple[Int, Float]:
        task, _ = arrivals(1, 0, self.traffic, rng)
        return task, rng.standard_normal((self.tasks, self.contexts))

    def _draw_effects(self, rng: np.random.Generator) -> Float:
        """(T, K, 1 + contexts): what each arm adds to a task's level and context."""
        shape = (self.arms, 1 + self.contexts)
        scale = np.r_[0.28, np.full(self.contexts, 0.09)]
        shared = rng.standard_normal((self.rank, *shape)) * scale
        effects: Float = np.tensordot(rng.standard_normal((self.tasks, self.rank)), shared, 1)
        effects[:, :, 0] += rng.normal(0.0, 0.25, self.arms)
        if self.effects == "none":
            effects[:] = 0.0
        if self.effects == "harmful":
            effects *= 0.5
            effects[:, :, 0] = -np.abs(effects[:, :, 0]) - rng.uniform(0.3, 1.0, self.arms)
            effects[:, 0] = 0.0
        return effects

    def _find_incumbent(self, theta: Float, rng: np.random.Generator) -> int:
        """The third best arm over tasks and contexts by traffic; arm 0 where all others are harmful."""
        if self.effects == "harmful":
            return 0
        context = np.column_stack([np.ones(4000), rng.standard_normal((4000, self.contexts))])
        task = rng.choice(self.tasks, 4000, p=self.traffic)
        mean = self.link(np.einsum("nq,nkq->nk", context, theta[task])).mean(axis=0)
        return int(np.argsort(-mean)[2])

    def _later(self, theta: Float) -> list[Float]:
        """The truths of the later phases."""
        if self.change == "flip":
            return [2.0 * theta[:, [self.incumbent]] - theta]
        if self.change == "never":
            return []
        steps = np.arange(1, _SEASON_STEPS)
        level = np.zeros((len(steps), 1, 1, theta.shape[2]))
        level[:, 0, 0, 0] = 0.4 * np.sin(2.0 * np.pi * steps / _SEASON_STEPS)
        return list(theta + level)


@dataclass(kw_only=True, eq=False)
class Revenue(Banners):
    """`Banners` where one visitor in twenty buys, for a log-normal amount of mean 20, cut at `high`."""

    level: float = -3.1
    high: float = 200.0
    amount: float = 20.0
    spread: float = 0.8

    def link(self, scores: Float) -> Float:
        """The probability to buy times the mean of an amount cut at `high`."""
        return sigmoid(scores) * self._mean_amount

    def reward(self, requests: Requests, expected: Float, noise: Float) -> Float:
        """Where the uniform number is below the probability p, `noise/p` is uniform: it sets the amount."""
        p = expected / self._mean_amount
        quantile = np.clip(noise / np.maximum(p, 1e-300), 1e-16, 1.0 - 1e-16)
        amount = self.amount * np.exp(self.spread * ndtri(quantile) - self.spread**2 / 2)
        return np.where(noise < p, np.minimum(amount, self.high), 0.0)

    @property
    def _mean_amount(self) -> float:
        cut = np.log(self.high / self.amount) / self.spread
        half = self.spread / 2
        return float(self.amount * ndtr(cut - half) + self.high * ndtr(-cut - half))


def arm_blocks(context: Float, arms: int) -> Float:
    """Actions (m, K, K·q): arm k has the context (m, q) in block k."""
    m, q = context.shape
    actions = np.zeros((m, arms, arms, q))
    for k in range(arms):
        actions[:, k, k] = context
    return actions.reshape(m, arms, arms * q)


def _check(env: Banners) -> None:
    known = {"effects": ("different", "none", "harmful"), "change": ("never", "flip", "seasons")}
    for name, values in known.items():
        if getattr(env, name) not in values:
            raise SettingError(f"{name}={getattr(env, name)!r} is not known; choose one of {values}.")
    if env.arms < 3 or env.tasks < 1 or env.contexts < 1 or env.rank < 1 or env.period < 1:
        raise SettingError(
            f"arms={env.arms} must be at least 3 (the incumbent is the third best), and tasks={env.tasks}, "
            f"contexts={env.contexts}, rank={env.rank}, period={env.period} at least 1."
        )
