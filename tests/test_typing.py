"""What a type checker sees of the public names: all of them, with their types, and nothing else."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import banister

ROOT = Path(__file__).parents[1]
PROGRAM = Path(__file__).parent / "typing" / "user_program.py"
WRONG = {n for n, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("# wrong")}


def imports_for_checkers() -> dict[str, str]:
    """Name to module, as the `if TYPE_CHECKING` block of `banister/__init__.py` has them."""
    tree = ast.parse(Path(banister.__file__).read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test))
    found = [n for n in block.body if isinstance(n, ast.ImportFrom)]
    return {alias.name: str(n.module) for n in found for alias in n.names}


def test_checkers_and_the_program_import_the_same_names():
    assert imports_for_checkers() == banister._HOME


def test_the_program_has_25_mistakes():
    assert len(WRONG) == 25


def test_mypy_finds_each_mistake(tmp_path):
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-error-summary"]
    shown = subprocess.run(
        [*command, "--cache-dir", str(tmp_path), str(PROGRAM)],
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    found = {int(n) for n in re.findall(r"user_program\.py:(\d+): error", shown)}
    assert found == WRONG, shown


@pytest.mark.skipif(find_spec("basedpyright") is None, reason="basedpyright is not installed")
def test_pyright_finds_each_mistake(tmp_path):
    """basedpyright carries its own node, so it runs offline; in this mode it judges as pyright does."""
    config = tmp_path / "pyrightconfig.json"
    config.write_text(
        json.dumps(
            {
                "include": [str(PROGRAM)],
                "extraPaths": [str(ROOT / "src")],
                "typeCheckingMode": "standard",
                "pythonVersion": "3.11",
            }
        )
    )
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "basedpyright",
            "--outputjson",
            "--pythonpath",
            sys.executable,
            "-p",
            str(config),
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    issues = json.loads(shown)["generalDiagnostics"]
    found = {i["range"]["start"]["line"] + 1 for i in issues if i["severity"] == "error"}
    assert found == WRONG, shown
