"""One reader for every kind of table: pandas, polars, Arrow, CSV, Parquet, plain columns or rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from banister.errors import DataFileError, InputError, listed
from banister.extras import LOGS, need

_DEEPEST = 8  # lists within lists; an action set has two


class Frame(Protocol):
    """A table whose columns are asked for by name, such as a polars or pandas DataFrame."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""

    def __getitem__(self, name: Any, /) -> Any:
        """A column."""


class ArrowTable(Protocol):
    """A table that hands itself over in Arrow's format."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A stream of record batches."""


Logs = str | Path | Frame | ArrowTable | Mapping[str, Any] | Sequence[Mapping[str, Any]]


def read_frame(source: Any, what: str = "logs") -> Any:
    """A polars DataFrame of whatever holds a table.

    Args:
        source: a path (.parquet, .csv), a polars, pandas or Arrow table (columns of lists too), a mapping of
            columns, or a sequence of mappings, one a row.
        what: how errors call it.

    Examples:
        >>> read_frame({"shop": ["a", "b"], "won": [0, 1]}).columns
        ['shop', 'won']
        >>> read_frame([{"shop": "a", "won": 0}, {"shop": "b", "won": None}])["won"].to_list()
        [0, None]
    """
    need(LOGS)
    import polars as pl

    if isinstance(source, pl.DataFrame):
        return source
    if isinstance(source, (str, Path)):
        return _file(Path(source))
    try:
        return _table(source)
    except (AttributeError, TypeError, ValueError, KeyError, pl.exceptions.PolarsError) as reason:
        raise InputError(
            f"{what} of type {type(source).__name__} cannot be read ({reason}); give a path, a DataFrame or "
            "a mapping of columns of equal length."
        ) from None


def column(frame: Any, name: str, role: str, hint: str = "") -> Any:
    """One column of a frame, or an error that lists all there are."""
    if not isinstance(name, str):
        raise InputError(
            f"{role}={name!r} must be the name of a column; there are {listed(frame.columns, '')}."
        )
    if name not in frame.columns:
        raise InputError(
            f"The log has no column {name!r} for {role}; it has {listed(frame.columns, name)}. "
            f"{hint or f'Name it with {role}=...'}"
        )
    return frame[name]


def _table(source: Any) -> Any:
    import polars as pl

    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if isinstance(source, Mapping):
        return pl.DataFrame([_series(str(name), values) for name, values in source.items()])
    if isinstance(source, Sequence):
        return pl.from_dicts([dict(row) for row in source], infer_schema_length=None, strict=False)
    if type(source).__module__.startswith("pandas"):
        return pl.DataFrame([_pandas_series(str(name), source[name]) for name in source.columns])
    if hasattr(source, "__arrow_c_stream__"):
        return pl.DataFrame(source)
    return pl.DataFrame([_series(str(name), source[name]) for name in source.columns])


def _series(name: str, values: Any) -> Any:
    """A column of one kind: whole numbers beside fractions become fractions, NaN stays NaN."""
    import polars as pl

    if isinstance(values, pl.Series):
        return values.alias(name)
    if isinstance(values, (list, tuple)) and any(_depth(v) > _DEEPEST for v in values):
        raise InputError(
            f"Column {name!r} holds lists within lists without end; give numbers or lists of them."
        )
    return pl.Series(name, values, strict=False)


def _depth(value: Any) -> int:
    """How many lists stand one in another, along their first entries; polars would follow them to a crash."""
    depth = 0
    while isinstance(value, (list, tuple)) and len(value) and depth <= _DEEPEST:
        value, depth = value[0], depth + 1
    return depth


def _pandas_series(name: str, values: Any) -> Any:
    """A pandas column; one that holds lists, arrays or objects of mixed kinds goes through Python."""
    import polars as pl

    if values.dtype == object:
        items = [_plain(v) for v in values.tolist()]
        return pl.Series(name, items, strict=False)
    if str(values.dtype) == "category":  # its codes alone would be lost, its labels may be of any kind
        return _pandas_series(name, values.astype(values.cat.categories.dtype))
    try:
        return pl.Series(name, pl.from_pandas(values))
    except ImportError:  # some kinds of columns need pyarrow, which pandas can be without
        return _pandas_series(name, values.astype(object))


def _plain(value: Any) -> Any:
    """None for what pandas calls missing (None, NaN, NA, NaT); arrays as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    try:
        return None if value is None or bool(value != value) else value
    except (TypeError, ValueError):  # NA has no truth value
        return None


def _file(path: Path) -> Any:
    import polars as pl

    if path.suffix not in (".parquet", ".csv"):
        raise DataFileError(f"{path} is neither .parquet nor .csv; convert it, or hand in a DataFrame.")
    if not path.is_file():
        raise DataFileError(f"{path} {'is a folder; name a file' if path.is_dir() else 'does not exist'}.")
    try:
        return pl.read_parquet(path) if path.suffix == ".parquet" else _csv(path)
    except DataFileError:
        raise
    except (pl.exceptions.PolarsError, OSError) as reason:
        hint = "; save it as UTF-8" if "utf-8" in str(reason) else ""
        raise DataFileError(f"{path} cannot be read ({reason}){hint}.") from None


def _csv(path: Path) -> Any:
    """A CSV file; columns with codes such as 01067 stay text: as numbers they would lose their zeros."""
    import polars as pl

    texts = pl.scan_csv(path, infer_schema=False)
    names = texts.collect_schema().names()
    if len(names) == 1 and (other := next((s for s in ";\t|" if s in names[0]), None)):
        raise DataFileError(
            f"{path} seems to have {other!r} between its columns ({names[0][:60]!r}); write it with commas, "
            f"or hand in a DataFrame, such as pl.read_csv(path, separator={other!r})."
        )
    coded = texts.select(pl.all().str.contains(r"^0\d+$").any()).collect().row(0, named=True)
    text: dict[str, Any] = {name: pl.String for name, found in coded.items() if found}
    try:  # all rows tell a column's type: a fraction may come late
        return pl.read_csv(path, infer_schema_length=None, try_parse_dates=True, schema_overrides=text)
    except pl.exceptions.ComputeError:  # a stray form among dates: as text the column can be looked at
        return pl.read_csv(path, infer_schema_length=None, schema_overrides=text)
