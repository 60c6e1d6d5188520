"""What a draw costs: `SafeBandit.decide` with and without chance, and the account's part of a reward.

    python benchmarks/draws.py

d = 100, K = 50, 1,000 tasks; medians in microseconds of CPU, in memory, one after the other in one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import banister as bn
from banister.online.model import Marks, Model
from banister.safety.belief import Belief
from banister.safety.frame import Frame
from banister.safety.hierarchy import Start
from banister.safety.posterior import Shared

BARS = {"decide, task": 200.0, "decide, fleet": 200.0, "decide, decision": 200.0, "account": 30.0}


def belief(tasks: int, dim: int, rng: np.random.Generator) -> Belief:
    """A made belief of every task: what it says does not matter to the clock."""
    one = 0.001 * np.eye(dim)
    return Belief(
        frame=Frame(np.ones(dim), False), mean=rng.standard_normal((tasks, dim)) / np.sqrt(dim),
        V=np.tile(one, (tasks, 1, 1)), away=np.tile(one, (tasks, 1, 1)), left=np.full(dim, 1e-6),
        noise=np.full(tasks, 0.3), z=np.full(tasks, 4.0), labelled=np.zeros(tasks, dtype=bool),
        label_error=0.1, known=np.ones(tasks, dtype=bool), usual=np.sort(rng.standard_normal(1000)),
        start=Start(Shared(np.zeros(dim), np.zeros((dim, 0)), np.full(dim, 0.01)), 0.3, 1),
    )  # fmt: skip


def bandit_of(settings: dict[str, Any], made: Belief) -> bn.SafeBandit:
    bandit = bn.SafeBandit(alpha=0.1, refits="manual", seed=0, drift_guard=False, **settings)
    engine = bandit._engine
    with engine.store.ledger.transaction():
        for t in range(made.n_tasks):
            engine.store.code_of(f"task {t}")
    engine.open_memory(made.mean.shape[1])
    engine.use(Model(1, made, Marks()))
    return bandit


def median(call: Callable[[int], Any], n: int) -> float:
    times = []
    for i in range(n):
        start = time.thread_time()
        call(i)
        times.append(time.thread_time() - start)
    return 1e6 * float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--decisions", type=int, default=4000)
    parser.add_argument("--tasks", type=int, default=1000)
    n, tasks = parser.parse_args().decisions, parser.parse_args().tasks
    rng = np.random.default_rng(0)
    made, actions = belief(tasks, 100, rng), rng.standard_normal((64, 50, 100)) / 10
    for promise in ("none", "decision", "task", "fleet"):
        settings = {} if promise == "none" else {"promise": promise, "reward_range": (0, 1)}
        bandit = bandit_of(settings, made)

        def decide(i: int, bandit: bn.SafeBandit = bandit) -> None:
            bandit.decide(f"task {i % tasks}", actions[i % 64], baseline=0)

        for i in range(tasks):  # committees are drawn once a task and version
            decide(i)
        took = median(decide, n)
        show(f"decide, {promise}", took)
        account = bandit._engine.account
        if account is not None:
            ids = list(account.waiting)
            took = median(lambda i: account.rewarded(ids[i], 0.0, float(i % 3 == 0)), min(n, len(ids)))
            show(f"account, {promise}", took)


def show(name: str, took: float) -> None:
    bar = BARS.get(name) or BARS.get(name.split(",")[0])
    print(f"{name:20s} {took:7.1f} µs" + (f"   bar {bar:.0f}" if bar else ""))


if __name__ == "__main__":
    main()
