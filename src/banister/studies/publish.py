"""From rows to what people look at: claims, figures, one page; and a copy small enough to commit."""

from __future__ import annotations

import io
import math
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banister.environments.storage import write_atomically
from banister.errors import SettingError
from banister.report import figures
from banister.report.numbers import number
from banister.report.page import Page, drawn, render
from banister.report.panel import Panel
from banister.simulation.store import Store
from banister.studies.claims import Judged, judge
from banister.studies.competitors import COMPETITORS
from banister.studies.evidence import Evidence
from banister.studies.findings import findings, rewrite
from banister.studies.headlines import headlines, quick_headlines, remarks
from banister.studies.panels import PANELS
from banister.studies.quick import PANELS_SHOWN

if TYPE_CHECKING:
    import polars as pl

PUBLISHED_LIMIT = 6_000_000  # bytes

_DEFAULT_TEXT = (
    "d = 100, r = 2, T = 100, K = 10, 5th-best baseline, noise variance 1e-6, α = 0.2, 4 epochs of 50 rounds"
)
_FILES = ("report.html", "claims.csv", "claims.md", "manifest.json")


def write_report(folder: Path, rows: pl.DataFrame, *, pictures: bool = True) -> Path:
    """Write the page, and for a reproduction the claims; `pictures`: also each figure as PDF and PNG."""
    record = Store(folder).manifest()
    quick = record.get("kind") == "run"
    panels = list(PANELS_SHOWN) if quick else [PANELS[name] for name in record["panels"] if name in PANELS]
    judged = [] if quick else judge(Evidence(rows), tuple(record["panels"]))
    if judged:
        write_claims(folder, judged)
    if pictures:
        draw_all(folder / "figures", rows, panels)
    page = _quick_page(rows, record) if quick else _page(rows, record, judged)
    target = folder / "report.html"
    write_atomically(target, render(page, drawn(rows, panels)).encode())
    return target


def draw_all(folder: Path, rows: pl.DataFrame, panels: list[Panel]) -> None:
    """Every panel that has rows, as PDF and PNG."""
    for each in drawn(rows, panels):
        figures.save(each.panel, each.table, folder)


def claim_records(judged: list[Judged]) -> list[dict[str, Any]]:
    """The claims as plain values, for the page and for files."""
    return [
        {
            "id": each.claim.id,
            "verdict": each.verdict,
            "words": each.claim.words,
            "panels": list(each.claim.panels),
            "why": each.claim.why,
            "ours": each.claim.ours,
            "checks": [_check_record(check) for check in each.checks],
        }
        for each in judged
    ]


def _check_record(check: Any) -> dict[str, Any]:
    nothing = {"value": math.nan, "low": math.nan, "high": math.nan, "trials": 0, "where": ""}
    numbers = nothing if check.estimate is None else check.estimate._asdict()
    words = {key: value for key, value in asdict(check).items() if key != "estimate"}
    return {**words, **numbers}


def write_claims(folder: Path, judged: list[Judged]) -> None:
    """`claims.csv` with every reading, and `claims.md` for people."""
    import polars as pl

    flat = [
        {"claim": record["id"], "overall": record["verdict"], **check}
        for record in claim_records(judged)
        for check in record["checks"]
    ]
    buffer = io.BytesIO()
    pl.DataFrame(flat, infer_schema_length=None).write_csv(buffer)
    write_atomically(folder / "claims.csv", buffer.getvalue())
    write_atomically(folder / "claims.md", _claims_text(claim_records(judged)).encode())


def _claims_text(records: list[dict[str, Any]]) -> str:
    names = ("claim", "verdict", "reading", "statistic", "value", "95 % interval")
    lines = ["| " + " | ".join(names) + " |", "| --- " * len(names) + "|"]
    for record in records:
        for i, check in enumerate(record["checks"]):
            claim = f"{record['words']} ({', '.join(record['panels'])})" if i == 0 else ""
            interval = f"{number(check['low'])} … {number(check['high'])}"
            reading = check["reading"] + (f" (but {check['contradicts']})" if check["contradicts"] else "")
            words = (check["verdict"], reading, check["statistic"])
            cells = (claim, *words, number(check["value"]), interval)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _page(rows: pl.DataFrame, record: dict[str, Any], judged: list[Judged]) -> Page:
    dates = [session["ended"][:10] for session in record["sessions"]]
    return Page(
        title="Safe-AltGDmin: the paper's study, reproduced",
        lead="Every figure and every claim of the paper’s results section, checked on fresh runs, with our "
        f"certified policy beside it. Finished {dates[-1] if dates else 'never'}.",
        headlines=headlines(rows, judged),
        claims=claim_records(judged),
        settings=_settings(rows, record),
        commands=["pip install banister", "banister data movielens-100k", record["command"]],
        notes=remarks(rows, record),
        policies=_policies(rows),
    )


def _quick_page(rows: pl.DataFrame, record: dict[str, Any]) -> Page:
    return Page(
        title="Bandits with a handrail: the default setting",
        lead="100 related problems, 10 actions, 200 rounds: the paper’s default synthetic setting, every "
        "policy on the same requests.",
        headlines=quick_headlines(rows),
        settings=_settings(rows, record),
        commands=[record["command"], "banister reproduce   # all figures and claims"],
        policies=_policies(rows),
    )


def _policies(rows: pl.DataFrame) -> list[tuple[str, str]]:
    seen = set(rows["policy"].unique())
    return [(c.label, c.meaning) for name, c in COMPETITORS.items() if name in seen]


def _settings(rows: pl.DataFrame, record: dict[str, Any]) -> list[tuple[str, str]]:
    spent = sum(session["seconds"] for session in record["sessions"])
    counts, sessions = _trials(rows), len(record["sessions"])
    made = record["made_with"]
    several = f"{counts[0]} to {counts[-1]} by point and policy; the tables say how many"
    movies = [("MovieLens", "d = 100, T = 5, r = 1, gaps filled by collaborative filtering")]
    return [
        ("default setting", _DEFAULT_TEXT),
        *(movies if rows["point"].str.starts_with("movielens").any() else []),
        ("trials", several if len(counts) > 1 else f"{counts[0]} of every policy"),
        ("seed", str(record["seed"])),
        ("time", f"{spent / 60:.1f} minutes" + (f" in {sessions} sessions" if sessions > 1 else "")),
        ("banister", f"{made['banister']} {made['revision']}".strip()),
        ("libraries", ", ".join(f"{k} {made[k]}" for k in ("python", "numpy", "scipy", "numba", "polars"))),
        ("machine", f"{made['processor']}, {made['cores']} cores, {made['system']}"),
    ]


def _trials(rows: pl.DataFrame) -> list[int]:
    """How many trials were played at points, by policy: of an unfinished run those that there are."""
    import polars as pl

    counts = rows.group_by("point", "policy").agg(pl.col("trial").n_unique())
    return sorted(counts["trial"].unique().to_list())


def publish(folder: Path, target: Path) -> int:
    """Copy the page, figures and tables to `target`; returns the bytes there, which must stay under 6 MB.

    Where a page named after `target` (docs/reproduction.md for docs/reproduction) has a block for what was
    found, the block is written anew from the published rows.
    """
    target.mkdir(parents=True, exist_ok=True)
    for name in _FILES:
        if (folder / name).is_file():
            shutil.copyfile(folder / name, target / name)
    shutil.copytree(folder / "figures", target / "figures", dirs_exist_ok=True)
    rows = write_compactly(Store(folder).rows(), target / "results.parquet")
    record = Store(folder).manifest()
    if record["kind"] == "reproduce":
        rewrite(target.with_suffix(".md"), findings(rows, record))
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
    if size > PUBLISHED_LIMIT:
        raise SettingError(f"{target} now holds {size:,} bytes, more than the {PUBLISHED_LIMIT:,} to commit.")
    return size


def write_compactly(rows: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Rows with seven digits, which is more than any table shows, in half the bytes; what was written."""
    import polars as pl
    import polars.selectors as cs

    small = rows.sort("policy", "point", "trial", "epoch").with_columns(cs.float().cast(pl.Float32))
    buffer = io.BytesIO()
    small.write_parquet(buffer, compression="zstd", compression_level=19)
    write_atomically(path, buffer.getvalue())
    return read_published(path)


def read_published(path: Path) -> pl.DataFrame:
    """The rows of a published run, in double precision again."""
    import polars as pl
    import polars.selectors as cs

    return pl.read_parquet(path).with_columns(cs.float().cast(pl.Float64))
