"""The deliberate faults of `make mutants` still fit the code: one that does not can never be noticed."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTS = ("mutants", "mutants_online", "mutants_solver")


@pytest.mark.parametrize("name", LISTS)
def test_every_fault_stands_in_the_code_once_and_has_tests(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")  # the scripts set it; other tests must not see that
    listed = import_module(name)
    gone = [f"{m.path}: {m.name}" for m in listed.MUTANTS if not sys.modules["mutation"].stands(m)]
    assert gone == [], "the code has moved on; change or drop these lines of the list"
    assert {m.path for m in listed.MUTANTS} <= set(listed.TESTS)
    for files in listed.TESTS.values():
        assert all((ROOT / "tests" / file.split("::")[0]).exists() for file in files)
