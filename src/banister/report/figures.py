"""Draw a panel: mean line, 95 % band, the policy's name at the end of its line."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banister.data import Float
from banister.extras import FIGURES, need
from banister.report.numbers import number
from banister.report.panel import MEASURES, Panel
from banister.report.style import COLOURS, INK, look, paper_style

if TYPE_CHECKING:
    import polars as pl

_SIZE = (5.0, 3.1)
_LINE_HEIGHT = 0.075  # of the axes' height: how close two labels may stand
_NOTHING = 1e-12  # of the largest mean
_EDGE = 0.02  # of the axes' height that labels keep from their ends


def svg(panel: Panel, table: pl.DataFrame) -> str:
    """The panel as inline SVG whose text takes the colour of the page's."""
    buffer = io.StringIO()
    _draw(panel, table, buffer, "svg", ink=INK)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    for hue, (light, _) in COLOURS.items():
        text = text.replace(light, f"var(--{hue}, {light})")
    width, height = _SIZE[0] * 72, _SIZE[1] * 72
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{panel.title}"'
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    return re.sub(r'<svg [^>]*?viewBox="[^"]*"', head + ' xmlns="http://www.w3.org/2000/svg"', text, count=1)


def save(panel: Panel, table: pl.DataFrame, folder: Path) -> list[Path]:
    """The panel as PDF and PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{panel.id}.pdf", folder / f"{panel.id}.png"]
    for path in paths:
        _draw(panel, table, path, path.suffix[1:], ink="black")
    return paths


def _draw(panel: Panel, table: pl.DataFrame, target: Any, kind: str, *, ink: str) -> None:
    need(FIGURES)
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Ids inside an SVG are made from this; panels of one page must not share them.
    style: Any = {**paper_style(ink), "svg.hashsalt": f"banister-{panel.id}"}
    with mpl.rc_context(style):
        figure = Figure(figsize=_SIZE)
        FigureCanvasAgg(figure)
        axes = figure.add_axes(
            (0.04, 0.155, 0.5, 0.755) if panel.kind == "bars" else (0.135, 0.155, 0.5, 0.755)
        )
        (_bars if panel.kind == "bars" else _lines)(axes, panel, table)
        axes.set_title(
            panel.heading,
            loc="left",
            x=-0.04 if panel.kind == "bars" else -0.24,
            fontweight="bold",
            pad=9,
        )
        stamp = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}, "png": {}}[kind]
        figure.savefig(target, format=kind, dpi=120, transparent=kind == "svg", metadata=stamp)


def _lines(axes: Any, panel: Panel, table: pl.DataFrame) -> None:
    import polars as pl

    ends = []
    for name in panel.policies:
        rows = table.filter(pl.col("policy") == name)
        if rows.is_empty():
            continue
        style, x, mean = look(name), rows["x"].to_numpy(), rows["mean"].to_numpy()
        marker = style.marker if len(x) <= 12 else ""
        axes.plot(x, mean, color=style.colour, marker=marker, linestyle=style.line, label=style.label)
        axes.fill_between(
            x, rows["low"].to_numpy(), rows["high"].to_numpy(), color=style.colour, alpha=0.18, linewidth=0
        )
        ends.append((name, x[-1], mean[-1]))
    axes.set(xlabel=panel.x_label, ylabel=MEASURES[panel.measure].label)
    _scale(axes, panel, table)
    label_ends(axes, ends)


def _scale(axes: Any, panel: Panel, table: pl.DataFrame) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    if panel.log_x:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    if panel.kind == "sweep":
        axes.xaxis.set_major_locator(FixedLocator(panel.xs))
        axes.xaxis.set_major_formatter(ScalarFormatter() if not panel.log_x else _plain)
    if panel.ticks:
        axes.set_xticks(panel.xs, panel.ticks)
    if not panel.log_y:
        axes.set_ylim(bottom=0)
    elif _has_nothing(table["mean"].to_numpy()):
        axes.set_yscale("symlog", linthresh=1.0, linscale=0.6)
        axes.set_ylim(-0.15, 1.5 * max(axes.get_ylim()[1], 1.0))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_yscale("log")
        _few_ticks(axes.yaxis, *axes.get_ylim())


def _has_nothing(mean: Float) -> bool:
    """Whether some mean is zero, or so small beside the largest that it is the rounding of a zero."""
    return bool(mean.size and np.nanmin(mean) <= _NOTHING * np.nanmax(mean))


def _few_ticks(axis: Any, low: float, high: float) -> None:
    """On a logarithmic axis of less than two decades: a few plain figures, and nothing in between."""
    from matplotlib.ticker import FixedLocator, NullFormatter

    if np.log10(high / low) < 1.7:
        axis.set_major_locator(FixedLocator(plain_ticks(low, high)))
        axis.set_major_formatter(_plain)
    axis.set_minor_formatter(NullFormatter())


def _plain(value: float, _: Any = None) -> str:
    return f"{value:g}"


def plain_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5 and their multiples by ten; where fewer than three of them lie in between, even steps.

    Examples:
        >>> plain_ticks(80, 1200), plain_ticks(2100, 4900)
        ([100.0, 200.0, 500.0, 1000.0], [2500.0, 3000.0, 3500.0, 4000.0, 4500.0])
    """
    from matplotlib.ticker import MaxNLocator

    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
    known, even = np.outer(powers, [1.0, 2.0, 5.0]).ravel(), np.asarray(MaxNLocator(6).tick_values(low, high))
    inside = [ticks[(ticks >= low) & (ticks <= high)].tolist() for ticks in (known, even)]
    found: list[float] = inside[0] if len(inside[0]) > 2 else inside[1]
    return found


def label_ends(axes: Any, ends: list[tuple[str, float, float]]) -> None:
    """Names at the right, as near to their lines' ends as the names above and below allow."""
    if not ends:
        return
    corner = axes.transAxes.inverted()
    heights = np.array([corner.transform(axes.transData.transform((x, y)))[1] for _, x, y in ends])
    places = label_places(heights)
    for (name, x, y), place in zip(ends, places, strict=True):
        style = look(name)
        axes.annotate(
            style.label,
            xy=(x, y),
            xycoords="data",
            xytext=(1.04, place),
            textcoords="axes fraction",
            color=style.colour,
            va="center",
            fontsize=8.5,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": style.colour,
                "lw": 0.5,
                "alpha": 0.6,
                "shrinkB": 3,
                "relpos": (0.0, 0.5),  # from where the name begins, not through it
            },
        )


def label_places(heights: Float) -> Float:
    """Where labels stand, as shares of the axes' height: near their heights, apart, and between the title
    above and the axis' own label below."""
    room = 1.0 - 2 * _EDGE
    gap = min(_LINE_HEIGHT, room / max(len(heights) - 1, 1))
    places = spread(np.clip(np.nan_to_num(heights), 0.0, 1.0), gap)
    order, steps = np.argsort(places, kind="stable"), gap * np.arange(len(places))
    up = np.maximum.accumulate(np.maximum(places[order], _EDGE) - steps) + steps
    down = np.minimum(up, 1.0 - _EDGE)[::-1] + steps
    places[order] = (np.minimum.accumulate(down) - steps)[::-1]
    return places


def spread(heights: Float, gap: float) -> Float:
    """Move heights apart until neighbours are `gap` from each other, their mean position kept.

    Examples:
        >>> spread(np.array([0.5, 0.5]), 0.1).tolist()
        [0.45, 0.55]
    """
    order = np.argsort(heights, kind="stable")
    blocks: list[tuple[float, int]] = []  # (centre, how many), of labels that touch
    for h in heights[order]:
        centre, count = float(h), 1
        while blocks and centre - (count - 1) / 2 * gap < blocks[-1][0] + (blocks[-1][1] + 1) / 2 * gap:
            other, n = blocks.pop()
            centre, count = (centre * count + other * n) / (count + n), count + n
        blocks.append((centre, count))
    placed = np.concatenate([c + gap * (np.arange(n) - (n - 1) / 2) for c, n in blocks])
    out = np.empty(len(heights))
    out[order] = placed
    return out


def _bars(axes: Any, panel: Panel, table: pl.DataFrame) -> None:
    rows = table.reverse() if panel.ordered else table.sort("mean", descending=True)
    names = rows["policy"].to_list()
    mean, place = rows["mean"].to_numpy(), np.arange(len(names))
    err = np.abs(np.nan_to_num(np.stack([mean - rows["low"].to_numpy(), rows["high"].to_numpy() - mean])))
    axes.barh(place, mean, xerr=err, height=0.62, color=[look(n).colour for n in names],
              error_kw={"lw": 0.8, "ecolor": "0.5"})  # fmt: skip
    if panel.log_y:
        if _has_nothing(mean):
            axes.set_xscale("symlog", linthresh=1.0)
            axes.set_xlim(left=0)
        else:
            axes.set_xscale("log")
            _few_ticks(axes.xaxis, *axes.get_xlim())
    axes.set(xlabel=MEASURES[panel.measure].label, yticks=[])
    axes.grid(visible=False, axis="y")
    for i, name in enumerate(names):
        axes.annotate(
            f"{look(name).label}  {number(mean[i])}",
            xy=(1.02, i),
            xycoords=("axes fraction", "data"),
            color=look(name).colour,
            va="center",
            fontsize=8.5,
            annotation_clip=False,
        )
