"""Durable pairs a second of two versions of the package, in turns on the same machine.

    python benchmarks/side_by_side.py --against ../other/src [--rounds 5] [--pairs 3000]

Each round runs both versions once, in processes of their own, in alternating order; what counts is the median
of the rounds' ratios, which a machine that is busy now and then leaves alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).parent


def child(mode: str, n: int) -> None:
    """Pairs a second in one run, with whatever version is on the path and its own `benchmarks/online.py`."""
    import banister

    sys.path.insert(0, str(Path(banister.__file__).parents[2] / "benchmarks"))
    from online import World, opened, pairs

    world = World(1000, 100, 50)
    with (
        tempfile.TemporaryDirectory() as folder,
        opened(world, path=Path(folder) / "s.banister", durability=mode) as bandit,
    ):
        pairs(bandit, world, 200)  # caches warm
        rate = pairs(bandit, world, n)["pairs_per_s"]
    print(json.dumps({"pairs_per_s": rate}))


def measured(source: str, mode: str, n: int) -> float:
    command = [sys.executable, __file__, "--child", mode, "--pairs", str(n)]
    out = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": source}, capture_output=True, text=True, check=True
    )
    return float(json.loads(out.stdout.splitlines()[-1])["pairs_per_s"])


def main(own: str, other: str, rounds: int, n: int) -> None:
    for mode, size in (("normal", n), ("full", max(n // 4, 100))):
        ratios, rates = [], {own: [], other: []}
        for i in range(rounds):
            for source in (own, other) if i % 2 else (other, own):
                rates[source].append(measured(source, mode, size))
            ratios.append(rates[own][-1] / rates[other][-1])
        print(
            f"{mode}: {median(rates[own]):,.0f} pairs/s here, {median(rates[other]):,.0f} there, "
            f"ratio {median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f})"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", default="", help="the other version's src folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=3000)
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.pairs)
    else:
        main(str(HERE.parent / "src"), options.against, options.rounds, options.pairs)
