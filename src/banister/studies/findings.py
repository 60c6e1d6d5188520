"""What a reproduction found, as Markdown made from its rows: the block that the documentation quotes.

`publish` writes it between two marks of the page beside the published folder, so that no figure there is
typed by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banister.environments.storage import write_atomically
from banister.report.numbers import number
from banister.report.summary import per_trial
from banister.simulation.point import KNOWS, MOVIELENS, RATED, Point
from banister.studies.claims import Judged, judge
from banister.studies.competitors import COMPETITORS, FILMS, OURS, PAPERS, STEPS
from banister.studies.evidence import Evidence
from banister.studies.panels import DEFAULT, FILMED, NOISY, SWEPT

if TYPE_CHECKING:
    import polars as pl

BEGIN, END = "<!-- made from the rows by `banister report`: begin -->", "<!-- made from the rows: end -->"

Means = dict[tuple[str, str], dict[str, float]]


def findings(rows: pl.DataFrame, record: dict[str, Any]) -> str:
    """The block: how it was made, verdicts, violations, regrets, repairs, knowledge, noise, time."""
    means, judged = _means(rows), judge(Evidence(rows), tuple(record["panels"]))
    parts = [
        _made(rows, record),
        _verdicts(judged),
        _violations(rows),
        _regrets("Regret, synthetic", means, SWEPT, PAPERS, against="converged"),
        _regrets("Regret, MovieLens", means, FILMED, FILMS, against="pooled-ucb"),
        _steps(means),
        _known(means),
        _noise(means),
        _time(rows),
    ]
    return "\n\n".join(part for part in parts if part)


def rewrite(page: Path, text: str) -> bool:
    """Put the block between the marks of a page; False if there is no such page or it has no marks."""
    if not page.is_file() or BEGIN not in (whole := page.read_text("utf-8")):
        return False
    before, rest = whole.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    write_atomically(page, f"{before}{BEGIN}\n\n{text}\n\n{END}{after}".encode())
    return True


def block_of(page: Path) -> str:
    """What stands between the marks of a page."""
    return page.read_text("utf-8").split(BEGIN, 1)[1].split(END, 1)[0].strip()


def _means(rows: pl.DataFrame) -> Means:
    """Mean regret, violations and error by (point, policy)."""
    import polars as pl

    names = ("regret", "violations", "error")
    table = per_trial(rows).group_by("point", "policy").agg(pl.col(names).mean())
    return {(row["point"], row["policy"]): row for row in table.iter_rows(named=True)}


def _made(rows: pl.DataFrame, record: dict[str, Any]) -> str:
    made, sessions = record["made_with"], record["sessions"]
    spent = sum(session["seconds"] for session in sessions) / 60
    day = sessions[-1]["ended"][:10] if sessions else "never"
    workers = sessions[-1]["workers"] if sessions else 0
    counts = sorted(per_trial(rows).group_by("point", "policy").len()["len"])
    return (
        f"Finished {day} with banister {made['banister']}, revision {made['revision']}, "
        f"seed {record['seed']}: {spent:.0f} minutes on {workers} workers; "
        f"{counts[0]} to {counts[-1]} trials of a policy at a point."
    )


def _verdicts(judged: list[Judged]) -> str:
    by_verdict: dict[str, list[str]] = defaultdict(list)
    for each in judged:
        if not each.claim.ours:
            by_verdict[each.verdict].append(each.claim.id)
    lines = [[verdict, str(len(ids)), ", ".join(ids)] for verdict, ids in by_verdict.items()]
    total = sum(len(ids) for ids in by_verdict.values())
    return f"**The paper's {total} claims**\n\n" + _table(["verdict", "claims", "which"], lines)


def _violations(rows: pl.DataFrame) -> str:
    import polars as pl

    lines = []
    # On real ratings no linear model is true, so a violation may be the model's: those have their own panels.
    trials = per_trial(rows).filter(~pl.col("point").str.starts_with(RATED))
    for policy in (*FILMS, "ucb", "sege", "clucb2"):
        own = trials.filter(pl.col("policy") == policy)
        if own.is_empty():
            continue
        bad = own.filter(pl.col("violations") > 0)
        worst = number(_number(own["shortfall"].max())) if bad.height else "–"
        lines.append(
            [
                COMPETITORS[policy].label,
                f"{own.height:,}",
                f"{bad.height:,}",
                number(_number(own["violations"].mean())),
                worst,
            ]
        )
    head = [
        "all settings but real ratings",
        "trials",
        "with a violation",
        "violations a trial",
        "largest, share of the floor",
    ]
    return "**Violations of the floor**\n\n" + _table(head, lines)


def _regrets(
    title: str, means: Means, points: Sequence[Point], policies: Sequence[str], *, against: str
) -> str:
    lines = []
    for point in points:
        found = [means.get((point.name, policy)) for policy in policies]
        if any(found):
            ours, other = means.get((point.name, "certified")), means.get((point.name, against))
            ratio = number(ours["regret"] / other["regret"]) if ours and other else "–"
            cells = [number(each["regret"]) if each else "–" for each in found]
            lines.append([point.name, *cells, ratio])
    head = ["mean of all trials", *(COMPETITORS[p].label for p in policies)]
    ratio_head = f"certified / {COMPETITORS[against].label}"
    return f"**{title}**\n\n" + _table([*head, ratio_head], lines) if lines else ""


def _steps(means: Means) -> str:
    lines = [
        [
            COMPETITORS[name].label,
            *(number(means[DEFAULT.name, name][m]) for m in ("regret", "violations", "error")),
        ]
        for name in STEPS
        if (DEFAULT.name, name) in means
    ]
    return "**From the printed algorithm to the repaired one**\n\n" + _table(
        ["default setting", "regret", "violations", "error, %"], lines
    )


def _known(means: Means) -> str:
    lines = []
    for name in ("certified", "thompson", "ucb", "pooled-ucb"):
        points = [Point.of(MOVIELENS, knows=level).name for level in KNOWS]
        found = [means.get((point, name)) for point in points]
        if any(found):
            lines.append([COMPETITORS[name].label, *(number(e["regret"]) if e else "–" for e in found)])
    head = ["regret, MovieLens, told", *KNOWS.values()]
    return "**What knowledge is worth**\n\n" + _table(head, lines) if lines else ""


def _noise(means: Means) -> str:
    levels = [str(dict(point.settings).get("noise_std", 0.001)) for point in NOISY]
    lines = []
    for name in (*OURS, "thompson"):
        for measure in ("regret", "violations"):
            found = [means.get((point.name, name)) for point in NOISY]
            if any(found):
                cells = [number(each[measure]) if each else "–" for each in found]
                lines.append([f"{COMPETITORS[name].label}: {measure}", *cells])
    return "**By noise**\n\n" + _table(["standard deviation", *levels], lines) if lines else ""


def _time(rows: pl.DataFrame) -> str:
    """Minutes of one core by policy, of deciding and learning."""
    import polars as pl

    spent = per_trial(rows).group_by("policy").agg(minutes=pl.col("seconds").sum() / 60)
    found = spent.sort("minutes", "policy", descending=True).iter_rows()
    words = ", ".join(f"{COMPETITORS[policy].label} {spent:.0f}" for policy, spent in found if spent >= 0.5)
    return f"Minutes of one core by policy: {words or 'less than one'}."


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = "| --- |" + " ---: |" * (len(head) - 1)
    return "\n".join([_line(head), rule, *(_line(cells) for cells in lines)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
