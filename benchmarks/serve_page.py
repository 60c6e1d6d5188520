"""What the live page costs those who ask for decisions, on a store of 10,000 tasks.

    python benchmarks/serve_page.py [--rounds 4] [--seconds 8] [--tasks 10000]

One caller sends single decisions, one after the other. In turn, within one run: nobody looks; one client
makes the page's calls (its stream of events, and the table of tasks after each status); the page is open in a
real Chromium on the same machine, which then draws on the same cores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import banister as bn
from serve import ONE, free_port, post, pressed, serve, told

DIM, ACTIONS, ROWS = 8, 5, 4


def make_store(path: Path, tasks: int) -> None:
    """A store that has a model of all its tasks."""
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((tasks, 2)) @ rng.standard_normal((2, DIM))
    task = np.repeat(np.arange(tasks), ROWS)
    X = rng.standard_normal((len(task), DIM))
    y = np.einsum("nd,nd->n", X, theta[task]) + 0.1 * rng.standard_normal(len(task))
    with bn.SafeBandit(0.1, path=path, refits="manual", seed=1) as bandit:
        bandit.warm_start({"task": [f"store-{t:05d}" for t in task], "reward": y, "x": X}, features="x")


def requests(tasks: int) -> list[bytes]:
    """Decisions of tasks by chance, as they are sent."""
    rng = np.random.default_rng(1)
    bodies = [
        {"task": f"store-{t:05d}", "actions": rng.standard_normal((ACTIONS, DIM)).tolist(), "baseline": 0}
        for t in rng.integers(tasks, size=256)
    ]
    return [post(ONE, body) for body in bodies]


@contextmanager
def nobody(url: str) -> Iterator[None]:
    """No page."""
    yield


@contextmanager
def calls(url: str) -> Iterator[None]:
    """What the page asks for, without drawing it."""
    stop = threading.Event()

    def look() -> None:
        with httpx.Client(base_url=url, timeout=60) as client, client.stream("GET", "/v1/events") as events:
            for line in events.iter_lines():
                if stop.is_set():
                    return
                if line.startswith("event: status"):
                    client.get("/v1/tasks?search=&gate=&sort=decisions&order=down&offset=0&limit=50")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    yield
    stop.set()
    thread.join(30)


@contextmanager
def browser(url: str) -> Iterator[None]:
    """The page in Chromium."""
    name = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
        ]
        process = subprocess.Popen([str(name), *flags, url], stderr=subprocess.DEVNULL)
        yield
        process.terminate()
        process.wait()


def measured(port: int, bodies: list[bytes], rounds: int, seconds: float) -> dict[str, Any]:
    """Latencies of all ways to look, in turn; the first two seconds of each turn are left out."""
    ways = {"nobody looks": nobody, "the page's calls": calls, "the page in Chromium": browser}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            with way(f"http://127.0.0.1:{port}/"):
                pressed(port, bodies, 2.0, 1)
                found[name] += pressed(port, bodies, seconds, 1)
    return {
        name: {**told(latencies, rounds * seconds), "slowest_ms": round(1e3 * max(latencies), 1)}
        for name, latencies in found.items()
    }


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--tasks", type=int, default=10_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, port = Path(folder) / "many.banister", free_port()
        make_store(path, given.tasks)
        process = serve(path, port)
        try:
            print(json.dumps(measured(port, requests(given.tasks), given.rounds, given.seconds), indent=1))
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
