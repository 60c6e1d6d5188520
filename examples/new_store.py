"""A new store joins: how soon may it leave its usual choice, with the others' rows and without them?

    python examples/new_store.py [--quick] [--figure new_store.svg]

Thirty stores put one of eight products of a catalogue into the window each day; the manager's choice is the
third best. What a product earns depends on its traits (price, weight, margin, …), differently in each store,
but stores are alike: their tastes mix two. A new store opens. After some days of its own the model is fitted,
once with all stores and once with the new one alone, and decides 200 further days. Expected revenue is known
here: what is gained, and what falls below the floor, is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import banister as bn

TRAITS = ["price", "weight", "margin", "novelty", "colour", "season", "shelf", "rating", "size", "origin"]
ALPHA, NOISE, OFFERED, NEW = 0.2, 0.3, 8, "store-new"


@dataclass
class Point:
    """After some rows of the new store: share of days that leave, gain a day, days below the floor."""

    rows: int
    left: float
    gain: float
    below: int


class Stores:
    """Products, and what each store's customers want of them."""

    def __init__(self, stores: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.traits = self.rng.standard_normal((200, len(TRAITS)))
        tastes = np.linalg.qr(self.rng.standard_normal((len(TRAITS), 2)))[0]
        self.worth = 4.0 + self.traits @ tastes @ self.rng.standard_normal((2, stores + 1))
        names = [f"product-{i}" for i in range(len(self.traits))]
        self.catalogue = pl.DataFrame({"item": names, **dict(zip(TRAITS, self.traits.T, strict=True))})

    def days(self, store: int, n: int) -> tuple[Any, Any]:
        """(n, 8) products that could go into the window, and the manager's choice among them."""
        offers = np.stack([self.rng.choice(len(self.traits), OFFERED, replace=False) for _ in range(n)])
        return offers, np.argsort(self.worth[offers, store], axis=1)[:, -3]

    def log(self, store: int, n: int, label: str) -> pl.DataFrame:
        """What stood in the window, and what it earned."""
        offers, usual = self.days(store, n)
        shown = offers[np.arange(n), usual]
        earned = self.worth[shown, store] + NOISE * self.rng.standard_normal(n)
        return pl.DataFrame({"store": [label] * n, "item": self.catalogue["item"][shown], "revenue": earned})


def after(world: Stores, log: pl.DataFrame, rows: int, days: tuple[Any, Any]) -> Point:
    """Fit a log and decide the new store's days."""
    items = bn.Items(world.catalogue, numeric=TRAITS)
    bandit = bn.SafeBandit(alpha=ALPHA, features=items, refits="manual", seed=0)
    bandit.warm_start(log, task="store", arm="item", reward="revenue")
    names, worth, gains, below = world.catalogue["item"].to_list(), world.worth[:, -1], [], 0
    for offer, usual in zip(*days, strict=True):
        d = bandit.decide(NEW, context={}, offered=[names[i] for i in offer], baseline=int(usual))
        gains.append(worth[offer[d.action]] - worth[offer[usual]])
        below += bool(gains[-1] < -ALPHA * abs(worth[offer[usual]]))
    return Point(rows, float(np.mean(np.array(gains) != 0)), float(np.mean(gains)), below)


def main(quick: bool = False, figure: Path | None = None) -> tuple[list[Point], list[Point]]:
    """With the other stores and without them, by the new store's rows."""
    sizes: Sequence[int] = (6, 12, 100) if quick else (4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 150, 250)
    stores = 20 if quick else 30
    world = Stores(stores)
    others = pl.concat([world.log(s, 60, f"store-{s}") for s in range(stores)])
    own, days = world.log(stores, max(sizes), NEW), world.days(stores, 200)
    shared = [after(world, pl.concat([others, own.head(n)]), n, days) for n in sizes]
    alone = [after(world, own.head(n), n, days) for n in sizes]
    offers, usual = days
    worth = world.worth[offers, -1]
    best = float((worth.max(axis=1) - worth[np.arange(len(usual)), usual]).mean())
    tell(shared, alone, best)
    if figure is not None:
        draw(shared, alone, best, figure)
    return shared, alone


def tell(shared: list[Point], alone: list[Point], best: float) -> None:
    print(f"the best product earns {best:.3f} more a day than the manager's")
    print("rows of the new store:  ", *(f"{p.rows:>6}" for p in shared))
    for words, curve in (("with the other stores: ", shared), ("on its own:            ", alone)):
        print(words, *(f"{p.gain:6.3f}" for p in curve), f"; below the floor: {sum(p.below for p in curve)}")


def draw(shared: list[Point], alone: list[Point], best: float, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(5.6, 3.2), layout="constrained")
    FigureCanvasAgg(fig)
    axes = fig.subplots()
    for curve, label in ((shared, "with the other stores"), (alone, "on its own")):
        axes.plot([p.rows for p in curve], [p.gain for p in curve], marker="o", ms=3, label=label)
    axes.axhline(best, color="0.7", lw=0.8, ls="--")
    axes.annotate("the best product", (shared[0].rows, best), xytext=(0, 3), textcoords="offset points")
    axes.set_ylim(-0.02, 1.15 * best)
    axes.set(xscale="log", xlabel="rows of the new store", ylabel="revenue a day above the usual")
    axes.set_xticks([5, 10, 20, 50, 100, 200], labels=["5", "10", "20", "50", "100", "200"])
    axes.legend(frameon=False, loc="center left")
    fig.savefig(path)


if __name__ == "__main__":
    from _story import run

    run(main, __doc__, "new_store.svg")
