"""A small world of shops for the tests of `SafeBandit`: tasks that share two directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister import SafeBandit


class World:
    def __init__(self, tasks: int = 12, dim: int = 8, rank: int = 2, actions: int = 6, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        B = np.linalg.qr(self.rng.standard_normal((dim, rank)))[0]
        self.theta = (B @ self.rng.standard_normal((rank, tasks))).T
        self.tasks, self.dim, self.actions, self.noise = tasks, dim, actions, 0.1

    def request(self, task: int | None = None) -> dict[str, Any]:
        t = int(self.rng.integers(self.tasks)) if task is None else task
        A = self.rng.standard_normal((self.actions, self.dim))
        mean = A @ self.theta[t]
        k = int(np.argsort(mean)[-3])
        return {"task": f"shop-{t}", "actions": A, "baseline": k, "baseline_reward": float(mean[k])}

    def earn(self, request: dict[str, Any], features: Any) -> float:
        t = int(request["task"].split("-")[1])
        return float(features @ self.theta[t] + self.noise * self.rng.standard_normal())

    def play(self, bandit: SafeBandit, n: int, task: int | None = None) -> list[Any]:
        out = []
        for _ in range(n):
            request = self.request(task)
            d = bandit.decide(**request)
            bandit.reward(d.id, self.earn(request, d.features))
            out.append(d)
        return out

    def truth(self, request: dict[str, Any], features: Any) -> float:
        return float(features @ self.theta[int(request["task"].split("-")[1])])


def trained(n: int = 400, seed: int = 0, **settings: Any) -> tuple[World, SafeBandit]:
    """A bandit with open gates, and its world."""
    world = World(seed=seed)
    bandit = SafeBandit(alpha=0.1, seed=1, refits="manual", **settings)
    world.play(bandit, n)
    bandit.refit()
    return world, bandit


def same(a: Any, b: Any) -> bool:
    """Whether two decisions are the same, bit for bit."""
    return all(np.array_equal(x, y, equal_nan=isinstance(x, float)) for x, y in zip(a, b, strict=True))
