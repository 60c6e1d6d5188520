"""A store in PostgreSQL, served by 1, 2 and 4 processes: durable pairs (decide + reward) a second.

    python benchmarks/postgres.py postgresql://user@host/database [--pairs 2000] [--out bench-postgres.json]

Run with OMP_NUM_THREADS=1, against a server on the same machine. Every process opens the store for itself and
plays its own requests; the clock runs from the moment when all are ready until the last is done. Beside it is
what a pair takes of the processor, here and in the server's own process, and what the same machine gives at
that moment without a bandit: one-row commits of plain SQL by as many processes, and pairs of a store in
SQLite. Afterwards the ledger is audited.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import secrets
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from banister import SafeBandit

TASKS, DIM, ACTIONS = 50, 20, 10
SPAWN = multiprocessing.get_context("spawn")


class World:
    """Tasks that share two directions."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(0)
        self.theta = (np.linalg.qr(rng.standard_normal((DIM, 2)))[0] @ rng.standard_normal((2, TASKS))).T
        self.rng = np.random.default_rng(seed)
        self.sets = self.rng.standard_normal((256, ACTIONS, DIM))

    def logs(self, rows: int) -> dict[str, Any]:
        task = np.repeat(np.arange(TASKS), rows)
        X = self.rng.standard_normal((len(task), DIM))
        y = np.einsum("nd,nd->n", X, self.theta[task]) + 0.1 * self.rng.standard_normal(len(task))
        return {"task": [f"task-{t}" for t in task], "reward": y, "x": X}

    def play(self, bandit: SafeBandit, pairs: int) -> None:
        for i in range(pairs):
            t, A = int(self.rng.integers(TASKS)), self.sets[i % len(self.sets)]
            mean = A @ self.theta[t]
            k = int(np.argsort(mean)[-5])
            d = bandit.decide(f"task-{t}", A, baseline=k, baseline_reward=float(mean[k]))
            bandit.reward(d.id, float(mean[d.action] + 0.1 * self.rng.standard_normal()))


def made(place: str, durability: Any) -> None:
    """A store whose gates are open."""
    with SafeBandit(alpha=0.1, path=place, refits="manual", durability=durability, seed=0) as bandit:
        bandit.warm_start(World(0).logs(60), features="x")


def cpu(bandit: SafeBandit) -> tuple[float, float]:
    """Seconds of the processor so far: of this process, and of the server's process that works for it."""
    db = bandit._engine.store.ledger._db
    stat = Path(f"/proc/{db.info.backend_pid}/stat") if hasattr(db, "info") else Path("")
    if not stat.is_file():
        return time.process_time(), float("nan")
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return time.process_time(), (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def serve(place: str, seed: int, pairs: int, spent: Any, ready: Any, done: Any) -> None:
    with SafeBandit.load(place) as bandit:
        world = World(seed)
        world.play(bandit, 20)  # caches warm
        ready.wait()
        begin = cpu(bandit)
        world.play(bandit, pairs)
        spent.put(tuple(1e6 * (b - a) / pairs for a, b in zip(begin, cpu(bandit), strict=True)))
        done.wait()


def together(place: str, processes: int, pairs: int) -> tuple[float, float, float]:
    """Pairs a second of all processes; µs of the processor a pair, here and in the server."""
    spent = SPAWN.Queue()
    each = pairs // processes
    seconds = timed(serve, [(place, seed, each, spent) for seed in range(1, processes + 1)])
    here, server = np.mean([spent.get() for _ in range(processes)], axis=0)
    return each * processes / seconds, float(here), float(server)


def timed(work: Any, calls: list[tuple[Any, ...]]) -> float:
    """Seconds from the moment when all processes are ready until the last is done."""
    ready, done = SPAWN.Barrier(len(calls) + 1), SPAWN.Barrier(len(calls) + 1)
    children = [SPAWN.Process(target=work, args=(*call, ready, done)) for call in calls]
    for child in children:
        child.start()
    ready.wait()
    begin = time.perf_counter()
    done.wait()
    seconds = time.perf_counter() - begin
    for child in children:
        child.join()
    return seconds


def insert(url: str, table: str, first: int, commits: int, ready: Any, done: Any) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET synchronous_commit = off")
        ready.wait()
        for i in range(first, first + commits):
            db.execute(f"INSERT INTO {table} VALUES (%b, %b)", (i, b"x" * 400), prepare=True)
        done.wait()


def bare(url: str, processes: int, commits: int) -> float:
    """One-row commits a second of plain SQL here and now: no head, no chain, nothing to follow."""
    import psycopg

    table, each = f"bare_{secrets.token_hex(4)}", commits // processes
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, x bytea)")
        seconds = timed(insert, [(url, table, i * each, each) for i in range(processes)])
        db.execute(f"DROP TABLE {table}")
    return each * processes / seconds


def main(url: str, pairs: int, rounds: int) -> list[dict[str, Any]]:
    """Rounds of all sizes in turn, so that a busy moment does not fall on one of them alone."""
    rows = []
    for durability in ("normal", "full"):
        found: dict[int, list[tuple[float, float, float]]] = {1: [], 2: [], 4: []}
        plain: dict[int, list[float]] = {n: [] for n in found}
        place = f"{url}{'&' if '?' in url else '?'}store=bench_{secrets.token_hex(4)}"
        made(place, durability)
        for _ in range(rounds):
            for processes, tries in found.items():
                tries.append(together(place, processes, pairs if durability == "normal" else pairs // 4))
                plain[processes].append(bare(url, processes, pairs))
        with SafeBandit.open_read_only(place) as bandit:
            passed = bandit.audit().passed
        best = {n: max(speed for speed, _, _ in tries) for n, tries in found.items()}
        rows.append(
            {
                "durability": durability, "pairs_per_s": best,
                "all": found, "load": os.getloadavg()[0],
                "four_over_one": best[4] / best[1],
                "bare_commits_per_s": {n: max(tries) for n, tries in plain.items()},
                "audit_passed": passed,
            }
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "s.banister")
        made(place, "normal")
        rows.append({"durability": "SQLite, normal", "pairs_per_s": {1: together(place, 1, pairs)[0]}})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    result = main(options.url, options.pairs, options.rounds)
    for row in result:
        print(json.dumps(row))
    if options.out is not None:
        options.out.write_text(json.dumps(result, indent=1))
