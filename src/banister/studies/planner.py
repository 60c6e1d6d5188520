"""The planner: how much data is needed, and will it be safe?

`plan` sets the paper's bounds, whose constants nobody states, beside a simulation of the very setting, and
says in words where the two part ways.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from banister import __version__
from banister.errors import SettingError
from banister.studies.plan_bounds import model_population, paper_bounds
from banister.studies.plan_logs import LogFindings
from banister.studies.plan_setting import PlanSetting
from banister.studies.plan_trials import ALONE, FEWER, RIVAL, SHARED, Group, Tell, run_trials

SCHEMA = 1
_PAYS = 0.9  # sharing pays where it costs a task at most this share of what it costs alone


@dataclass(frozen=True, eq=False)
class Plan:
    """The answer.

    Attributes:
        setting: what was asked.
        bounds: what the paper's bounds say (`paper_bounds`).
        groups: simulated trials; empty for bounds alone.
        logs: what was found in logs, if there were any.
    """

    setting: PlanSetting
    bounds: dict[str, Any]
    groups: list[Group]
    logs: LogFindings | None = None

    def group(self, name: str) -> Group | None:
        """The trials of that name, the first group of them; None if there were none."""
        return next((g for g in self.groups if g.name == name), None)

    def by_tasks(self) -> list[Group]:
        """The certified policy at every number of tasks tried, fewest first."""
        return sorted((g for g in self.groups if g.name in (SHARED, ALONE, FEWER)), key=lambda g: g.tasks)

    def sharing_pays_from(self) -> int | None:
        """The least number of tasks tried from which sharing costs a task clearly less; None if none did."""
        groups = self.by_tasks()
        if not groups or groups[0].tasks != 1:
            return None
        alone = groups[0].regret().median
        found = None
        for group in reversed(groups[1:]):
            if group.regret().median > _PAYS * alone:
                break
            found = group.tasks
        return found

    def notes(self) -> list[str]:
        """What to keep in mind, in words."""
        notes = list(self.logs.notes) if self.logs else []
        shared = self.group(SHARED)
        if self.setting.known_baseline:
            notes.append(
                "Baseline rewards are taken as known exactly: each is a label without noise, so the reward "
                "noise hardly matters. Use --unknown-baseline if they are not."
            )
        if shared is not None:
            notes += self._simulation_notes(shared)
        else:
            notes.append("Nothing was simulated; the paper's sample sizes are orders of growth, not counts.")
        return notes

    def _simulation_notes(self, shared: Group) -> list[str]:
        notes = [
            "The simulation has Gaussian features, tasks of exactly the given rank and Gaussian noise; real "
            "data are mostly slower."
        ]
        if self.setting.baseline_rank == 1:
            notes.append("The policy in place plays the best action already: there is nothing to gain.")
        elif not np.isfinite(shared.serving().median):
            notes.append(
                f"Within {self.setting.rounds} rounds not even half of the decisions could leave the "
                "baseline safely. More tasks, more rounds or less noise would help."
            )
        if any(len(g.trials) < 3 for g in self.groups):
            notes.append("Some figures rest on fewer than 3 trials; raise --seconds or --trials.")
        return notes

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        rival, alone = self.group(RIVAL), self.group(ALONE)
        return {
            "schema": SCHEMA,
            "banister": __version__,
            "setting": {**asdict(self.setting), "rounds": self.setting.rounds},
            "bounds": self.bounds,
            "simulated": {
                "shared": None if not self.groups else self.groups[0].as_dict(),
                "alone": None if alone is None else alone.as_dict(),
                "conservative_thompson": None if rival is None else rival.as_dict(),
                "by_tasks": [g.as_dict() for g in self.by_tasks()],
                "sharing_pays_from": self.sharing_pays_from(),
            },
            "logs": None if self.logs is None else self.logs.as_dict(),
            "notes": self.notes(),
        }


def plan(
    setting: PlanSetting,
    *,
    trials: int = 5,
    seconds: float = 15.0,
    seed: int = 0,
    logs: LogFindings | None = None,
    tell: Tell = lambda words, share: None,
) -> Plan:
    """Plan for a setting.

    Args:
        setting: sizes, noise, floor.
        trials: simulated trials of each policy at most; 0 for the bounds alone.
        seconds: no further trial is begun once they are spent, but every policy plays at least once.
        seed: of everything random. The number of trials, though not what a trial shows, depends on `seconds`.
        logs: what was found in logs; their baseline rewards and task sizes then replace the model's.
        tell: called before each trial with what is done and the share of the time that is spent.

    Examples:
        >>> answer = plan(PlanSetting(dim=20, rank=1, tasks=10), trials=0)
        >>> 0 < answer.bounds["rho"]["median"] < 0.2
        True
    """
    if trials < 0 or not seconds > 0:
        raise SettingError(f"trials={trials!r} must be at least 0, and seconds={seconds!r} above 0.")
    if trials:
        setting.check_simulable()
    population = model_population(setting, np.random.default_rng(seed))
    if logs is not None:
        population = logs.population(setting, population)
    bounds = paper_bounds(setting, population)
    if trials == 0:
        return Plan(setting, bounds, [], logs)
    groups = run_trials(
        setting,
        population.norms,
        bounds["scale"]["theta_norm_bound"],
        trials=trials,
        seconds=seconds,
        seed=seed,
        tell=tell,
    )
    return Plan(setting, bounds, groups, logs)
