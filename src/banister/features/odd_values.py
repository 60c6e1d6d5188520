"""The one value that does not belong: text in a column of numbers, a stray form in a column of dates."""

from __future__ import annotations

from typing import Any

from banister.errors import InputError

_MOST = 0.8  # share of numbers, or of dates, from which a column of text was meant to hold them


def not_a_number(values: Any) -> str:
    """What stands in a column of text instead of numbers, and where: `'yes' at row 3`; "" if nothing does.

    Examples:
        >>> import polars as pl
        >>> not_a_number(pl.Series("click", ["1", "yes", "0"]))
        "'yes' at row 1"
    """
    import polars as pl

    if values.dtype != pl.String:
        return ""
    bad = values.is_not_null() & ~_finite(values)
    row = int(bad.arg_max() or 0)
    return f"{values[row]!r} at row {row}" if bad.any() else ""


def check_one_kind(values: Any) -> None:
    """A column of text that is numbers or dates but for a few values is an error that names the first.

    Read as categories, every number would be one of its own, and nobody would know.

    Examples:
        >>> import polars as pl
        >>> check_one_kind(pl.Series("size", ["S", "M", "38"]))
    """
    import polars as pl

    if values.dtype != pl.String:
        return
    given = values.is_not_null() & (values.str.strip_chars() != "")
    for good, kind, remedy in (
        (_finite(values), "number", "mend it or leave it empty"),
        (_dates(values), "date", "write it as 2024-05-31 or leave it empty"),
    ):
        bad = given & ~good
        if _MOST <= (given & good).sum() / max(given.sum(), 1) < 1.0:
            row = int(bad.arg_max() or 0)
            raise InputError(
                f"Column {values.name!r} holds {values[row]!r} at row {row} where nearly all others are "
                f"{kind}s; {remedy}, or name the column in categorical= if these are categories."
            )


def _finite(values: Any) -> Any:
    import polars as pl

    return values.str.strip_chars().cast(pl.Float64, strict=False).is_finite().fill_null(value=False)


def _dates(values: Any) -> Any:
    """Whether text begins with a day such as 2024-05-31."""
    return values.str.slice(0, 10).str.to_date("%Y-%m-%d", strict=False).is_not_null()
