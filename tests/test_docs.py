"""The documentation: every public name has an entry and an example, its programs run, its map is true."""

from __future__ import annotations

import importlib.util
import itertools
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import banister
from docs_world import SMALLER, names_for

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ("click-log", "new-store")  # run as such, in test_tutorials.py
PAGES = [
    page
    for page in sorted(ROOT.glob("docs/**/*.md"))
    if "```python\n" in page.read_text(encoding="utf-8") and page.stem not in NOTEBOOKS
]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_an_entry():
    assert script("docs_hook").undocumented(ROOT / "docs/reference") == []


def test_a_name_without_an_entry_is_found(tmp_path):
    (tmp_path / "page.md").write_text("::: banister.online.bandit.SafeBandit\n")
    missing = script("docs_hook").undocumented(tmp_path)
    assert "SafeBandit" not in missing
    assert set(missing) == set(banister._HOME) - {"SafeBandit"}


@pytest.mark.parametrize("name", sorted(banister._HOME))
def test_every_public_name_has_an_example_that_runs_as_a_doctest(name):
    if name == "MovieLens":
        pytest.skip("its example needs the data set, which is never part of the project")
    assert ">>> " in getattr(banister, name).__doc__


@pytest.mark.filterwarnings("ignore::banister.errors.BanisterWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_programs_of_a_page_run(page, tmp_path, monkeypatch):
    """All blocks of a page in order, as one program, in a folder with what the page takes for granted."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    monkeypatch.chdir(tmp_path)
    names = names_for(page.stem)
    for i, block in enumerate(blocks):
        if "adapters.gymnasium" in block:
            pytest.importorskip("gymnasium", reason="gymnasium is not installed")
        if "RayPool" in block:
            pytest.importorskip("ray", reason="ray is not installed")
        if "decisions.parquet" in block:
            names["bandit"].export("decisions.parquet")
        for written, run in SMALLER.get(page.stem, {}).items():
            block = block.replace(written, run)
        exec(compile(block, f"{page.name}, block {i}", "exec"), names)


ITEM = re.compile(r"\s*([-*] |\d+\. )")


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda p: p.stem)
def test_a_list_has_a_blank_line_before_it(page):
    """Without one the site shows its items as one paragraph."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for before, line in itertools.pairwise(text.split("\n")):
        if ITEM.match(line) and not line.startswith(" "):
            assert not before.strip() or ITEM.match(before) or before.startswith((" ", "#")), line


def test_the_map_is_drawn_from_the_contract():
    drawn = (ROOT / "docs/figures/architecture.svg").read_text(encoding="utf-8")
    assert drawn == script("draw_map").picture()
    folders = {p.parent.name for p in (ROOT / "src/banister").glob("*/__init__.py")}
    assert folders <= {room for layer in script("draw_map").layers() for room in layer}


def test_the_version_stands_in_one_place():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["dynamic"] == ["version"]
    assert "version" not in settings["project"]
    assert settings["tool"]["hatch"]["version"]["path"] == "src/banister/__init__.py"


def test_every_extra_that_an_error_names_exists():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = set(settings["project"]["optional-dependencies"])
    named = set()
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        named |= set(re.findall(r'MissingExtraError\.of\("\w+", "(\w+)"\)', text))
    from banister import extras

    for group in (
        extras.LOGS,
        extras.STUDY,
        extras.FIGURES,
        extras.PAGES,
        extras.RAY,
        extras.SERVE,
        extras.CLIENT,
    ):
        named |= set(group.values())
    assert named == {"gym", "logs", "ray", "study", "report", "serve", "client"}
    assert named <= known
