"""The same requests through other libraries, one model per task, as their users do it.

They model one vector per arm and see one context per request, where `SafeBandit` sees the features of every
action: K·d numbers instead of d, and K·d numbers learned per task instead of d. Work per decision is of the
same order: K actions, d features.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from banister import SafeBandit

Step = Callable[[int, Any, int, float], None]


def peers(world: Any, n: int) -> list[dict[str, Any]]:
    """One row a library: decisions and updates a second, memory."""
    makers = {
        "banister SafeBandit": ours,
        "MABWiser LinUCB": mabwiser,
        "bayesianbandits": bayesian,
        "contextualbandits LinUCB": contextual,
    }
    rows = []
    for name, maker in makers.items():
        try:
            rows.append({"what": f"peer: {name}", **measure(maker, world, n)})
        except ImportError as reason:
            rows.append({"what": f"peer: {name}", "left out": str(reason)})
    return rows


def measure(maker: Any, world: Any, n: int) -> dict[str, Any]:
    tracemalloc.start()
    decide, update = maker(world)
    for i in range(20):
        t, A, k, r = world.request(i)
        update(t, A, k, decide(t, A, k, r), r)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    spent = np.zeros(2)
    for i in range(n):
        t, A, k, r = world.request(i)
        begin = time.perf_counter()
        choice = decide(t, A, k, r)
        middle = time.perf_counter()
        update(t, A, k, choice, r)
        spent += middle - begin, time.perf_counter() - middle
    return {"decisions_per_s": n / spent[0], "updates_per_s": n / spent[1], "memory_mb": memory / 1e6}


def ours(world: Any) -> tuple[Any, Any]:
    bandit = SafeBandit(alpha=0.1, refits="manual", seed=0)
    bandit.warm_start(world.logs(60 if world.dim < 50 else 40), features="x")

    def decide(t: int, A: Any, k: int, r: float) -> Any:
        return bandit.decide(world.labels[t], A, baseline=k, baseline_reward=r)

    def update(t: int, A: Any, k: int, d: Any, r: float) -> None:
        bandit.reward(d.id, float(d.features @ world.theta[t]))

    return decide, update


def mabwiser(world: Any) -> tuple[Any, Any]:
    from mabwiser.mab import MAB, LearningPolicy

    models = []
    for _ in range(world.tasks):
        model = MAB(arms=list(range(world.actions)), learning_policy=LearningPolicy.LinUCB(alpha=1.0))
        arms = np.arange(world.actions)
        model.fit(arms, np.zeros(world.actions), np.zeros((world.actions, world.dim)))
        models.append(model)

    def decide(t: int, A: Any, k: int, r: float) -> Any:
        return models[t].predict(A[:1])

    def update(t: int, A: Any, k: int, arm: Any, r: float) -> None:
        models[t].partial_fit(np.array([arm]), np.array([r]), A[:1])

    return decide, update


def bayesian(world: Any) -> tuple[Any, Any]:
    from bayesianbandits import Arm, ContextualAgent, NormalInverseGammaRegressor, UpperConfidenceBound

    agents = []
    for _ in range(world.tasks):
        arms = [Arm(i, learner=NormalInverseGammaRegressor()) for i in range(world.actions)]
        agents.append(ContextualAgent(arms, UpperConfidenceBound(0.84), random_seed=0))

    def decide(t: int, A: Any, k: int, r: float) -> Any:
        return agents[t].pull(A[:1])

    def update(t: int, A: Any, k: int, choice: Any, r: float) -> None:
        agents[t].update(A[:1], np.array([r]))

    return decide, update


def contextual(world: Any) -> tuple[Any, Any]:
    from contextualbandits.online import LinUCB

    models = []
    for _ in range(world.tasks):
        model = LinUCB(nchoices=world.actions, alpha=1.0, random_state=1)
        arms = np.arange(world.actions)
        models.append(model.fit(np.zeros((world.actions, world.dim)), arms, np.zeros(world.actions)))

    def decide(t: int, A: Any, k: int, r: float) -> Any:
        return models[t].predict(A[:1])

    def update(t: int, A: Any, k: int, arm: Any, r: float) -> None:
        models[t].partial_fit(A[:1], np.asarray(arm).reshape(1), np.array([r]))

    return decide, update
