"""Fuzz: damaged and crafted stores. Each must be refused with a `BanisterError`, or load and be right.

    python benchmarks/fuzz.py --cases 2000

Each store is opened in a forked child that may take 5 s and 200 MB more than the process had: for serving
(load, audit, status, decide, reward, refit, audit) and for reading (open_read_only, status, audit). A store
that loads must pass its audit; where even the chain was forged, the audit is what finds it, and is only asked
to end.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from banister import SafeBandit
from banister.errors import BanisterError
from crafted import FORGED, craft, make

SECONDS, MEGABYTES = 5, 200
PATIENCE = 10  # seconds are of CPU, since the machine may be busy; a wait of ten times that is a hang too


def verdict(path: Path, kind: str) -> str:
    """What opening a store comes to: "refused", "loaded", or what is wrong."""
    out = [_guarded(_serve, path, kind), _guarded(_look, path, kind)]
    bad = [text for text in out if text not in ("refused", "loaded")]
    return bad[0] if bad else out[0]


def _guarded(work, path: Path, kind: str) -> str:
    try:
        return work(path, kind)
    except BanisterError:
        return "refused"
    except BaseException as failure:
        return f"RAW {type(failure).__name__}: {str(failure)[:100]} {_where(failure)}"


def _where(failure: BaseException) -> str:
    """The last line of this package that it came through."""
    trace, place = failure.__traceback__, ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "banister" in name:
            place = f"{Path(name).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _serve(path: Path, kind: str) -> str:
    with SafeBandit.load(path) as bandit:
        audit = bandit.audit()
        if not audit.passed and kind not in FORGED:
            return f"ACCEPTED, audit says {audit.problems[0][:120]}"
        bandit.status()
        d = bandit.decide("a", np.ones((2, 4)), baseline=0)
        bandit.reward(d.id, 1.0)
        bandit.refit()
        bandit.decide("a", np.eye(4), baseline=1)
        if audit.passed and not (after := bandit.audit()).passed:
            return f"SPOILT, audit says {after.problems[0][:120]}"
    return "loaded"


def _look(path: Path, kind: str) -> str:
    with SafeBandit.open_read_only(path) as bandit:
        bandit.status()
        bandit.audit()
    return "loaded"


def in_child(work) -> str:
    """What `work` says in a forked child within its limits."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        faulthandler.disable()
        os.close(reader)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + MEGABYTES * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        warnings.simplefilter("ignore")
        os.write(writer, work().encode()[:4000])
        os._exit(0)
    os.close(writer)
    return _answer(child, reader)


def _answer(child: int, reader: int) -> str:
    end = time.monotonic() + PATIENCE * SECONDS
    while time.monotonic() < end:
        done, code = os.waitpid(child, os.WNOHANG)
        if done:
            with os.fdopen(reader) as file:
                return file.read() or f"DIED of signal {code}"
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    return f"HANG of more than {PATIENCE * SECONDS} s"


def fuzz(seeds: range, folder: Path) -> list[tuple[int, str, str]]:
    """(seed, kind, verdict) of every case."""
    good, out = make(folder), []
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        kind, path = craft(good, place, seed)
        out.append((seed, kind, in_child(lambda path=path, kind=kind: verdict(path, kind))))
        shutil.rmtree(place)
    return out


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = fuzz(range(options.first, options.first + options.cases), Path(temporary))
    counts = Counter(
        (kind, "wrong" if text not in ("refused", "loaded") else text) for _, kind, text in found
    )
    for (kind, text), n in sorted(counts.items()):
        print(f"{kind:20s} {text:8s} {n}")
    for seed, kind, text in found:
        if text not in ("refused", "loaded"):
            print(seed, kind, text)
