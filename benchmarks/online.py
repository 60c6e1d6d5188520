"""`SafeBandit` in numbers, and beside its peers: latency, durable throughput, batches, refits, memory.

    python benchmarks/online.py [--quick] [--out bench-online.json]

Run with OMP_NUM_THREADS=1. Times are wall clock; `cpu` is the thread's own time, which other processes on a
busy machine do not stretch. Peers (MABWiser LinUCB, bayesianbandits, contextualbandits LinUCB; one model per
task, as their users do it) take the same requests; one that is not installed is left out and named.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from banister import SafeBandit
from banister.online.model import Model
from banister.safety.belief import Belief
from banister.safety.frame import Frame
from online_peers import peers

Rows = list[dict[str, Any]]


class World:
    """Tasks that share two directions, requests and rewards."""

    def __init__(self, tasks: int, dim: int, actions: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.tasks, self.dim, self.actions = tasks, dim, actions
        basis = np.linalg.qr(self.rng.standard_normal((dim, 2)))[0]
        self.theta = (basis @ self.rng.standard_normal((2, tasks))).T
        self.sets = self.rng.standard_normal((256, actions, dim))
        self.labels = [f"task-{t}" for t in range(tasks)]

    def request(self, i: int) -> tuple[int, Any, int, float]:
        t, A = int(self.rng.integers(self.tasks)), self.sets[i % len(self.sets)]
        means = A @ self.theta[t]
        k = int(np.argsort(means)[-5])
        return t, A, k, float(means[k])

    def logs(self, rows: int) -> dict[str, Any]:
        task = np.repeat(np.arange(self.tasks), rows)
        X = self.rng.standard_normal((len(task), self.dim))
        y = np.einsum("nd,nd->n", X, self.theta[task]) + 0.3 * self.rng.standard_normal(len(task))
        return {"task": [self.labels[t] for t in task], "reward": y, "x": X}


def belief_of(world: World) -> Belief:
    """Knows the truth, with a little doubt in every direction, an intercept and a left-over."""
    T, d = world.theta.shape
    p = d + 1
    some = np.random.default_rng(0).standard_normal((p, p)) / np.sqrt(p)
    V = 1e-6 * (np.eye(p) + some @ some.T)
    return Belief(
        frame=Frame(np.ones(d), True),
        mean=np.hstack([world.theta, np.zeros((T, 1))]),
        V=np.broadcast_to(V, (T, p, p)).copy(),
        away=np.broadcast_to(np.eye(p) + 0.1 * some, (T, p, p)).copy(),
        left=np.full(p, 1e-8),
        noise=np.full(T, 0.3),
        z=np.full(T, 5.0),
        labelled=np.ones(T, dtype=bool),
        label_error=0.003,
        known=np.ones(T, dtype=bool),
        usual=np.sort(np.random.default_rng(1).standard_normal(1024)),
        rank=2,
    )


def opened(world: World, **settings: Any) -> SafeBandit:
    """A bandit whose gates are all open, without the cost of a fit: estimates are the truth."""
    bandit = SafeBandit(alpha=0.1, refits="manual", seed=0, **settings)
    for label in world.labels:
        bandit.decide(label, world.sets[0], baseline=0)
    bandit._engine.use(Model(1, belief_of(world), bandit._engine.store.marks))
    return bandit


def pairs(bandit: SafeBandit, world: World, n: int) -> dict[str, Any]:
    """Decide and reward n times; microseconds of each, wall clock and CPU."""
    wall, cpu, certified, whole = np.empty(n), np.empty(n), 0, 0.0
    for i in range(n):
        t, A, k, r = world.request(i)
        begin, begun = time.perf_counter(), time.thread_time()
        d = bandit.decide(world.labels[t], A, baseline=k, baseline_reward=r)
        wall[i], cpu[i] = time.perf_counter() - begin, time.thread_time() - begun
        reward = float(d.features @ world.theta[t] + 0.3 * world.rng.standard_normal())
        begin = time.perf_counter()
        bandit.reward(d.id, reward)
        whole += wall[i] + time.perf_counter() - begin
        certified += d.certified
    us = 1e6
    return {
        "median_us": us * float(np.median(wall)), "p99_us": us * float(np.quantile(wall, 0.99)),
        "cpu_median_us": us * float(np.median(cpu)), "cpu_p99_us": us * float(np.quantile(cpu, 0.99)),
        "pairs_per_s": n / whole, "certified": certified / n,
    }  # fmt: skip


def bare_commits(folder: Path, mode: str, n: int) -> float:
    """One-row commits a second of plain SQLite here and now: what the disk allows."""
    db = sqlite3.connect(folder / f"bare-{mode}.db", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={mode}")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)")
    blob, begin = b"x" * 1700, time.perf_counter()
    for i in range(n):
        db.execute("INSERT INTO t VALUES (?, ?)", (i, blob))
    return n / (time.perf_counter() - begin)


def plain_numpy(world: World, n: int) -> dict[str, Any]:
    """Mean and width of every action by numpy alone, nothing checked or kept: what this machine gives now."""
    V, spent = (
        np.broadcast_to(1e-6 * np.eye(world.dim), (world.tasks, world.dim, world.dim)).copy(),
        np.empty(n),
    )
    for i in range(n):
        t, A, _, _ = world.request(i)
        begin = time.perf_counter()
        bound = A @ world.theta[t] - 5.0 * np.sqrt(np.sum((A @ V[t]) * A, axis=1))
        int(np.argmax(bound))
        spent[i] = time.perf_counter() - begin
    return {"median_us": 1e6 * float(np.median(spent)), "p99_us": 1e6 * float(np.quantile(spent, 0.99))}


def latency(world: World, n: int) -> Rows:
    bandit = opened(world)
    pairs(bandit, world, n // 4)  # caches warm
    plain = {"what": "plain numpy mean + width, for comparison", **plain_numpy(world, n)}
    return [
        plain,
        {"what": "decide, in memory", **pairs(bandit, world, n), "bar": "≤ 150 µs median, ≤ 600 µs p99"},
    ]


def durable(world: World, n: int) -> Rows:
    rows = []
    for mode, bar in (("normal", "≥ 3,000 pairs/s"), ("full", "≥ 1,000 pairs/s")):
        with tempfile.TemporaryDirectory() as folder:
            with opened(world, path=Path(folder) / "s.banister", durability=mode) as bandit:
                found = pairs(bandit, world, n if mode == "normal" else max(n // 10, 200))
                decisions = bandit._engine.store.decisions
            size = (Path(folder) / "s.banister.ledger").stat().st_size / decisions
            bare = bare_commits(Path(folder), mode.upper(), n if mode == "normal" else max(n // 10, 200))
        more = {"bare_commits_per_s": bare, "bytes_per_decision": size, "bar": bar}
        rows.append({"what": f"decide + reward, durable ({mode})", **found, **more})
    return rows


def batches(world: World, m: int) -> Rows:
    bandit = opened(world)
    t = world.rng.integers(world.tasks, size=m)
    actions = world.sets[world.rng.integers(len(world.sets), size=m)]
    means = np.einsum("mkd,md->mk", actions, world.theta[t])
    index = np.argsort(means, axis=1)[:, -5]
    request = {"baselines": index, "baseline_rewards": means[np.arange(m), index]}
    rates, cpu = [], []
    for _ in range(3):
        begin, begun = time.perf_counter(), time.thread_time()
        out = bandit.decide_many([world.labels[i] for i in t], actions, **request)
        rates.append(m / (time.perf_counter() - begin))
        cpu.append(m / (time.thread_time() - begun))
    certified = float(np.mean([d.certified for d in out]))
    return [{"what": f"decide_many, {m} requests", "per_s": max(rates), "cpu_per_s": max(cpu),
             "certified": certified, "bar": "≥ 20,000 requests/s"}]  # fmt: skip


def refits(world: World, rows: int) -> Rows:
    """Refit, cold and warm, while another thread keeps deciding."""
    bandit = SafeBandit(alpha=0.1, refits="manual", seed=0)
    bandit.warm_start(world.logs(rows), features="x", refit=False)
    found: Rows = []
    for name in ("cold", "warm"):
        waits: list[float] = []
        done = threading.Event()
        thread = threading.Thread(target=keep_deciding, args=(bandit, world, waits, done))
        thread.start()
        begin = time.perf_counter()
        bandit.refit()
        seconds = time.perf_counter() - begin
        done.set()
        thread.join()
        found.append(
            {"what": f"refit, {world.tasks} tasks × {rows} rows, {name}", "seconds": seconds,
             "decisions_meanwhile": len(waits), "longest_wait_ms": 1e3 * max(waits, default=0.0),
             "open": int(sum(t.gate == "open" for t in bandit.status().tasks)), "bar": "≤ 3 s"}
        )  # fmt: skip
    begin = time.perf_counter()
    bandit.refit()
    found.append(
        {"what": "refit, warm, nothing else going on", "seconds": time.perf_counter() - begin, "bar": "≤ 3 s"}
    )
    return found


def keep_deciding(bandit: SafeBandit, world: World, waits: list[float], done: threading.Event) -> None:
    rng = np.random.default_rng(1)
    while not done.is_set():
        t, A = int(rng.integers(world.tasks)), world.sets[len(waits) % len(world.sets)]
        begin = time.perf_counter()
        bandit.decide(world.labels[t], A, baseline=0)
        waits.append(time.perf_counter() - begin)
        time.sleep(0.002)


def main(quick: bool = False, out: Path | None = None) -> Rows:
    """All rows; printed, and written where asked."""
    world = World(100, 20, 10) if quick else World(1000, 100, 50)
    n = 400 if quick else 8000
    rows = latency(world, n) + durable(world, n) + batches(world, 500 if quick else 10_000)
    rows += refits(world, 30 if quick else 200)
    rows += peers(World(20, 20, 10) if quick else World(50, 100, 50), 200 if quick else 1000)
    for row in rows:
        print("  ".join(f"{k}={v:,.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()))
    if out is not None:
        out.write_text(json.dumps(rows, indent=1, ensure_ascii=False))
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    main(options.quick, options.out)
