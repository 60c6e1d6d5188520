"""Promises in worlds that had no part in finding the rules: does any total ever fall below its floor?

    python benchmarks/blind_promises.py --seeds 5

Five families, each played by a live `SafeBandit` that is told the range of rewards and nothing else:

- passing: every arm of every task improves, peaks at a time of its own, and worsens;
- stars: ratings of 1 to 5; the baseline is a rule of the context, so it is another arm in every request;
- joining: a third of the tasks is there from the start, the others join one after another;
- waiting: rewards come after delays that vary, some after thousands of other decisions, a tenth never;
- turning: the baseline is the best arm of all for the first third, then the worst, then the best again.

A row counts runs in which the promised total was below its floor at any time; captured is the share of
oracle − baseline over the whole run, and may be small or negative where the world turns.
"""

from __future__ import annotations

import argparse
import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import banister as bn

BATCH = 20
PROMISES = ("task", "fleet")
ROUNDING = 1e-9  # of what the baseline earns
Float = Any


class Request(NamedTuple):
    """One request and what its actions are worth."""

    task: int
    actions: Float
    baseline: int
    values: Float


class World:
    """Fixed arms with a context, clicks of `sigmoid(x'θ)`; families change one thing each."""

    low, high, tasks, arms, contexts = 0.0, 1.0, 12, 5, 3
    alpha = 0.1

    def __init__(self, seed: int, decisions: int) -> None:
        self.rng, self.decisions = np.random.default_rng((seed, 5)), decisions
        shape = (self.tasks, self.arms, 1 + self.contexts)
        shared = self.rng.standard_normal((2, *shape[1:])) * np.r_[0.4, np.full(self.contexts, 0.15)]
        self.theta = np.tensordot(self.rng.standard_normal((self.tasks, 2)), shared, 1)
        self.theta[:, :, 0] += self.rng.normal(0.0, 0.3, self.arms) - 1.3
        self.traffic = self.rng.dirichlet(np.full(self.tasks, 2.0))

    def requests(self) -> Iterator[Request]:
        for i in range(self.decisions):
            x = np.r_[1.0, self.rng.standard_normal(self.contexts)]
            task = self.task(i)
            actions = np.kron(np.eye(self.arms), x)
            values = self.values(task, x, i / self.decisions)
            yield Request(task, actions, self.baseline(x), values)

    def task(self, i: int) -> int:
        return int(self.rng.choice(self.tasks, p=self.traffic))

    def baseline(self, x: Float) -> int:
        return 0

    def values(self, task: int, x: Float, time: float) -> Float:
        return 1.0 / (1.0 + np.exp(-(self.theta[task] @ x + self.moved(task, time))))

    def moved(self, task: int, time: float) -> Float:
        """(arms,) what is added to the scores at a time from 0 to 1."""
        return np.zeros(self.arms)

    def reward(self, value: float) -> float:
        return float(self.rng.random() < value)

    def delay(self, task: int) -> float:
        """Decisions until the reward comes."""
        return 0.0

    def saw(self, request: Request, saved: float) -> None:
        """What a draw has saved, for a world that answers to it."""


class Passing(World):
    def moved(self, task: int, time: float) -> Float:
        peak = np.random.default_rng((task, 9)).random(self.arms)  # the same whenever it is asked for
        rise = 1.2 * np.exp(-0.5 * ((time - peak) / 0.15) ** 2)
        return np.where(np.arange(self.arms) == 0, 0.4, rise)


class Stars(World):
    low, high = 1.0, 5.0

    def baseline(self, x: Float) -> int:
        return int(x[1] > 0.0) + 2 * int(x[2] > 0.5)

    def values(self, task: int, x: Float, time: float) -> Float:
        return 1.0 + 4.0 * super().values(task, x, time)

    def reward(self, value: float) -> float:
        return 1.0 + float(self.rng.binomial(4, (value - 1.0) / 4.0))


class Joining(World):
    tasks = 24

    def task(self, i: int) -> int:
        here = 8 + int(16 * i / self.decisions)
        return int(self.rng.choice(here, p=self.traffic[:here] / self.traffic[:here].sum()))


class Waiting(World):
    def delay(self, task: int) -> float:
        return np.inf if self.rng.random() < 0.1 else float(self.rng.lognormal(3.0, 2.0))


class Turning(World):
    def moved(self, task: int, time: float) -> Float:
        return np.r_[-1.5 if 1 / 3 < time < 2 / 3 else 1.0, np.zeros(self.arms - 1)]


FAMILIES = {
    "passing": Passing, "stars": Stars, "joining": Joining, "waiting": Waiting, "turning": Turning,
}  # fmt: skip


class Played:
    """One run: what draws were worth, and how the totals stood after every decision."""

    def __init__(self, world: World, promise: str, seed: int) -> None:
        bounds = (world.low, world.high)
        self.world, self.bandit = world, bn.SafeBandit(
            alpha=world.alpha, reward_range=bounds, promise=promise, refits="inline", seed=seed
        )  # fmt: skip
        self.saved, self.worst, self.fleet = np.zeros(world.tasks), np.zeros(world.tasks), 0.0
        self.totals, self.below, self.due = np.zeros(3), 0, list[tuple[float, str, float]]()

    def run(self) -> dict[str, Any]:
        for i, request in enumerate(self.world.requests()):
            self.decide(i, request)
            if i % BATCH == 0:
                self.pay(i)
        value, base, best = self.totals
        return {
            "captured": (value - base) / (best - base), "gain": value / base - 1.0,
            "tasks": int((self.worst < -ROUNDING * base).sum()), "fleet": bool(self.fleet < -ROUNDING * base),
            "below": self.below / self.world.decisions,
        }  # fmt: skip

    def decide(self, i: int, request: Request) -> None:
        made = self.bandit.decide(f"task {request.task}", request.actions, baseline=request.baseline)
        assert made.probabilities is not None
        value, base = float(np.dot(made.probabilities, request.values)), request.values[request.baseline]
        floor = (1 - self.world.alpha) * base
        self.totals += value, base, request.values.max()
        self.below += bool(value < floor - ROUNDING * base)
        self.saved[request.task] += value - floor
        self.worst = np.minimum(self.worst, self.saved)
        self.fleet = min(self.fleet, float(self.saved.sum()))
        self.world.saw(request, value - floor)
        reward, delay = self.world.reward(request.values[made.action]), self.world.delay(request.task)
        if np.isfinite(delay):
            heapq.heappush(self.due, (i + delay, made.id, reward))

    def pay(self, i: int) -> None:
        while self.due and self.due[0][0] <= i:
            _, made, reward = heapq.heappop(self.due)
            self.bandit.reward(made, reward)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--decisions", type=int, default=12_000)
    parser.add_argument("--out", type=Path, default=Path("bench-blind-promises.json"))
    given = parser.parse_args()
    rows = []
    for name in given.families.split(","):
        for promise in PROMISES:
            seeds = range(given.first, given.first + given.seeds)
            runs = [Played(FAMILIES[name](s, given.decisions), promise, s).run() for s in seeds]
            rows += [{"family": name, "promise": promise, **run} for run in runs]
            given.out.write_text(json.dumps(rows, indent=1))
            print(f"{name:8s} {promise:6s} {_line(runs)}", flush=True)


def _line(runs: list[dict[str, Any]]) -> str:
    mean = {k: np.mean([run[k] for run in runs]) for k in ("captured", "gain", "below", "tasks")}
    fleet = f"fleet below in {sum(run['fleet'] for run in runs)} of {len(runs)}"
    return (
        f"captured {mean['captured']:.2f}, gain {mean['gain']:+.1%}, draws below {mean['below']:.1%}, "
        f"tasks below {mean['tasks']:.1f} a run, {fleet}"
    )


if __name__ == "__main__":
    main()
