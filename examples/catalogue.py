"""A catalogue with an incumbent: user groups choose films, a popularity list is in place, its log is at hand.

    python examples/catalogue.py [--quick] [--figure catalogue.svg]

Films have non-negative traits, user groups mix a few common tastes, ratings are noisy: a generated likeness
of MovieLens. The incumbent shows the most popular film of a slate, and now and then another one, so the log
knows with which probability it showed what it showed. First a dry run says from the log alone what the bandit
would gain; then it goes live, and the figure shows whether that came true.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from banister import SafeBandit

ALPHA, NOISE, SLATE, EXPLORE = 0.1, 0.15, 10, 0.3


class Catalogue:
    """Films, groups and what they think of each other."""

    def __init__(self, groups: int, films: int, traits: int = 3, dim: int = 10, seed: int = 3) -> None:
        self.rng = np.random.default_rng(seed)
        self.films = self.rng.gamma(0.5, size=(films, dim))
        self.films /= np.linalg.norm(self.films, axis=1, keepdims=True)
        tastes = self.rng.gamma(0.7, size=(groups, traits)) @ self.rng.gamma(0.5, size=(traits, dim))
        self.theta = (
            0.7 * tastes / (self.films @ tastes.T).mean()
        )  # ratings of 0.7 on average, as MovieLens has
        self.popularity = (self.films @ self.theta.T).mean(axis=1)

    def slate(self) -> tuple[int, Any, int]:
        """A group, the films on offer, and the most popular one's place."""
        picked = self.rng.choice(len(self.films), SLATE, replace=False)
        return (
            int(self.rng.integers(len(self.theta))),
            self.films[picked],
            int(np.argmax(self.popularity[picked])),
        )

    def rating(self, group: int, film: Any) -> float:
        return float(film @ self.theta[group] + NOISE * self.rng.standard_normal())


def log(world: Catalogue, n: int) -> pl.DataFrame:
    """What the incumbent showed and earned."""
    rows = []
    for _ in range(n):
        group, films, popular = world.slate()
        shown = int(world.rng.integers(SLATE)) if world.rng.random() < EXPLORE else popular
        rows.append(
            {
                "group": f"group-{group}",
                "rating": world.rating(group, films[shown]),
                "probability": EXPLORE / SLATE + (1 - EXPLORE) * (shown == popular),
                "popular": popular,
                "film": films[shown].tolist(),
                "slate": films.tolist(),
            }
        )
    return pl.DataFrame(rows)


def main(quick: bool = False, figure: Path | None = None) -> tuple[Any, list[float]]:
    world = Catalogue(groups=12 if quick else 30, films=60 if quick else 400)
    frame = log(world, 1500 if quick else 12_000)
    columns = {"task": "group", "reward": "rating", "features": "film"}
    bandit = SafeBandit(alpha=ALPHA, refits="manual", seed=0)
    report = bandit.dry_run(frame, actions="slate", baseline="popular", propensity="probability", **columns)
    print("dry run:", report, sep="\n")
    bandit.warm_start(frame, **columns)
    earned, incumbent, below = live(world, bandit, 300 if quick else 3000)
    gain = [e - i for e, i in zip(earned, incumbent, strict=True)]
    print(f"live: {np.mean(earned):.3f} a film; popularity {np.mean(incumbent):.3f}")
    print(f"{below} of {len(gain)} below the floor;", bandit.audit())
    if figure is not None:
        draw(report, gain, figure)
    return report, gain


def live(world: Catalogue, bandit: SafeBandit, n: int) -> tuple[list[float], list[float], int]:
    """Expected ratings of what the bandit and the popularity list show, and plays below the floor."""
    earned, incumbent, below = [], [], 0
    for _ in range(n):
        group, films, popular = world.slate()
        d = bandit.decide(f"group-{group}", films, baseline=popular)  # what the list earns here is unknown
        bandit.reward(d.id, world.rating(group, d.features))
        earned.append(float(d.features @ world.theta[group]))
        incumbent.append(float(films[popular] @ world.theta[group]))
        below += earned[-1] < incumbent[-1] - ALPHA * abs(incumbent[-1]) - 1e-12
    return earned, incumbent, below


def draw(report: Any, gain: list[float], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
    names = [e.method.split(",")[0] for e in report.gains] + ["live"]
    spread = 1.96 * np.std(gain) / np.sqrt(len(gain))
    lows = [e.value - e.low for e in report.gains] + [spread]
    values = [e.value for e in report.gains] + [float(np.mean(gain))]
    axes.errorbar(values, range(len(names)), xerr=lows, fmt="o", ms=4, capsize=3)
    axes.axvline(0.0, color="0.6", lw=0.8)
    axes.set(yticks=range(len(names)), yticklabels=names, xlabel="gain a film over the popularity list")
    axes.invert_yaxis()
    fig.savefig(path)
    plt.close(fig)


if __name__ == "__main__":
    from _story import run

    run(main, __doc__, "catalogue.svg")
