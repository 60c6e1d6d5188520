"""What a reproduction runs: every (point, policy) once, however many panels and claims look at it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from banister.report.panel import Panel
from banister.simulation.point import MOVIELENS, SYNTHETIC, Point
from banister.simulation.store import Job
from banister.studies.panels import (
    DEFAULT,
    FILM,
    ITERATIONS,
    LONG,
    NOISES,
    UNIT_TASKS,
    ZERO_FILLED,
    sweep,
)

SEED = 20250

# The rows that only the readings of claims need, with the share of the trials that each gets.
_READINGS: tuple[tuple[Point, str, float], ...] = (
    *((point, name, 0.3) for point in UNIT_TASKS for name in ("paper", "thompson")),
    *((DEFAULT, name, 0.2) for name in ("trace-norm-pooled", "altgdmin-pooled")),
    *((DEFAULT, name, 0.1) for name in ("trace-norm-online", "moments-online")),
    *((FILM, "trace-norm-online", 0.05), (FILM, "moments-online", 0.2)),
    *((ZERO_FILLED, name, 0.2) for name in ("certified", "paper", "trace-norm", "moments", "thompson")),
)

_NOISY = set(sweep(SYNTHETIC, "noise_std", NOISES)) - {DEFAULT}
_EXTRAS = ("ucb", "pooled-ucb", "low-rank-ucb", "altgdmin-pooled", "baseline", "oracle")


def share(point: Point, policy: str) -> float:
    """Which part of the trials a policy plays at a point: all of them in the paper's synthetic comparisons.

    On MovieLens the trace norm takes some fifty times as long as everyone else together, the data are the
    same in each trial, and the paper gives no number of trials there. On noisy points the rivals are a
    backdrop. Our certified policy plays fewer where only α, the noise or the length of a trial changes.
    """
    if policy == "trace-norm" and (point.environment == MOVIELENS or point in _NOISY):
        return 0.05 if point.environment == MOVIELENS else 0.1
    if point == ITERATIONS or (point in _NOISY and policy in ("moments", "thompson")):
        return 0.2
    if policy == "certified" and point.environment == SYNTHETIC:
        return 0.3 if point in _NOISY or point == LONG else 0.25 if point.alpha != DEFAULT.alpha else 1.0
    return 0.1 if policy in _EXTRAS else 1.0


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
            if (players := tuple(name for name, count in counts.items() if trial < count))
        ]


def workload_for(
    panels: Iterable[Panel],
    *,
    trials: int,
    policies: tuple[str, ...] = (),
    readings: bool = True,
    seed: int = SEED,
    without: tuple[str, ...] = (),
) -> Workload:
    """The workload of some panels.

    Args:
        panels: what is to be drawn.
        trials: of a policy that plays all of them; others play a `share`, at least one.
        policies: who takes part; everyone by default.
        readings: add what the claims' other readings need.
        seed: of the study.
        without: environments to leave out, when their data are missing.
    """
    counts: dict[tuple[Point, str], float] = {}
    for panel in panels:
        for point in panel.points:
            for name in panel.policies:
                counts[point, name] = share(point, name)
    if readings:
        for point, name, part in _READINGS:
            counts[point, name] = max(part, counts.get((point, name), 0.0))
    kept = {
        (point, name): max(1, math.ceil(part * trials))
        for (point, name), part in counts.items()
        if point.environment not in without and (not policies or name in policies or point == ITERATIONS)
    }
    return Workload(kept, seed)
