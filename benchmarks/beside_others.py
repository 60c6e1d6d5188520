"""The same decisions by Banister and by other libraries: lines, gain, decisions below the floor, seconds.

python benchmarks/beside_others.py [PAGE]      writes the table into PAGE (docs/benchmarks.md) if given

Thirty shops choose one of four banners for each visitor. A visitor has five features; what a banner earns is
linear in them, and shops' tastes are mixtures of two. Banner 0 is in place. Each library is used as its own
documentation shows it. Nothing but the last columns' arithmetic knows the truth.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SHOPS, BANNERS, FEATURES, ROUNDS, ALPHA = 30, 4, 5, 150, 0.1
MARK = "<!-- table: written by `make peers` -->"
Player = tuple[Callable[[int, Any, float], tuple[int, Any]], Callable[[int, Any, int, Any, float], None]]


def banister_known() -> Player:
    from banister import SafeBandit

    bandit = SafeBandit(alpha=ALPHA, refits="inline", seed=0)

    def decide(shop: int, visitor: Any, usual: float) -> tuple[int, Any]:
        d = bandit.decide(f"{shop}", np.kron(np.eye(BANNERS), visitor), baseline=0, baseline_reward=usual)
        return d.action, d.id

    def learn(shop: int, visitor: Any, arm: int, key: Any, reward: float) -> None:
        bandit.reward(key, reward)

    return decide, learn


def banister_unknown() -> Player:
    from banister import SafeBandit

    bandit = SafeBandit(alpha=ALPHA, refits="inline", seed=0)

    def decide(shop: int, visitor: Any, usual: float) -> tuple[int, Any]:
        d = bandit.decide(f"{shop}", np.kron(np.eye(BANNERS), visitor), baseline=0)
        return d.action, d.id

    def learn(shop: int, visitor: Any, arm: int, key: Any, reward: float) -> None:
        bandit.reward(key, reward)

    return decide, learn


def vowpal_wabbit() -> Player:
    import vowpalwabbit

    model = vowpalwabbit.Workspace("--cb_explore_adf --epsilon 0.1 -q :: --cubic ::: --quiet --random_seed 1")
    rng = np.random.default_rng(0)

    def text(shop: int, visitor: Any, arm: int = -1, cost: float = 0.0, chance: float = 1.0) -> str:
        shared = f"shared |S s{shop} |V " + " ".join(f"v{j}:{v:.6f}" for j, v in enumerate(visitor))
        rows = [f"{f'0:{cost:.6f}:{chance:.6f} ' if k == arm else ''}|B b{k}" for k in range(BANNERS)]
        return "\n".join([shared, *rows])

    def decide(shop: int, visitor: Any, usual: float) -> tuple[int, Any]:
        chances = np.array(model.predict(text(shop, visitor)))
        arm = int(rng.choice(BANNERS, p=chances / chances.sum()))
        return arm, float(chances[arm])

    def learn(shop: int, visitor: Any, arm: int, key: Any, reward: float) -> None:
        model.learn(text(shop, visitor, arm, -reward, key))

    return decide, learn


def mabwiser() -> Player:
    from mabwiser.mab import MAB, LearningPolicy

    models: dict[int, Any] = {}

    def decide(shop: int, visitor: Any, usual: float) -> tuple[int, Any]:
        return (int(models[shop].predict([visitor])) if shop in models else 0), None

    def learn(shop: int, visitor: Any, arm: int, key: Any, reward: float) -> None:
        if shop not in models:
            models[shop] = MAB(list(range(BANNERS)), LearningPolicy.LinUCB(alpha=1.0))
            models[shop].fit([arm], [reward], [visitor])
        else:
            models[shop].partial_fit([arm], [reward], [visitor])

    return decide, learn


def contextualbandits() -> Player:
    from contextualbandits.online import LinUCB

    models = [LinUCB(nchoices=BANNERS, alpha=1.0, random_state=1) for _ in range(SHOPS)]
    begun = set()

    def decide(shop: int, visitor: Any, usual: float) -> tuple[int, Any]:
        return (int(models[shop].predict(visitor[None])[0]) if shop in begun else 0), None

    def learn(shop: int, visitor: Any, arm: int, key: Any, reward: float) -> None:
        models[shop].partial_fit(visitor[None], np.array([arm]), np.array([reward]))
        begun.add(shop)

    return decide, learn


def obp() -> Player:
    raise ImportError("its releases ask for versions that do not build beside numpy 2")


PLAYERS = {
    "Banister, baseline's reward known": banister_known,
    "Banister, unknown": banister_unknown,
    "Vowpal Wabbit, ε-greedy": vowpal_wabbit,
    "MABWiser, LinUCB a shop": mabwiser,
    "contextualbandits, LinUCB a shop": contextualbandits,
    "obp": obp,
}


def play(make: Callable[[], Player]) -> tuple[float, float, float]:
    """Gain over the baseline as a share of it, share of decisions below the floor, seconds."""
    rng = np.random.default_rng(0)
    tastes = rng.standard_normal((SHOPS, 2)) @ rng.standard_normal((2, BANNERS * FEATURES)) * 0.3
    tastes = tastes.reshape(SHOPS, BANNERS, FEATURES)
    tastes[:, :, 0] += 1.0  # what every banner earns
    decide, learn = make()
    earned = usual_sum = below = spent = 0.0
    for _ in range(ROUNDS):
        for shop in range(SHOPS):
            visitor = np.append(1.0, rng.standard_normal(FEATURES - 1))
            worth, noise = tastes[shop] @ visitor, 0.2 * rng.standard_normal()
            began = time.perf_counter()
            arm, key = decide(shop, visitor, float(worth[0]))
            learn(shop, visitor, arm, key, float(worth[arm] + noise))
            spent += time.perf_counter() - began
            earned, usual_sum = earned + worth[arm], usual_sum + worth[0]
            below += worth[arm] < worth[0] - ALPHA * abs(worth[0]) - 1e-9
    return (earned - usual_sum) / abs(usual_sum), below / (ROUNDS * SHOPS), spent


def table() -> str:
    """Markdown, one row a library."""
    rows = ["| library | lines | gain over the policy in place | decisions below the floor | seconds |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for name, make in PLAYERS.items():
        lines = len([s for s in inspect.getsource(make).splitlines() if s.strip()])
        try:
            gain, below, seconds = play(make)
        except ImportError as reason:
            rows.append(f"| {name} | – | left out: {reason} | – | – |")
            continue
        rows.append(f"| {name} | {lines} | {gain:+.1%} | {below:.1%} | {seconds:.1f} |")
        print(rows[-1], flush=True)
    return "\n".join(rows)


def main() -> None:
    found = table()
    if len(sys.argv) > 1:
        page = Path(sys.argv[1])
        head = page.read_text(encoding="utf-8").split(MARK)[0]
        page.write_text(f"{head}{MARK}\n\n{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
