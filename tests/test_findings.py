"""The block of figures in docs/reproduction.md: made from the published rows, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from banister.simulation.store import Store
from banister.studies import manifest
from banister.studies.findings import BEGIN, END, block_of, findings, rewrite
from banister.studies.panels import DEFAULT, PANELS
from banister.studies.publish import publish, read_published, write_compactly, write_report
from banister.studies.workload import workload_for

DOCS = Path(__file__).parents[1] / "docs"


def rows_by_hand(trials: int = 3) -> pl.DataFrame:
    """Regret 10 a trial for the certified policy and 20 for the converged one, who also violates once."""
    one = {
        "point": DEFAULT.name,
        "epoch": 1,
        "decisions": 100,
        "literal_violations": 0,
        "error": 0.01,
        "wall": 4.0,
    }
    more = {"certified": 0.5, "cumulative_violations": 0, "warnings": 0, "seconds": 1.0}
    players = {"certified": (10.0, 0, 0.0), "converged": (20.0, 1, 0.125)}
    return pl.DataFrame(
        [
            {**one, **more, "policy": name, "trial": t, "regret": r, "violations": v, "relative_shortfall": s}
            for name, (r, v, s) in players.items()
            for t in range(trials)
        ]
    )


def record_by_hand() -> dict:
    work = workload_for([PANELS["1a"]], trials=3, readings=False)
    record = manifest.describe(work, kind="reproduce", panels=["1a"], command="banister reproduce")
    times = {"began": "2026-01-01T00:00:00", "ended": "2026-01-01T01:00:00", "seconds": 3600.0}
    return {**record, "sessions": [{**times, "jobs": 3, "workers": 2}]}


def test_the_block_says_what_the_rows_say() -> None:
    text = findings(rows_by_hand(), record_by_hand())
    assert "60 minutes on 2 workers; 3 to 3 trials" in text
    assert "| Safe-AltGDmin, certified | 3 | 0 | 0 | – |" in text
    assert "| Safe-AltGDmin, converged | 3 | 3 | 1 | 0.125 |" in text
    assert "| synthetic | 10 | 20 | – | – | – | – | 0.5 |" in text
    assert "certified | 10 | 0 | 1 |" in text  # the last step of the repairs


def test_a_page_is_rewritten_between_its_marks_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", "utf-8")
    assert rewrite(page, "new")
    assert block_of(page) == "new"
    assert page.read_text("utf-8").startswith("before\n")
    assert page.read_text("utf-8").endswith("\nafter\n")
    page.write_text("no marks", "utf-8")
    assert not rewrite(page, "new")
    assert page.read_text("utf-8") == "no marks"


def test_publishing_writes_rows_and_block_that_agree(tmp_path: Path) -> None:
    folder, target = tmp_path / "run", tmp_path / "shown"
    folder.mkdir()
    rows_by_hand().write_parquet(folder / "results.parquet")
    record = record_by_hand()
    Store(folder).write_manifest(record)
    write_report(folder, Store(folder).rows())
    (tmp_path / "shown.md").write_text(f"{BEGIN}\n{END}", "utf-8")
    publish(folder, target)
    assert block_of(tmp_path / "shown.md") == findings(read_published(target / "results.parquet"), record)


def test_compact_rows_keep_seven_digits(tmp_path: Path) -> None:
    rows = rows_by_hand().with_columns(regret=pl.col("regret") * 1.23456789)
    back = write_compactly(rows, tmp_path / "rows.parquet")
    regret = rows.sort("policy", "point", "trial")["regret"].to_list()
    assert back["regret"].to_list() == pytest.approx(regret, rel=1e-6)
    assert back["violations"].sum() == rows["violations"].sum()


def test_the_documentation_quotes_the_published_rows() -> None:
    rows = read_published(DOCS / "reproduction" / "results.parquet")
    record = json.loads((DOCS / "reproduction" / "manifest.json").read_text("utf-8"))
    # Rows of versions before 0.2 lack measures that every table needs: then nothing may be quoted.
    expected = findings(rows, record) if "cumulative_violations" in rows.columns else ""
    assert block_of(DOCS / "reproduction.md") == expected
