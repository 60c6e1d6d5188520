"""Running tests against a copy of the sources, again and again, in processes that begin warm."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_NOT_RACING = ["-k", "not background"]  # uncompiled, a fit in the background comes late by itself
_PLAIN = ["-q", "-W", "ignore", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not statistical"]
_PATIENCE = 600  # seconds that tests may take: a fault may leave a lock shut for ever
_WORK = 20  # times the processor time without a fault, after which a loop is taken for endless
_LEAST_WORK = 120  # seconds of processor time, at the least: a fault in a kernel is compiled first
_FAILED = (1, 2, -signal.SIGALRM, -signal.SIGXCPU)  # 2: a test file cannot be imported
_ABSENT = (4, 5)  # a test that is no longer there

CACHED, ANEW, UNCOMPILED = "cached", "anew", "uncompiled"  # what becomes of code that numba compiles


class Tests:
    """Runs tests named by file or node id; the sources they test lie in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._seconds: dict[str, float] = {}  # of each test without a fault
        self._left_out: set[tuple[str, str]] = set()  # with how they were run
        self._work = 0.0  # processor time of all tests without a fault, in seconds
        self._writes = 0
        _import(["hypothesis", "numba", "numpy", "pytest", "scipy.stats"])

    def first_failure(self, names: list[str], how: str) -> str | None:
        """The node id of the first test that fails, or a word for what else went wrong; None if all pass."""
        code, told = self._run(names, how, learn=False)
        return None if code == 0 else next(iter(told.get("failed", ())), f"exit code {code}")

    def learn(self, name: str, how: str) -> bool:
        """Run tests without any fault: what they import, and how long each takes. Whether one can be used.

        What fails without a fault is left out from now on: uncompiled, rounding differs, and a few tests of
        badly conditioned fits compare to the last digits.
        """
        code, told = self._run([name], how, learn=True)
        if code in _ABSENT:
            return False
        if code not in (0, 1):
            raise SystemExit(f"{name}: the tests fail without any fault (exit code {code}).\n{self.said()}")
        for failed in told["failed"]:
            print(f"left out   {failed}: it fails without any fault", flush=True)
        self._left_out |= {(failed, how) for failed in told["failed"]}
        self._seconds |= told["seconds"]
        _import(told["modules"])
        return len(told["failed"]) < len(told["seconds"])

    def _run(self, names: list[str], how: str, learn: bool) -> tuple[int, dict[str, Any]]:
        told = self.folder / "told.json"
        told.unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            self._become_pytest(names, told, how, learn)
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if learn:
            self._work += used.ru_utime + used.ru_stime
        if code not in (0, *_FAILED, *_ABSENT):
            raise SystemExit(f"{' '.join(names)}: the tests did not run (exit code {code}).\n{self.said()}")
        return code, json.loads(told.read_text()) if told.exists() else {}

    def said(self) -> str:
        """What the last tests printed, its end."""
        return (self.folder / "pytest.txt").read_text()[-3000:]

    @contextmanager
    def changed(self, file: Path, text: str, fault: str) -> Iterator[None]:
        """A source with a fault for a while.

        Its time is one that no other version has, so that what was made of that cannot stand for it.
        """
        source, was = file.read_text(), file.stat()
        file.write_text(source.replace(text, fault))
        self._writes += 1
        os.utime(file, (self._writes, self._writes))
        try:
            yield
        finally:
            file.write_text(source)
            os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))

    def _become_pytest(self, names: list[str], told: Path, how: str, learn: bool) -> None:
        import numba
        import pytest

        self._limit()
        os.chdir(self.folder)
        numba.config.DISABLE_JIT = how == UNCOMPILED
        if how == ANEW:
            numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(dir=self.folder)
        os.environ["CI"] = "1"  # the same examples of properties each time
        sys.dont_write_bytecode = not learn
        sys.path.insert(0, str(self.folder / "src"))
        os.environ["PYTHONPATH"] = str(self.folder / "src")  # for tests that start processes
        with open(self.folder / "pytest.txt", "w") as said:
            os.dup2(said.fileno(), 1)
        files = [f"{ROOT / 'tests'}/{name}" for name in names]
        left_out = {name for name, was in self._left_out if (was == UNCOMPILED) == (how == UNCOMPILED)}
        listener, first = _Listener(self._seconds, left_out), [] if learn else ["-x"]
        code = pytest.main(
            [*_PLAIN, *first, *_NOT_RACING, "--rootdir", str(ROOT), *files], plugins=[listener]
        )
        told.write_text(json.dumps(listener.told()))
        os._exit(int(code))

    def _limit(self) -> None:
        signal.alarm(_PATIENCE)
        work = int(max(_LEAST_WORK, _WORK * self._work))
        resource.setrlimit(resource.RLIMIT_CPU, (work, work + 5))


class _Listener:
    """A plugin of pytest: puts quick tests of a file first, remembers seconds and failures."""

    def __init__(self, known: dict[str, float], left_out: set[str]) -> None:
        self._known, self._left_out = known, left_out
        self._seconds: dict[str, float] = {}
        self._failed: dict[str, None] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        order = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in items))}
        items[:] = [item for item in items if _id(item.nodeid) not in self._left_out]
        items.sort(key=lambda item: (order[item.path], self._known.get(_id(item.nodeid), 0.0)))

    def pytest_runtest_logreport(self, report: Any) -> None:
        name = _id(report.nodeid)
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if report.failed:
            self._failed[name] = None

    def told(self) -> dict[str, Any]:
        modules = [name for name, module in list(sys.modules.items()) if not _is_ours(name, module)]
        return {"failed": list(self._failed), "seconds": self._seconds, "modules": modules}


def _is_ours(name: str, module: Any) -> bool:
    """Whether a module is tested or a test: each process must read it anew. Ray does not survive a fork."""
    if name.partition(".")[0] in ("banister", "ray", "__main__"):
        return True
    file = getattr(module, "__file__", None) or ""
    return file.startswith((f"{ROOT}/tests", f"{ROOT}/benchmarks", f"{ROOT}/examples"))


def _id(nodeid: str) -> str:
    return nodeid.removeprefix("tests/")


def _import(names: list[str]) -> None:
    """Once, for all children; the package itself is left to each of them."""
    for name in names:
        with suppress(Exception):  # made by a test, or importable only there: left to it
            __import__(name)
