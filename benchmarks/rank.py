"""What `rank="auto"` loses to the best fixed rank, in explained variance of rows that no fit has seen.

    python benchmarks/rank.py [--draws 3]

On the design like a real one with 139 tasks (`tests/problems.py: pupils`), a quarter of the rows held out,
and on planted ranks, where the explained variance of new rows is known from the coefficients.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import banister as bn
from banister.errors import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from problems import problem, pupils

RANKS = (1, 2, 3, 4, 6, 8)
PLANTED = {
    "60 tasks, rank 3, 25 rows": {"d": 20, "T": 60, "r": 3, "n": 25, "noise": 0.5},
    "60 tasks, rank 2, 8 rows": {"d": 20, "T": 60, "r": 2, "n": 8, "noise": 0.5},
    "300 tasks, rank 4, 20 rows": {"d": 30, "T": 300, "r": 4, "n": 20, "noise": 1.0},
}


def tell(name: str, explained: Callable[[Any], float], fitted: Callable[[Any], Any]) -> None:
    """One draw: the rank that was chosen, and what it loses."""
    auto = fitted("auto")
    lost = max(explained(fitted(rank)) for rank in RANKS) - explained(auto)
    print(f"{name}: rank {auto.rank_}, explained {explained(auto):.4f}, loses {lost:+.4f}", flush=True)


def like_schools(seed: int) -> None:
    """Rows held out of the design like a real one."""
    X, y, tasks = pupils(seed=seed)
    new = np.random.default_rng(100 + seed).random(len(y)) < 0.25

    def explained(model: Any) -> float:
        return float(1 - np.mean((y[new] - model.predict(X[new], tasks[new])) ** 2) / np.var(y[new]))

    def fitted(rank: Any) -> Any:
        return bn.AltGDmin(rank=rank).fit(X[~new], y[~new], tasks[~new])

    tell(f"139 tasks like schools, draw {seed}", explained, fitted)


def planted(name: str, seed: int) -> None:
    """New rows of a planted rank."""
    data, theta = problem(seed=seed, **PLANTED[name])
    size, noise = np.sum(theta**2) / theta.shape[1], PLANTED[name]["noise"] ** 2

    def explained(model: Any) -> float:
        missed = np.sum((model.theta_ - theta) ** 2) / theta.shape[1]
        return float(1 - (missed + noise) / (size + noise))

    def fitted(rank: Any) -> Any:
        return bn.AltGDmin(rank=rank).fit_data(data)

    tell(f"{name}, draw {seed}", explained, fitted)


def main() -> None:
    """All designs."""
    parser = argparse.ArgumentParser(description='What rank="auto" loses to the best fixed rank.')
    parser.add_argument("--draws", type=int, default=3)
    draws = range(parser.parse_args().draws)
    warnings.simplefilter("ignore", ConvergenceWarning)  # ranks that the rows do not carry
    for seed in draws:
        like_schools(seed)
        for name in PLANTED:
            planted(name, seed)


if __name__ == "__main__":
    main()
