"""Panels beyond the paper's: what policies know, the printed algorithm repaired step by step, sensitivity."""

from __future__ import annotations

from typing import Any

from banister.report.panel import Panel
from banister.simulation.point import KNOWS, MOVIELENS, RATED, SYNTHETIC, Point
from banister.studies.competitors import STEPS

LEVELS = tuple(KNOWS)
ITERATIONS_TRIED = (10, 30, 100, 300)
STEPS_TRIED = (0.005, 0.02, 0.1, 0.5)
RHOS_TRIED = (0.0, 0.05, 0.15, 0.25)
ACTIONS_TRIED = (5, 10, 20, 40)
BASELINES_TRIED = (1, 2, 5, 8, 10)
ALPHAS_TRIED = (0.05, 0.1, 0.2, 0.4)

_SAFE = ("certified", "converged", "thompson", "ucb", "sege", "clucb2")
_PRINTED = ("paper", "converged")

_CATALOGUE = (*_SAFE, "pooled-ucb", "altgdmin-pooled", "low-rank-ucb", "baseline")

RATINGS = (Point.of(RATED), Point.of(RATED, baseline_known=False))

_STEPS_NOTE = (
    "From top to bottom, one change at a time: the printed algorithm with its sample splitting, without it, "
    "γ anew each epoch, the true σ_max in γ, a solver that converges, checked starts, all rows so far, "
    "estimates every 10 rounds, and the certificate."
)


def _knows(identity: str, where: str, environment: str, policies: tuple[str, ...], **more: Any) -> Panel:
    return Panel(
        id=identity,
        title=f"Regret by what is known, {where}",
        points=tuple(Point.of(environment, knows=level, **more) for level in LEVELS),
        xs=tuple(float(i) for i in range(len(LEVELS))),
        ticks=LEVELS,
        x_label="what policies are told",
        measure="regret",
        policies=policies,
        log_y=True,
        note="; ".join(_told(level, words) for level, words in KNOWS.items())
        + ". R is the noise's level, S a bound on every parameter's length, a label a baseline's expected "
        "reward taken as a row to learn from. The certified policy is never told anything and always uses "
        "labels.",
    )


def _told(level: str, words: str) -> str:
    """A level with its meaning, where the name alone does not say it."""
    return words if words.startswith(level) else f"{level}: {words}"


def _step(identity: str, measure: str, title: str) -> Panel:
    return Panel(
        id=identity,
        title=title,
        kind="bars",
        points=(Point.of(SYNTHETIC),),
        measure=measure,
        policies=STEPS,
        ordered=True,
        log_y=True,
        note=_STEPS_NOTE,
    )


# The defaults of the environment and of `PaperSolver`: such a value is left out, so that it is played once.
_AT_DEFAULT: dict[str, Any] = {"actions": 10, "baseline_rank": 5, "iterations": 100, "c": 0.5}


def _point(name: str, value: Any, *, tuned: bool = False) -> Point:
    if _AT_DEFAULT.get(name) == value:
        return Point.of(SYNTHETIC)
    return Point.of(SYNTHETIC, tuning={name: value}) if tuned else Point.of(SYNTHETIC, **{name: value})


def _tuned(identity: str, name: str, label: str, values: tuple[float, ...], measure: str) -> Panel:
    return Panel(
        id=identity,
        title=f"{measure.capitalize()} against {label}",
        points=tuple(_point(name, value, tuned=True) for value in values),
        xs=tuple(float(v) for v in values),
        x_label=label,
        measure=measure,
        policies=_PRINTED,
        log_x=min(values) > 0,
        log_y=True,
        note="Only the printed algorithm has this setting; the converged fit is the yardstick.",
    )


def _world(identity: str, name: str, label: str, values: tuple[Any, ...], measure: str) -> Panel:
    return Panel(
        id=identity,
        title=f"{measure.capitalize()} against {label}",
        points=tuple(_point(name, value) for value in values),
        xs=tuple(float(v) for v in values),
        x_label=label,
        measure=measure,
        policies=_SAFE,
        log_y=True,
    )


def _rated(identity: str, measure: str) -> Panel:
    return Panel(
        id=identity,
        title=f"{measure.capitalize()} on real ratings",
        points=RATINGS,
        xs=(0.0, 1.0),
        ticks=("known", "unknown"),
        x_label="expected reward of the baseline",
        measure=measure,
        policies=_CATALOGUE,
        log_y=True,
        note="Users are tasks, the movies they rated are on offer, the reward is the rating they gave: no "
        "linear model is true, and a violation may be the model's as well as the policy's. The baseline "
        "recommends the movie that others like best.",
    )


OWN = (
    _knows("4a", "synthetic", SYNTHETIC, _SAFE),
    _knows("4b", "synthetic, noise 0.3", SYNTHETIC, _SAFE, noise_std=0.3),
    _knows("4c", "MovieLens", MOVIELENS, (*_SAFE, "pooled-ucb")),
    _step("5a", "regret", "Regret, one repair at a time"),
    _step("5b", "violations", "Violations, one repair at a time"),
    _step("5c", "error", "Error, one repair at a time"),
    _tuned("6a", "iterations", "iterations L", ITERATIONS_TRIED, "regret"),
    _tuned("6b", "c", "constant c of the step", STEPS_TRIED, "regret"),
    _tuned("6c", "rho", "a constant ρ in epoch 1", RHOS_TRIED, "violations"),
    _world("6d", "actions", "number of actions K", ACTIONS_TRIED, "regret"),
    _world("6e", "baseline_rank", "rank of the baseline among ten", BASELINES_TRIED, "regret"),
    _world("6f", "alpha", "α", ALPHAS_TRIED, "violations"),
    _rated("7a", "regret"),
    _rated("7b", "violations"),
)
