"""The same visitors by Banister and by other libraries: lines, clicks, what fell below a floor, seconds.

    python benchmarks/beside_others.py [--page docs/benchmarks.md] [--visitors 600] [--world 0]
    python benchmarks/beside_others.py --tune    # the settings of each peer, on a world of its own

Forty shops choose one of four banners for each of 600 visitors. A visitor has five features; the
chance of a click is linear in them, and shops' tastes are mixtures of two. Banner 0 is in place. Everybody
starts from nothing, is told the shop, the visitor and then the click. Each plays in a process of its own, on
one thread, two at a time. Nothing but the arithmetic of the last columns knows the truth.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from peers import ALPHA, BANNERS, FEATURES, ROWS, SHOPS, TRIED, Peer, Player

MARK = "<!-- table: written by `make peers` -->"
_TUNING, _TUNING_VISITORS = 100, 200  # a world that the page does not show
_AT_ONCE = 2
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_HEAD = "| library | lines | clicks gained | decisions below the floor | shops ever below | seconds |"


class World:
    """Forty shops: click chances (shop, banner, feature), and one visitor after the other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        kinds = self.rng.uniform(-1, 1, (2, BANNERS * FEATURES))
        mixed = (self.rng.dirichlet([1.0, 1.0], SHOPS) @ kinds).reshape(SHOPS, BANNERS, FEATURES)
        self.tastes = 0.12 * mixed
        self.tastes[:, :, 0] += 0.3  # what every banner earns
        fair = int(np.argsort(self.tastes[:, :, 0].mean(axis=0))[-2])
        self.tastes[:, [0, fair]] = self.tastes[:, [fair, 0]]  # the banner in place is the second best

    def visitor(self) -> Any:
        return np.append(1.0, self.rng.uniform(-1, 1, FEATURES - 1))

    def rates(self, shop: int, visitor: Any) -> Any:
        """(banners,) chances of a click; linear, but for the rare one that would be below 0.01."""
        return np.clip(self.tastes[shop] @ visitor, 0.01, 0.99)


@dataclass
class Played:
    """Clicks gained and decisions below the floor as shares, shops ever below, processor seconds."""

    gain: float
    decisions_below: float
    shops_below: int
    seconds: float
    version: str = ""


def play(player: Player, visitors: int, seed: int) -> Played:
    """The same visitors for everybody, and the same luck where the same banner is shown."""
    world, (decide, learn) = World(seed), player
    saved, usual, worst = np.zeros(SHOPS), np.zeros(SHOPS), np.zeros(SHOPS)
    below, spent = 0, 0.0
    for _ in range(visitors):
        for shop in range(SHOPS):
            visitor, luck = world.visitor(), world.rng.random()
            rates = world.rates(shop, visitor)
            began = time.process_time()
            arm, key, chances = decide(shop, visitor, float(rates[0]))
            learn(shop, visitor, arm, key, float(luck < rates[arm]))
            spent += time.process_time() - began
            value = float(rates[arm] if chances is None else rates @ chances)
            below += value < (1 - ALPHA) * rates[0] - 1e-9
            saved[shop] += value - (1 - ALPHA) * rates[0]
            usual[shop] += rates[0]
            worst[shop] = min(worst[shop], saved[shop])
    gain = float((saved.sum() - ALPHA * usual.sum()) / usual.sum())
    return Played(gain, float(below / (visitors * SHOPS)), int((worst < -1e-9).sum()), spent)


def play_here(row: str, settings: dict[str, Any], visitors: int, seed: int) -> None:
    """One library in this process; what came of it, as JSON."""
    peer = ROWS[row]
    played = play(peer.make(**settings), visitors, seed)
    played.version = version(peer.package)
    print(json.dumps(asdict(played)))


def play_apart(row: str, settings: dict[str, Any], visitors: int, seed: int) -> Played | str:
    """One library in a process and, where it needs one, a virtual environment of its own; or why not."""
    python = Path(sys.prefix) / ROWS[row].room / "bin" / "python"
    words = [python, __file__, "--row", row, "--settings", json.dumps(settings)]
    words += ["--visitors", f"{visitors}", "--world", f"{seed}"]
    if not python.exists():
        return f"{python} is not there; `make peers` makes it"
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, **_ONE_THREAD}, check=False
    )
    if done.returncode != 0:
        return done.stderr.strip().splitlines()[-1]
    return Played(**json.loads(done.stdout.strip().splitlines()[-1]))


def lines_of(make: Callable[..., Player]) -> int:
    return len([line for line in inspect.getsource(make).splitlines() if line.strip()])


def line(peer: Peer, played: Played | str) -> str:
    """A row of the table."""
    if isinstance(played, str):
        return f"| {peer.name} | – | did not run: {played} | – | – | – |"
    which = peer.name if peer.package == "banister" else _named(peer, played.version)
    told = f"{played.gain:+.1%} | {played.decisions_below:.1%} | {played.shops_below} of {SHOPS}"
    return f"| {which} | {lines_of(peer.make)} | {told} | {played.seconds:.0f} |"


def _named(peer: Peer, release: str) -> str:
    library, *method = peer.name.split(",")
    chosen = ", ".join(v if isinstance(v, str) else f"{k} {v}" for k, v in peer.settings.items())
    return f"{library} {release},{','.join(method)} `{chosen}`"


def table(visitors: int, seed: int) -> str:
    """Markdown, one row a library."""
    rows = [_HEAD, "| --- | --- | --- | --- | --- | --- |"]
    with ThreadPoolExecutor(_AT_ONCE) as turns:
        runs = {row: turns.submit(play_apart, row, ROWS[row].settings, visitors, seed) for row in ROWS}
        for row, run in runs.items():
            rows.append(line(ROWS[row], run.result()))
            print(rows[-1], flush=True)
    return "\n".join(rows)


def tune() -> None:
    """What every setting of a peer gains on a world of its own."""
    with ThreadPoolExecutor(_AT_ONCE) as turns:
        asked = [(row, each) for row, settings in TRIED.items() for each in settings]
        runs = [turns.submit(play_apart, *one, _TUNING_VISITORS, _TUNING) for one in asked]
        for (row, settings), run in zip(asked, runs, strict=True):
            played = run.result()
            print(row, settings, played if isinstance(played, str) else f"{played.gain:+.2%}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="write the table into it")
    parser.add_argument("--visitors", type=int, default=600, help="of each shop")
    parser.add_argument("--world", type=int, default=0, help="its seed")
    parser.add_argument("--tune", action="store_true", help="compare the settings of every peer instead")
    parser.add_argument("--row", choices=list(ROWS), help="play one library in this process, print JSON")
    parser.add_argument("--settings", type=json.loads, default={}, help="of that library")
    given = parser.parse_args()
    if given.row:
        play_here(given.row, given.settings, given.visitors, given.world)
    elif given.tune:
        tune()
    else:
        _publish(table(given.visitors, given.world), given.page)


def _publish(found: str, page: Path | None) -> None:
    if page is not None:
        head = page.read_text(encoding="utf-8").split(MARK)[0]
        page.write_text(f"{head}{MARK}\n\n{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
