"""Kill a reproduction at random moments and resume it, until it is done; then compare with an unbroken one.

Usage: python benchmarks/resume.py [KILLS]      (20 by default; a few minutes)
Checks that no finished trial is lost or written again, and that the final rows are those of a run that was
never interrupted. Kills the whole process group with SIGKILL, workers included, at any moment: while
starting, in the middle of a trial, or while a file is being written.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from polars.testing import assert_frame_equal

from banister.simulation.store import CLOCKS, Store

COMMAND = [
    *(sys.executable, "-c", "from banister.cli import main; main()"),
    *("reproduce", "--only", "1g", "--policies", "moments", "--jobs", "2"),
]
TRIALS = 25


def command(folder: Path) -> list[str]:
    return [*COMMAND, "--trials", str(TRIALS), "--out", str(folder)]


def states(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in folder.rglob("cells/*/[!.]*.parquet")}


def main(kills: int) -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as root:
        broken, whole = Path(root) / "broken", Path(root) / "whole"
        kept: dict[str, int] = {}
        for k in range(kills):
            began = len(kept)
            process = subprocess.Popen(command(broken), stdout=subprocess.DEVNULL, start_new_session=True)
            time.sleep(rng.uniform(2.0, 10.0))
            running = process.poll() is None
            if running:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            now = states(broken)
            assert kept.items() <= now.items(), "a finished trial was lost or written again"
            kept = now
            print(
                f"kill {k + 1}: {began} → {len(kept)} finished{'' if running else ' (all done)'}", flush=True
            )
        subprocess.run(command(broken), check=True, stdout=subprocess.DEVNULL)
        assert kept.items() <= states(broken).items(), "a finished trial was lost or written again"
        subprocess.run(command(whole), check=True, stdout=subprocess.DEVNULL)
        first, second = (Store(folder).rows().drop(CLOCKS) for folder in (broken, whole))
        assert_frame_equal(first, second)
        print(f"{kills} kills: {len(first)} rows identical to an unbroken run's, none lost, none repeated")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
