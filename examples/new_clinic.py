"""A new clinic joins: how many patients must it see before its own choices are certified?

    python examples/new_clinic.py [--quick] [--figure new_clinic.svg]

Thirty clinics choose treatments; what a treatment does depends on a few traits of the clinic's patients that
all clinics share. A new one joins with few rows of its own. With sharing the bandit knows the traits from the
others and needs to learn only how they combine in the new clinic. Without sharing it has the clinic's own
rows and nothing else. Baseline rewards are unknown here; everything is learned from noisy outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from banister import SafeBandit

ALPHA, NOISE, TREATMENTS, TRAITS = 0.2, 0.1, 8, 2
Curve = dict[int, float]


def main(quick: bool = False, figure: Path | None = None) -> tuple[Curve, Curve]:
    """Share of the new clinic's requests that are certified, by its rows: with and without sharing."""
    rows: Sequence[int] = (8, 25, 120) if quick else (3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 320)
    worlds = 1 if quick else 5
    shared, alone = (dict.fromkeys(rows, 0.0) for _ in range(2))
    for seed in range(worlds):
        world = World(seed, clinics=15 if quick else 30, dim=20, rows=60)
        for n in rows:
            shared[n] += world.certified(n, sharing=True) / worlds
            alone[n] += world.certified(n, sharing=False) / worlds
    tell(shared, alone)
    if figure is not None:
        draw(shared, alone, figure)
    return shared, alone


class World:
    """Clinics that share traits, the rows they have, and a new one."""

    def __init__(self, seed: int, *, clinics: int, dim: int, rows: int) -> None:
        self.rng = np.random.default_rng(seed)
        basis = np.linalg.qr(self.rng.standard_normal((dim, TRAITS)))[0]
        self.theta = (basis @ self.rng.standard_normal((TRAITS, clinics + 1))).T
        self.others = [(t, *self.outcomes(t, rows)) for t in range(clinics)]
        self.own = self.outcomes(clinics, 400)
        self.requests = self.rng.standard_normal((200, TREATMENTS, dim))

    def outcomes(self, clinic: int, n: int) -> tuple[Any, Any]:
        """What was given and what came of it: the third best treatment, as clinics do now."""
        offers = self.rng.standard_normal((n, TREATMENTS, self.theta.shape[1]))
        usual = np.argsort(offers @ self.theta[clinic], axis=1)[:, -3]
        X = offers[np.arange(n), usual]
        return X, X @ self.theta[clinic] + NOISE * self.rng.standard_normal(n)

    def certified(self, n: int, *, sharing: bool) -> float:
        """Share of the new clinic's requests that are certified after n rows of its own."""
        X, y = self.own[0][:n], self.own[1][:n]
        labels = ["new"] * n
        for t, more, earned in self.others if sharing else []:
            X, y, labels = np.vstack([X, more]), np.append(y, earned), labels + [f"clinic-{t}"] * len(earned)
        bandit = SafeBandit(alpha=ALPHA, refits="manual", seed=0)
        bandit.warm_start({"task": labels, "reward": y, "x": X.tolist()}, features="x")
        means = self.requests @ self.theta[-1]
        usual = np.argsort(means, axis=1)[:, -3]
        decisions = bandit.decide_many(["new"] * len(usual), self.requests, baselines=usual)
        self.check(means, usual, [d.action for d in decisions])
        return float(np.mean([d.certified for d in decisions]))

    def check(self, means: Any, usual: Any, played: list[int]) -> None:
        every = np.arange(len(usual))
        baseline = means[every, usual]
        below = means[every, played] < baseline - ALPHA * np.abs(baseline) - 1e-12
        if below.any():
            print(f"  {int(below.sum())} of {len(every)} below the floor")


def needed(curve: Curve, share: float = 0.5) -> str:
    return next((str(n) for n, value in curve.items() if value >= share), f"more than {max(curve)}")


def tell(shared: Curve, alone: Curve) -> None:
    print("rows of the new clinic:   ", *(f"{n:>5}" for n in shared))
    print("certified with sharing:   ", *(f"{v:5.0%}" for v in shared.values()))
    print("certified without sharing:", *(f"{v:5.0%}" for v in alone.values()))
    print(f"rows until half is certified: {needed(shared)} with sharing, {needed(alone)} without")


def draw(shared: Curve, alone: Curve, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(5.2, 3.2), layout="constrained")
    for curve, label in ((shared, "with the other clinics"), (alone, "on its own")):
        axes.plot(list(curve), list(curve.values()), marker="o", ms=3, label=label)
    axes.axhline(0.5, color="0.8", lw=0.8)
    axes.set(xscale="log", xlabel="rows of the new clinic", ylabel="share certified", ylim=(-0.02, 1.02))
    axes.legend(frameon=False)
    fig.savefig(path)
    plt.close(fig)


if __name__ == "__main__":
    from _story import run

    run(main, __doc__, "new_clinic.svg")
