"""What is on the screen while trials run."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from banister.cli.tables import policies_table

if TYPE_CHECKING:
    from rich.console import Console

    from banister.simulation.store import Job
    from banister.studies.running import Runner

_QUIET = 30.0  # seconds between lines where the output is no terminal


def run_with_table(
    screen: Console, runner: Runner, jobs: list[Job], names: tuple[str, ...], trials: int
) -> None:
    """Run, with the table of results growing on the screen."""
    from rich.console import Group
    from rich.live import Live
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=screen)
    task = bar.add_task(f"0 of {len(jobs)} jobs on {runner.workers} workers")
    with Live(Group(policies_table(None, names, trials), bar), console=screen, refresh_per_second=4) as live:
        for done, _ in enumerate(runner.run(jobs), start=1):
            words = f"{done} of {len(jobs)} jobs on {runner.workers} workers"
            bar.update(task, description=words)
            live.update(Group(policies_table(runner.store.rows(), names, trials), bar))
        live.update(policies_table(runner.store.rows(), names, trials))


def run_with_bar(screen: Console, runner: Runner, jobs: list[Job]) -> None:
    """Run, with a bar that weighs jobs by what they cost, so that the time left can be believed."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from banister.studies.costs import job_seconds

    if not jobs:
        return
    known = runner.costs()
    total = sum(job_seconds(job, known) for job in jobs)
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    spent, began, told = 0.0, monotonic(), monotonic()
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task(f"{len(jobs)} jobs on {runner.workers} workers", total=total)
        for done, job in enumerate(runner.run(jobs), start=1):
            spent += job_seconds(job, known)
            left = (monotonic() - began) * (total - spent) / spent
            words = f"{done} of {len(jobs)} jobs, about {_clock(left)} left; {job.point.name} #{job.trial}"
            bar.update(task, completed=spent, description=words)
            if not screen.is_terminal and monotonic() - told > _QUIET:
                screen.print(words, highlight=False)
                told = monotonic()


def _clock(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes >= 1.5 else f"{seconds:.0f} s"
