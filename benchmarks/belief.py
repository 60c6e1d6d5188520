"""What a belief costs: fits from nothing and from the last one, CPU seconds on one core.

python benchmarks/belief.py [--repeat 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from banister.safety.belief import Believer, Seen

SIZES = ((40, 40, 20), (100, 100, 50), (1000, 50, 200))  # tasks, features, rows a task


def rows(tasks: int, dim: int, n: int, seed: int = 0) -> Seen:
    """Plays of a baseline in the paper's world, noise 0.1, no baseline reward known."""
    g = np.random.default_rng(seed)
    basis = np.linalg.qr(g.standard_normal((dim, 2)))[0]
    theta = np.linalg.qr(g.standard_normal((tasks, 2)))[0] @ basis.T
    task = np.repeat(np.arange(tasks), n)
    X = g.standard_normal((tasks * n, dim))
    y = np.einsum("nd,nd->n", X, theta[task]) + 0.1 * g.standard_normal(tasks * n)
    none, no_rows = np.zeros(0), np.zeros((0, dim))
    plays = task, X, y, np.ones(len(y), dtype=bool), np.full(len(y), np.nan)
    sample = g.integers(0, tasks, 2048), g.standard_normal((2048, dim))
    return Seen(*plays, np.zeros(0, dtype=int), no_rows, none, none, *sample)


def seconds(call: Callable[[], Any], repeat: int) -> float:
    """The least CPU time of several calls."""
    spent = []
    for _ in range(repeat):
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return min(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    believer = Believer()
    print(
        "| tasks × features × rows a task | from nothing, s | from the last belief, s |\n| --- | --- | --- |"
    )
    for tasks, dim, n in SIZES:
        before, now = rows(tasks, dim, n), rows(tasks, dim, n + n // 5)
        last = believer.believe(before, tasks, tasks * n)
        cold = seconds(lambda now=now, t=tasks, n=n: believer.believe(now, t, t * n), repeat)
        warm = seconds(lambda now=now, t=tasks, n=n, b=last: believer.believe(now, t, t * n, b), repeat)
        print(f"| {tasks} × {dim} × {n + n // 5} | {cold:.2f} | {warm:.2f} |", flush=True)


if __name__ == "__main__":
    main()
