"""Writes the tables of `docs/policies.md` from the policies' cards.

`python -m banister.policies.table docs/policies.md` rewrites what stands between two marks of the page.
"""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from banister.errors import BanisterError
from banister.policies._card import NONE, Card

BEGIN, END = "<!-- tables: written by `make docs` -->", "<!-- end of tables -->"

_NEEDS = ("safe", "noise", "norm_bound", "horizon", "rank")
_COSTS = ("source", "refits", "cost", "use")
_HEADINGS = {"norm_bound": "norm bound", "cost": "cost of a round", "use": "use it when"}

# Policies whose classes carry no card of their own.
CARDS: dict[str, tuple[Card, ...]] = {
    "SafeAltGDmin": (
        Card(
            mode="certified",
            source="the paper's model, with a certificate for every play",
            noise="estimated",
            norm_bound="only for mixing, given or estimated",
            horizon="only for mixing",
            rank="given or estimated",
            safe="yes, checked on the data",
            refits="when the data have grown by a quarter, twentyfold once hardly a request stays",
            cost="T (K d + a few d²); a refit is a few low-rank fits",
            use="something is at risk and tasks share a representation: the default choice",
        ),
        Card(
            mode="paper",
            source="the paper, Algorithm 1 (Safe-AltGDmin) as printed",
            norm_bound="given or estimated",
            horizon="for ρ",
            rank="given or estimated",
            safe="in epoch 1 by Lemma l8; later if the estimate is good enough, unchecked",
            refits="end of each epoch",
            cost="T K d; a refit is 2L passes over the epoch's rows",
            use="reproducing the paper",
        ),
        Card(
            mode="converged",
            source="the paper's schedule and rows, with a fit that converged",
            norm_bound="given or estimated",
            horizon="for ρ",
            rank="given or estimated",
            safe="as the paper's mode",
            refits="end of each epoch",
            cost="T K d; a refit is some 20 passes over the epoch's rows",
            use="the paper's idea without the trouble of its step; nearly noiseless rewards",
        ),
    ),
    "BaselineOnly": (
        Card(
            source="reference: the floor of every figure",
            safe="yes, always",
            refits="never",
            cost="T d",
            use="comparing with the policy in place",
        ),
    ),
    "Oracle": (
        Card(
            source="reference: the ceiling of every figure",
            safe="yes: it is handed the truth",
            refits="never",
            cost="T K d",
            use="comparing with the best that could be done, in simulation",
        ),
    ),
}


def policies() -> list[type]:
    """Every public, concrete policy class of this package, by name."""
    return sorted(_found(), key=lambda cls: cls.__name__)


def _found() -> Iterator[type]:
    package = import_module("banister.policies")
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        for _, cls in inspect.getmembers(import_module(info.name), inspect.isclass):
            if cls.__module__ == info.name and not inspect.isabstract(cls) and _is_policy(cls):
                yield cls


def _is_policy(cls: type) -> bool:
    return all(hasattr(cls, name) for name in ("decide", "learn", "end_epoch", "reset", "example"))


def cards_of(cls: type) -> tuple[Card, ...]:
    """The class's own card, or those kept here; an error if there are none."""
    own = cls.__dict__.get("card")
    if isinstance(own, Card):
        return (own,)
    if cls.__name__ not in CARDS:
        raise BanisterError(f"{cls.__name__} has no card; give the class a `card = Card(...)`.")
    return CARDS[cls.__name__]


def tables() -> str:
    """Both tables: what each policy needs and promises, and what it costs and when to use it."""
    rows = [(_title(cls, card), card) for cls in policies() for card in cards_of(cls)]
    return "\n".join([*_table(rows, _NEEDS), "", *_table(rows, _COSTS)])


def _title(cls: type, card: Card) -> str:
    return f"`{cls.__name__}`" + (f", {card.mode}" if card.mode else "")


def _table(rows: Sequence[tuple[str, Card]], columns: Sequence[str]) -> list[str]:
    head = ["policy", *(_HEADINGS.get(c, c) for c in columns)]
    body = [[title, *(getattr(card, c) or NONE for c in columns)] for title, card in rows]
    return ["| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *body]]


def updated(page: str) -> str:
    """The page with its tables replaced by what the classes say now."""
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main(path: str) -> None:
    """Rewrite the tables of the page at `path`."""
    page = Path(path)
    page.write_text(updated(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
