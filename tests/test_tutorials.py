"""The tutorials: their notebooks follow their pages and run cell by cell, their stories hold in short."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from test_docs import ROOT, script
from test_examples import story

PAGES = script("notebooks").PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_notebook_is_its_page_and_runs(name, tmp_path, monkeypatch):
    text = (ROOT / f"docs/tutorials/notebooks/{name}.ipynb").read_text(encoding="utf-8")
    assert text == script("notebooks").text_of(name), "run: python scripts/notebooks.py"
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
    assert len(cells) >= 3
    for i, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"{name}, cell {i}", "exec"), names)


def test_a_page_becomes_cells():
    page = "# Title\n\n![x](../figures/a.svg)\n\n```python\na = 1\n```\n\nMore.\n```python\nb = a\n```\n"
    made = script("notebooks").notebook(page)
    assert [c["cell_type"] for c in made["cells"]] == ["markdown", "code", "markdown", "code"]
    assert made["cells"][0]["source"][-1] == "![x](../../figures/a.svg)"
    assert made["cells"][3]["source"] == ["b = a"]
    assert len({c["id"] for c in made["cells"]}) == 4


@pytest.mark.statistical
def test_click_log(tmp_path):
    after_long, after_short = story("click_log", tmp_path)
    names = [c.name for c in after_long]
    assert [n.startswith("Banister") for n in names[:4]] == [True, True, True, False]
    for courses in (after_long, after_short):
        assert not courses[0].fallen  # no store's total below its floor, after any visit
        assert courses[2].below == 0  # without a range not even a single visit
    assert np.mean(after_long[0].gain) > 0
    assert np.mean(after_long[0].gain[-1000:]) > np.mean(after_long[0].gain[:1000])
    assert min(c.below for c in after_long[3:]) > 0  # the others do leave the floor


def test_what_is_written_about_the_click_log_is_what_was_measured():
    """Every figure in the text below the tables stands in the tables."""
    page = (ROOT / "docs/tutorials/click-log.md").read_text(encoding="utf-8")
    tables, text = page.split("<!-- tables: ")[1].split("<!-- end of tables -->")
    told = [n for n in re.findall(r"[+−]?\d[\d.,]*(?: %)?", text) if n not in ("90 %", "0.1")]
    cells = re.findall(r"[+-]?\d[\d.,]*%?", tables)
    assert len(told) >= 3
    assert not [n for n in told if n.replace("−", "-").replace(" ", "").rstrip(".,") not in cells]


@pytest.mark.statistical
def test_new_store(tmp_path):
    shared, alone = story("new_store", tmp_path)
    assert sum(p.below for p in shared + alone) == 0
    assert shared[0].gain > 0.1  # after six days
    assert alone[0].gain < 0.05
    assert alone[-1].gain > 0.2
