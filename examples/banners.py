"""From a raw log to a live bandit: banners in shops, with ages, baskets, devices, regions and gaps.

    python examples/banners.py [--quick] [--figure banners.svg]

The policy in place shows the bundle; one visit in five it tries another banner. Its log is a table as shops
have it: who, what, what it earned. The bandit reads it, then decides visit by visit; what each visit was
worth is known here, so that gains and broken floors can be counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import banister as bn

BANNERS = ["spring", "bundle", "loyalty", "delivery"]
USUAL, ALPHA, NOISE, EXPLORED = "bundle", 0.1, 0.5, 0.2
DEVICES, REGIONS = ["ios", "android", "web"], ["north", "south", "east", "west"]


@dataclass
class Outcome:
    """What a visit earned more than the usual banner (`gain`), could have at best, and counts."""

    gain: list[float]
    best: list[float]
    left: float
    below_floor: int


class Shops:
    """Visits, and what each banner is worth in them: by age, basket and device, differently in each shop."""

    def __init__(self, shops: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.level = 4.0 + 0.5 * self.rng.standard_normal(shops)
        shared = self.rng.standard_normal((2, len(BANNERS), 4))  # two ways in which shops differ
        self.effect = 0.5 * np.einsum("sk,kbf->sbf", self.rng.standard_normal((shops, 2)), shared)
        self.effect[:, BANNERS.index(USUAL)] = 0.0

    def visit(self) -> tuple[int, dict[str, Any]]:
        rng = self.rng
        context = {
            "age": None if rng.random() < 0.1 else float(rng.normal(40, 12)),
            "basket": float(rng.gamma(4, 8)),
            "device": DEVICES[rng.integers(3)],
            "region": None if rng.random() < 0.05 else REGIONS[rng.integers(4)],
        }
        return int(rng.integers(len(self.level))), context

    def worth(self, shop: int, context: dict[str, Any]) -> Any:
        """Expected revenue of each banner."""
        age = 0.0 if context["age"] is None else (context["age"] - 40) / 12
        z = np.array([1.0, age, (context["basket"] - 32) / 16, context["device"] == "ios"])
        return self.level[shop] + self.effect[shop] @ z

    def log(self, n: int) -> pl.DataFrame:
        """What the policy in place did, one row a visit."""
        rows = []
        for _ in range(n):
            shop, context = self.visit()
            tried = self.rng.random() < EXPLORED
            banner = self.rng.integers(len(BANNERS)) if tried else BANNERS.index(USUAL)
            earned = self.worth(shop, context)[banner] + NOISE * self.rng.standard_normal()
            rows.append({"shop": f"shop-{shop}", **context, "banner": BANNERS[banner], "revenue": earned})
        return pl.DataFrame(rows, infer_schema_length=None)


def main(quick: bool = False, figure: Path | None = None) -> Outcome:
    """Read a log, decide visits, count."""
    world = Shops(shops=8 if quick else 20)
    log = world.log(6_000 if quick else 20_000)

    arms = bn.Arms(BANNERS, numeric=["age", "basket"], categorical=["device", "region"])
    bandit = bn.SafeBandit(alpha=ALPHA, features=arms, seed=0)
    bandit.warm_start(log, task="shop", arm="banner", reward="revenue", baseline=USUAL)
    found = live(bandit, world, 1_000 if quick else 5_000)

    tell(found)
    if figure is not None:
        draw(found, figure)
    return found


def live(bandit: bn.SafeBandit, world: Shops, visits: int) -> Outcome:
    """Visit by visit: decide, show, earn."""
    usual, gain, best, left, below = BANNERS.index(USUAL), [], [], 0, 0
    for _ in range(visits):
        shop, context = world.visit()
        worth = world.worth(shop, context)
        d = bandit.decide(f"shop-{shop}", context=context, baseline=USUAL)
        earned = worth[BANNERS.index(d.arm)]
        bandit.reward(d.id, earned + NOISE * world.rng.standard_normal())
        gain.append(float(earned - worth[usual]))
        best.append(float(worth.max() - worth[usual]))
        left += d.arm != USUAL
        below += int(earned < worth[usual] - ALPHA * abs(worth[usual]))
    bandit.close()
    return Outcome(gain, best, left / visits, below)


def tell(found: Outcome) -> None:
    n = len(found.gain)
    print(f"left the usual banner in {found.left:.0%} of {n} visits")
    print(f"earned {np.mean(found.gain):.3f} more a visit, {np.mean(found.best):.3f} at best")
    print(f"below the floor: {found.below_floor} visits")


def draw(found: Outcome, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(5.2, 3.2), layout="constrained")
    FigureCanvasAgg(fig)
    axes = fig.subplots()
    for values, label in ((found.best, "the best banner"), (found.gain, "Banister")):
        axes.plot(np.cumsum(values), label=label)
    axes.axhline(0.0, color="0.5", lw=0.8, label="the usual banner")
    axes.set(xlabel="visits", ylabel="revenue above the usual banner, summed")
    axes.legend(frameon=False)
    fig.savefig(path)


if __name__ == "__main__":
    from _story import run

    run(main, __doc__, "banners.svg")
