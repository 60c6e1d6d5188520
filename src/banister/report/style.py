"""How each policy looks, everywhere the same: a colour that colour-blind readers can tell apart (Okabe and
Ito's), a marker and a line, so that none of the three is needed alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# A colour that no policy has: pages turn it into the colour of their text, for dark and light alike.
INK = "#010203"

_BLUE, _SKY, _ORANGE, _GREEN, _RED = "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#D55E00"
_PINK, _VIOLET, _GREY, _OLIVE, _BROWN = "#CC79A7", "#8C6BB1", "#888888", "#A6A02A", "#9C6644"


@dataclass(frozen=True)
class Look:
    """A policy's label, colour, marker and line."""

    label: str
    colour: str
    marker: str = "o"
    line: Any = "-"


LOOKS = {
    "certified": Look("Safe-AltGDmin, certified", _BLUE, "o"),
    "converged": Look("Safe-AltGDmin, converged", _SKY, "s", (0, (5, 1.5))),
    "paper": Look("Safe-AltGDmin, as printed", _SKY, "x", ":"),
    "paper-short-step": Look("as printed, c = 0.02", _SKY, "+", (0, (1, 1))),
    "trace-norm": Look("Trace norm", _ORANGE, "^"),
    "moments": Look("Method of moments", _GREEN, "D"),
    "thompson": Look("Thompson sampling", _RED, "v", (0, (3, 1, 1, 1))),
    "ucb": Look("Conservative UCB", _PINK, "<", (0, (3, 1, 1, 1))),
    "pooled-ucb": Look("Pooled conservative UCB", _VIOLET, ">", (0, (3, 1, 1, 1))),
    "low-rank-ucb": Look("Low-rank UCB", _OLIVE, "P"),
    "altgdmin-pooled": Look("AltGDmin greedy, pooled", _BROWN, "X"),
    "trace-norm-pooled": Look("Trace norm, pooled", _ORANGE, "^", ":"),
    "trace-norm-online": Look("Trace norm, online", _ORANGE, "^", "--"),
    "moments-online": Look("Moments, online", _GREEN, "D", "--"),
    "baseline": Look("Baseline only", _GREY, "_", ":"),
    "oracle": Look("Oracle", _GREY, "*", "-"),
    "noiseless": Look("Gaussian rows, no noise", _BLUE, ""),
    "gaussian": Look("Gaussian rows", _GREEN, ""),
    "far": Look("from distance 1", _PINK, ""),
    "fifth-best": Look("5th best's rows", _ORANGE, ""),
    "T5": Look("T5 promises", _GREY, "", (0, (5, 1.5))),
    "T11": Look("T11 promises", _GREY, "", ":"),
}


def look(name: str) -> Look:
    """A policy's look; one without a look of its own is grey under its name."""
    return LOOKS.get(name, Look(name, _GREY))


def paper_style(ink: str) -> dict[str, Any]:
    """Matplotlib settings: small, quiet, text in one ink."""
    return {
        "font.family": "sans-serif",
        "font.size": 9.5,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.7,
        "axes.grid": True,
        "grid.alpha": 0.18,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.6,
        "lines.markersize": 4.5,
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "savefig.transparent": False,
        **dict.fromkeys(
            ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color", "grid.color"),
            ink,
        ),
    }
