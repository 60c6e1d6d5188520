"""The tutorials as notebooks: text becomes text cells, programs become code cells, nothing is written twice.

python scripts/notebooks.py   # writes docs/tutorials/notebooks/*.ipynb
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("click-log", "new-store")
FOLDER = ROOT / "docs/tutorials/notebooks"
_BLOCK = re.compile(r"```python\n(.*?)```\n?", re.S)


def notebook(page: str) -> dict[str, Any]:
    """A page of Markdown as a notebook (format 4.5)."""
    cells = []
    for i, part in enumerate(_BLOCK.split(page)):
        if part.strip():
            cells.append(_cell(len(cells), part.strip(), code=i % 2 == 1))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(number: int, text: str, *, code: bool) -> dict[str, Any]:
    # Pages name their figures from docs/tutorials, notebooks lie one folder deeper.
    lines = (text if code else text.replace("](../", "](../../")).splitlines(keepends=True)
    cell: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": lines}
    if code:
        return {"cell_type": "code", "execution_count": None, "outputs": [], **cell}
    return {"cell_type": "markdown", **cell}


def text_of(name: str) -> str:
    """What the file of a tutorial's notebook holds."""
    page = (ROOT / f"docs/tutorials/{name}.md").read_text(encoding="utf-8")
    return json.dumps(notebook(page), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in PAGES:
        (FOLDER / f"{name}.ipynb").write_text(text_of(name), encoding="utf-8")
