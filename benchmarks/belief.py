"""What a belief costs: fits from nothing and from the last one, CPU seconds on one core; many tasks.

python benchmarks/belief.py [--repeat 3]
python benchmarks/belief.py --tasks 10000       # memory and CPU a row; a process for each size
python benchmarks/belief.py --decide            # one decision, dense (1,000 tasks) and compact (20,000)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.online.bandit import SafeBandit
from banister.online.model import Marks, Model
from banister.safety.believer import Believer
from banister.safety.compact import PerTask
from banister.safety.constraint import Constraint
from banister.safety.seen import Seen

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


def many(tasks: int, dim: int = 50, n: int = 30) -> None:
    """CPU a row, and peak memory over that of the data (Linux: the peak is set back before the fit)."""
    Believer().believe(rows(20, 4, 10), 20, 200)  # compiles
    seen = rows(tasks, dim, n)
    data = sum(column.nbytes for column in seen if column is not None)
    before = _memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    began = time.process_time()
    belief = Believer().believe(seen, tasks, tasks * n)
    spent, peak = time.process_time() - began, _memory("VmHWM")
    kind = "compact" if isinstance(belief.V, PerTask) else "dense"
    print("| tasks | µs a row | data, MB | peak of the process, MB | more than before / data | covariances |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(
        f"| {tasks} | {spent / len(seen.y) * 1e6:.1f} | {data / 1e6:.0f} | {peak / 1e6:.0f} "
        f"| {(peak - before) / data:.2f} | {kind} |"
    )


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith(name))


def decide(dim: int = 100, n: int = 30, actions: int = 50, requests: int = 500) -> None:
    """Milliseconds a decision on requests of random tasks, r_b unknown, and bytes of the model a task."""
    print("| tasks | covariances | ms a decision | kB a task |\n| --- | --- | --- | --- |")
    for tasks in (1_000, 20_000):
        belief = Believer().believe(rows(tasks, dim, n), tasks, tasks * n)
        learner = Learner(Constraint(0.2), Believer(), Memory(dim))
        learner.use(belief)
        g = np.random.default_rng(1)
        asked = [(int(g.integers(tasks)), g.standard_normal((actions, dim))) for _ in range(requests)]
        learner.decide_one(*asked[0], 0, np.nan, np.nan, 0.0)  # compiles
        began = time.process_time()
        for task, listed in asked:
            learner.decide_one(task, listed, 0, np.nan, np.nan, 0.0)
        spent = (time.process_time() - began) / requests
        settings = SafeBandit(alpha=0.2).settings
        size = len(Model(1, belief, Marks()).to_bytes(settings, [str(t) for t in range(tasks)]))
        kind = "compact" if isinstance(belief.V, PerTask) else "dense"
        print(f"| {tasks} | {kind} | {spent * 1e3:.3f} | {size / tasks / 1e3:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--decide", action="store_true")
    options = parser.parse_args()
    if options.tasks:
        many(options.tasks)
    elif options.decide:
        decide()
    else:
        fits(options.repeat)


def fits(repeat: int) -> None:
    """Beliefs from nothing and from the last one."""
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
