"""The README's sessions run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).parents[1] / "README.md"
SESSIONS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)


def test_first_session_certifies(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec(SESSIONS[0], names)
    decision = names["d"]
    assert decision.certified
    assert decision.lower_bound >= decision.floor
    assert "certified" in capsys.readouterr().out


@pytest.mark.statistical
def test_comparison_with_the_papers_mode() -> None:
    names: dict[str, Any] = {}
    exec("import banister as bn\n" + SESSIONS[1], names)
    assert names["ours"].violations.sum() == 0
    assert names["paper"].violations.sum() > 1000
    assert names["mended"].violations.sum() > 50
    assert names["ours"].regret.sum() < 0.4 * names["mended"].regret.sum() < names["paper"].regret.sum()
