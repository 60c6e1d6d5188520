"""Durable pairs a second of two versions of the package, in turns on the same machine.

    python benchmarks/side_by_side.py --against ../other/src [--turns 30] [--pairs 100]

Both versions are open at once, each in a process of its own, and take turns of a few pairs (milliseconds), so
that a machine which is slower now and then is slower for both. What counts is the median of the turns'
ratios, of the wall clock and of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parent
_WARM = 600  # pairs before the first turn: compiled code is loaded, memory has taken rows in


def child(mode: str) -> None:
    """Turns of as many pairs as each line asks for, by the version on the path and its own benchmarks."""
    import banister

    sys.path.insert(0, str(Path(banister.__file__).parents[2] / "benchmarks"))
    from online import World, opened, pairs

    world = World(1000, 100, 50)
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(world, path=Path(folder) / "s.banister", durability=mode) as bandit,
    ):
        pairs(bandit, world, _WARM)
        print("ready", flush=True)
        for line in sys.stdin:
            begin = time.thread_time()
            rate = pairs(bandit, world, int(line))["pairs_per_s"]
            print(json.dumps([1e6 / rate, 1e6 * (time.thread_time() - begin) / int(line)]), flush=True)


class Version:
    """One version in a process of its own."""

    def __init__(self, source: str, mode: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--child", mode], env={**os.environ, "PYTHONPATH": source}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.turns: list[Any] = []

    def wait(self) -> None:
        """Until it is ready."""
        while self._answer() != "ready":
            pass

    def play(self, pairs: int) -> None:
        """One turn: µs a pair, by the wall clock and of the processor, the world's own work included."""
        print(pairs, file=self._process.stdin, flush=True)
        self.turns.append(json.loads(self._answer()))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A version ended early; run it alone with --child to see why.")
        return line.strip()

    def close(self) -> None:
        self._process.communicate()


def main(own: str, other: str, turns: int, pairs: int) -> None:
    for mode in ("normal", "full"):
        here, there = Version(own, mode), Version(other, mode)
        for version in (here, there):
            version.wait()
        for i in range(turns):
            for version in (here, there) if i % 2 else (there, here):
                version.play(pairs)
        for version in (here, there):
            version.close()
        for k, clock in enumerate(("wall clock", "processor")):
            mine, theirs = [t[k] for t in here.turns], [t[k] for t in there.turns]
            ratios = sorted(b / a for a, b in zip(mine, theirs, strict=True))
            print(
                f"{mode}, {clock}: {median(mine):,.0f} µs a pair here, {median(theirs):,.0f} there, speed "
                f"{median(ratios):.3f} of theirs (quartiles {ratios[turns // 4]:.3f} and "
                f"{ratios[-turns // 4]:.3f}; load {os.getloadavg()[0]:.0f})"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", default="", help="the other version's src folder")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=100, help="of one turn")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
    else:
        main(str(HERE.parent / "src"), options.against, options.turns, options.pairs)
