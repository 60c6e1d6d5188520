"""What raw contexts cost: a decision, and the feature rows of a log of a million rows with 20 columns.

    python benchmarks/features.py [--rows 1000000]

Each measurement runs in a process of its own; memory is the peak above what the frame itself took.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import numpy as np
import polars as pl

import banister as bn

ARMS = [f"arm-{i}" for i in range(5)]
NUMERIC = [f"n{i}" for i in range(15)]
CATEGORICAL = [f"c{i}" for i in range(5)]  # of 5 categories each; every tenth number and category is a gap
STORES = 40


def frame(n: int) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    columns = {name: pl.Series(name, rng.normal(50, 9, n)) for name in NUMERIC}
    levels = np.array(["ios", "web", "app", "tv", "shop"])
    columns |= {name: pl.Series(name, levels[rng.integers(5, size=n)]) for name in CATEGORICAL}
    gaps = pl.Series(rng.random(n) < 0.1)
    table = pl.DataFrame(columns).with_columns(
        pl.when(gaps).then(None).otherwise(pl.col("n0")).alias("n0"),
        pl.when(gaps).then(None).otherwise(pl.col("c0")).alias("c0"),
    )
    played = rng.integers(5, size=n)
    arm = np.array(ARMS)[played]
    young = (50 - table["n1"].to_numpy()) / 9
    revenue = 3 + np.linspace(-0.5, 0.5, 5)[played] * young + 0.05 * rng.standard_normal(n)
    store = np.array([f"store-{i}" for i in range(STORES)])[rng.integers(STORES, size=n)]
    return table.with_columns(arm=arm, store=store, revenue=revenue)


def arms(**options: object) -> bn.Arms:
    return bn.Arms(ARMS, numeric=NUMERIC, categorical=CATEGORICAL, **options)


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def log_build(n: int, *, whole: bool) -> dict[str, float]:
    """Learn scales and categories, then make every feature row: in stretches, or all at once."""
    table = frame(n)
    arms().learn(table.head(1000))  # imports
    before, began = peak(), perf_counter()
    made = arms().learn(table)
    learned = perf_counter() - began
    if whole:
        made.rows(table, "arm")
    else:
        gram = np.zeros((made.dim, made.dim))
        for _, X in made.blocks(table, "arm"):
            gram[0] += X[0]
    return {
        "rows": n, "dim": made.dim, "frame MB": table.estimated_size() / 2**20, "learn s": learned,
        "all s": perf_counter() - began, "peak MB over the frame": peak() - before,
    }  # fmt: skip


def decisions(n: int, **options: object) -> dict[str, float]:
    """The median and the 99th percentile of a decision from a raw context, and of its parts."""
    table = frame(20_000)
    bandit = bn.SafeBandit(alpha=0.1, features=arms(**options), refits="manual", seed=0)
    bandit.warm_start(table, task="store", arm="arm", reward="revenue", baseline="arm-2")
    contexts = table.head(n).select(*NUMERIC, *CATEGORICAL).to_dicts()
    both: list[list[float]] = [[], []]
    certified = 0
    for i, context in enumerate(contexts):
        began = perf_counter()
        bandit.features.actions(context)
        made = perf_counter()
        d = bandit.decide(f"store-{i % STORES}", context=context, baseline="arm-2")
        both[0].append(made - began)
        both[1].append(perf_counter() - made)
        certified += d.certified and d.arm != "arm-2"
    features, decide = (np.array(times) * 1e6 for times in both)
    return {
        "dim": bandit.features.dim, "left the baseline": certified / len(contexts),
        "features µs": float(np.median(features)),
        "decide µs": float(np.median(decide)), "decide p99 µs": float(np.quantile(decide, 0.99)),
    }  # fmt: skip


def warm_start(n: int, *, refit: bool, on_disk: bool) -> dict[str, float]:
    """Take a log in: read, made into rows, written down, remembered; and the fit that follows."""
    table = frame(n)
    columns = {"task": "store", "arm": "arm", "reward": "revenue", "baseline": "arm-2"}
    bn.SafeBandit(alpha=0.1, features=arms(), seed=0).warm_start(table.head(2000), **columns)  # kernels
    with TemporaryDirectory() as folder:
        path = Path(folder) / "shop.banister" if on_disk else None
        bandit = bn.SafeBandit(alpha=0.1, features=arms(), path=path, refits="manual", seed=0)
        before, began, cpu = peak(), perf_counter(), process_time()
        bandit.warm_start(table, refit=refit, **columns)
        found = {
            "rows": n, "frame MB": table.estimated_size() / 2**20, "s": perf_counter() - began,
            "CPU s": process_time() - cpu, "peak MB over the frame": peak() - before,
        }  # fmt: skip
        bandit.close()
    return found


PARTS = {
    "decide, raw context, 5 arms, 20 columns": lambda n: decisions(5000),
    "the same, without a shared part, 8 columns the arms' own": lambda n: decisions(
        5000, shared=False, own=NUMERIC[:8]
    ),
    "warm start without the fit": lambda n: warm_start(n, refit=False, on_disk=False),
    "warm start with the fit": lambda n: warm_start(n, refit=True, on_disk=False),
    "warm start with the fit, on disk": lambda n: warm_start(n, refit=True, on_disk=True),
    "log in stretches": lambda n: log_build(n, whole=False),
    "log as one array": lambda n: log_build(n, whole=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--part")
    given = parser.parse_args()
    if given.part:
        print(json.dumps(PARTS[given.part](given.rows)))
        return
    for part in PARTS:
        command = [sys.executable, __file__, "--rows", str(given.rows), "--part", part]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(part + ":", ", ".join(f"{k} {v:.4g}" for k, v in found.items()))


if __name__ == "__main__":
    main()
