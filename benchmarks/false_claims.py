"""How often a bound by betting claims what is false, checked after every reward.

    python benchmarks/false_claims.py --paths 10000

Every task of one budget is a path. A claim is false if the bound exceeds the true savings at any step. The
nominal rate is 5 %; far below a fifth of it a bound would be needlessly wide. "p" is the probability off the
baseline, "rest" what the other actions earn.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from banister.safety.betting import Budget, BudgetSettings
from banister.safety.uplift import Uplift

ALPHA = 0.1
Float = Any
CELLS = {
    "clicks, all equal": {"base": 0.15, "rest": 0.15, "p": 0.1, "steps": 1500},
    "clicks, others worse": {"base": 0.15, "rest": 0.1, "p": 0.1, "steps": 1500},
    "clicks, others better": {"base": 0.15, "rest": 0.2, "p": 0.1, "steps": 1500},
    "clicks, left often": {"base": 0.15, "rest": 0.15, "p": 0.5, "steps": 3000},
    "revenue, all equal": {"base": 0.05, "rest": 0.05, "p": 0.1, "steps": 3000, "money": True},
}


def rewards(rate: Float, money: bool, rng: np.random.Generator) -> Float:
    """Clicks, or log-normal amounts of mean 1 in units of which the range is (0, 10)."""
    hit = rng.random(len(rate)) < rate
    if not money:
        return hit.astype(np.float64)
    return hit * np.minimum(np.exp(0.8 * rng.standard_normal(len(rate)) - 0.32), 10.0)


def budget_cell(
    paths: int, *, base: float, rest: float, p: float, steps: int, money: bool = False, seed: int = 0
) -> float:
    """The share of paths with a false claim on savings."""
    rng = np.random.default_rng(seed)
    high = 10.0 if money else 1.0
    mean_amount = _mean_amount() if money else 1.0
    budget = Budget(paths, BudgetSettings(alpha=ALPHA, low=0.0, high=high, alarm=0.0))
    task, pi_b, none, free = (
        np.arange(paths),
        np.full(paths, 1 - p),
        np.full(paths, np.nan),
        np.full(paths, ALPHA),
    )
    step_saving = mean_amount * ((1 - p) * base + p * rest - (1 - ALPHA) * base)
    false = np.zeros(paths, dtype=bool)
    for _ in range(steps):
        played = rng.random(paths) < 1 - p
        y = rewards(np.where(played, base, rest), money, rng)
        budget.update_many(task, played, y, pi_b, none, free)
        counted = budget.sums[:-1, 5]  # rewards since the rates were set
        false |= budget.bounds()[:-1] > counted * step_saving + 1e-9
    return float(false.mean())


def uplift_cell(paths: int, *, p: float = 0.5, steps: int = 1500, seed: int = 1) -> float:
    """The share of paths whose interval for the uplift ever misses the truth."""
    rng = np.random.default_rng(seed)
    uplift = Uplift(paths, low=0.0, high=1.0)
    task, pi_b, k = np.arange(paths), np.full(paths, 1 - p), np.full(paths, 0.15)
    missed = np.zeros(paths, dtype=bool)
    for _ in range(steps):
        played = rng.random(paths) < 1 - p
        y = rewards(np.where(played, 0.15, 0.2), False, rng)
        uplift.update_many(task, played, y, pi_b, k, np.full(paths, np.nan), k)
        low, high = uplift.intervals()
        missed |= (low[:-1] > 0.05 * p) | (high[:-1] < 0.05 * p)
    return float(missed.mean())


def _mean_amount() -> float:
    z = np.random.default_rng(99).standard_normal(4_000_000)
    return float(np.minimum(np.exp(0.8 * z - 0.32), 10.0).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--paths", type=int, default=10_000)
    options = parser.parse_args()
    cells = {name: (budget_cell, cell) for name, cell in CELLS.items()}
    cells["uplift, two-sided"] = (uplift_cell, {})
    print(f"{options.paths:,} paths, nominal 5 %, false claims:")
    for name, (measure, cell) in cells.items():
        start = time.process_time()
        print(
            f"{name:24s} {measure(options.paths, **cell):.2%}  {time.process_time() - start:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
