"""What a reproduction runs: every (point, policy) once, however many panels and claims look at it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from banister.report.panel import Panel
from banister.simulation.point import Point
from banister.simulation.store import Job
from banister.studies.competitors import PAPERS
from banister.studies.panels import (
    DEFAULT,
    FILM,
    FILMED,
    ITERATIONS,
    LONG,
    SWEPT,
    UNIT_TASKS,
    ZERO_FILLED,
)

SEED = 20250

# The rows that only the readings of claims need: those that decide, and those that are merely shown.
_DECIDING: tuple[tuple[Point, str], ...] = tuple(
    (point, "paper-short-step") for point in (*SWEPT, *FILMED, LONG)
)
_SHOWN: tuple[tuple[Point, str], ...] = (
    *((point, name) for point in UNIT_TASKS for name in ("paper-short-step", "thompson")),
    *((DEFAULT, name) for name in ("trace-norm-pooled", "altgdmin-pooled")),
    *((place, name) for place in (DEFAULT, FILM) for name in ("trace-norm-online", "moments-online")),
    *((ZERO_FILLED, name) for name in (*PAPERS, "paper-short-step")),
)

# The paper's own panels get all trials. What is beyond them gets a share: of 100 trials the 20 of a verdict,
# and 5 where no claim looks and a certified trial takes up to half a minute: what policies are told, many
# actions, extreme baselines.
_LESS, _LEAST = 0.2, 0.05
_SLOW = ("4a", "4b", "4c", "6d", "6e", "6f")


def share(panel: str) -> float:
    """Which part of the trials the policies of a panel play."""
    return 1.0 if panel[0] in "12" else _LEAST if panel in _SLOW else _LESS


_MOST = 12  # policies of a job


@dataclass(frozen=True)
class Workload:
    """How many trials each policy plays at each point.

    Attributes:
        trials: by (point, policy).
        seed: of the study.
    """

    trials: Mapping[tuple[Point, str], int]
    seed: int = SEED

    @property
    def points(self) -> list[Point]:
        """The distinct points, in the order of the panels."""
        return list(dict.fromkeys(point for point, _ in self.trials))

    def jobs(self) -> list[Job]:
        """Trial by trial over all points, so that an unfinished run has something of everything."""
        by_point: dict[Point, dict[str, int]] = defaultdict(dict)
        for (point, policy), count in self.trials.items():
            by_point[point][policy] = count
        most = max(self.trials.values(), default=0)
        return [
            Job(point=point, trial=trial, policies=players, seed=self.seed)
            for trial in range(most)
            for point, counts in by_point.items()
            for players in _together(tuple(name for name, count in counts.items() if trial < count))
        ]


def _together(players: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Players in jobs of at most a dozen: a job's file is named after them, and cores share jobs evenly."""
    return [players[start : start + _MOST] for start in range(0, len(players), _MOST)]


def workload_for(
    panels: Iterable[Panel],
    *,
    trials: int,
    policies: tuple[str, ...] = (),
    readings: bool = True,
    seed: int = SEED,
    ratings: bool = True,
) -> Workload:
    """The workload of some panels.

    Args:
        panels: what is to be drawn.
        trials: of the paper's panels; what is beyond them gets a `share`, at least one.
        policies: who takes part; everyone by default.
        readings: add what the claims' other readings need.
        seed: of the study.
        ratings: False to leave out what needs the rating file.
    """
    counts: dict[tuple[Point, str], float] = {}
    wanted = [
        (point, name, share(panel.id))
        for panel in panels
        for point in panel.points
        for name in panel.policies
    ]
    if readings:
        wanted += [(point, name, 1.0) for point, name in _DECIDING]
        wanted += [(point, name, _LESS) for point, name in _SHOWN]
    for point, name, part in wanted:
        counts[point, name] = max(part, counts.get((point, name), 0.0))
    kept = {
        (point, name): max(1, math.ceil(part * trials))
        for (point, name), part in counts.items()
        if not (point.needs_ratings and not ratings)
        and (not policies or name in policies or point == ITERATIONS)
    }
    return Workload(kept, seed)
