"""What runs a list of deliberate faults: each must make a test fail.

Each fault is put into a copy of the sources, alone, and the tests named for its file run against it until the
first fails. A fault that no test notices is printed: the screw it loosens is held by nothing.

What makes a run quick: the test that noticed a fault last time (`killers.json`) is tried before all others,
quick tests come before slow ones, and every fault has a process of its own that begins with all imports but
the package's own. What was found can be kept in a file (`--known`): a fault is tried again only when its
file, its tests or itself has changed, so that a run can be stopped at any time and goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from mutation_tests import ANEW, CACHED, ROOT, UNCOMPILED, Tests

PACKAGE = "src/banister"
KILLERS = Path(__file__).parent / "killers.json"
_KERNEL = re.compile(r"^@(compiled|exact|numba)", re.MULTILINE)


class Mutant(NamedTuple):
    """A fault: where, what stands there, what it becomes, and what goes wrong then."""

    name: str
    path: str
    text: str
    fault: str
    why: str

    @property
    def title(self) -> str:
        return f"{self.path}: {self.name}"


def mutants(path: str, *rows: tuple[str, str, str, str]) -> list[Mutant]:
    """The faults of one file."""
    return [Mutant(name, path, text, fault, why) for name, text, fault, why in rows]


def stands(mutant: Mutant) -> bool:
    """Whether its text stands in its file exactly once; code that moved on leaves faults behind."""
    return (ROOT / PACKAGE / mutant.path).read_text().count(mutant.text) == 1


def how(mutant: Mutant) -> str:
    """How compiled code is treated: with a fault in one kernel, whatever calls it must be compiled anew.

    Safety's kernels are many and their tests small: testing them uncompiled takes less time.
    """
    if not _KERNEL.search((ROOT / PACKAGE / mutant.path).read_text()):
        return CACHED
    return UNCOMPILED if mutant.path.startswith("safety/") else ANEW


@dataclass
class Run:
    """A copy of the sources, the tests of each file, and what is known from earlier runs."""

    folder: Path
    tests: dict[str, list[str]]
    known: Path | None
    found: dict[str, bool] = field(default_factory=dict)  # whether a fault, by its digest, survives
    killers: dict[str, str] = field(default_factory=dict)  # the test that noticed a fault, by its title
    _sound: dict[tuple[str, bool], bool] = field(default_factory=dict)  # whether tests pass without any fault

    def __post_init__(self) -> None:
        shutil.copytree(ROOT / PACKAGE, self.folder / PACKAGE)  # with what was compiled there before
        self._pytest = Tests(self.folder)
        if self.known is not None and self.known.exists():
            self.found = json.loads(self.known.read_text())
        self.killers = _killers()

    def survives(self, mutant: Mutant) -> bool:
        """Whether all tests pass with the fault in place; one that is known is not tried again."""
        key = self._digest(mutant)
        if key not in self.found:
            killer = self._killer(mutant)
            self._keep(key, mutant, killer)
        return self.found[key]

    def _killer(self, mutant: Mutant) -> str | None:
        """The first test that fails with the fault in place: the one that did last time, then all."""
        last, names = self.killers.get(mutant.title), self.tests[mutant.path]
        compiled = how(mutant) != UNCOMPILED
        if last and self._passes(last, compiled) and self._try(mutant, [last]):
            return last
        return self._try(mutant, [name for name in names if self._passes(name, compiled)])

    def _passes(self, name: str, compiled: bool) -> bool:
        """Whether tests pass without any fault; if not, their failing says nothing."""
        if (name, compiled) not in self._sound:
            self._sound[name, compiled] = self._pytest.learn(name, CACHED if compiled else UNCOMPILED)
            if not self._sound[name, compiled]:
                print(f"LEFT OUT  {name}: it fails without any fault.", flush=True)
        return self._sound[name, compiled]

    def _try(self, mutant: Mutant, names: list[str]) -> str | None:
        target = self.folder / PACKAGE / mutant.path
        with self._pytest.changed(target, mutant.text, mutant.fault):
            return self._pytest.first_failure(names, how(mutant))

    def _keep(self, key: str, mutant: Mutant, killer: str | None) -> None:
        self.found[key] = killer is None
        if self.known is not None:
            self.known.write_text(json.dumps(self.found, indent=0))
        if killer and "::" in killer and self.killers.get(mutant.title) != killer:
            self.killers = _killers() | {mutant.title: killer}  # another list may be running too
            KILLERS.write_text(json.dumps(dict(sorted(self.killers.items())), indent=0) + "\n")

    def _digest(self, mutant: Mutant) -> str:
        names = self.tests[mutant.path]
        files = [ROOT / PACKAGE / mutant.path, *(ROOT / "tests" / name.split("::")[0] for name in names)]
        texts = [*mutant, *names, *(file.read_text() for file in files)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:24]


def main(listed: list[Mutant], tests: dict[str, list[str]], excused: dict[str, str] | None = None) -> int:
    """Try a list, or those named on the command line; the exit code is 1 if one survives or fits no more.

    A fault whose title is among the `excused` may survive, for the reason given there.
    """
    given = _arguments()
    chosen = [m for m in listed if not given.words or any(w in m.title for w in given.words)]
    gone = [m for m in chosen if not stands(m)]
    for mutant in gone:
        print(f"NOT THERE {mutant.title}; its text must stand in the file exactly once.")
    alive = _survivors([m for m in chosen if m not in gone], tests, given.known, excused or {})
    killed = len(chosen) - len(gone) - len(alive)
    held = [m for m in alive if m.title in (excused or {})]
    print(
        f"{len(chosen)} faults: {killed} killed ({killed / max(len(chosen), 1):.1%}), {len(alive)} survive "
        f"({len(held)} for a reason that is written down), {len(gone)} not there."
    )
    return 1 if len(alive) > len(held) or gone else 0


def _killers() -> dict[str, str]:
    found: dict[str, str] = json.loads(KILLERS.read_text()) if KILLERS.exists() else {}
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Try deliberate faults; each must make a test fail.")
    parser.add_argument("words", nargs="*", help="only faults whose path or name contains one of these")
    parser.add_argument("--known", type=Path, help="where to keep what was found, to go on from there")
    return parser.parse_args()


def _survivors(
    chosen: list[Mutant], tests: dict[str, list[str]], known: Path | None, excused: dict[str, str]
) -> list[Mutant]:
    survivors = []
    with tempfile.TemporaryDirectory() as name:
        run = Run(Path(name), tests, known)
        for mutant in chosen:
            begin = time.perf_counter()
            alive = run.survives(mutant)
            said, took = "SURVIVES" if alive else "killed  ", time.perf_counter() - begin
            why = (
                f"{mutant.why}; {excused[mutant.title]}" if alive and mutant.title in excused else mutant.why
            )
            print(f"{said}  {mutant.title} ({why}; {took:.0f} s)", flush=True)
            survivors += [mutant] * alive
    return survivors
