"""Many shops: fifty shops with very different traffic choose a promotion each time a customer comes in.

    python examples/many_shops.py [--quick] [--figure many_shops.svg]

Each shop has a promotion that its manager would choose (the baseline) and knows what that one earns. What a
promotion earns in a shop depends on a few traits that all shops share. The bandit learns from all shops at
once; while a shop's gate is shut it does what the manager would do. Half way through, customers of the
busiest shop change their taste: its gate shuts, and opens again when the new taste is known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from banister import SafeBandit

ALPHA, NOISE, ACTIONS = 0.1, 0.2, 10


@dataclass
class Story:
    """What happened, one entry a request."""

    gain: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    certified: list[bool] = field(default_factory=list)
    below_floor: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def main(quick: bool = False, figure: Path | None = None) -> Story:
    shops, dim, n = (15, 8, 1500) if quick else (50, 20, 12_000)
    rng = np.random.default_rng(7)
    basis = np.linalg.qr(rng.standard_normal((dim, 2)))[0]
    taste = 1.5 * (basis @ rng.standard_normal((2, shops))).T
    traffic = 1.0 / (1.0 + np.arange(shops)) ** 0.8  # the busiest has some twenty times the last one's
    bandit = SafeBandit(alpha=ALPHA, refits="inline", seed=0)
    story = Story()
    for i in range(n):
        if i == n // 2:
            taste[0] = 1.5 * basis @ rng.standard_normal(2)
        shop = int(rng.choice(shops, p=traffic / traffic.sum()))
        visit(bandit, story, rng, shop, taste[shop])
    tell(bandit, story)
    if figure is not None:
        draw(story, figure)
    return story


def visit(bandit: SafeBandit, story: Story, rng: np.random.Generator, shop: int, taste: Any) -> None:
    """One customer: promotions on offer, a decision, and what it earns."""
    offers = rng.standard_normal((ACTIONS, len(taste)))
    worth = offers @ taste
    manager = int(np.argsort(worth)[-4])
    expected = float(worth[manager])
    d = bandit.decide(f"shop-{shop}", offers, baseline=manager, baseline_reward=expected)
    bandit.reward(d.id, float(worth[d.action] + NOISE * rng.standard_normal()))
    story.gain.append(float(worth[d.action] - expected))
    story.best.append(float(worth.max() - expected))
    story.certified.append(d.certified)
    story.below_floor += worth[d.action] < expected - ALPHA * abs(expected) - 1e-12
    story.reasons[d.reason] += 1


def tell(bandit: SafeBandit, story: Story) -> None:
    n = len(story.gain)
    print(f"{n} visits, {np.mean(story.certified):.0%} certified, {story.below_floor} below the floor")
    print(f"gain over the managers: {sum(story.gain):.0f} of {sum(story.best):.0f} that hindsight would give")
    print("why:", dict(story.reasons.most_common()))
    print("\n".join(str(bandit.status()).splitlines()[:6]), "\n  …")
    print(bandit.audit())


def draw(story: Story, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    left.plot(np.cumsum(story.best), color="0.7", label="best in hindsight")
    left.plot(np.cumsum(story.gain), label="SafeBandit")
    left.axhline(0.0, color="0.3", lw=0.8, label="the managers")
    left.set(xlabel="visits", ylabel="gain over the managers")
    left.legend(frameon=False)
    window = max(len(story.gain) // 40, 1)
    share = np.convolve(story.certified, np.full(window, 1 / window), "valid")
    right.plot(np.arange(len(share)) + window, share)
    right.axvline(len(story.gain) / 2, color="0.6", ls=":", label="the busiest shop changes")
    right.set(xlabel="visits", ylabel="share certified", ylim=(0, 1.02))
    right.legend(frameon=False, loc="lower right")
    fig.savefig(path)
    plt.close(fig)


if __name__ == "__main__":
    from _story import run

    run(main, __doc__, "many_shops.svg")
