"""The stress grid: does the certificate hold where its assumptions do not, and what does it cost?

Random cells in families, one hardship each on top of a random choice of noise, alpha and baseline. Beside the
certified policy play the paper's mode and an ungated greedy policy on the same requests.

    python benchmarks/certificate.py [--runs-per-family 40] [--first 0] [--jobs 2] [--families A,B] [--out F]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
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

from banister import SafeAltGDmin, Synthetic, compare
from banister.contract import GREEDY, Choices, Outcomes, Requests
from banister.data import TaskData
from banister.safety.evidence import Evidence
from banister.solver import Passes, Whitening, solve_quick

NOISE = (1e-3, 1e-2, 0.03, 0.1, 0.3)
ALPHA = (0.05, 0.1, 0.2, 0.35, 0.5)
# What a cell has besides noise, alpha and baseline rank; `{}` draws a context law too.
FAMILIES: dict[str, list[dict[str, Any]]] = {
    "plain": [{}],
    "contexts": [{"contexts": c} for c in ("uniform", "correlated", "shifted", "non-negative")],
    "heavy tails": [{"noise_law": "student"}],
    "noise per task": [{"noise_spread": 3.0}],
    "outlier task": [{"outliers": 1}, {"outliers": 2}],
    "ragged traffic": [{"traffic_ratio": 10.0}],
    "noisy r_b": [{"baseline_reward_std": s} for s in (0.01, 0.03, 0.1)],
    "biased r_b": [{"baseline_bias": b, "claimed_std": abs(b)} for b in (0.02, -0.02, 0.05, -0.05)],
    "understated s_b": [{"baseline_reward_std": s, "claimed_std": s / 2} for s in (0.01, 0.03, 0.1)],
    "decaying spectrum": [{"decay": 0.3}, {"decay": 0.5}],
    "rank 1": [{"rank": 1}],
    "rank 3": [{"rank": 3}],
    "rank 5": [{"rank": 5}],
    "kappa": [{"kappa": 5.0}, {"kappa": 20.0}],
    "unknown r_b": [{"baseline_known": False}],
    "unknown r_b, hard": [
        {"baseline_known": False, **k}
        for k in ({"outliers": 1}, {"noise_law": "student"}, {"traffic_ratio": 10.0}, {"kappa": 5.0})
    ],
    "fixed action sets": [{"action_sets": "fixed"}],
    "drift": [{"drift_at": 45, "drift": 1.0}, {"drift_at": 45, "drift": 0.3}],
    "drift, unknown r_b": [{"drift_at": 45, "drift": 1.0, "baseline_known": False}],
    "large": [{"dim": 100, "tasks": 100}, {"dim": 100, "tasks": 100, "baseline_known": False}],
}


class Ungated:
    """Greedy on the pooled fit of all rewards, refitted at the end of each epoch; the true rank is given."""

    block = None

    def __init__(self, rank: int) -> None:
        self.rank, self.theta = rank, None

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        self.n_tasks, self.evidence, self.theta = n_tasks, Evidence(labels=False), None

    def decide(self, requests: Requests) -> Choices:
        if self.theta is None:
            return Choices.of_baseline(requests)
        return Choices.of_index(requests, requests.scores(self.theta).argmax(axis=1), GREEDY)

    def learn(self, outcomes: Outcomes) -> None:
        self.evidence.learn(outcomes)

    def end_epoch(self) -> None:
        plays = self.evidence.plays()
        if plays is None:
            return
        data = TaskData.from_codes(plays.X, plays.y, plays.task, np.arange(self.n_tasks))
        fit = solve_quick(Passes(data, self.rank), Whitening.of(data))
        self.theta = fit.B @ fit.W


def cell(family: str, number: int) -> tuple[dict[str, Any], float, int]:
    """Settings of the environment, alpha and rounds per epoch of one run."""
    rng = np.random.default_rng([list(FAMILIES).index(family), number])
    settings: dict[str, Any] = {"dim": 40, "tasks": 40, "rank": 2, "actions": 10}
    settings["noise_std"] = float(rng.choice(NOISE))
    settings["baseline_rank"] = int(rng.choice((2, 5, 9)))
    alpha, rounds = float(rng.choice(ALPHA)), int(rng.choice((15, 25, 50)))
    hard = FAMILIES[family]
    settings |= hard[number % len(hard)]
    if "drift_at" in settings:
        settings["drift_at"] = 5 * rounds // 2
    return settings, alpha, rounds


def run(family: str, number: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    settings, alpha, rounds = cell(family, number)
    env = Synthetic(**settings)
    policies = {
        "certified": SafeAltGDmin(alpha),
        "paper": SafeAltGDmin(alpha, safety="paper", rank=settings["rank"]),
        "ungated": Ungated(settings["rank"]),
    }
    results = compare(env, policies, epochs=5, rounds=rounds, seed=number, alpha=alpha)
    row: dict[str, Any] = {"family": family, "number": number, "alpha": alpha, "rounds": rounds, **settings}
    for name, result in results.items():
        row[f"{name} violations"] = int(result.violations.sum())
        row[f"{name} regret"] = float(result.regret.sum())
        row[f"{name} shortfall"] = float(result.shortfall.max())
        row[f"{name} seconds"] = float(result.seconds.sum())
    row["opened"] = bool(results["certified"].certified.sum() > 0)
    row["certified late"] = float(results["certified"].certified[1:].mean())
    row["certified violations by epoch"] = results["certified"].violations.tolist()
    return row


def report(rows: list[dict[str, Any]], console: Console) -> None:
    table = Table(
        "family", "runs", "opened", "violating", "ungated", "paper", "regret / ungated", "certified late"
    )
    groups = [(f, [r for r in rows if r["family"] == f]) for f in FAMILIES]
    for name, group in [*groups, ("all", rows)]:
        if not group:
            continue
        opened = [r for r in group if r["opened"]]
        price = [r["certified regret"] / r["ungated regret"] for r in opened if r["ungated regret"] > 0]
        counts = [sum(r[f"{p} violations"] > 0 for r in group) for p in ("certified", "ungated", "paper")]
        late = np.mean([r["certified late"] for r in group])
        table.add_row(
            name, str(len(group)), str(len(opened)), *map(str, counts),
            f"{np.median(price):.2f}" if price else "-", f"{late:.0%}",
        )  # fmt: skip
    console.print(table)
    for known in (True, False):
        some = [r for r in rows if r["opened"] and r.get("baseline_known", True) is known]
        if some:
            price = np.median([r["certified regret"] / r["ungated regret"] for r in some])
            console.print(f"median regret over ungated, r_b {'known' if known else 'unknown'}: {price:.2f}")
    loud = [r for r in rows if r["noise_std"] == 0.1 and r.get("baseline_known", True)]
    if loud:
        late = np.mean([r["certified late"] for r in loud])
        console.print(f"certified after epoch 1 at noise 0.1, r_b known: {late:.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs-per-family", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first run; others are new cells")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--families", default=",".join(f.replace(",", ";") for f in FAMILIES))
    parser.add_argument("--out", type=Path, default=Path("bench-certificate.json"))
    options = parser.parse_args()
    names = [f.replace(";", ",") for f in options.families.split(",")]
    unknown = set(names) - set(FAMILIES)
    if unknown:
        sys.exit(f"unknown families {sorted(unknown)}; there are: {'; '.join(FAMILIES)}")
    jobs = [(f, n) for n in range(options.first, options.first + options.runs_per_family) for f in names]
    work = Parallel(n_jobs=options.jobs, return_as="generator_unordered")(delayed(run)(*j) for j in jobs)
    rows = list(track(work, description="runs", total=len(jobs)))
    rows.sort(key=lambda r: (names.index(r["family"]), r["number"]))
    options.out.write_text(json.dumps(rows, indent=1))
    report(rows, Console(width=150))


if __name__ == "__main__":
    main()
