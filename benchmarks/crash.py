"""Kill -9 under load: is anything lost that was acknowledged?

    python benchmarks/crash.py [--kills 50] [--out bench-crash.json]

A child process serves from a store: it decides, takes in rewards and refits in the background, and names each
decision and reward on a pipe once the call has returned. It is killed at a random moment, again and again.
After each kill the store is opened, every acknowledged decision and reward is looked up, and the ledger is
audited.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

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
class Tally:
    kills: int = 0
    decisions: int = 0
    rewards: int = 0
    versions: int = 0
    certified: int = 0
    lost: list[str] = field(default_factory=list)
    audits_failed: int = 0
    seconds_to_open: list[float] = field(default_factory=list)


def main(kills: int = 50, out: Path | None = None, longest: float = 1.0) -> Tally:
    """Kill and look, `kills` times, one store throughout."""
    tally, moments = Tally(), random.Random(0)
    compile_once()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "store.banister")
        for number in range(kills):
            words = killed(path, number, moments.uniform(0.02, longest))
            look(path, words, tally)
            tally.kills += 1
    if out is not None:
        out.write_text(json.dumps(asdict(tally), indent=1))
    show(tally)
    return tally


def killed(path: str, seed: int, after: float) -> list[list[str]]:
    """Start a child, kill it `after` seconds of load, and give back what it had acknowledged."""
    command = [sys.executable, __file__, "--serve", path, "--seed", str(seed)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"ready\n"
    os.set_blocking(child.stdout.fileno(), False)
    heard, end = b"", time.monotonic() + after
    while time.monotonic() < end:
        heard += child.stdout.read() or b""
        time.sleep(0.001)
    child.send_signal(signal.SIGKILL)
    os.set_blocking(child.stdout.fileno(), True)
    heard += child.stdout.read()
    child.wait()
    child.stdout.close()
    whole = heard[: heard.rfind(b"\n") + 1].decode()  # a line cut short was not acknowledged
    return [line.split() for line in whole.splitlines()]


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
        tally.decisions, tally.rewards = found.decisions, found.rewards
        tally.certified, tally.versions = found.certified, bandit.version


def show(tally: Tally) -> None:
    print(
        f"{tally.kills} kills: {tally.decisions} decisions ({tally.certified} certified), "
        f"{tally.rewards} rewards, {tally.versions} models; lost {len(tally.lost)}, "
        f"audits failed {tally.audits_failed}, slowest opening {max(tally.seconds_to_open):.2f} s"
    )
    for line in tally.lost[:10]:
        print("  lost", line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--longest", type=float, default=1.0, help="seconds of load before a kill, at most")
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--serve", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.seed)
    result = main(options.kills, options.out, options.longest)
    sys.exit(bool(result.lost or result.audits_failed))
