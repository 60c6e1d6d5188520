"""The safety grid's families: which worlds, for how many rounds, with the baseline reward known or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import hardships as h
import worlds as w
from banister import Synthetic
from banister.contract import Choices, Requests
from worlds import Float, Int, Round, World

ALPHAS = (0.05, 0.1, 0.2, 0.3, 0.5)
BOTH, KNOWN, UNKNOWN = (True, False), (True,), (False,)


@dataclass(frozen=True)
class Family:
    """A world by seed, its rounds, and whether the baseline reward is told."""

    group: str
    make: Callable[[int], World]
    rounds: int
    known: tuple[bool, ...] = BOTH
    alpha: Callable[[int], float] = lambda seed: ALPHAS[seed % len(ALPHAS)]
    length: Callable[[int], int] | None = None

    def rounds_of(self, seed: int) -> int:
        """How long the run of this seed is."""
        return self.rounds if self.length is None else self.length(seed)


FAMILIES: dict[str, Family] = {}


def family(
    group: str, name: str, kind: type[World], rounds: int, known: tuple[bool, ...] = BOTH, **settings: Any
) -> None:
    """Name one family; with `explores="alpha"` the policy in place explores as often as alpha lets it."""

    def make(seed: int) -> World:
        share = {"explores": ALPHAS[seed % len(ALPHAS)]} if settings.get("explores") == "alpha" else {}
        return kind(seed, **settings | share)

    FAMILIES[name] = Family(group, make, rounds, known)


# Levels, averages and arms, as an application would first try them.
family("script", "level", w.ScriptLevel, 60, UNKNOWN)
family("script", "level, d=T=40", w.ScriptLevel, 60, UNKNOWN, d=40, T=40)
family("script", "average", h.ScriptAverage, 60, KNOWN)
family("script", "average, d=T=40", h.ScriptAverage, 60, KNOWN, d=40, T=40)
family("script", "arms", w.ScriptArms, 60, KNOWN)
family("script", "arms, d=T=40", w.ScriptArms, 60, KNOWN, T=40, p=8)

# The worlds on which the belief was developed.
for noise in (0.01, 0.1, 0.3):
    family("table", f"paper {noise}", w.Paper, 110, noise=noise)
family("table", "intercept", w.Level, 110)
family("table", "intercept weak", w.Level, 110, scale=0.3, noise=1.0, T=40)
family("table", "intercept rank 8", w.Level, 110, r=8, scale=0.6, noise=0.5, T=40, d=20)
family("table", "arms exploring", w.Arms, 200, explores="alpha")
family("table", "arms p=4 exploring", w.Arms, 200, explores="alpha", p=4)
family("table", "own subspace", w.OwnSubspace, 110)
family("table", "items exploring", w.Items, 300, explores="alpha")
family("table", "outlier task", w.OutlierTask, 110)
family("table", "decay .7", w.Paper, 110, spectrum=tuple(0.7 ** np.arange(40)), noise=0.03)
family("table", "kappa 20", w.Paper, 110, spectrum=(1.0, 0.3, 0.05), noise=0.05)
family("table", "rank 5", w.Paper, 110, spectrum=(1.0,) * 5, noise=0.05)
family("table", "T=3", w.Level, 300, T=3)
family("table", "T=1", w.Level, 300, T=1, r=1)
family("table", "ragged T=100", w.Ragged, 200)
family("table", "t3 noise", h.HeavyTails, 110)
family("table", "heteroscedastic", h.Heteroscedastic, 110)
family("table", "clicks", h.Clicks, 300)
family("table", "average label", h.Average, 110, KNOWN)
family("table", "average label, no level", h.AverageWithoutLevel, 110, KNOWN)
family("table", "running average label", h.RunningAverage, 110, KNOWN)
family("table", "scales", w.Scales, 110)

# What applications meet.
family("everyday", "arms, never explored", w.Arms, 110)
family("everyday", "arms, random log", w.Arms, 110, logged=20)
family("everyday", "categories, exploring", w.Categories, 200, explores=0.1)
family("everyday", "categories, never explored", w.Categories, 110)
family("everyday", "own subspace q=5", w.OwnSubspace, 110, q=5)
family("everyday", "label of half the features", h.PartAverage, 110, KNOWN)
family("everyday", "noisy label", h.NoisyLabel, 110, KNOWN)
family("everyday", "understated label error", h.NoisyLabel, 110, KNOWN, told=0.5)
family("everyday", "labels wrong now and then", h.WrongNow, 110, KNOWN)
family("everyday", "labels wild now and then", h.WrongNow, 110, KNOWN, off=10.0)
family("everyday", "one huge column", w.OneHugeColumn, 110)
family("everyday", "offsets", w.Offsets, 110)
family("everyday", "T=2, no level", w.World, 300, T=2)
family("everyday", "T=5", w.Level, 200, T=5)
family("everyday", "no sharing", w.World, 110, r=10)
family("everyday", "equal tasks", w.Equal, 110)
family("everyday", "2nd of 100", w.World, 110, K=100, place=2)
family("everyday", "2nd of 100, level", w.Level, 110, K=100, place=2)
family("everyday", "50th of 500", w.Level, 80, UNKNOWN, K=500, place=50)
family("everyday", "50th of 500, weak", w.Level, 80, UNKNOWN, K=500, place=50, scale=0.3, noise=1.0, T=40)
family("everyday", "greedy by an old estimate", w.OldGreedy, 110)
family("everyday", "greedy by a poor estimate", w.OldGreedy, 110, old=1.5)
family("everyday", "loud highs", h.LoudHighs, 110)
family("everyday", "rare clicks", h.RareClicks, 300)
family("everyday", "counts", h.Counts, 200)
family("everyday", "revenue", h.Revenue, 300)
family("everyday", "season", h.Season, 200)
family("everyday", "season of tastes", h.SeasonalTaste, 200)
family("everyday", "one task drifts", h.Drift, 140)
family("everyday", "all tasks drift", h.Drift, 140, who=20)
family("everyday", "slow drift", h.Wander, 200)
family("everyday", "delay of 10 rounds", w.Level, 110, delay=10)
family("everyday", "low rewards hidden", h.HiddenLows, 110)


class Simulated(World):
    """An environment of the library as a world, with a row of settings that its seed draws."""

    holds = False

    def __init__(self, seed: int, **settings: Any) -> None:
        self.env = Synthetic(**settings)
        self.T, self.asked = self.env.n_tasks, np.random.default_rng([seed, 1])
        self.noises = np.random.default_rng([seed, 2])
        super().__init__(seed)

    def setup(self) -> None:
        self.env.reset(self.rng)

    def round(self) -> Round:
        q = self.env.requests(1, self.asked, start=self.n)
        self.n += 1
        self.requests, self.drawn = q, self.env.noise(q, self.noises)
        every = range(q.actions.shape[1])
        means = [self.env.expected(q, Choices.of_index(q, np.full(len(q), k), "")) for k in every]
        return Round(q.task, q.actions, np.stack(means, axis=1), q.baseline_index())

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        q: Requests = self.requests
        return q.baseline_reward, q.baseline_reward_std

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        return self.env.reward(self.requests, mean, self.drawn)


# One hardship each, on top of a random noise level, alpha, baseline and length.
HARDSHIPS: dict[str, list[dict[str, Any]]] = {
    "plain": [{}],
    "contexts": [{"contexts": c} for c in ("uniform", "correlated", "shifted", "non-negative")],
    "heavy tails": [{"noise_law": "student"}],
    "noise per task": [{"noise_spread": 3.0}],
    "outliers": [{"outliers": 1}, {"outliers": 2}],
    "ragged traffic": [{"traffic_ratio": 10.0}],
    "noisy r_b": [{"baseline_reward_std": s} for s in (0.01, 0.03, 0.1)],
    "biased r_b": [{"baseline_bias": b, "claimed_std": abs(b)} for b in (0.02, -0.02, 0.05, -0.05)],
    "understated s_b": [{"baseline_reward_std": s, "claimed_std": s / 2} for s in (0.01, 0.03, 0.1)],
    "decaying spectrum": [{"decay": 0.3}, {"decay": 0.5}],
    "rank 1": [{"rank": 1}],
    "rank 3": [{"rank": 3}],
    "rank 5 (grid)": [{"rank": 5}],
    "kappa": [{"kappa": 5.0}, {"kappa": 20.0}],
    "unknown r_b": [{"baseline_known": False}],
    "unknown r_b, hard": [
        {"baseline_known": False, **k}
        for k in ({"outliers": 1}, {"noise_law": "student"}, {"traffic_ratio": 10.0}, {"kappa": 5.0})
    ],
    "fixed action sets": [{"action_sets": "fixed"}],
    "drift": [{"drift_at": 45, "drift": 1.0}, {"drift_at": 45, "drift": 0.3}],
    "drift, unknown r_b": [{"drift_at": 45, "drift": 1.0, "baseline_known": False}],
    "large": [{"dim": 100, "tasks": 100}, {"dim": 100, "tasks": 100, "baseline_known": False}],
}  # fmt: skip


def _cell(name: str, seed: int) -> tuple[dict[str, Any], float, int]:
    """Settings, alpha and rounds of one run of the simulated grid."""
    rng = np.random.default_rng([list(HARDSHIPS).index(name), seed])
    settings: dict[str, Any] = {"dim": 40, "tasks": 40, "rank": 2, "actions": 10}
    settings["noise_std"] = float(rng.choice((1e-3, 1e-2, 0.03, 0.1, 0.3)))
    settings["baseline_rank"] = int(rng.choice((2, 5, 9)))
    alpha, rounds = float(rng.choice((0.05, 0.1, 0.2, 0.35, 0.5))), 5 * int(rng.choice((15, 25, 50)))
    settings |= HARDSHIPS[name][seed % len(HARDSHIPS[name])]
    if "drift_at" in settings:
        settings["drift_at"] = rounds // 2
    return settings, alpha, rounds


def _simulated(name: str) -> Family:
    return Family(
        "grid",
        lambda seed: Simulated(seed, **_cell(name, seed)[0]),
        0,
        KNOWN,  # told or not by the cell's own settings
        lambda seed: _cell(name, seed)[1],
        lambda seed: _cell(name, seed)[2],
    )


FAMILIES |= {name: _simulated(name) for name in HARDSHIPS}
