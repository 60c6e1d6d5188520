"""The plan as a picture: when the certificate opens, what it costs, and what sharing buys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from banister.errors import SettingError
from banister.extras import FIGURES, need
from banister.studies.plan_trials import ALONE, RIVAL, SHARED, Group
from banister.studies.planner import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".png", ".svg", ".pdf")
_COLOURS = {SHARED: "#0072b2", ALONE: "#d55e00", RIVAL: "#009e73"}
_LABELS = {SHARED: "all tasks together", ALONE: "one task alone", RIVAL: "Thompson sampling, alone"}


def check_figure(path: Path, trials: int) -> None:
    """An error before any work where no picture could be drawn or written."""
    if path.suffix not in FORMATS:
        raise SettingError(f"The figure {path} must end in one of {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise SettingError(f"There is no folder {path.parent} for the figure; make it first.")
    if trials < 1:
        raise SettingError("A figure shows simulated trials; give --trials of at least 1.")


def draw_plan(plan: Plan, path: Path) -> None:
    """Write the picture of a plan."""
    need(FIGURES)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    opening, cost, sharing = figure.subplots(1, 3)
    _draw_opening(opening, plan)
    _draw_cost(cost, plan)
    _draw_sharing(sharing, plan)
    figure.savefig(path, dpi=150)


def _played(plan: Plan) -> list[Group]:
    return [g for g in plan.groups if g.name in _COLOURS]


def _draw_opening(axes: Axes, plan: Plan) -> None:
    rounds = plan.setting.rounds
    for group in _played(plan):
        low, middle, high = group.share()[:, :rounds]
        x = np.arange(rounds)
        axes.plot(x, middle, color=_COLOURS[group.name], label=_LABELS[group.name])
        axes.fill_between(x, low, high, color=_COLOURS[group.name], alpha=0.2, linewidth=0)
    axes.set(xlabel="rounds", ylabel="certified steps off the baseline", ylim=(-0.02, 1.02))
    axes.set_title("When may it leave the baseline?")
    axes.legend(frameon=False)


def _draw_cost(axes: Axes, plan: Plan) -> None:
    ends = np.arange(plan.setting.epochs + 1) * plan.setting.rows_per_epoch
    for group in _played(plan):
        mean = np.concatenate([[0.0], np.cumsum(group.regret_by_epoch())])
        axes.plot(ends, mean, marker="o", ms=3, color=_COLOURS[group.name], label=_LABELS[group.name])
    slope = plan.bounds["regret"]["baseline_per_round"] / plan.setting.tasks
    axes.plot(ends, slope * ends, color="0.5", linestyle="--", label="always the baseline")
    axes.set(xlabel="rounds", ylabel="regret per task (reward)")
    axes.set_title("What does learning cost?")
    axes.legend(frameon=False)


def _draw_sharing(axes: Axes, plan: Plan) -> None:
    groups = plan.by_tasks()
    spreads = [g.regret() for g in groups]
    tasks, middle = [g.tasks for g in groups], np.array([s.median for s in spreads])
    below, above = middle - [s.low for s in spreads], np.array([s.high for s in spreads]) - middle
    axes.errorbar(tasks, middle, yerr=np.array([below, above]), marker="o", color=_COLOURS[SHARED], capsize=3)
    axes.set(xscale="log", xlabel="tasks that share", ylabel="regret per task (reward)")
    axes.set_ylim(bottom=0.0)
    axes.set_title(f"What does sharing buy in {plan.setting.rounds} rounds?")
