"""`banister data`: get a data set and check it; `banister data pack`: make a folder larger than memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from banister.cli.app import app


class _GetByDefault(TyperGroup):
    """`banister data movielens-100k` gets that data set: a word that is no command is a name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["get", *args]
        return super().parse_args(ctx, args)


group = typer.Typer(cls=_GetByDefault, help="Data sets, and folders of rows larger than memory.")
app.add_typer(group, name="data")


@group.command()
def pack(
    source: Annotated[
        Path, typer.Argument(help="A .parquet or .csv file, or a pattern such as 'log-*.parquet'.")
    ],
    folder: Annotated[Path, typer.Argument(help="A new folder for the packed rows.")],
    task: Annotated[str, typer.Option(help="Column that names the task.")] = "task",
    reward: Annotated[str, typer.Option(help="Column with the reward.")] = "reward",
    features: Annotated[
        str | None, typer.Option(help="Feature columns with commas between; by default all others.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float64, or float32 for half the space.")] = "float64",
) -> None:
    """Pack rows of any order into a folder that fits read block by block."""
    from banister.solver.pack import pack as pack_file

    columns = None if features is None else features.split(",")
    packed = pack_file(source, folder, task=task, reward=reward, features=columns, dtype=dtype)
    rows, tasks = int(packed.offsets[-1]), len(packed.labels)
    typer.echo(f"{folder}: {rows:,} rows of {tasks:,} tasks, {packed.dim} features, {packed.dtype}")


@group.command()
def get(
    name: Annotated[
        str, typer.Argument(help="movielens-100k or movielens-latest-small; nothing lists them.")
    ] = "",
    folder: Annotated[
        Path | None,
        typer.Option("--to", help="Data folder; by default BANISTER_DATA, else the cache folder."),
    ] = None,
    url: Annotated[str | None, typer.Option(help="Another address of the same archive.")] = None,
) -> None:
    """Get a data set from its publisher, check that it is what they made, and say what its licence allows."""
    from rich.console import Console

    from banister.environments.ratings import read_ratings
    from banister.environments.sources import SOURCES, source_named

    screen = Console()
    if not name:
        _list(screen)
        return
    source = source_named(name)
    path = _fetch(screen, name, folder, url)
    ratings = read_ratings(path, source)
    screen.print(f"{source.title}: {path}", highlight=False)
    screen.print(
        f"checked: {ratings.n_users:,} users, {ratings.n_items:,} movies, size and SHA-256 as published"
        if source.sha256
        else f"read: {ratings.n_users:,} users, {ratings.n_items:,} movies",
        highlight=False,
    )
    screen.print(SOURCES[name].licence, style="dim", highlight=False)


def _fetch(screen: object, name: str, folder: Path | None, url: str | None) -> Path:
    from rich.progress import DownloadColumn, Progress

    from banister.environments.download import fetch

    with Progress(*Progress.get_default_columns(), DownloadColumn(), console=screen, transient=True) as bar:  # type: ignore[arg-type]
        task = bar.add_task(name, total=None)
        return fetch(
            name,
            folder=folder,
            url=url,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )


def _list(screen: object) -> None:
    from rich.table import Table

    from banister.environments.ratings import find_ratings
    from banister.environments.sources import SOURCES
    from banister.errors import DataFileError

    table = Table("name", "what", "where", box=None)
    for source in SOURCES.values():
        try:
            where = str(find_ratings(source))
        except DataFileError:
            where = f"not here; `banister data {source.name}` gets it"
        table.add_row(source.name, source.title, where)
    screen.print(table)  # type: ignore[attr-defined]
