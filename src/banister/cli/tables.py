"""The tables that the study's commands print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from banister.report.intervals import mean_interval
from banister.report.numbers import number
from banister.report.style import look
from banister.report.summary import per_trial

if TYPE_CHECKING:
    import polars as pl

    from banister.simulation.store import Job
    from banister.studies.claims import Judged
    from banister.studies.workload import Workload

_COLUMNS = (
    ("regret", "regret"),
    ("violations", "below floor"),
    ("cumulative_violations", "in total"),
    ("error", "error, %"),
    ("seconds", "seconds"),
)
_WITH_INTERVAL = "regret"  # one, so that names and numbers fit into 80 columns
_CAPTION = (
    "regret: reward lost against the best action; below floor: decisions of 20,000 that were expected to "
    "earn less than 80 % of the baseline; in total: decisions after which a task's sum so far was; error: of "
    "the estimated parameters; seconds: of deciding and learning, one trial."
)
_COLOURS = {"holds": "green", "does not hold": "red", "depends": "yellow"}


def policies_table(rows: pl.DataFrame | None, names: tuple[str, ...], trials: int) -> Table:
    """Policies by measure, means of trials; a policy without rows yet is shown waiting."""
    import polars as pl

    title = f"Default setting, means of trials: {trials}; ± is half of the 95 % interval"
    table = Table(title=title, title_justify="left", caption=_CAPTION, caption_justify="left", box=None)
    table.padding = (0, 1, 0, 0)
    table.add_column("policy")  # where the terminal is narrow, names wrap and numbers stay whole
    for _, label in _COLUMNS:
        table.add_column(label, justify="right", no_wrap=True)
    found = None if rows is None else per_trial(rows)
    for name in names:
        mine = None if found is None else found.filter(pl.col("policy") == name)
        label = f"[{look(name).colour}]●[/] {look(name).label}"
        if mine is None or mine.is_empty():
            table.add_row(label, *["[dim]…[/]"] * len(_COLUMNS))
        else:
            cells = [_cell(mine[column].to_numpy(), column == _WITH_INTERVAL) for column, _ in _COLUMNS]
            table.add_row(label, *cells)
    return table


def _cell(values: Any, with_interval: bool) -> str:
    mean, low, high = mean_interval(values)
    if mean != mean:  # a policy without an estimate
        return "–"
    if not with_interval or low != low or low == high:
        return number(mean)
    return f"{number(mean)} [dim]±{number((high - low) / 2, 1)}[/]"


def claims_table(judged: list[Judged]) -> Table:
    """One line a claim."""
    table = Table(
        "verdict", "claim", "panels", title="The paper's claims, and ours", title_justify="left", box=None
    )
    for each in judged:
        colour = _COLOURS.get(each.verdict, "dim")
        readings = ", ".join(f"{check.reading}: {check.verdict}" for check in each.checks if check.decides)
        words = each.claim.words + (f"\n[dim]{escape(readings)}[/]" if len(each.checks) > 1 else "")
        table.add_row(f"[{colour}]{each.verdict}[/]", words, ", ".join(each.claim.panels))
    return table


def panels_table() -> Table:
    """What `reproduce` can draw."""
    from banister.studies.panels import PANELS

    table = Table("panel", "shows", "settings", title="Panels", title_justify="left", box=None)
    for panel in PANELS.values():
        shown = ", ".join(f"{x:g}" for x in panel.xs) or panel.points[0].name
        table.add_row(panel.id, panel.title, f"{panel.x_label}: {shown}" if panel.xs else shown)
    return table


def claims_list() -> Table:
    """What `reproduce` checks."""
    from banister.studies.claims import CLAIMS

    table = Table("claim", "in our words", "panels", title="Claims", title_justify="left", box=None)
    for claim in CLAIMS:
        table.add_row(claim.id, claim.words, ", ".join(claim.panels))
    return table


def workload_table(work: Workload, missing: list[Job], seconds: dict[str, float]) -> Table:
    """What a reproduction would run, point by point."""
    table = Table("point", "policy × trials", "left", "minutes of one core", box=None)
    for point in work.points:
        counts = {name: n for (where, name), n in work.trials.items() if where == point}
        left = sum(job.point == point for job in missing)
        shown = ", ".join(f"{name} {n}" for name, n in counts.items())
        table.add_row(point.name, shown, str(left), f"{seconds.get(point.name, 0.0) / 60:.1f}")
    return table
