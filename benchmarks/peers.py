"""One program a library that chooses banners for shops; `beside_others.py` plays them and counts their lines.

Each is written as its own documentation shows it. `TRIED` lists the exploration settings that
`beside_others.py --tune` compares for each, on a world that the page does not show; `ROWS` has the best ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SHOPS, BANNERS, FEATURES, ALPHA = 40, 4, 5, 0.1
# A choice: the banner, what learning needs to know of it, and the chances of all banners if it was drawn.
Choice = tuple[int, Any, Any]
Player = tuple[Callable[[int, Any, float], Choice], Callable[[int, Any, int, Any, float], None]]


def banister(promise: str, told: bool = False) -> Player:
    from banister import SafeBandit

    bandit = SafeBandit(alpha=ALPHA, reward_range=(0, 1), promise=promise, refits="inline", seed=0)

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        rows, known = np.kron(np.eye(BANNERS), visitor), usual if told else None
        d = bandit.decide(f"{shop}", rows, baseline=0, baseline_reward=known)
        return d.action, d.id, d.probabilities

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        bandit.reward(key, click)

    return decide, learn


def vowpal_wabbit(explore: str) -> Player:
    import vowpalwabbit

    model = vowpalwabbit.Workspace(f"--cb_explore_adf {explore} -q :: --cubic ::: --quiet --random_seed 1")
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


def mabwiser(alpha: float) -> Player:
    from mabwiser.mab import MAB, LearningPolicy

    models: dict[int, Any] = {}

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        return (int(models[shop].predict([visitor])) if shop in models else 0), None, None

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        if shop not in models:
            models[shop] = MAB(list(range(BANNERS)), LearningPolicy.LinUCB(alpha=alpha))
            models[shop].fit([arm], [click], [visitor])
        else:
            models[shop].partial_fit([arm], [click], [visitor])

    return decide, learn


def contextualbandits(alpha: float) -> Player:
    from contextualbandits.online import LinUCB

    models = [LinUCB(nchoices=BANNERS, alpha=alpha, random_state=1) for _ in range(SHOPS)]
    begun = set()

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        return (int(models[shop].predict(visitor[None])[0]) if shop in begun else 0), None, None

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        models[shop].partial_fit(visitor[None], np.array([arm]), np.array([click]))
        begun.add(shop)

    return decide, learn


def obp(epsilon: float) -> Player:
    from obp.policy import LinUCB

    models = [LinUCB(FEATURES, BANNERS, epsilon=epsilon, random_state=shop) for shop in range(SHOPS)]

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        return int(models[shop].select_action(visitor[None])[0]), None, None

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        models[shop].update_params(arm, click, visitor[None])

    return decide, learn


def bayesianbandits(scale: float) -> Player:
    from bayesianbandits import Arm, ContextualAgent, NormalRegressor, ThompsonSampling

    agents = []
    for shop in range(SHOPS):
        arms = [Arm(k, learner=NormalRegressor(alpha=1.0, beta=scale)) for k in range(BANNERS)]
        agents.append(ContextualAgent(arms, ThompsonSampling(), random_seed=shop))

    def decide(shop: int, visitor: Any, usual: float) -> Choice:
        return int(agents[shop].pull(visitor[None])[0]), None, None

    def learn(shop: int, visitor: Any, arm: int, key: Any, click: float) -> None:
        agents[shop].select_for_update(arm).update(visitor[None], np.array([click]))

    return decide, learn


class Peer(NamedTuple):
    """A row of the page: what it is called, its program with the settings, and where the program runs."""

    name: str
    make: Callable[..., Player]
    settings: dict[str, Any]
    package: str
    room: str = "."  # a virtual environment below this one's folder


_TOLD = "Banister, promise `decision`, told what banner 0 earns"
_LIST = (
    ("task", "Banister, promise `task` (the default)", banister, {"promise": "task"}, "banister"),
    ("fleet", "Banister, promise `fleet`", banister, {"promise": "fleet"}, "banister"),
    ("decision", _TOLD, banister, {"promise": "decision", "told": True}, "banister"),
    ("vw", "Vowpal Wabbit", vowpal_wabbit, {"explore": "--squarecb"}, "vowpalwabbit"),
    ("mabwiser", "MABWiser, LinUCB a shop", mabwiser, {"alpha": 1.0}, "mabwiser"),
    ("cb", "contextualbandits, LinUCB a shop", contextualbandits, {"alpha": 1.0}, "contextualbandits"),
    ("obp", "obp, LinUCB a shop", obp, {"epsilon": 0.3}, "obp", "obp"),
    ("bb", "bayesianbandits, Thompson a shop", bayesianbandits, {"scale": 10.0}, "bayesianbandits"),
)
ROWS = {key: Peer(*facts) for key, *facts in _LIST}

TRIED = {
    "vw": [
        *({"explore": f"--epsilon {e}"} for e in (0.05, 0.1, 0.2)),
        {"explore": "--squarecb"},
        {"explore": "--cover 10"},
    ],
    "mabwiser": [{"alpha": a} for a in (0.1, 0.3, 1.0)],
    "cb": [{"alpha": a} for a in (0.1, 0.3, 1.0)],
    "obp": [{"epsilon": e} for e in (0.1, 0.3, 1.0)],
    "bb": [{"scale": s} for s in (1.0, 4.0, 10.0)],
}
