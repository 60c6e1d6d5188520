"""The README's session runs as it stands, and the comparison of modes shows what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from docs_world import names_for

ROOT = Path(__file__).parents[1]


def programs(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)


def test_the_session_goes_from_a_log_to_a_rewarded_draw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = names_for("features")  # writes log.parquet
    (session,) = programs("README.md")
    exec(session, names)
    decision = names["d"]
    assert decision.arm in ("spring", "bundle", "loyalty")
    assert decision.promise == "task"
    assert names["bandit"].status().rewards == 1
    assert decision.reason == "drawn"
    assert "left the baseline" in capsys.readouterr().out
    names["bandit"].close()


@pytest.mark.statistical
def test_comparison_with_the_papers_mode() -> None:
    names = names_for("safety")
    (comparison,) = (program for program in programs("docs/safety.md") if 'safety="paper"' in program)
    exec(comparison, names)
    regret: dict[str, Any] = {name: names[name].regret.sum() for name in ("ours", "mended", "paper")}
    assert names["ours"].violations.sum() == 0
    assert names["paper"].violations.sum() > 1000
    assert names["mended"].violations.sum() > 50
    assert regret["ours"] < 0.4 * regret["mended"] < regret["paper"]
