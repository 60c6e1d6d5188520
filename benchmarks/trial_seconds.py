"""What a trial of the certified policy costs, beside another tree of this project, trial by trial in turns.

    python benchmarks/trial_seconds.py --against OTHER/src [--points "synthetic;movielens"] [--trials 4]

Both play the same trials, each in one process of its own, by the processor's clock. A busy machine makes both
slower; their ratio is what to look at.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parents[1] / "src"


def work() -> None:
    """Play the trials that are asked for on standard input; answer with their seconds."""
    from banister.simulation import wrappers
    from banister.studies import play as playing
    from banister.studies.panels import PANELS
    from banister.studies.workload import workload_for

    wrappers.perf_counter = playing.perf_counter = time.process_time
    jobs = {(job.point.name, job.trial): job for job in workload_for(PANELS.values(), trials=100).jobs()}
    for line in sys.stdin:
        point, trial = line.strip().split("|")
        rows = playing.play(replace(jobs[point, int(trial)], policies=("certified",)))
        print(float(rows["seconds"].sum()), flush=True)


def worker(source: Path) -> subprocess.Popen[str]:
    """A process that plays with the project in `source`."""
    command, place = [sys.executable, __file__, "--work"], {**os.environ, "PYTHONPATH": str(source)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=place)


def seconds(process: subprocess.Popen[str], point: str, trial: int) -> float:
    """Those that the policy takes in one trial."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{point}|{trial}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path)
    parser.add_argument("--points", default="synthetic;synthetic,rank=8;synthetic,dim=200;movielens")
    parser.add_argument("--trials", type=int, default=4)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work()
        return
    trees = [worker(options.against), worker(HERE)]
    print("| point | seconds there | here | ratio |\n| --- | ---: | ---: | ---: |")
    for point in options.points.split(";"):
        for process in trees:
            seconds(process, point, 0)  # compile, and fill the caches
        told = [[seconds(process, point, trial) for process in trees] for trial in range(options.trials)]
        there, here = (mean(column) for column in zip(*told, strict=True))
        print(f"| {point} | {there:.2f} | {here:.2f} | {here / there:.2f} |", flush=True)


if __name__ == "__main__":
    main()
