"""Soak: millions of decisions and rewards. Do memory and refit time stay flat, and does nothing ring?

    python benchmarks/soak.py --decisions 3000000 --out soak.jsonl

Tasks share two directions, baselines are the third best of eight actions, rewards have normal noise and come
in batches. A line is written every `--every` decisions: resident memory, refits since the last line and their
seconds, pairs a second, drifts, violations of the floor. A store that is there is continued, so a run that
was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from pathlib import Path

import numpy as np

from banister import SafeBandit

DIM, TASKS, ACTIONS, RANK, NOISE, ALPHA = 20, 50, 8, 2, 0.3, 0.1
BATCH = 2000


class World:
    """Requests and rewards that depend on the batch's number alone."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.standard_normal((DIM, RANK)))[0]
        self.theta = rng.standard_normal((TASKS, RANK)) @ basis.T
        self.seed = seed

    def batch(self, number: int):
        rng = np.random.default_rng([self.seed, number])
        task = rng.integers(TASKS, size=BATCH)
        actions = rng.standard_normal((BATCH, ACTIONS, DIM))
        expected = np.einsum("mkd,md->mk", actions, self.theta[task])
        baseline = np.argsort(expected, axis=1)[:, -3]
        return rng, task, actions, expected, baseline


class Fits(logging.Handler):
    """Collects the seconds of refits from the log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seconds: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg.startswith("model %d serves"):
            self.seconds.append(float(record.args[1]))


def resident() -> float:
    """Resident memory of this process, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def play(bandit: SafeBandit, world: World, number: int, known: bool) -> int:
    """One batch of pairs; how many decisions are below their floor."""
    rng, task, actions, expected, baseline = world.batch(number)
    rows = np.arange(BATCH)
    claims = expected[rows, baseline] if known else None
    labels = [f"task-{t}" for t in task]
    decisions = bandit.decide_many(labels, actions, baselines=baseline, baseline_rewards=claims)
    chosen = np.array([d.action for d in decisions])
    earned = expected[rows, chosen] + NOISE * rng.standard_normal(BATCH)
    bandit.reward_many([d.id for d in decisions], earned.tolist())
    base = expected[rows, baseline]
    return int((expected[rows, chosen] < base - ALPHA * np.abs(base) - 1e-9).sum())


def soak(options: argparse.Namespace) -> None:
    fits, log = Fits(), logging.getLogger("banister.online")
    log.addHandler(fits)
    log.setLevel(logging.INFO)
    log.propagate = False
    bandit = SafeBandit(
        ALPHA, path=options.store, refits="inline", keep_models=False, growth=options.growth, seed=0
    )
    world, done = World(options.seed), bandit.status().decisions
    below, begin, shown = 0, time.perf_counter(), done
    for number in range(done // BATCH, options.decisions // BATCH):
        below += play(bandit, world, number, options.known)
        at = (number + 1) * BATCH
        if at % options.every == 0:
            seconds = time.perf_counter() - begin
            asked = time.perf_counter()
            status = bandit.status()
            line = {
                "decisions": at, "resident_mb": round(resident()), "refits": len(fits.seconds),
                "refit_seconds": [round(s, 3) for s in fits.seconds],
                "pairs_per_s": round((at - shown) / seconds),
                "left": round(status.left, 3), "drifts": status.drifts, "below_floor": below,
                "wild": status.wild, "status_s": round(time.perf_counter() - asked, 3),
            }  # fmt: skip
            text = json.dumps(line)
            print(text, flush=True)
            if options.out:
                with options.out.open("a") as file:
                    file.write(text + "\n")
            fits.seconds.clear()
            below, begin, shown = 0, time.perf_counter(), at
    bandit.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--decisions", type=int, default=3_000_000)
    parser.add_argument("--every", type=int, default=50_000)
    parser.add_argument(
        "--growth", type=float, default=None, help="share by which rewards grow between refits"
    )
    parser.add_argument("--known", action="store_true", help="give the baselines' expected rewards")
    parser.add_argument("--store", type=Path, default=None, help="where the store is kept; none: memory")
    parser.add_argument("--out", type=Path, default=None, help="append the lines here")
    parser.add_argument("--seed", type=int, default=0)
    soak(parser.parse_args())
