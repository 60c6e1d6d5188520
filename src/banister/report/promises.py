"""Draw what promises earn and what they break: for each world the share captured, and tasks below."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banister.errors import SettingError
from banister.extras import FIGURES, need
from banister.report.figures import label_ends
from banister.report.style import COLOURS, OTHERS, look, paper_style

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".svg", ".png", ".pdf")
SCALE = ("baseline", "oracle")  # what is captured is counted from the one to the other
# The page's own paper and ink, on white and on dark: the picture brings its background, so that its
# contrast does not depend on the page it stands on.
PAPER, INK = ("#ffffff", "#14171b"), ("#1b1f24", "#e6e8eb")
_WIDTH, _HEIGHT = 9.2, 3.3  # inches, of a world
_LEFT, _RIGHT = (0.075, 0.27), (0.575, 0.27)  # of the width: where axes begin, and how wide they are


def check_path(path: Path) -> Path:
    """An error before any work where no picture could be written."""
    if path.suffix not in FORMATS:
        raise SettingError(f"The figure {path} must end in one of {', '.join(FORMATS)}.")
    if not path.parent.is_dir():
        raise SettingError(f"There is no folder {path.parent} for the figure; make it first.")
    return path


def draw(rows: pl.DataFrame, tasks: int, path: Path) -> None:
    """Write the picture of the rows that `studies.promises.play` made; an SVG follows the reader's theme."""
    need(FIGURES)
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    worlds = rows["world"].unique(maintain_order=True).to_list()
    style: Any = {**paper_style(INK[0]), "svg.hashsalt": "banister-promises"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(_WIDTH, _HEIGHT * len(worlds)), facecolor=PAPER[0])
        FigureCanvasAgg(figure)
        for place, world in enumerate(worlds):
            _draw_world(figure, rows, world, tasks, place, len(worlds))
        if path.suffix != ".svg":
            figure.savefig(path, dpi=160)
            return
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    path.write_text(themed(buffer.getvalue()), encoding="utf-8")


def themed(svg: str) -> str:
    """An SVG whose light colours give way to the dark ones where the reader's theme is dark.

    Colours stay as they are for renderers that know no style sheets.
    """
    pairs = [PAPER, INK, *COLOURS.values()]
    rules = [
        f'[style*="{what}: {light}"] {{ {what}: {dark} !important }}'
        for light, dark in pairs for what in ("stroke", "fill")
    ]  # fmt: skip
    sheet = "@media (prefers-color-scheme: dark) {\n" + "\n".join(rules) + "\n}"
    return svg.replace("</style>", f"\n{sheet}</style>", 1)


def _draw_world(figure: Any, rows: pl.DataFrame, world: str, tasks: int, place: int, worlds: int) -> None:
    bottom, height = (worlds - 1 - place + 0.16) / worlds, 0.68 / worlds
    own = rows.filter(rows["world"] == world)
    earned = figure.add_axes((_LEFT[0], bottom, _LEFT[1], height))
    below = figure.add_axes((_RIGHT[0], bottom, _RIGHT[1], height))
    _lines(earned, own, "captured")
    _lines(below, own, "tasks_now")
    earned.set_title("Gain captured (0: policy in place, 1: oracle)", loc="left", fontweight="bold", pad=9)
    below.set_title(f"Tasks below their floor, of {tasks}", loc="left", fontweight="bold", pad=9)
    earned.set_ylim(min(0.0, earned.get_ylim()[0]), 1.0)
    below.yaxis.get_major_locator().set_params(integer=True)
    below.set_ylim(-0.02 * max(below.get_ylim()[1], 1.0), max(below.get_ylim()[1], 1.0))
    if worlds > 1:
        earned.set_ylabel(world)
    label_ends(earned, [(name, x[-1], y[-1]) for name, x, y in _means(own, "captured")])
    label_ends(below, _joined(_means(own, "tasks_now")))


def _means(rows: pl.DataFrame, measure: str) -> list[tuple[str, Any, Any]]:
    """Each policy's name, decisions and mean over trials, (0, 0) first: nothing is earned or lost yet."""
    import polars as pl

    out = []
    for name in [n for n in rows["policy"].unique(maintain_order=True) if n not in SCALE]:
        own = rows.filter(pl.col("policy") == name).group_by("decisions").agg(pl.col(measure).mean())
        own = own.sort("decisions")
        out.append((name, [0, *own["decisions"].to_list()], [0.0, *own[measure].to_list()]))
    return out


def _joined(lines: list[tuple[str, Any, Any]]) -> list[tuple[str, float, float]]:
    """The ends of lines by name; those that are 0 throughout share one label."""
    never = [x[-1] for _, x, y in lines if max(y) == 0]
    above = [(name, x[-1], y[-1]) for name, x, y in lines if max(y) > 0]
    return [*above, *((OTHERS, x, 0.0) for x in never[:1])]


def _lines(axes: Any, rows: pl.DataFrame, measure: str) -> None:
    for name, x, y in _means(rows, measure):
        one = look(name)
        axes.plot(x, y, color=one.colour, linestyle=one.line, marker=one.marker, markevery=(4, 5))
    axes.set(xlabel="decisions")
    axes.margins(x=0.01)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.xaxis.get_major_locator().set_params(nbins=3)
