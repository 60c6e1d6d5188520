"""`Panel`: one figure as data: which points, which policies, which measure, over what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from banister.simulation.point import Point

Kind = Literal["sweep", "epochs", "bars", "iterations"]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One figure.

    Attributes:
        id: as the paper numbers it ("1a"), or ours ("3a").
        title: what it shows.
        kind: "sweep" has one point per x; "epochs" and "iterations" follow one point over time; "bars"
            compares policies at one point.
        points: the settings, one per x of a sweep.
        xs: where they stand on the axis.
        x_label: of the axis.
        measure: a key of `MEASURES`.
        policies: who is shown, in the order of the legend.
        log_x, log_y: logarithmic axes.
        ticks: words under the xs, where these are no quantities.
        ordered: bars in the order of the policies instead of by size.
        note: what to know when reading it.
    """

    id: str
    title: str
    kind: Kind = "sweep"
    points: tuple[Point, ...]
    xs: tuple[float, ...] = ()
    x_label: str = ""
    measure: str
    policies: tuple[str, ...]
    log_x: bool = False
    log_y: bool = False
    ticks: tuple[str, ...] = ()
    ordered: bool = False
    note: str = ""

    @property
    def heading(self) -> str:
        """The number, where it is the paper's or in its manner, and the title."""
        return f"{self.id}   {self.title}" if self.id[0].isdigit() else self.title

    @property
    def needs_movielens(self) -> bool:
        """Whether it can be drawn only with the rating file at hand."""
        return any(point.needs_ratings for point in self.points)


@dataclass(frozen=True)
class Measure:
    """What a column means: its `label` for axes, and how a figure is written (`digits` that matter)."""

    label: str
    digits: int = 3


MEASURES = {
    "error": Measure("estimation error of Θ, %"),
    "regret": Measure("cumulative regret"),
    "violations": Measure("violations of the floor per trial"),
    "literal_violations": Measure("violations of (1−α) r_b per trial"),
    "cumulative_violations": Measure("decisions that left a task's total below its floor"),
    "certified": Measure("share of decisions certified, %"),
    "seconds": Measure("seconds per trial"),
    "subspace_distance": Measure("subspace distance to B*"),
}
