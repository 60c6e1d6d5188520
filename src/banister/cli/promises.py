"""`banister promises`: what the promises earn and break, beside policies without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from banister.cli.app import app

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from banister.studies.promises import Plan

_Names = Annotated[str, typer.Option(help="Only these, with commas; all by default.")]


@app.command()
def promises(
    worlds: Annotated[
        str, typer.Option(help="banners, items, revenue, harmful: one or several, with commas.")
    ] = "banners,items,revenue",
    policies: _Names = "",
    tasks: Annotated[int, typer.Option(help="Tasks of a world.")] = 10,
    decisions: Annotated[int, typer.Option(help="Decisions of a trial, over all tasks.")] = 5_000,
    trials: Annotated[int, typer.Option(help="Trials of each policy in each world.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the first trial; the same seed gives the same rows.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Draw the two figures too: a file that ends in .svg, .png or .pdf.")
    ] = None,
) -> None:
    """What each promise earns and breaks over time, beside policies that promise nothing.

    Worlds where the same actions come again and nobody reports what the baseline is worth; at most 10 % of
    its reward may be risked. The policies of the three promises are what `SafeBandit` holds.

    [bold]Example[/]: banister promises --worlds banners --tasks 20 --decisions 50000 --trials 4
    --out promises.svg

    The table: [bold]captured[/], the share of what the best actions would add to the baseline; the gain over
    the baseline a decision; decisions below their own floor; tasks whose total was below its floor at some
    time, and at the end; trials in which the total of all tasks was below at some time.
    """
    from rich.console import Console

    from banister.report.promises import check_path, draw
    from banister.studies.promises import PLAYERS, Plan

    if out is not None:
        check_path(out)
    plan = Plan(
        worlds=_split(worlds), players=_split(policies) or tuple(PLAYERS), tasks=tasks, decisions=decisions,
        trials=trials, seed=seed,
    )  # fmt: skip
    screen = Console()
    rows = _play(screen, plan)
    for world in plan.worlds:
        screen.print(_table(rows, world))
    if out is not None:
        draw(rows, tasks, out)
        screen.print(f"figure: {out}", highlight=False)


def _play(screen: Console, plan: Plan) -> pl.DataFrame:
    import polars as pl

    from banister.studies.promises import play

    frames = []
    with screen.status("") as status:
        for world, player, trial in plan.games():
            status.update(f"{world}: {player}, trial {trial + 1} of {plan.trials} …")
            frames.append(play(plan, world, player, trial))
    return pl.concat(frames)


def _table(rows: pl.DataFrame, world: str) -> Table:
    from rich.table import Table

    from banister.report.style import look
    from banister.studies.promises import MEANING, summary

    table = Table(title=f"{world}: {MEANING[world]}", title_justify="left")
    table.add_column("policy")
    for name in (
        "captured",
        "gain",
        "below its floor",
        "tasks below, ever",
        "at the end",
        "fleet below, trials",
    ):
        table.add_column(name, justify="right")
    for row in summary(rows.filter(rows["world"] == world)).iter_rows(named=True):
        table.add_row(
            look(row["policy"]).label, f"{row['captured']:.2f}", f"{row['gain']:+.4f}", f"{row['below']:.2%}",
            f"{row['tasks_ever']:.1f}", f"{row['tasks_now']:.1f}", f"{row['fleet']} of {row['trials']}",
        )  # fmt: skip
    return table


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())
