"""`banister run`: the paper's default synthetic setting, every policy, a few trials, in under a minute."""

from __future__ import annotations

from dataclasses import replace

from banister.report.panel import Panel
from banister.simulation.store import Job
from banister.studies.competitors import EVERYONE
from banister.studies.panels import DEFAULT, PANELS
from banister.studies.workload import SEED, Workload

TRIALS = 3

# The quick ones first: a first table is on the screen while the slower ones are still at it.
_FAST = ("paper", "converged", "moments", "altgdmin-pooled", "baseline", "oracle")

_BARS = (
    ("regret", "Cumulative regret", ""),
    ("violations", "Violations of the floor", "Of 20,000 decisions in a trial."),
    ("error", "Estimation error after the last epoch", ""),
    ("seconds", "Seconds per trial", PANELS["3d"].note),
)

_PLAYERS = tuple(name for name in EVERYONE if name != "oracle")  # nothing of its is worth a bar

PANELS_SHOWN: tuple[Panel, ...] = (
    replace(PANELS["2"], id="epochs", title="Regret by epoch", points=(DEFAULT,), policies=_PLAYERS),
    *(
        replace(PANELS["3d"], id=measure, title=title, measure=measure, note=note, policies=_PLAYERS)
        for measure, title, note in _BARS
    ),
)


def workload(trials: int = TRIALS, policies: tuple[str, ...] = EVERYONE, seed: int = SEED) -> Workload:
    """Every policy plays every trial."""
    return Workload({(DEFAULT, name): trials for name in policies}, seed)


def jobs(work: Workload) -> list[Job]:
    """A trial's fast policies as one job, the others one job each, so that cores share them evenly."""
    found = []
    for job in work.jobs():
        fast = tuple(name for name in job.policies if name in _FAST)
        groups = [fast, *((name,) for name in job.policies if name not in _FAST)]
        found += [replace(job, policies=group) for group in groups if group]
    return found
