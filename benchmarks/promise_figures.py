"""The three pictures of docs/promises.md: what each promise holds above its floor, in one run.

    python benchmarks/promise_figures.py

Eight stores with five banners, 12,000 requests, three live `SafeBandit`s with the same requests. Drawn is
what was *expected* of draws, which only a simulation knows, as a share of what the policy in place would have
earned.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from banister.environments.banners import Banners
from banister.report.promises import INK, PAPER, themed
from banister.report.style import COLOURS, paper_style
from promise_agents import make_agent
from promises import ALPHA, Played

OUT = Path(__file__).resolve().parents[1] / "docs" / "figures"
SEED, TASKS, DECISIONS = 3, 8, 12_000
BLUE, GREY, RED = (COLOURS[name][0] for name in ("blue", "grey", "red"))
TITLES = {
    "decision": "decision: every single draw",
    "task": "task: the total of every store",
    "fleet": "fleet: the total of all stores (blue); single stores (grey) are not promised",
}
Float = Any


def played(promise: str) -> tuple[Float, Float, Float]:
    """(n,) tasks, and expected rewards of the draws and of the baselines, in order."""
    world = Played(Banners(tasks=TASKS, level=-1.2), SEED)
    agent = make_agent(promise, world, SEED, ALPHA)
    parts, done = [], 0
    while done < DECISIONS:
        requests, values = world.ask(2 * TASKS)
        odds, action = agent.decide(requests)
        agent.learn(requests, action, world.reward(requests, action, values))
        base = values[np.arange(len(requests)), requests.baseline]
        parts.append((requests.task, (odds * values).sum(1), base))
        done += len(requests)
    task, value, base = (np.concatenate(part) for part in zip(*parts, strict=True))
    return task, value, base


def draw(promise: str) -> None:
    task, value, base = played(promise)
    style: Any = {**paper_style(INK[0]), "svg.hashsalt": "banister-promise"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(7.2, 2.6), facecolor=PAPER[0])
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.09, 0.18, 0.88, 0.66))
        _LINES[promise](axes, task, value, base)
        axes.axhline(100 * (1 - ALPHA), color=RED, linestyle=(0, (5, 1.5)))
        axes.annotate(
            "floor", (DECISIONS, 100 * (1 - ALPHA)), (0, -10), textcoords="offset points", color=RED
        )
        axes.set_title(TITLES[promise], loc="left", fontweight="bold")
        axes.set(
            xlabel="requests", ylabel="% of the policy in place", xlim=(0, 1.06 * DECISIONS), ylim=(80, 190)
        )
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    (OUT / f"promise-{promise}.svg").write_text(themed(buffer.getvalue()), encoding="utf-8")


def _each_draw(axes: Any, task: Float, value: Float, base: Float) -> None:
    some = np.arange(0, len(task), 8)
    axes.plot(some, 100 * (value / base)[some], ".", color=BLUE, markersize=2)
    print(f"decision: {np.mean(value < (1 - ALPHA) * base - 1e-9):.2%} of draws below their floor")


def _each_task(axes: Any, task: Float, value: Float, base: Float, colour: str = BLUE) -> None:
    for t in range(TASKS):
        own = np.flatnonzero(task == t)
        total = np.cumsum(value[own]) / np.cumsum(base[own])
        axes.plot(own, 100 * total, color=colour, linewidth=0.9)
        print(f"store {t}: lowest {total.min():.1%}, at the end {total[-1]:.1%}")


def _all_tasks(axes: Any, task: Float, value: Float, base: Float) -> None:
    _each_task(axes, task, value, base, GREY)
    total = np.cumsum(value) / np.cumsum(base)
    axes.plot(np.arange(len(total)), 100 * total, color=BLUE, linewidth=2)
    print(f"fleet: lowest {total.min():.1%}, at the end {total[-1]:.1%}")


_LINES = {"decision": _each_draw, "task": _each_task, "fleet": _all_tasks}


if __name__ == "__main__":
    for name in _LINES:
        draw(name)
