"""The paper's sixteen panels and ours, as data: one parameter varies, the rest stay at the default."""

from __future__ import annotations

from typing import Any

from banister.errors import SettingError
from banister.report.panel import Panel
from banister.simulation.point import MOVIELENS, SYNTHETIC, Point
from banister.studies import contraction
from banister.studies.competitors import EVERYONE, FILMS, OURS, PAPERS
from banister.studies.own_panels import OWN

DEFAULT = Point.of(SYNTHETIC)
FILM = Point.of(MOVIELENS)

DIMS, RANKS, TASKS = (50, 100, 150, 200), (2, 4, 6, 8), (20, 50, 100, 150)
ALPHAS = (0.1, 0.2, 0.3, 0.4, 0.5)
FILM_DIMS, FILM_TASKS = (25, 64, 100, 144), (3, 5, 8, 10)
NOISES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
EPOCHS = 8

# What the environments' own defaults are: such a value is left out, so that panels share the default point.
_AT_DEFAULT: dict[str, dict[str, Any]] = {
    SYNTHETIC: {"dim": 100, "rank": 2, "tasks": 100, "noise_std": 1e-3},
    MOVIELENS: {"dim": 100, "tasks": 5},
}


def at(environment: str, name: str, value: Any, **more: Any) -> Point:
    """The default point with one parameter changed."""
    if name == "alpha":
        return Point.of(environment, alpha=value, **more)
    if _AT_DEFAULT[environment].get(name) == value:
        return Point.of(environment, **more)
    return Point.of(environment, **{name: value}, **more)


def sweep(environment: str, name: str, values: tuple[Any, ...], **more: Any) -> tuple[Point, ...]:
    """The default point with one parameter at each of its values."""
    return tuple(at(environment, name, value, **more) for value in values)


BY_DIM, BY_RANK, BY_TASKS = (
    sweep(SYNTHETIC, name, values) for name, values in (("dim", DIMS), ("rank", RANKS), ("tasks", TASKS))
)
SWEPT = tuple(dict.fromkeys((*BY_DIM, *BY_RANK, *BY_TASKS)))
FILMED = tuple(dict.fromkeys((*sweep(MOVIELENS, "dim", FILM_DIMS), *sweep(MOVIELENS, "tasks", FILM_TASKS))))
UNIT_TASKS = sweep(SYNTHETIC, "tasks", TASKS, normalise="unit-task")
ZERO_FILLED = Point.of(MOVIELENS, fill="zero")
NOISY = sweep(SYNTHETIC, "noise_std", NOISES, knows="all")
LONG = Point.of(SYNTHETIC, epochs=EPOCHS)
ITERATIONS = Point.of(contraction.ENVIRONMENT)

_SHOWN = {
    "error": ("estimation error", True),
    "regret": ("regret", True),
    "violations": ("violations", True),
}


def _trio(ids: str, name: str, label: str, values: tuple[float, ...], *, log_x: bool) -> list[Panel]:
    points = sweep(SYNTHETIC, name, values)
    return [
        Panel(
            id=f"1{letter}",
            title=f"{words[0].upper()}{words[1:]} against {label}",
            points=points,
            xs=values,
            x_label=label,
            measure=measure,
            policies=PAPERS,
            log_x=log_x,
            log_y=log_y,
        )
        for letter, (measure, (words, log_y)) in zip(ids, _SHOWN.items(), strict=True)
    ]


def _alpha(identity: str, environment: str, where: str) -> Panel:
    return Panel(
        id=identity,
        title=f"Regret against α, {where}",
        points=sweep(environment, "alpha", ALPHAS),
        xs=ALPHAS,
        x_label="α, share of the baseline reward that may be risked",
        measure="regret",
        policies=OURS,
    )


def _film(identity: str, name: str, label: str, values: tuple[float, ...], measure: str) -> Panel:
    words, log_y = _SHOWN[measure]
    return Panel(
        id=identity,
        title=f"{words[0].upper()}{words[1:]} against {label}, MovieLens",
        points=sweep(MOVIELENS, name, values),
        xs=values,
        x_label=label,
        measure=measure,
        policies=FILMS,
        log_y=log_y,
    )


def _noise(identity: str, measure: str, title: str, policies: tuple[str, ...], *, log_y: bool) -> Panel:
    return Panel(
        id=identity,
        title=title,
        points=NOISY,
        xs=NOISES,
        x_label="standard deviation of the reward noise",
        measure=measure,
        policies=policies,
        log_x=True,
        log_y=log_y,
        note="The paper's setting is the leftmost point; a task's rewards have a standard deviation of about "
        "0.14. Every policy that can also learns from the baseline's known expected reward, which is exact "
        "here whatever the noise, and is told what its source assumes.",
    )


_LIST = (
    *_trio("abc", "dim", "dimension d", DIMS, log_x=False),
    *_trio("def", "rank", "rank r", RANKS, log_x=True),
    *_trio("ghi", "tasks", "number of tasks T", TASKS, log_x=True),
    _alpha("1j", SYNTHETIC, "synthetic"),
    _alpha("1k", MOVIELENS, "MovieLens"),
    _film("1l", "dim", "dimension d", FILM_DIMS, "regret"),
    _film("1m", "dim", "dimension d", FILM_DIMS, "violations"),
    _film("1n", "tasks", "tasks T", FILM_TASKS, "regret"),
    _film("1o", "tasks", "tasks T", FILM_TASKS, "violations"),
    Panel(
        id="2",
        title="Regret against the number of epochs",
        kind="epochs",
        points=(LONG,),
        x_label="epochs of 50 rounds",
        measure="regret",
        policies=OURS,
    ),
    _noise("3a", "regret", "Regret against noise", PAPERS, log_y=True),
    _noise("3b", "violations", "Violations against noise", PAPERS, log_y=True),
    _noise(
        "3c",
        "certified",
        "Share of certified decisions against noise",
        ("certified", "thompson"),
        log_y=False,
    ),
    Panel(
        id="3d",
        title="Seconds per trial by policy",
        kind="bars",
        points=(DEFAULT,),
        measure="seconds",
        policies=EVERYONE,
        log_y=True,
        note="Time spent deciding and learning, on one thread, 20,000 decisions. Two workers share the "
        "machine, so these are upper figures.",
    ),
    Panel(
        id="3e",
        title="Distance per iteration, and what T5, T11 promise",
        kind="iterations",
        points=(ITERATIONS,),
        x_label="iteration of AltGDmin, fresh rows each",
        measure="subspace_distance",
        policies=(*contraction.DESIGNS, *contraction.PROMISES),
        log_y=True,
        note="The promises are drawn from the start the theorems ask for. With noise the distance cannot "
        "fall for ever; the theorems as printed do not say where it stops.",
    ),
    *OWN,
)

PANELS = {panel.id: panel for panel in _LIST}


def chosen(only: tuple[str, ...] | None) -> list[Panel]:
    """The panels named, all of them by default; "1a", or a prefix such as "3"."""
    if not only:
        return list(PANELS.values())
    for name in only:
        if not any(identity.startswith(name) for identity in PANELS):
            raise SettingError(f"There is no panel {name!r}; known are {', '.join(PANELS)}.")
    return [
        panel
        for panel in PANELS.values()
        if panel.id in only or any(panel.id.startswith(name) and name not in PANELS for name in only)
    ]
