"""Kill -9 under load: is anything lost that was acknowledged?

    python benchmarks/crash.py [--kills 50] [--out bench-crash.json]
    python benchmarks/crash.py --kills 200 --stores 10
    python benchmarks/crash.py --kills 200 --place postgresql://user@host/database --processes 3

A child process serves from a store: it decides, takes in rewards and refits in the background, and names each
decision and reward on a pipe once the call has returned. It is killed at a random moment, again and again.
After each kill the store is opened, every acknowledged decision and reward is looked up, and the ledger is
audited, which takes the longer the more it holds: with many kills begin a new store now and then. In
PostgreSQL several processes serve at once; all are killed, each at a moment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import IO

import numpy as np

from banister import SafeBandit

TASKS, DIM, ACTIONS = 20, 20, 8


def serve(path: str, seed: int) -> None:
    """What the child does until it is killed."""
    theta, rng = truth(), np.random.default_rng(seed)
    SafeBandit(refits="manual").decide(
        "warm", np.eye(2), baseline=0
    )  # kernels load once, before the clock runs
    bandit = SafeBandit(alpha=0.1, path=path, growth=0.05, seed=1)
    say("ready")
    while True:
        t, A = int(rng.integers(TASKS)), rng.standard_normal((ACTIONS, DIM))
        mean = A @ theta[t]
        k = int(np.argsort(mean)[-3])
        d = bandit.decide(f"shop-{t}", A, baseline=k, baseline_reward=float(mean[k]))
        say(f"d {d.id} {d.action}")
        if rng.random() < 0.9:
            reward = float(mean[d.action] + 0.1 * rng.standard_normal())
            bandit.reward(d.id, reward)
            say(f"r {d.id} {reward!r}")
        others(bandit, rng)


def others(bandit: SafeBandit, rng: np.random.Generator) -> None:
    """Now and then the other calls: a batch, a new task, a reward taken back."""
    if rng.random() < 0.02:
        A = rng.standard_normal((5, ACTIONS, DIM))
        for d in bandit.decide_many([f"shop-{t}" for t in range(5)], A, baselines=[0] * 5):
            say(f"d {d.id} {d.action}")
        bandit.reward_many([d.id], [9.0])
        say(f"r {d.id} 9.0")
        bandit.retract(d.id, "not what was earned")
    if rng.random() < 0.005:
        d = bandit.decide(f"new-{rng.integers(1 << 30)}", rng.standard_normal((2, DIM)), baseline=0)
        say(f"d {d.id} {d.action}")


def truth() -> np.ndarray:
    rng = np.random.default_rng(0)
    return (np.linalg.qr(rng.standard_normal((DIM, 2)))[0] @ rng.standard_normal((2, TASKS))).T


def compile_once() -> None:
    """A fit here leaves its compiled kernels on disk; a child that is killed while compiling would not."""
    theta, rng = truth(), np.random.default_rng(0)
    bandit = SafeBandit(alpha=0.1, refits="manual", seed=1)
    for i in range(60 * TASKS):
        A = rng.standard_normal((ACTIONS, DIM))
        mean = A @ theta[i % TASKS]
        d = bandit.decide(f"shop-{i % TASKS}", A, baseline=0, baseline_reward=float(mean[0]))
        bandit.reward(d.id, float(mean[d.action] + 0.1 * rng.standard_normal()))
        if i in (30 * TASKS, 50 * TASKS):
            bandit.refit()


def say(line: str) -> None:
    os.write(1, (line + "\n").encode())


@dataclass
class Held:
    """What a store holds at the end."""

    decisions: int = 0
    rewards: int = 0
    versions: int = 0
    certified: int = 0


@dataclass
class Tally:
    kills: int = 0
    stores: list[Held] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    audits_failed: int = 0
    seconds_to_open: list[float] = field(default_factory=list)


def main(options: argparse.Namespace) -> Tally:
    """Kill and look, `kills` times, in one store after the other."""
    tally, moments = Tally(), random.Random(0)
    each = -(-options.kills // options.stores)
    compile_once()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(0, options.kills, options.processes):
            if number // each >= len(tally.stores):
                place = new_place(options.place, folder)
                tally.stores.append(Held())
            children = [Child(place, number + i) for i in range(options.processes)]
            ends = [moments.uniform(0.02, options.longest) for _ in children]
            words = killed(children, ends)
            look(place, words, tally)
            tally.kills += len(children)
            if options.out is not None:  # after each kill, so that a run cut short says how far it came
                options.out.write_text(json.dumps(asdict(tally), indent=1))
    show(tally)
    return tally


def new_place(url: str | None, folder: str) -> str:
    """Where no store is yet: a file, or a schema of a database."""
    name = f"crash_{secrets.token_hex(6)}"
    return str(Path(folder) / name) if url is None else f"{url}{'&' if '?' in url else '?'}store={name}"


class Child:
    """A process that serves; what it has acknowledged so far."""

    def __init__(self, place: str, seed: int) -> None:
        command = [sys.executable, __file__, "--serve", place, "--seed", str(seed)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.heard, self.ended = b"", False

    @property
    def pipe(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def wait_until_ready(self) -> None:
        assert self.pipe.readline() == b"ready\n"
        os.set_blocking(self.pipe.fileno(), False)

    def listen(self) -> None:
        self.heard += self.pipe.read() or b""

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        os.set_blocking(self.pipe.fileno(), True)
        self.heard += self.pipe.read()
        self.process.wait()
        self.pipe.close()
        self.ended = True

    def words(self) -> list[list[str]]:
        whole = self.heard[: self.heard.rfind(b"\n") + 1].decode()  # a line cut short was not acknowledged
        return [line.split() for line in whole.splitlines()]


def killed(children: list[Child], ends: list[float]) -> list[list[str]]:
    """Kill each child after so many seconds of load, and give back what they had acknowledged."""
    for child in children:
        child.wait_until_ready()
    begin = time.monotonic()
    while not all(child.ended for child in children):
        for child, end in zip(children, ends, strict=True):
            if child.ended:
                continue
            child.listen()
            if time.monotonic() - begin > end:
                child.kill()
        time.sleep(0.001)
    return [word for child in children for word in child.words()]


def look(path: str, words: list[list[str]], tally: Tally) -> None:
    """Open the store and look everything up."""
    begin = time.perf_counter()
    with SafeBandit(alpha=0.1, path=path, refits="manual") as bandit:
        tally.seconds_to_open.append(time.perf_counter() - begin)
        ledger = bandit._engine.store.ledger
        actions = {record.id: record.action for record in ledger.decisions()}
        rewards = {record.id: record.value for record in ledger.rewards()}
        for kind, number, value in words:
            kept = actions.get(int(number)) if kind == "d" else rewards.get(int(number))
            if kept != (int(value) if kind == "d" else float(value)):
                tally.lost.append(f"{kind} {number}: {kept} instead of {value}")
        found = bandit.audit()
        tally.audits_failed += not found.passed
        tally.stores[-1] = Held(found.decisions, found.rewards, bandit.version, found.certified)


def show(tally: Tally) -> None:
    decisions, rewards, versions, certified = (
        sum(counts) for counts in zip(*map(astuple, tally.stores), strict=True)
    )
    print(
        f"{tally.kills} kills, {len(tally.stores)} stores: {decisions} decisions ({certified} certified), "
        f"{rewards} rewards, {versions} models; lost {len(tally.lost)}, "
        f"audits failed {tally.audits_failed}, slowest opening {max(tally.seconds_to_open):.2f} s"
    )
    for line in tally.lost[:10]:
        print("  lost", line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--stores", type=int, default=1, help="one after the other, with as many kills each")
    parser.add_argument("--longest", type=float, default=1.0, help="seconds of load before a kill, at most")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--place", default=None, help="URL of a PostgreSQL database; files by default")
    parser.add_argument("--processes", type=int, default=1, help="that serve at once; 1 for files")
    parser.add_argument("--serve", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.seed)
    result = main(options)
    sys.exit(bool(result.lost or result.audits_failed))
