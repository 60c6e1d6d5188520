"""What runs a list of deliberate faults: each must make a test fail.

Each fault is put into a copy of the sources, alone, and the tests named for its file run against it until the
first fails. A fault that no test notices is printed: the screw it loosens is held by nothing. What was found
can be kept in a file (`--known`): a fault is tried again only when its file, its tests or itself has changed,
so that a run can be stopped at any time and goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/banister"
_NOT_RACING = ["-k", "not background"]  # uncompiled, a fit in the background comes late by itself
_PLAIN = ["-x", "-q", "-W", "ignore", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not statistical"]
_PATIENCE = 1800  # seconds
_SAID = "pytest.txt"  # what the last tests printed


class Mutant(NamedTuple):
    """A fault: where, what stands there, what it becomes, and what goes wrong then."""

    name: str
    path: str
    text: str
    fault: str
    why: str


def mutants(path: str, *rows: tuple[str, str, str, str]) -> list[Mutant]:
    """The faults of one file."""
    return [Mutant(name, path, text, fault, why) for name, text, fault, why in rows]


def stands(mutant: Mutant) -> bool:
    """Whether its text stands in its file exactly once; code that moved on leaves faults behind."""
    return (ROOT / PACKAGE / mutant.path).read_text().count(mutant.text) == 1


@dataclass
class Run:
    """A copy of the sources, the tests of each file, and what is known from earlier runs."""

    folder: Path
    tests: dict[str, list[str]]
    known: Path | None
    found: dict[str, bool] = field(default_factory=dict)  # whether a fault, by its digest, survives

    def __post_init__(self) -> None:
        shutil.copytree(ROOT / PACKAGE, self.folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
        if self.known is not None and self.known.exists():
            self.found = json.loads(self.known.read_text())

    def survives(self, mutant: Mutant) -> bool:
        """Whether all tests pass with the fault in place; one that is known is not tried again."""
        key = self._digest(mutant)
        if key not in self.found:
            self._keep(key, self._try(mutant))
        return self.found[key]

    def check(self, paths: list[str]) -> None:
        """Without any fault all tests must pass, or their failing would say nothing."""
        files = list(dict.fromkeys(file for path in paths for file in self.tests[path]))
        if not self._pass(files):
            said = (self.folder / _SAID).read_text()[-3000:]
            raise SystemExit(f"{said}\nThe tests fail without any fault.")

    def is_known(self, mutant: Mutant) -> bool:
        """Whether an earlier run tried it on the same file with the same tests."""
        return self._digest(mutant) in self.found

    def _try(self, mutant: Mutant) -> bool:
        target = self.folder / PACKAGE / mutant.path
        source = target.read_text()
        target.write_text(source.replace(mutant.text, mutant.fault))
        try:
            return self._pass(self.tests[mutant.path])
        finally:
            target.write_text(source)

    def _keep(self, key: str, survived: bool) -> None:
        self.found[key] = survived
        if self.known is not None:
            self.known.write_text(json.dumps(self.found, indent=0))

    def _digest(self, mutant: Mutant) -> str:
        names = self.tests[mutant.path]
        files = [ROOT / PACKAGE / mutant.path, *(ROOT / "tests" / name.split("::")[0] for name in names)]
        texts = [*mutant, *names, *(file.read_text() for file in files)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]

    def _pass(self, names: list[str]) -> bool:
        """Run tests in a child that has the heavy imports already."""
        child = os.fork()
        if child == 0:
            self._become_pytest(names)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (0, 1, -signal.SIGALRM):
            raise SystemExit(f"{' '.join(names)}: the tests did not run (exit code {code}).")
        return code == 0

    def _become_pytest(self, names: list[str]) -> None:
        import pytest

        signal.alarm(_PATIENCE)  # a fault that makes tests wait for ever is noticed too
        os.chdir(self.folder)
        sys.dont_write_bytecode = True  # two faults a second apart could share one file of bytecode
        sys.path.insert(0, str(self.folder / "src"))
        with open(self.folder / _SAID, "w") as said:
            os.dup2(said.fileno(), 1)
        files = [str(ROOT / "tests" / name) for name in names]
        os._exit(int(pytest.main([*_PLAIN, *_NOT_RACING, "--rootdir", str(ROOT), *files])))


def main(listed: list[Mutant], tests: dict[str, list[str]]) -> int:
    """Try a list, or those named on the command line; the exit code is 1 if one survives or fits no more."""
    parser = argparse.ArgumentParser(description="Try deliberate faults; each must make a test fail.")
    parser.add_argument("words", nargs="*", help="only faults whose path or name contains one of these")
    parser.add_argument("--known", type=Path, help="where to keep what was found, to go on from there")
    given = parser.parse_args()
    chosen = [m for m in listed if not given.words or any(w in f"{m.path}:{m.name}" for w in given.words)]
    gone = [m for m in chosen if not stands(m)]
    for mutant in gone:
        print(f"NOT THERE {mutant.path}: {mutant.name}; its text must stand in the file exactly once.")
    alive = _survivors([m for m in chosen if m not in gone], tests, given.known)
    killed = len(chosen) - len(gone) - len(alive)
    print(f"{len(chosen)} faults: {killed} killed, {len(alive)} survive, {len(gone)} not there.")
    return 1 if alive or gone else 0


def _survivors(chosen: list[Mutant], tests: dict[str, list[str]], known: Path | None) -> list[Mutant]:
    _import_heavy()
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name), tests, known)
        run.check(list(dict.fromkeys(m.path for m in chosen if not run.is_known(m))))
        for mutant in chosen:
            begin = time.perf_counter()
            alive = run.survives(mutant)
            said, took = "SURVIVES" if alive else "killed  ", time.perf_counter() - begin
            print(f"{said}  {mutant.path}: {mutant.name} ({mutant.why}; {took:.0f} s)", flush=True)
            survivors += [mutant] * alive
    return survivors


def _import_heavy() -> None:
    """Once, for all children; the package itself is left to each of them."""
    import hypothesis  # noqa: F401
    import numba  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
