"""A small version of `benchmarks/crash.py`: three kills under load, nothing acknowledged is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from places import BOTH, URL

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "crash.py"


@pytest.mark.parametrize("kind", BOTH)
def test_nothing_acknowledged_is_lost(tmp_path, kind):
    out = tmp_path / "crash.json"
    command = [sys.executable, str(SCRIPT), "--kills", "3", "--longest", "0.6", "--out", str(out)]
    if kind == "postgres":
        command += ["--place", URL, "--processes", "3"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(out.read_text())
    assert (found["kills"], found["lost"], found["audits_failed"]) == (3, [], 0)
    assert sum(store["decisions"] for store in found["stores"]) > 0
