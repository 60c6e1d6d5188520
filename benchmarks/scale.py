"""Past one process: what the bars of the solver's pools measure on this machine.

    python benchmarks/scale.py [section …] [--tasks 1000000] [--folder /tmp/banister-scale] [--out scale.json]

Sections: one_fit, auto, disk, shards, estimate, ray. Ratios compare things timed in turns, by processor
time, which other jobs on the machine disturb least. `disk` writes some 4 GB and removes them afterwards.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from banister.data import Float, TaskData
from banister.errors import BanisterWarning
from banister.estimators import search
from banister.estimators.altgdmin import AltGDmin
from banister.estimators.paper import spectral_init, task_least_squares
from banister.estimators.rank import scan_ranks
from banister.solver import DiskPool, LocalPool, Passes, Point, RayPool, Whitening, block, solve
from banister.solver.block import Block
from banister.solver.folder import Writer
from designs import gaussian
from rivals import lbfgs_seconds

Figures = dict[str, Any]


def main(sections: list[str], tasks: int, folder: Path, out: Path | None) -> None:
    """Measure and print; JSON goes to `out`."""
    warnings.simplefilter("ignore", BanisterWarning)
    known: dict[str, Callable[[], Figures]] = {
        "one_fit": one_fit,
        "auto": auto,
        "disk": lambda: disk(tasks, folder),
        "shards": shards,
        "estimate": estimate,
        "ray": ray,
    }
    found: dict[str, Figures] = {}
    with threadpool_limits(1):
        for name in sections or list(known):
            found[name] = known[name]()
            print(json.dumps({name: found[name]}, ensure_ascii=False), flush=True)
    if out is not None:
        out.write_text(json.dumps(found, indent=1, ensure_ascii=False))


def one_fit() -> Figures:
    """d = T = 100, r = 2, 50 rows a task, noise 1e-3, against ridge solves in a loop, and L-BFGS."""
    data, _ = gaussian()(0)
    model, auto_model = AltGDmin(rank=2, threads=1), AltGDmin(threads=1)
    model.fit_data(data)
    B = spectral_init(data, 2)[0]
    W = task_least_squares(data, B)
    rival: list[float] = []

    def lbfgs() -> None:
        rival.append(lbfgs_seconds(data, B, W, model.objective_ * (1 + 1e-8))[0])

    ours, ridge, ranked, alone, _, kernels = in_turns(
        lambda: model.fit_data(data),
        lambda: ridge_loop(data),
        lambda: auto_model.fit_data(data),
        lambda: solve(Passes(data, 2, threads=1), Whitening.of(data), rng=np.random.default_rng(0)),
        lbfgs,
        lambda: bare_passes(data, model),
        repeats=25,
    )
    return {
        "fit, ms": 1e3 * ours,
        "fit / ridge loop (≤ 1.0)": ours / ridge,
        "auto / fit (≤ 3)": ranked / ours,
        "L-BFGS / fit": min(rival) / ours,
        "L-BFGS / solve alone (≥ 2)": min(rival) / alone,
        "L-BFGS / the passes of that solve and nothing else": min(rival) / kernels,
    }


def ridge_loop(data: TaskData) -> Float:
    """What one would write first: a ridge regression for each task."""
    theta = np.empty((data.n_tasks, data.dim))
    for t, (X, y) in enumerate(data):
        theta[t] = np.linalg.solve(X.T @ X + 1e-3 * np.eye(data.dim), X.T @ y)
    return theta


def bare_passes(data: TaskData, model: AltGDmin) -> None:
    """As many gradients and Hessian products as the fit took, with no arithmetic between them."""
    pool, point = LocalPool(data, threads=1), Point(model.B_)
    for _ in range(model.n_iter_ + 1):
        pool.gradient(point)
    for _ in range(model.n_passes_ - model.n_iter_ - 1):
        pool.hessian(point, model.B_)


def auto() -> Figures:
    """rank="auto" at T = 10,000: a sample first, against a scan over all tasks."""
    rows: Figures = {}
    for kind in ("isotropic", "ragged", "correlated", "weak", "noisy"):
        data = many_tasks(kind)
        begin = time.process_time()
        model = AltGDmin(threads=1).fit_data(data)
        ours = time.process_time() - begin
        begin = time.process_time()
        whole = scan_ranks(data, Whitening.of(data), rng=np.random.default_rng(0), threads=1)
        exact = _without_sample(
            lambda data=data, rank=whole.rank: AltGDmin(rank=rank, threads=1).fit_data(data)
        )
        theirs = time.process_time() - begin
        gap = float(np.abs(model.theta_ - exact.theta_).max()) if model.rank_ == whole.rank else np.nan
        rows[kind] = {
            "rank": model.rank_,
            "rank over all": whole.rank,
            "seconds": ours,
            "over all / ours": theirs / ours,
            "largest difference of Θ": gap,
        }
    return rows


def _without_sample(work: Callable[[], Any]) -> Any:
    many, search.MANY = search.MANY, sys.maxsize
    try:
        return work()
    finally:
        search.MANY = many


def many_tasks(kind: str = "isotropic", T: int = 10_000, d: int = 50, n: int = 30, r: int = 4) -> TaskData:
    """Tasks of a rank-r truth: plain, ragged, with correlated features, weak directions or much noise."""
    rng = np.random.default_rng(0)
    B, W = np.linalg.qr(rng.standard_normal((d, r)))[0], rng.standard_normal((r, T))
    W *= np.geomspace(1.0, 0.05, r)[:, None] if kind == "weak" else 1.0
    counts = np.geomspace(1, 100, T).astype(int) if kind == "ragged" else np.full(T, n)
    tasks = np.repeat(np.arange(T), counts)
    X = rng.standard_normal((len(tasks), d))
    if kind == "correlated":
        X = X @ (np.linalg.qr(rng.standard_normal((d, d)))[0] * np.geomspace(1.0, 1e-2, d)).T
    noise = 2.0 if kind == "noisy" else 0.1
    y = np.einsum("ij,ji->i", X, (B @ W)[:, tasks]) + noise * rng.standard_normal(len(tasks))
    return TaskData.from_codes(X, y, tasks, np.arange(T))


def disk(tasks: int, folder: Path) -> Figures:
    """Tasks × 20 rows × d = 50 in float32 from disk: memory of the fit, and processor time of a pass."""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        write_rows(folder, tasks)
        size = sum(f.stat().st_size for f in folder.iterdir())
        shown = subprocess.run(
            [sys.executable, __file__, "--peak", str(folder)], capture_output=True, text=True, check=True
        )
        return {"tasks": tasks, "GB on disk": size / 1e9, **json.loads(shown.stdout), **pass_costs(folder)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_rows(folder: Path, T: int, n: int = 20, d: int = 50, r: int = 4) -> None:
    """A packed folder of Gaussian rows of a rank-r truth, made block by block."""
    rng, step = np.random.default_rng(0), 20_000
    B = np.linalg.qr(rng.standard_normal((d, r)))[0]
    names = [f"x{j}" for j in range(d)]
    with Writer(folder, np.arange(T), np.full(T, n), names, np.float32) as writer:
        for first in range(0, T, step):
            tasks = np.repeat(np.arange(first, min(first + step, T)), n)
            X = rng.standard_normal((len(tasks), d), dtype=np.float32)
            theta = rng.standard_normal((min(step, T - first), r)) @ B.T
            y = np.einsum("ij,ij->i", X, theta[tasks - first]) + 0.1 * rng.standard_normal(len(tasks))
            writer.write(X, y.astype(np.float32), tasks)


def peak(folder: Path) -> None:
    """Fit a packed folder in this process and print its peak memory."""
    begin, cpu = time.perf_counter(), time.process_time()
    model = AltGDmin(rank=4, dtype="float32").fit_data(DiskPool(folder))
    figures = {
        "fit, peak GB (≤ 2)": _peak_bytes() / 1e9,
        "fit, seconds": time.perf_counter() - begin,
        "fit, CPU seconds": time.process_time() - cpu,
        "passes over all": model.n_passes_,
        "converged": model.converged_,
        "noise (0.1)": model.noise_std_,
    }
    print(json.dumps(figures))


def _peak_bytes() -> int:
    """The most memory this process has held (Linux); getrusage would count the parent's before the exec."""
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def pass_costs(folder: Path, share: int = 10) -> Figures:
    """CPU of a pass a row: from disk, and in memory for one task in `share`."""
    pool = DiskPool(folder, threads=1)
    few = LocalPool(pool.take(np.arange(pool.n_tasks // share)), threads=1)
    B = np.linalg.qr(np.random.default_rng(1).standard_normal((pool.dim, 4)))[0]
    D, figures = np.ones((pool.dim, 4)), {}
    for name, ask in (
        ("gradient", lambda p, i: p.gradient(Point(B * (1 + i)))),
        ("hessian", lambda p, i: p.hessian(Point(B * 3), D)),
    ):
        turn = iter(range(100))
        far, near = in_turns(
            lambda ask=ask, turn=turn: ask(pool, next(turn)),
            lambda ask=ask, turn=turn: [ask(few, next(turn)) for _ in range(3)],
            repeats=3,
        )
        figures[f"{name}, ns a row from disk"] = 1e9 * far / pool.n_rows
        figures[f"{name}, disk / memory (≤ 1.5)"] = far / pool.n_rows / (near / 3 / few.n_rows)
    return figures


def shards() -> Figures:
    """The slowest shard of each pass, T = 10,000: what as many machines would take, without the network."""
    data = many_tasks()
    pool = LocalPool(data, threads=1)
    blocks = pool._blocks
    B = np.linalg.qr(np.random.default_rng(1).standard_normal((pool.dim, 4)))[0]
    point, D = Point(B), np.ones((pool.dim, 4))
    seconds = np.min([[_timed(lambda b=b: b.gradient(point)) for b in blocks] for _ in range(7)], axis=0)
    seconds = seconds + np.min(
        [[_timed(lambda b=b: b.hessian(point, D, False)) for b in blocks] for _ in range(7)], axis=0
    )
    whole = float(seconds.sum())
    figures: Figures = {"blocks": len(blocks), "gradient + hessian, ms": 1e3 * whole}
    one = Block(0, data.n_tasks, 0, lambda: nullcontext(data))
    together, apart = in_turns(
        lambda: (one.gradient(point), one.hessian(point, D, False)),
        lambda: (pool.gradient(point), pool.hessian(point, D)),
        repeats=7,
    )
    figures["CPU in blocks / in one piece (≤ 1.15)"] = apart / together
    for count in (2, 8, 32):
        slowest = max(float(part.sum()) for part in np.array_split(seconds, count))
        figures[f"speed-up at {count} shards"] = whole / slowest
    return figures


def estimate(T: int = 10_000_000, n: int = 20, d: int = 256, r: int = 8, machines: int = 100) -> Figures:
    """Ten million tasks on a hundred machines, from the cost of a row measured here."""
    few = TaskData(*_rows_like(4000, n, d), np.arange(4001) * n, np.arange(4000))
    pool, point = LocalPool(few, threads=1), Point(np.linalg.qr(np.eye(d, r) + 0.1)[0])
    D = np.ones((d, r))
    gradient, hessian = in_turns(lambda: pool.gradient(point), lambda: pool.hessian(point, D), repeats=5)
    rows, blocks = T * n / machines, -(-T * n * d // block._LARGE)
    fit = 6 * gradient + 14 * hessian  # a fit of 20 passes
    floats, doubles = 4, 8
    return {
        "gradient, ns a row": 1e9 * gradient / few.n_rows,
        "hessian, ns a row": 1e9 * hessian / few.n_rows,
        "GB of rows a machine": rows * d * floats / 1e9,
        "GB of workspaces a machine": (rows * r + T / machines * d) * floats / 1e9
        + T / machines * (r + r * r) * doubles / 1e9,
        "blocks": blocks,
        "kB down, a machine and trip": 2 * d * r * doubles / 1e3,
        "MB up, all machines, a trip": blocks * (d * r + r * r) * doubles / 1e6,
        "seconds of arithmetic a fit, one core a machine": fit / few.n_rows * rows,
        "MB of the served W": T * r * doubles / 1e6,
        "GB of posterior covariances": T * r * r * doubles / 1e9,
    }


def _rows_like(T: int, n: int, d: int) -> tuple[Float, Float]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((T * n, d), dtype=np.float32)
    return X, X[:, 0] + rng.standard_normal(T * n, dtype=np.float32)


def ray(times: int = 20) -> Figures:
    """A worker killed at a random trip, again and again: the same Θ; and what a trip costs."""
    import ray as cluster

    data = many_tasks(T=3000, d=20, n=20, r=3)
    expected = AltGDmin(rank=3, threads=1).fit_data(data).theta_
    rng, worst, trips = np.random.default_rng(0), 0.0, []
    with RayPool(data, shards=2) as pool:
        pool.watch = trips.append
        model = AltGDmin(rank=3).fit_data(pool)
        quiet = [trip.seconds for trip in trips]
        worst = float(np.abs(model.theta_ - expected).max())
        for _ in range(times):
            pool.watch = _killer(pool, cluster, int(rng.integers(1, len(quiet) - 1)), int(rng.integers(2)))
            model = AltGDmin(rank=3).fit_data(pool)
            worst = max(worst, float(np.abs(model.theta_ - expected).max()))
    return {
        "fits with a worker killed": times,
        "largest difference of Θ": worst,
        "trips a fit": len(quiet),
        "median trip, ms": 1e3 * float(np.median(quiet)),
    }


def _killer(pool: RayPool, cluster: Any, trip: int, worker: int) -> Callable[[Any], None]:
    """Kill one worker after so many trips."""
    left = [trip]

    def watch(_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            cluster.kill(pool._workers[worker], no_restart=False)

    return watch


def in_turns(*works: Callable[[], Any], repeats: int) -> list[float]:
    """The best processor time of each, measured in turns so that a noisy neighbour hits all alike."""
    for work in works:
        work()
    best = [np.inf] * len(works)
    for _ in range(repeats):
        for i, work in enumerate(works):
            best[i] = min(best[i], _timed(work))
    return best


def _timed(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/banister-scale"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.peak)
    else:
        main(options.sections, options.tasks, options.folder, options.out)
