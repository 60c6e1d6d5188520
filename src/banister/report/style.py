"""How each policy looks, everywhere the same: a colour, a marker and a line, so that none is needed alone.

The hues are Okabe and Ito's, which colour-blind readers can tell apart, darkened for white paper and
lightened for the dark page until text in them has a contrast of at least 4.5. Pages switch by a variable of
the colour's name; PDF and PNG files have the one for white.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# A colour that no policy has: pages turn it into the colour of their text, for dark and light alike.
INK = "#010203"

# Name: on white, on the dark page (#14171b).
COLOURS = {
    "blue": ("#0072b2", "#3b9fdc"),
    "sky": ("#1f78a4", "#56b4e9"),
    "orange": ("#9a6400", "#e69f00"),
    "green": ("#007a58", "#00b586"),
    "red": ("#b84e00", "#f0803c"),
    "pink": ("#a8487e", "#dc94ba"),
    "violet": ("#7550a3", "#b094d6"),
    "olive": ("#716c12", "#b8b23a"),
    "brown": ("#875632", "#c4926c"),
    "grey": ("#666666", "#9a9a9a"),
}


@dataclass(frozen=True)
class Look:
    """A policy's label, the name of its colour, its marker and its line."""

    label: str
    hue: str
    marker: str = "o"
    line: Any = "-"

    @property
    def colour(self) -> str:
        """On white."""
        return COLOURS[self.hue][0]

    @property
    def variable(self) -> str:
        """For a page: the variable that follows its theme, or the colour on white where there is none."""
        return f"var(--{self.hue}, {self.colour})"


OTHERS = "others"  # a label for lines that lie on top of each other at 0
_DASHED, _CHAIN = (0, (5, 1.5)), (0, (3, 1, 1, 1))

LOOKS = {
    "certified": Look("Safe-AltGDmin, certified", "blue", "o"),
    "converged": Look("Safe-AltGDmin, converged", "sky", "s", _DASHED),
    "paper": Look("Safe-AltGDmin, as printed", "violet", "x", ":"),
    "paper-short-step": Look("as printed, c = 0.02", "violet", "+", (0, (1, 1))),
    "trace-norm": Look("Trace norm", "orange", "^"),
    "moments": Look("Method of moments", "green", "D"),
    "thompson": Look("Thompson sampling", "red", "v", _CHAIN),
    "ucb": Look("Conservative UCB", "pink", "<", _CHAIN),
    "sege": Look("SEGE", "green", "h", _CHAIN),
    "clucb": Look("CLUCB", "brown", "p", _DASHED),
    "clucb2": Look("CLUCB2", "brown", "p", _CHAIN),
    "pooled-ucb": Look("Pooled conservative UCB", "olive", ">", _CHAIN),
    "low-rank-ucb": Look("Low-rank UCB", "olive", "P"),
    "spectral-ucb": Look("Spectral UCB", "pink", "P"),
    "altgdmin-pooled": Look("AltGDmin greedy, pooled", "brown", "X"),
    "trace-norm-pooled": Look("Trace norm, pooled", "orange", "^", ":"),
    "trace-norm-online": Look("Trace norm, online", "orange", "^", "--"),
    "moments-online": Look("Moments, online", "green", "D", "--"),
    "printed-split": Look("as printed, rows split", "violet", "x", ":"),
    "printed-each-epoch": Look("+ step anew each epoch", "violet", "x", ":"),
    "printed-sigma": Look("+ σ_max known", "violet", "x", ":"),
    "converged-spectral": Look("+ solver that converges", "sky", "s", _DASHED),
    "converged-pooled": Look("+ all rows so far", "sky", "s", _DASHED),
    "converged-often": Look("+ fits every 10 rounds", "sky", "s", _DASHED),
    "task": Look("promise: task", "blue", "o"),
    "fleet": Look("promise: fleet", "green", "s"),
    "decision": Look("promise: decision", "violet", "D"),
    "free-thompson": Look("Thompson, no floor", "red", "v", _CHAIN),
    "epsilon-greedy": Look("ε-greedy, no floor", "orange", "^", _DASHED),
    "linear-ucb": Look("Linear UCB, no floor", "pink", "<", ":"),
    "sclts": Look("SCLTS", "grey", "x", _CHAIN),
    OTHERS: Look("the others: none", "grey"),
    "baseline": Look("Baseline only", "grey", "_", ":"),
    "oracle": Look("Oracle", "grey", "*", "-"),
    "noiseless": Look("Gaussian rows, no noise", "blue", ""),
    "gaussian": Look("Gaussian rows", "green", ""),
    "far": Look("from distance 1", "pink", ""),
    "fifth-best": Look("5th best's rows", "orange", ""),
    "T5": Look("T5 promises", "grey", "", _DASHED),
    "T11": Look("T11 promises", "grey", "", ":"),
}


def look(name: str) -> Look:
    """A policy's look; one without a look of its own is grey under its name."""
    return LOOKS.get(name, Look(name, "grey"))


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
