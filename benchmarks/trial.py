"""The paper's default setting: is it safe, how much regret is paid, and how fast is a trial?

    python benchmarks/trial.py [--seeds 100] [--jobs 2] [--out FILE]

Times are ratios within one process, by processor seconds, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("BANISTER_THREADS", "1")
import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.progress import track
from rich.table import Table

from banister import AltGDminGreedy, SafeAltGDmin, Synthetic, simulate
from banister.contract import Requests
from banister.simulation.trial import one_trial


def trial(seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    policies = {"certified": SafeAltGDmin(0.2), "converged": SafeAltGDmin(0.2, safety="converged")}
    out: dict[str, Any] = {"seed": seed}
    for name, r in one_trial(Synthetic(), policies, seed=seed).items():
        out[name] = {"regret": r.regret.tolist(), "violations": int(r.violations.sum()), "error": r.error[-1]}
    return out


def seconds(work: Callable[[], Any], times: int = 5) -> float:
    best = np.inf
    for _ in range(times):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def speed() -> dict[str, float]:
    warnings.simplefilter("ignore")
    env = Synthetic()
    draw = seconds(lambda: np.random.default_rng(0).standard_normal(20_000_000))
    runs = {
        "converged": SafeAltGDmin(0.2, safety="converged"),
        "certified": SafeAltGDmin(0.2),
        "ungated": AltGDminGreedy(rank=2),
    }
    spent = {}
    for name, policy in runs.items():
        simulate(env, policy, seed=0)  # compiles
        spent[name] = seconds(lambda p=policy: simulate(env, p, seed=0), 3)
    return {
        "converged trial / draws": spent["converged"] / draw,
        "certified trial / draws": spent["certified"] / draw,
        "certified / ungated": spent["certified"] / spent["ungated"],
        **decisions(env),
    }


def decisions(env: Synthetic) -> dict[str, float]:
    """Certified decisions a second against batched numpy that scores mean and width of every action."""
    policy = SafeAltGDmin(0.2)
    simulate(env, policy, epochs=2, seed=0)
    learner = policy._mode.learner
    theta, V = learner.belief.theta, learner.belief.V[:, : env.dim, : env.dim]
    known = env.requests(50, np.random.default_rng(1))
    unknown = replace(known, baseline_reward=np.full(len(known), np.nan))
    order = np.argsort(known.task, kind="stable")

    def batched() -> np.ndarray:
        X = known.actions[order].reshape(env.tasks, -1, env.dim)
        return (X @ theta[:, :, None])[..., 0] - 3 * np.sqrt(((X @ V) * X).sum(axis=-1))

    def judged(q: Requests) -> float:
        r, std = q.baseline_reward, np.asarray(q.baseline_reward_std)
        x, index = q.baseline_features(), q.baseline_index()
        return seconds(lambda: learner.decide(q.task, q.actions, index, x, r, r, std))

    actions, numpy_way = known.actions.shape[0] * known.actions.shape[1], seconds(batched)
    return {
        "million actions a second, numpy": actions / numpy_way / 1e6,
        "decisions over numpy, r_b known": numpy_way / judged(known),
        "decisions over numpy, r_b unknown": numpy_way / judged(unknown),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("bench-trial.json"))
    options = parser.parse_args()
    figures = speed()
    work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(
        delayed(trial)(s) for s in range(options.seeds)
    )
    rows = list(track(work, description="trials", total=options.seeds))
    paper, ours = ([r[n] for r in rows] for n in ("converged", "certified"))
    ratios = [sum(c["regret"]) / sum(p["regret"]) for c, p in zip(ours, paper, strict=True)]
    table = Table("what", "bar", "measured")
    table.add_row("runs with a violation, converged mode", "0", str(sum(p["violations"] > 0 for p in paper)))
    table.add_row("runs with a violation, certified", "0", str(sum(c["violations"] > 0 for c in ours)))
    late = max(sum(p["regret"][1:]) / p["regret"][0] for p in paper)
    table.add_row("converged mode: regret after epoch 1 / epoch 1, worst", "≤ 0.1 %", f"{late:.2%}")
    table.add_row(
        "certified regret / converged mode's, mean (worst)",
        "≤ 0.4",
        f"{np.mean(ratios):.3f} ({max(ratios):.3f})",
    )
    for name, group in (("converged mode", paper), ("certified", ours)):
        errors = [g["error"] for g in group]
        table.add_row(f"Err-Θ, {name}, mean (worst)", "≤ 0.003", f"{np.mean(errors):.2g} ({max(errors):.2g})")
    bars = ["≤ 3", "≤ 3", "≤ 3", "", "≥ 1", "≥ 1"]
    for (name, value), bar in zip(figures.items(), bars, strict=True):
        table.add_row(name, bar, f"{value:.2f}")
    options.out.write_text(json.dumps({"speed": figures, "trials": rows}, indent=1))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
