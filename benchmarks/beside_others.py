"""The same visitors by Banister and by other libraries: lines, clicks, what fell below a floor, seconds.

    python benchmarks/beside_others.py [--page docs/benchmarks.md] [--visitors 1000] [--seeds 1]

Forty shops choose one of four banners for each of a thousand visitors. A visitor has five features; the
chance of a click is linear in them, and shops' tastes are mixtures of two. Banner 0 is in place. Everybody
starts from nothing, is told the shop, the visitor and then the click, and is used as its own documentation
shows it. Nothing but the arithmetic of the last columns knows the truth.
"""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

SHOPS, BANNERS, FEATURES, ALPHA = 40, 4, 5, 0.1
MARK = "<!-- table: written by `make peers` -->"
# A choice: the banner, what learning needs to know of it, and the chances of all banners if it was drawn.
Choice = tuple[int, Any, Any]
Player = tuple[Callable[[int, Any, float], Choice], Callable[[int, Any, int, Any, float], None]]


def banister_task() -> Player:
    from banister import SafeBandit

    bandit = SafeBandit(alpha=ALPHA, reward_range=(0, 1), refits="inline", seed=0)

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        d = bandit.decide(f"{shop}", np.kron(np.eye(BANNERS), visitor), baseline=0)
        return d.action, d.id, d.probabilities

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        bandit.reward(key, click)

    return decide, learn


def banister_fleet() -> Player:
    from banister import SafeBandit

    bandit = SafeBandit(alpha=ALPHA, reward_range=(0, 1), promise="fleet", refits="inline", seed=0)

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        d = bandit.decide(f"{shop}", np.kron(np.eye(BANNERS), visitor), baseline=0)
        return d.action, d.id, d.probabilities

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        bandit.reward(key, click)

    return decide, learn


def banister_decision() -> Player:
    from banister import SafeBandit

    bandit = SafeBandit(alpha=ALPHA, reward_range=(0, 1), promise="decision", refits="inline", seed=0)

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        d = bandit.decide(f"{shop}", np.kron(np.eye(BANNERS), visitor), baseline=0, baseline_reward=usual)
        return d.action, d.id, d.probabilities

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        bandit.reward(key, click)

    return decide, learn


def vowpal_wabbit() -> Player:
    import vowpalwabbit

    model = vowpalwabbit.Workspace("--cb_explore_adf --epsilon 0.1 -q :: --cubic ::: --quiet --random_seed 1")
    rng = np.random.default_rng(0)

    def text(shop: int, visitor: Any, arm: int = -1, cost: float = 0.0, chance: float = 1.0) -> str:
        shared = f"shared |S s{shop} |V " + " ".join(f"v{j}:{v:.6f}" for j, v in enumerate(visitor))
        rows = [f"{f'0:{cost:.6f}:{chance:.6f} ' if k == arm else ''}|B b{k}" for k in range(BANNERS)]
        return "\n".join([shared, *rows])

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        chances = np.array(model.predict(text(shop, visitor)))
        chances = chances / chances.sum()
        arm = int(rng.choice(BANNERS, p=chances))
        return arm, float(chances[arm]), chances

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        model.learn(text(shop, visitor, arm, -click, key))

    return decide, learn


def mabwiser() -> Player:
    from mabwiser.mab import MAB, LearningPolicy

    models: dict[int, Any] = {}

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        return (int(models[shop].predict([visitor])) if shop in models else 0), None, None

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        if shop not in models:
            models[shop] = MAB(list(range(BANNERS)), LearningPolicy.LinUCB(alpha=1.0))
            models[shop].fit([arm], [click], [visitor])
        else:
            models[shop].partial_fit([arm], [click], [visitor])

    return decide, learn


def contextualbandits() -> Player:
    from contextualbandits.online import LinUCB

    models = [LinUCB(nchoices=BANNERS, alpha=1.0, random_state=1) for _ in range(SHOPS)]
    begun = set()

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        return (int(models[shop].predict(visitor[None])[0]) if shop in begun else 0), None, None

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        models[shop].partial_fit(visitor[None], np.array([arm]), np.array([click]))
        begun.add(shop)

    return decide, learn


def bayesianbandits() -> Player:
    from bayesianbandits import Arm, ContextualAgent, NormalInverseGammaRegressor, ThompsonSampling

    agents = []
    for shop in range(SHOPS):
        arms = [Arm(k, learner=NormalInverseGammaRegressor()) for k in range(BANNERS)]
        agents.append(ContextualAgent(arms, ThompsonSampling(), random_seed=shop))

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        return int(agents[shop].pull(visitor[None])[0]), None, None

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        agents[shop].select_for_update(arm).update(visitor[None], np.array([click]))

    return decide, learn


PLAYERS = {
    "Banister, promise `task` (the default)": (banister_task, "banister"),
    "Banister, promise `fleet`": (banister_fleet, "banister"),
    "Banister, promise `decision`, told what banner 0 earns": (banister_decision, "banister"),
    "Vowpal Wabbit, ε-greedy": (vowpal_wabbit, "vowpalwabbit"),
    "MABWiser, LinUCB a shop": (mabwiser, "mabwiser"),
    "contextualbandits, LinUCB a shop": (contextualbandits, "contextualbandits"),
    "bayesianbandits, Thompson a shop": (bayesianbandits, "bayesianbandits"),
}
LEFT_OUT = {
    "obp": "cannot be installed beside numpy 2: 0.5.7 pins pandas 1.5, scikit-learn 1.1 and scipy 1.9, and "
    "those before it ask for a PyYAML that no longer builds"
}


class World:
    """Forty shops: click chances (shop, banner, feature), and one visitor after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        kinds = self.rng.uniform(-1, 1, (2, BANNERS * FEATURES))
        mixed = (self.rng.dirichlet([1.0, 1.0], SHOPS) @ kinds).reshape(SHOPS, BANNERS, FEATURES)
        self.tastes = 0.12 * mixed
        self.tastes[:, :, 0] += 0.3  # what every banner earns
        fair = int(np.argsort(self.tastes[:, :, 0].mean(axis=0))[-2])
        self.tastes[:, [0, fair]] = self.tastes[:, [fair, 0]]  # the banner in place is the second best

    def visitor(self) -> Any:
        return np.append(1.0, self.rng.uniform(-1, 1, FEATURES - 1))

    def rates(self, shop: int, visitor: Any) -> Any:
        """(banners,) chances of a click; linear, but for the rare one that would be below 0.01."""
        return np.clip(self.tastes[shop] @ visitor, 0.01, 0.99)


@dataclass
class Played:
    """Of all visitors: share of clicks gained, of decisions below the floor, shops ever below, seconds."""

    gain: float
    decisions_below: float
    shops_below: int
    seconds: float


def play(make: Callable[[], Player], visitors: int, seed: int) -> Played:
    """The same visitors for everybody, and the same luck where the same banner is shown."""
    world, (decide, learn) = World(seed), make()
    saved, usual, worst = np.zeros(SHOPS), np.zeros(SHOPS), np.zeros(SHOPS)
    below, spent = 0, 0.0
    for _ in range(visitors):
        for shop in range(SHOPS):
            visitor, luck = world.visitor(), world.rng.random()
            rates = world.rates(shop, visitor)
            began = time.perf_counter()
            arm, key, chances = decide(shop, visitor, float(rates[0]))
            learn(shop, visitor, arm, key, float(luck < rates[arm]))
            spent += time.perf_counter() - began
            value = float(rates[arm] if chances is None else rates @ chances)
            below += value < (1 - ALPHA) * rates[0] - 1e-9
            saved[shop] += value - (1 - ALPHA) * rates[0]
            usual[shop] += rates[0]
            worst[shop] = min(worst[shop], saved[shop])
    gain = (saved.sum() - ALPHA * usual.sum()) / usual.sum()
    return Played(gain, below / (visitors * SHOPS), int((worst < -1e-9).sum()), spent)


def lines_of(make: Callable[[], Player]) -> int:
    return len([line for line in inspect.getsource(make).splitlines() if line.strip()])


def table(visitors: int, seeds: int) -> str:
    """Markdown, one row a library; means over worlds."""
    rows = ["| library | lines | clicks gained | decisions below the floor | shops ever below | seconds |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for name, (make, package) in PLAYERS.items():
        try:
            played = [play(make, visitors, seed) for seed in range(seeds)]
        except ImportError as reason:
            rows.append(f"| {name} | – | left out: {reason} | – | – | – |")
            continue
        gain, below, shops, seconds = np.mean(
            [(p.gain, p.decisions_below, p.shops_below, p.seconds) for p in played], axis=0
        )
        which = name if package == "banister" else name.replace(",", f" {version(package)},", 1)
        told = f"{gain:+.1%} | {below:.1%} | {shops:g} of {SHOPS} | {seconds:.0f}"
        rows.append(f"| {which} | {lines_of(make)} | {told} |")
        print(rows[-1], flush=True)
    rows += [f"| {name} | – | left out: {why} | – | – | – |" for name, why in LEFT_OUT.items()]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the table into it")
    parser.add_argument("--visitors", type=int, default=1000, help="of each shop")
    parser.add_argument("--seeds", type=int, default=1, help="worlds")
    given = parser.parse_args()
    found = table(given.visitors, given.seeds)
    if given.page is not None:
        head = given.page.read_text(encoding="utf-8").split(MARK)[0]
        given.page.write_text(f"{head}{MARK}\n\n{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
