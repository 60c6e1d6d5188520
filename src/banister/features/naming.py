"""Names of actions to their places in a list; an unknown one is an error that names its row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from banister.data import Int
from banister.errors import InputError

_SHOWN = 20  # names that an error lists


def name_codes(names: Any, place: Mapping[str, int], what: str) -> Int:
    """(n,) the place of each name in a column or sequence; an unknown one is an error."""
    import polars as pl

    column = names if isinstance(names, pl.Series) else pl.Series(what, _plain(names), strict=False)
    texts = column if column.dtype == pl.String else column.cast(pl.String)
    codes = texts.replace_strict(
        list(place), list(place.values()), default=pl.lit(None, pl.Int64), return_dtype=pl.Int64
    )
    if codes.has_nulls():
        row = int(codes.is_null().arg_max() or 0)
        where = f"Column {column.name!r}" if isinstance(names, pl.Series) else f"{what}s"
        raise InputError(f"{where} {_unknown(texts[row], row, place, what)}")
    return np.asarray(codes.to_numpy(), dtype=np.int64)


def _unknown(text: str | None, row: int, place: Mapping[str, int], what: str) -> str:
    """What is wrong with a row, what there is, and what to do."""
    if text is None or text == "":
        return f"is empty at row {row}; fill it in or remove such rows; {known(place, what)}."
    return f"holds {text!r} at row {row}; {known(place, what)}. Mend it, remove such rows, or name it there."


def picked(offered: Any, place: Mapping[str, int], what: str) -> list[str]:
    """The names that a request offers: some of those known, each once."""
    if isinstance(offered, str) or not isinstance(offered, Sequence) or not len(offered):
        raise InputError(f"offered={offered!r} must be a list of {what}s that is not empty, or None for all.")
    for name in offered:
        if not isinstance(name, str) or name not in place:
            raise InputError(f"offered holds {name!r}; {known(place, what)}.")
    if len(set(offered)) != len(offered):
        raise InputError(f"offered={list(offered)!r} names one {what} twice; offer each once.")
    return list(offered)


def known(place: Mapping[str, int], what: str) -> str:
    """A sentence that lists what there is."""
    names = list(place)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the {what}s are {', '.join(names[:_SHOWN])}{more}"


def _plain(names: Any) -> Any:
    return names.tolist() if hasattr(names, "tolist") else list(names)
