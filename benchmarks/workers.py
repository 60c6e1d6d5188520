"""Two workers against one on the study's default point, and the most memory that a worker took.

Usage: python benchmarks/workers.py [TRIALS]      (12 by default; about three minutes, on an idle machine)
Beside it stands what the machine itself gives: plain numpy work in two processes against one.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import polars as pl

from banister.simulation.many import run_jobs
from banister.simulation.store import Job
from banister.studies.panels import DEFAULT
from banister.studies.play import play

POLICIES = ("certified", "paper", "trace-norm", "moments", "thompson")


def play_and_note(peaks: str, job: Job) -> pl.DataFrame:
    """A job's rows; the process leaves a note of the most memory it has had."""
    rows = play(job)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    Path(peaks, str(os.getpid())).write_text(str(peak))
    return rows


def seconds_of(trials: int, workers: int) -> tuple[float, int]:
    """Of some trials, and the megabytes of the largest worker."""
    jobs = [Job(point=DEFAULT, trial=trial, policies=POLICIES, seed=0) for trial in range(trials)]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as peaks:
        began = time.perf_counter()
        for _ in run_jobs(jobs, partial(play_and_note, peaks), folder, workers=workers):
            pass
        spent = time.perf_counter() - began
        return spent, max(int(note.read_text()) for note in Path(peaks).iterdir())


def plain_work(_: int) -> float:
    """A trial's mixture of work, without the study: draws, and sums over numbers too many for the cache."""
    rng, total = np.random.default_rng(0), 0.0
    for _ in range(20):
        numbers = rng.standard_normal((100, 1000, 20))
        total += float(np.einsum("tnd,tnd->", numbers, numbers))
    return total


def machine(workers: int) -> float:
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        list(pool.map(plain_work, range(workers)))  # start the processes
        began = time.perf_counter()
        list(pool.map(plain_work, range(12)))
        return time.perf_counter() - began


def main(trials: int) -> None:
    seconds_of(2, 2)  # compile, and start the workers
    for _ in range(2):
        (one, _), (two, peak) = seconds_of(trials, 1), seconds_of(trials, 2)
        print(
            f"{trials} trials: 1 worker {one:.1f} s, 2 workers {two:.1f} s, {one / two:.2f} times as fast "
            f"(plain numpy: {machine(1) / machine(2):.2f}); the larger worker took {peak} MB"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 12)
