"""`banister run`, `banister reproduce` and `banister report`: the study on the command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from banister.cli.app import app

if TYPE_CHECKING:
    from rich.console import Console

    from banister.simulation.store import Job
    from banister.solver import RayWorkers
    from banister.studies.running import Runner

Jobs = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0 for one per core.")]
Policies = Annotated[str, typer.Option(help="Only these policies, as tables name them, with commas.")]
Seed = Annotated[int, typer.Option(help="Of the study; the same seed gives the same rows.")]


@app.command()
def run(
    trials: Annotated[int, typer.Option(min=1, help="Trials of every policy.")] = 3,
    jobs: Jobs = 0,
    policies: Policies = "",
    out: Annotated[
        Path, typer.Option(help="Where results and report go; results there are replaced.")
    ] = Path("runs/default"),
    seed: Seed = 20250,
) -> None:
    """The main job: the paper's default setting, every policy, a table and an HTML report, in a minute."""
    from rich.console import Console

    from banister.cli.live import run_with_table
    from banister.studies import manifest, quick
    from banister.studies.competitors import EVERYONE, parse_names
    from banister.studies.publish import write_report
    from banister.studies.running import Runner

    screen = Console()
    names = parse_names(policies) or EVERYONE
    work = quick.workload(trials, names, seed)
    header = manifest.describe(work, kind="run", panels=[], command=_command())
    runner = Runner(workload=work, folder=out, header=header, workers=jobs)
    runner.store.clear()
    runner.store.write_manifest(header)
    run_with_table(screen, runner, quick.jobs(work), names, trials)
    page = write_report(out, runner.collect(), pictures=False)
    screen.print(f"\nreport: {page}\nrows:   {out / 'results.parquet'}", highlight=False)


@app.command()
def reproduce(
    only: Annotated[str, typer.Option(help="Only these panels, such as 1a,1b,3 (3 means 3a to 3e).")] = "",
    trials: Annotated[int, typer.Option(min=1, help="Trials of a policy that plays all of them.")] = 100,
    jobs: Jobs = 0,
    policies: Policies = "",
    out: Annotated[Path, typer.Option(help="Where results are kept; a run there is resumed.")] = Path(
        "runs/reproduction"
    ),
    seed: Seed = 20250,
    show: Annotated[bool, typer.Option("--list", help="Show panels and claims, run nothing.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and how long; run nothing.")
    ] = False,
    publish: Annotated[
        Path | None, typer.Option(help="Copy report, figures and claims to this folder.")
    ] = None,
    pool: Annotated[
        str, typer.Option(help="Where trials are played: local (processes here) or ray.")
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="Of a running Ray cluster, or auto; by default one is started here.")
    ] = None,
) -> None:
    """All figures of the paper, with the verdict on each of its claims. Resumes where it was stopped."""
    from rich.console import Console

    from banister.cli import tables
    from banister.cli.live import run_with_bar

    screen = Console()
    if show:
        screen.print(tables.panels_table(), tables.claims_list(), sep="\n\n")
        return
    with _cluster(pool, address, jobs) as ray:
        runner = _runner(screen, only, trials, jobs, policies, out, seed, ray)
        missing = runner.missing()
        if dry_run:
            _tell_plan(screen, runner, missing)
            return
        _start(screen, runner, missing)
        try:
            run_with_bar(screen, runner, missing)
        except KeyboardInterrupt:
            screen.print("Interrupted. What was finished is kept; the same command goes on from here.")
            raise typer.Exit(130) from None
    _finish(screen, runner.folder, runner.collect(), publish)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    publish: Annotated[
        Path | None, typer.Option(help="Copy report, figures and claims to this folder.")
    ] = None,
) -> None:
    """Make the page and the figures again from stored results."""
    from rich.console import Console

    from banister.errors import DataFileError
    from banister.simulation.store import Store

    store = Store(folder)
    if not store.manifest():
        raise DataFileError(f"{folder} holds no manifest.json, so it is not the folder of a run.")
    _finish(Console(), folder, store.rows(), publish)


@contextmanager
def _cluster(pool: str, address: str | None, jobs: int) -> Iterator[RayWorkers | None]:
    """The cluster to play on, closed whatever happens; None for processes here."""
    from banister.errors import SettingError

    if pool == "local":
        yield None
        return
    if pool != "ray":
        raise SettingError(f"--pool {pool} is unknown; use local or ray.")
    from banister.solver import RayWorkers

    with RayWorkers(address=address, shards=jobs or None) as ray:
        yield ray


def _runner(
    screen: Console, only: str, trials: int, jobs: int, policies: str, out: Path, seed: int,
    ray: RayWorkers | None,
) -> Runner:  # fmt: skip
    from banister.studies import manifest
    from banister.studies.competitors import parse_names
    from banister.studies.panels import chosen
    from banister.studies.running import Runner, missing_data
    from banister.studies.workload import workload_for

    panels = chosen(_split(only))
    lacking = missing_data() if not only or any(panel.needs_movielens for panel in panels) else ""
    if lacking:
        screen.print(f"[yellow]Without the MovieLens panels.[/] {lacking}\n", highlight=False)
        panels = [panel for panel in panels if not panel.needs_movielens]
    work = workload_for(
        panels,
        trials=trials,
        policies=parse_names(policies),
        readings=not only,
        seed=seed,
        ratings=not lacking,
    )
    header = manifest.describe(work, kind="reproduce", panels=[p.id for p in panels], command=_command())
    return Runner(workload=work, folder=out, header=header, workers=jobs, ray=ray)


def _tell_plan(screen: Console, runner: Runner, missing: list[Job]) -> None:
    from banister.cli import tables
    from banister.studies.costs import job_seconds

    known = runner.costs()
    seconds: dict[str, float] = {}
    for job in missing:
        seconds[job.point.name] = seconds.get(job.point.name, 0.0) + job_seconds(job, known)
    screen.print(tables.workload_table(runner.workload, missing, seconds))
    total, minutes = len(runner.workload.jobs()), sum(seconds.values()) / 60 / runner.workers
    screen.print(
        f"\n{total - len(missing)} of {total} jobs are done. The rest should take about {minutes:.0f} min on "
        f"{runner.workers} workers, from seconds measured in this run, or before it if there are none.",
        highlight=False,
    )


def _start(screen: Console, runner: Runner, missing: list[Job]) -> None:
    from banister.studies.running import prepare

    done = len(runner.workload.jobs()) - len(missing)
    if done:
        screen.print(f"Resuming: {done} jobs are done, {len(missing)} are left.", highlight=False)
    if missing:
        with screen.status("Factorising the ratings (once) …"):
            prepare(list(dict.fromkeys(job.point for job in missing)), lambda name: None)


def _finish(screen: Console, folder: Path, rows: Any, publish: Path | None) -> None:
    from banister.cli import tables
    from banister.simulation.store import Store
    from banister.studies import publish as publishing
    from banister.studies.claims import judge
    from banister.studies.evidence import Evidence

    with screen.status("Drawing …"):
        page = publishing.write_report(folder, rows)
    record = Store(folder).manifest()
    judged = judge(Evidence(rows), tuple(record["panels"])) if record["kind"] == "reproduce" else []
    if judged:
        screen.print(tables.claims_table(judged))
    screen.print(f"\nreport:  {page}\nfigures: {folder / 'figures'}", highlight=False)
    if publish is not None:
        size = publishing.publish(folder, publish)
        screen.print(f"copied:  {publish} ({size / 1e6:.1f} MB)", highlight=False)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _command() -> str:
    return shlex.join(["banister", *sys.argv[1:]])
