"""What a belief costs: fits from nothing and from the last one, CPU seconds on one core; many tasks.

python benchmarks/belief.py [--repeat 3]
python benchmarks/belief.py --tasks 10000       # memory and CPU a row; a process for each size
python benchmarks/belief.py --decide [--of 100000] [--signal 1]   # one decision, dense (1,000 tasks), compact
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


def rows(tasks: int, dim: int, n: int, seed: int = 0, signal: float = 0.0) -> Seen:
    """Plays of a baseline in the paper's world, noise 0.1, no baseline reward known.

    The paper's coefficients are orthonormal over tasks, so that of many tasks each is small; a `signal` gives
    every task coefficients of that size instead.
    """
    g = np.random.default_rng(seed)
    basis = np.linalg.qr(g.standard_normal((dim, 2)))[0]
    weights = g.standard_normal((tasks, 2))
    theta = (signal * weights if signal else np.linalg.qr(weights)[0]) @ basis.T
    task = np.repeat(np.arange(tasks), n)
    X = g.standard_normal((tasks * n, dim))
    y = 0.1 * g.standard_normal(tasks * n)
    for first in range(0, len(y), 2**18):  # without a second array of the data's size
        part = slice(first, first + 2**18)
        y[part] += np.einsum("nd,nd->n", X[part], theta[task[part]])
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


def decide(many: int, signal: float, dim: int = 100, n: int = 30) -> None:
    """Microseconds a decision on requests of random tasks, r_b unknown, and bytes of the model a task."""
    print(
        "| tasks | covariances | µs a decision | / dense | certified | kB a task |\n"
        "| --- | --- | --- | --- | --- | --- |"
    )
    settings, learners, sizes = SafeBandit(alpha=0.2).settings, [], []
    for tasks in (1_000, many):
        belief = Believer().believe(rows(tasks, dim, n, signal=signal), tasks, tasks * n)
        learners.append(Learner(Constraint(0.2), Believer(), Memory(dim)))
        learners[-1].use(belief)
        sizes.append(
            len(Model(1, belief, Marks()).to_bytes(settings, [str(t) for t in range(tasks)])) / tasks
        )
    turns = np.array([[asked(learner, turn) for learner in learners] for turn in range(7)])[1:]
    spent, certified = np.median(turns[:, :, 0], axis=0), turns[:, :, 1].mean(axis=0)
    for learner, us, share, size in zip(learners, spent, certified, sizes, strict=True):
        kind = "compact" if isinstance(learner.belief.V, PerTask) else "dense"
        print(
            f"| {learner.belief.n_tasks} | {kind} | {us:.1f} | {us / spent[0]:.2f} | {share:.2f} "
            f"| {size / 1e3:.1f} |"
        )


def asked(learner: Learner, seed: int, actions: int = 50, requests: int = 500) -> tuple[float, float]:
    """Microseconds of CPU a decision, and the share that is certified."""
    g = np.random.default_rng(seed)
    tasks, dim = g.integers(learner.belief.n_tasks, size=requests).tolist(), len(learner.belief.frame.scale)
    listed = [g.standard_normal((actions, dim)) for _ in range(100)]
    began = time.process_time()
    found = [learner.decide_one(t, listed[i % 100], 0, np.nan, np.nan, 0.0)[0] for i, t in enumerate(tasks)]
    spent = time.process_time() - began
    return 1e6 * spent / requests, float(np.mean(np.array(found) >= 0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--decide", action="store_true")
    parser.add_argument("--of", type=int, default=100_000, help="tasks of the compact belief")
    parser.add_argument("--signal", type=float, default=0.0, help="size of coefficients; 0: as in the paper")
    options = parser.parse_args()
    if options.tasks:
        many(options.tasks)
    elif options.decide:
        decide(options.of, options.signal)
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
