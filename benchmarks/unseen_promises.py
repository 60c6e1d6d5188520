"""Promises on totals in families that were written without sight of the rules; see `blind_promises.py`.

    python benchmarks/unseen_promises.py --seeds 5

- quick and slow: rewards of a task come after its own delay, from at once to thousands of decisions;
- openings: traffic by Zipf's law over forty tasks, the small ones open late;
- bait: other arms are excellent until a task has saved ten baselines' worth, then they earn nothing until
  half of that is lost, and so on;
- trap: other arms are the best for the first third of a task's requests, and then earn nothing for good;
- windfalls: one reward in fifty is 1, all others 0, and the baseline's chance of one swings with the context;
- lottery: rewards reach to 100, their mean is near 1, half of it in one reward in a hundred;
- half wrong: the baseline is the best arm in every second task and the worst in the others;
- rich first: the baseline is good where requests are worth much, and bad where they are worth little;
- plain arms: no context at all, noise of another size for each arm, α = .5;
- cautious: the same with α = .02;
- in millions: rewards between one and five million;
- in millionths: rewards between 0 and a millionth.
"""

from __future__ import annotations

import numpy as np

import blind_promises
from blind_promises import FAMILIES, Float, Request, Stars, World, main


class QuickAndSlow(World):
    def delay(self, task: int) -> float:
        return float(4000 * (task / self.tasks) ** 3)


class Openings(World):
    tasks = 40

    def task(self, i: int) -> int:
        here = 4 + int(36 * i / self.decisions)
        odds = 1 / (1.0 + np.arange(here))
        return int(self.rng.choice(here, p=odds / odds.sum()))


class Bait(World):
    """Answers to what was saved, as an adversary would who sees every probability."""

    def __init__(self, seed: int, decisions: int) -> None:
        super().__init__(seed, decisions)
        self.savings, self.closed = np.zeros(self.tasks), np.zeros(self.tasks, dtype=bool)

    def values(self, task: int, x: Float, time: float) -> Float:
        own = super().values(task, x, time)[0]
        return np.r_[own, np.full(self.arms - 1, 0.0 if self.closed[task] else min(2 * own, 1.0))]

    def saw(self, request: Request, saved: float) -> None:
        t, base = request.task, request.values[0]
        self.savings[t] += saved
        self.closed[t] = self.savings[t] > (5.0 if self.closed[t] else 10.0) * base


class Trap(World):
    def __init__(self, seed: int, decisions: int) -> None:
        super().__init__(seed, decisions)
        self.asked = np.zeros(self.tasks)

    def values(self, task: int, x: Float, time: float) -> Float:
        own = super().values(task, x, time)[0]
        good = self.asked[task] < self.decisions * self.traffic[task] / 3
        return np.r_[own, np.full(self.arms - 1, 0.9 if good else 0.0)]

    def saw(self, request: Request, saved: float) -> None:
        self.asked[request.task] += 1


class Windfalls(World):
    def values(self, task: int, x: Float, time: float) -> Float:
        return 0.02 * np.exp(0.5 * (self.theta[task] @ x + 1.3)).clip(0, 10)


class Lottery(World):
    high = 100.0

    def values(self, task: int, x: Float, time: float) -> Float:
        return 2 * super().values(task, x, time)

    def reward(self, value: float) -> float:
        if self.rng.random() < 0.01:
            return 100.0 if self.rng.random() < value / 2 else 0.0
        return float(self.rng.random() < value / 8) * 4 / 0.99


class HalfWrong(World):
    def values(self, task: int, x: Float, time: float) -> Float:
        found = np.sort(super().values(task, x, time))
        return found[::-1] if task % 2 else found


class RichFirst(World):
    def values(self, task: int, x: Float, time: float) -> Float:
        worth = 1 / (1 + np.exp(-2 * x[1]))
        others = super().values(task, x, time)[1:]
        return worth * np.r_[0.9 * worth, others]


class PlainArms(World):
    alpha, contexts = 0.5, 0

    def reward(self, value: float) -> float:
        size = 10 ** -np.floor(4 * value)  # of a Beta law: arms that earn more are quieter
        return float(self.rng.beta(value / size, (1 - value) / size))


class Cautious(PlainArms):
    alpha = 0.02


class Millions(Stars):
    low, high = 1e6, 5e6

    def values(self, task: int, x: Float, time: float) -> Float:
        return 1e6 * super().values(task, x, time)

    def reward(self, value: float) -> float:
        return 1e6 * super().reward(value / 1e6)


class Millionths(World):
    high = 1e-6

    def values(self, task: int, x: Float, time: float) -> Float:
        return 1e-6 * super().values(task, x, time)

    def reward(self, value: float) -> float:
        return 1e-6 * super().reward(1e6 * value)


FAMILIES.clear()
FAMILIES |= {
    "quick and slow": QuickAndSlow, "openings": Openings, "bait": Bait, "trap": Trap, "windfalls": Windfalls,
    "lottery": Lottery, "half wrong": HalfWrong, "rich first": RichFirst, "plain arms": PlainArms,
    "cautious": Cautious, "in millions": Millions, "in millionths": Millionths,
}  # fmt: skip

if __name__ == "__main__":
    blind_promises.__doc__ = __doc__
    main()
