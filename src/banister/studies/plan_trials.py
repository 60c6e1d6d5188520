"""The calibrated half of a plan: the setting is simulated, and what happens is reported.

Three things are run on `Synthetic` data of the given sizes, all with the same requests per seed:

* *shared*: certified Safe-AltGDmin over all T tasks;
* *fewer tasks*: the same over 1, 2r, 5r, … tasks. One task is learning alone, with the same certificate;
* *rival*: conservative Thompson sampling, one bandit a task, told the noise and a bound on ‖θ_t‖. Its tasks
  do not know of each other, so a few of them stand for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Self

import numpy as np

from banister.contract import Choices, Environment, Policy, Requests
from banister.data import Float
from banister.policies.conservative_thompson import ConservativeThompson
from banister.policies.safe_altgdmin import SafeAltGDmin
from banister.simulation.trial import simulate
from banister.simulation.wrappers import Timed
from banister.studies.plan_setting import PlanSetting

SHARED, ALONE, FEWER, RIVAL = "shared", "alone", "fewer tasks", "conservative Thompson, alone"
FEW = 8  # tasks that stand for all where tasks do not know of each other
_LONGER = 5  # one task alone is followed for this many times d rounds: it needs 2d to begin with

Tell = Callable[[str, float], None]  # what is being done, and the share of the time budget that is spent


@dataclass(frozen=True, eq=False)
class Trial:
    """What one simulated trial showed.

    Attributes:
        share: of each round's decisions, how many left the baseline with a certificate, (rounds,).
        regret: per task of mean size in each epoch, in reward, (epochs,).
        violations: decisions below the floor.
        decisions: how many there were.
    """

    share: Float
    regret: Float
    violations: int
    decisions: int

    def reached(self, share: float) -> float:
        """Rounds played before the first in which at least this share left the baseline; inf if none."""
        rounds = np.flatnonzero(self.share >= share)
        return float(rounds[0]) if len(rounds) else np.inf


@dataclass(frozen=True, eq=False)
class Group:
    """Trials of one policy at one number of tasks."""

    name: str
    setting: PlanSetting
    trials: list[Trial]

    @property
    def tasks(self) -> int:
        """How many tasks played."""
        return self.setting.tasks

    def opening(self) -> Spread:
        """Rounds until the first certified step off the baseline."""
        return Spread.of([t.reached(np.finfo(float).tiny) for t in self.trials])

    def serving(self) -> Spread:
        """Rounds until half of the decisions take one."""
        return Spread.of([t.reached(0.5) for t in self.trials])

    def regret(self) -> Spread:
        """Per task over the planned rounds."""
        return Spread.of([float(t.regret[: self.setting.epochs].sum()) for t in self.trials])

    def regret_by_epoch(self) -> Float:
        """Mean over trials, per task, in each planned epoch."""
        return np.asarray(np.mean([t.regret[: self.setting.epochs] for t in self.trials], axis=0))

    def share(self) -> Float:
        """Share that left the baseline, by round: lowest, median and highest of the trials, (3, rounds)."""
        return np.quantile([t.share for t in self.trials], [0.0, 0.5, 1.0], axis=0)

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        return {
            "policy": self.name,
            "tasks": self.tasks,
            "trials": len(self.trials),
            "opens_after_rounds": self.opening().as_dict(),
            "half_leave_after_rounds": self.serving().as_dict(),
            "regret_per_task": self.regret().as_dict(),
            "regret_per_task_by_epoch": self.regret_by_epoch().tolist(),
            "violations": sum(t.violations for t in self.trials),
            "decisions": sum(t.decisions for t in self.trials),
        }


@dataclass(frozen=True)
class Spread:
    """Median and range over trials; infinity stands for "never".

    Attributes:
        coverage: the probability with which the range of n trials holds the true median, 1 − 2^(1−n).

    Examples:
        >>> Spread.of([3.0, 1.0, 2.0, 4.0, 9.0])
        Spread(median=3.0, low=1.0, high=9.0, coverage=0.9375)
    """

    median: float
    low: float
    high: float
    coverage: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """The upper median, so that "never" in half of the trials is "never"."""
        ordered = sorted(values)
        coverage = 1.0 - 2.0 ** (1 - len(ordered))
        return cls(ordered[len(ordered) // 2], ordered[0], ordered[-1], coverage)

    def as_dict(self) -> dict[str, float | None]:
        """Plain numbers; None for never."""
        numbers = {"median": self.median, "low": self.low, "high": self.high, "coverage": self.coverage}
        return {name: value if np.isfinite(value) else None for name, value in numbers.items()}


class _Watched(Timed):
    """A policy whose certified steps off the baseline are counted by round.

    A certificate also allows the baseline itself, where nothing better clears the floor; that is no step.
    """

    def __init__(self, policy: Policy, rounds: int) -> None:
        super().__init__(policy)
        self.asked, self.left = np.zeros(rounds), np.zeros(rounds)

    def decide(self, requests: Requests) -> Choices:
        choices = super().decide(requests)
        np.add.at(self.asked, requests.round, 1.0)
        left = choices.certified & (choices.index != requests.baseline_index())
        np.add.at(self.left, requests.round, left)
        return choices

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        self.policy.reset(n_tasks, rng)

    @classmethod
    def example(cls, env: Environment) -> Self:
        return cls(SafeAltGDmin.example(env), 1)


def run_trials(
    setting: PlanSetting,
    norms: Float,
    norm_bound: float,
    *,
    trials: int,
    seconds: float,
    seed: int,
    tell: Tell,
) -> list[Group]:
    """Everyone plays once; then the shared policy up to its number of trials, then the others in turn.

    Args:
        setting: what to plan for.
        norms: ‖θ_t‖ of the tasks planned for; regret is given for tasks of their mean size.
        norm_bound: on ‖θ_t‖, told to the rival.
        trials: at most so many of each.
        seconds: no second trial is begun once they are spent.
        seed: of everyone's first trial.
        tell: called before each trial.
    """
    tell("loading the compiled kernels", 0.0)
    _warm_up(setting)
    began = perf_counter()
    groups = [Group(name, few, []) for name, few in _line_up(setting)]
    turns = [*groups, *groups[:1] * (trials - 1), *groups[1:] * (trials - 1)]
    for group in turns:
        spent = (perf_counter() - began) / seconds
        if group.trials and spent > 1:
            break
        tell(f"simulating {group.name}, {group.tasks} task{'s' * (group.tasks > 1)}", min(spent, 1.0))
        rival = _rival(group.setting, setting.tasks, norm_bound) if group.name == RIVAL else None
        policy = rival or SafeAltGDmin(setting.alpha)
        group.trials.append(_trial(group.setting, policy, float(norms.mean()), seed + len(group.trials)))
    return groups


def _warm_up(setting: PlanSetting) -> None:
    """Compile what a trial needs by a tiny one, so that the time budget buys trials."""
    tiny = replace(setting, dim=8, rank=1, tasks=6, kappa=1.0, noise=1e-3, signal=1.0, epochs=1)
    for policy in (SafeAltGDmin(), _rival(tiny, tiny.tasks, 1.0)):
        simulate(tiny.environment(), policy, epochs=1, rounds=30, alpha=0.2)


def _line_up(setting: PlanSetting) -> Iterator[tuple[str, PlanSetting]]:
    """Who plays, at which number of tasks."""
    yield SHARED, setting
    if setting.tasks > 1:
        yield ALONE, setting.with_tasks(1)
    yield RIVAL, setting.with_tasks(min(setting.tasks, FEW))
    for tasks in sweep(setting):
        yield FEWER, setting.with_tasks(tasks)


def sweep(setting: PlanSetting) -> list[int]:
    """Numbers of tasks between one and all at which sharing is tried.

    Examples:
        >>> sweep(PlanSetting(rank=2, tasks=100))
        [4, 10, 25]
    """
    wanted = {2 * setting.rank, 5 * setting.rank, setting.tasks // 4}
    return sorted(t for t in wanted if 1 < t < setting.tasks)


def _trial(setting: PlanSetting, policy: Policy, mean_norm: float, seed: int) -> Trial:
    rounds = setting.rounds if setting.tasks > 1 else max(setting.rounds, _LONGER * setting.dim)
    watched, extra = _Watched(policy, rounds), rounds - setting.rounds
    epochs = [setting.rows_per_epoch] * setting.epochs + ([extra] if extra else [])
    result = simulate(setting.environment(), watched, epochs=epochs, seed=seed, alpha=setting.alpha)
    # Few tasks, and one above all, differ in size from many: regret is compared per unit of ‖θ_t‖.
    size = float(np.linalg.norm(result.truths[0], axis=0).sum())
    return Trial(
        watched.left / np.maximum(watched.asked, 1.0),
        np.maximum(result.regret, 0.0) * mean_norm / size,
        int(result.violations.sum()),
        int(result.decisions.sum()),
    )


def _rival(few: PlanSetting, tasks: int, norm_bound: float) -> ConservativeThompson:
    """δ is shared out over all the tasks there are, not over the few that are simulated."""
    return ConservativeThompson(
        few.alpha,
        noise=few.noise / few.task_norm,
        norm_bound=norm_bound / few.task_norm,
        delta=few.delta * few.tasks / tasks,
        mixing=False,
        horizon=few.rounds,
    )
