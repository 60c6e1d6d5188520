"""One self-contained HTML page: no network, no fonts to load, readable on a phone, dark and light."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from banister.extras import PAGES, need
from banister.report import figures
from banister.report.numbers import number
from banister.report.panel import MEASURES, Panel
from banister.report.style import COLOURS, look
from banister.report.summary import panel_table

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Headline:
    """A number worth a card: the figure, and what it is."""

    figure: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the page says, besides its figures.

    Attributes:
        title: of the page.
        lead: a paragraph under it.
        headlines: the cards.
        claims: a dict per claim: id, words, verdict, panels, why, checks.
        settings: name and value pairs.
        commands: how to run it again.
        notes: remarks under the claims, each a sentence.
        policies: name and meaning of who competes.
    """

    title: str
    lead: str
    headlines: list[Headline] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    policies: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Drawn:
    """A panel with the numbers behind it."""

    panel: Panel
    table: pl.DataFrame

    @property
    def svg(self) -> str:
        """The figure."""
        return figures.svg(self.panel, self.table)

    @property
    def csv(self) -> str:
        """The numbers, in full, as a data address."""
        text = self.table.write_csv()
        return "data:text/csv;charset=utf-8;base64," + base64.b64encode(text.encode()).decode()

    @property
    def axis(self) -> str:
        """What x is."""
        return self.panel.x_label or "setting"

    @property
    def measure(self) -> str:
        """What y is."""
        return MEASURES[self.panel.measure].label

    @property
    def records(self) -> list[dict[str, Any]]:
        """The table's rows for the page, with the policy's label and colour."""
        return [
            {**row, "label": look(row["policy"]).label, "colour": look(row["policy"]).variable}
            for row in self.table.iter_rows(named=True)
        ]


def drawn(rows: pl.DataFrame, panels: list[Panel]) -> list[Drawn]:
    """The panels that the rows have numbers for."""
    tables = [Drawn(panel, panel_table(rows, panel)) for panel in panels]
    return [each for each in tables if not each.table.is_empty()]


def render(page: Page, panels: list[Drawn]) -> str:
    """The page as HTML."""
    need(PAGES)
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("banister.report", "")
    jinja = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    jinja.filters["number"] = number
    themes = [" ".join(f"--{hue}: {pair[i]};" for hue, pair in COLOURS.items()) for i in (0, 1)]
    return jinja.get_template("page.html.j2").render(page=page, panels=panels, themes=themes)
