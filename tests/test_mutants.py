"""The deliberate faults of `make mutants` still fit the code: one that does not can never be noticed."""

from __future__ import annotations

import ast
import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LISTS = ("mutants", "mutants_online", "mutants_solver", "mutants_sampled")


@pytest.fixture
def listed(request, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module(request.param)


@pytest.mark.parametrize("listed", LISTS, indirect=True)
def test_every_fault_stands_in_the_code_once_and_has_tests(listed):
    gone = [m.title for m in listed.MUTANTS if not sys.modules["mutation"].stands(m)]
    assert gone == [], "the code has moved on; change or drop these lines of the list"
    assert {m.path for m in listed.MUTANTS} <= set(listed.TESTS)
    for files in listed.TESTS.values():
        assert all((ROOT / "tests" / file.split("::")[0]).exists() for file in files)


@pytest.mark.parametrize("listed", ["mutants_sampled"], indirect=True)
def test_a_sample_is_drawn_from_its_seed_and_every_fault_is_another_program(listed):
    sample = sys.modules["mutation_sample"].sample
    assert [m.title for m in listed.MUTANTS] == [m.title for m in sample(listed.ROOMS, 100, listed.SEED)]
    for mutant in listed.MUTANTS[:20]:
        assert ast.dump(ast.parse(mutant.fault)) != ast.dump(ast.parse(mutant.text))


@pytest.mark.parametrize("listed", ["mutants_sampled"], indirect=True)
def test_the_ways_of_drawing_a_fault(listed, tmp_path, monkeypatch):
    drawing = sys.modules["mutation_sample"]
    monkeypatch.setattr(drawing, "ROOT", tmp_path)
    file = tmp_path / drawing.PACKAGE / "room" / "file.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        'def f(a: int = 3) -> "Box[5]":\n    """A text: é."""\n    g(a)\n    raise E(a < 1 and not 2)\n'
    )
    faults = {m.name: m.fault for m in drawing.sample(["room"], 10**6, 0)}
    assert set(faults) == {"3 -> 4", "g(a) -> pass"}
    assert 'int = (4)) -> "Box[5]"' in faults["3 -> 4"]
    file.write_text("é = a <= b + 1 if not c or True else -d\n")
    names = {m.name for m in drawing.sample(["room"], 10**6, 0)}
    assert {"a <= b + 1 -> a < b + 1", "b + 1 -> b - 1", "not c -> c", "-d -> d", "True -> False"} < names
    assert {"not c or True -> not c and True", "1 -> 2"} < names


def test_the_tests_that_noticed_faults_are_still_there():
    noticed = json.loads((ROOT / "benchmarks" / "killers.json").read_text())
    for title, test in noticed.items():
        file, _, name = test.partition("::")
        assert f"def {name.split('[')[0].split('::')[-1]}(" in (ROOT / "tests" / file).read_text(), title
