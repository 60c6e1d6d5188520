"""Rating files: where they are looked for, how they are read, and what is refused.

Copies of MovieLens-100K found outside its publisher's site are often altered: a header was added, rows were
added or lost, ratings changed. A known file is therefore compared with the published one (rows, size,
SHA-256), and one that differs is refused with what is wrong.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from banister.data import Float, Int
from banister.environments.sources import MOVIELENS_100K, MOVIELENS_LATEST_SMALL, Source, source_named
from banister.environments.storage import DATA_VARIABLE, data_folders
from banister.errors import DataFileError

_COLUMNS = 4


@dataclass(frozen=True, eq=False)
class Ratings:
    """Who rated what: users and items are numbered in the order of their ids.

    Attributes:
        user: (n,) index of the user of each rating.
        item: (n,) index of the item of each rating.
        stars: (n,) the rating, on the source's scale.
        n_users: number of users.
        n_items: number of items rated at least once.
        scale: the ratings that may occur, ascending.
        digest: SHA-256 of what was read; identifies the data in caches.
    """

    user: Int
    item: Int
    stars: Float
    n_users: int
    n_items: int
    scale: tuple[float, ...]
    digest: str

    @classmethod
    def of(
        cls, users: Any, items: Any, stars: Any, *, scale: tuple[float, ...], digest: str | None = None
    ) -> Ratings:
        """Ratings from ids (n,), ids (n,) and ratings (n,), trusted; hashed here unless `digest` is given."""
        user_ids, user = np.unique(users, return_inverse=True)
        item_ids, item = np.unique(items, return_inverse=True)
        values = np.asarray(stars, dtype=np.float64)
        parts = (user.astype(np.int64), item.astype(np.int64), values)
        own = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
        return cls(*parts, len(user_ids), len(item_ids), scale, digest or own)

    def matrix(self) -> Float:
        """Ratings divided by the highest of the scale, shape (users, items), NaN where there is none.

        The paper calls its ratings 0 to 5 and takes them to [0, 1], so one star of five is 0.2, not 0.
        """
        table = np.full((self.n_users, self.n_items), np.nan)
        table[self.user, self.item] = self.stars / self.scale[-1]
        return table


def source_for(data: str | Source | None, path: str | Path | None) -> Source:
    """The source meant: by name, or by what `path` holds, or MovieLens-100K."""
    if data is not None:
        return data if isinstance(data, Source) else source_named(data)
    if path is not None:
        for source in (MOVIELENS_100K, MOVIELENS_LATEST_SMALL):
            for place in _places(source, Path(path).expanduser()):
                if place.is_file() and place.suffix == Path(source.filename).suffix:
                    return source
    return MOVIELENS_100K


def find_ratings(source: Source, path: str | Path | None = None) -> Path:
    """The file to read: `path` (a file or a folder), else `BANISTER_DATA`, else the user's cache folder."""
    roots = data_folders() if path is None else [Path(path).expanduser()]
    places = [place for root in roots for place in _places(source, root)]
    for place in places:
        if place.is_file():
            return place
    tried = "\n".join(f"  {place}" for place in places)
    raise DataFileError(
        f"{source.title} was not found. These places were tried:\n{tried}\n"
        f"With a network, `banister data {source.name}` fetches it. Without one, get {source.url} on "
        f"another machine and put its {source.folder}/{source.filename} at "
        f"{data_folders()[0] / source.folder / source.filename}, or set {DATA_VARIABLE} to the folder that "
        "holds it, or give its path."
    )


def read_ratings(path: Path, source: Source) -> Ratings:
    """Read and check a rating file; what is not as the source says is refused with `DataFileError`."""
    try:
        content = path.read_bytes()
    except OSError as reason:
        raise DataFileError(f"{path} cannot be read: {reason.strerror or reason}.") from reason
    return parse_ratings(content, source, str(path))


def parse_ratings(content: bytes, source: Source, where: str) -> Ratings:
    """Read and check the bytes of a rating file; `where` names them in errors."""
    if source.any_newline:
        content = content.replace(b"\r\n", b"\n")
    digest = hashlib.sha256(content).hexdigest()
    table, problems = _parse(content, source)
    if source.sha256 is not None and digest != source.sha256:
        problems = problems or [f"values were changed or lines moved: SHA-256 {digest}, not {source.sha256}"]
    if problems or table is None:
        raise DataFileError(
            f"{where} is not {source.title} as published: {'; '.join(problems)}. Get the original with "
            f"`banister data {source.name}`, or from {source.url}."
        )
    return Ratings.of(*table.T[:3], scale=source.scale, digest=digest)


def _places(source: Source, root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    return [root / source.filename, root / source.folder / source.filename]


def _parse(content: bytes, source: Source) -> tuple[Float | None, list[str]]:
    """The (n, 4) table, or None where it cannot be read as one, and what is wrong."""
    if not content.strip():
        return None, ["it is empty"]
    if content.startswith(b"PK\x03\x04"):
        return None, [f"it is a zip archive; unpack {source.filename} from it"]
    lines = content.decode("utf-8", errors="replace").split("\n")
    if lines[-1] == "":
        lines.pop()
    problems, skipped = _header_problems(lines, source)
    table = _table(lines[skipped:], source, skipped, problems)
    problems += _count_problems(len(lines) - skipped, source)
    if table is not None:
        problems += _value_problems(table, source, skipped)
    if source.size is not None and len(content) != source.size:
        problems.append(f"it has {len(content):,} bytes instead of {source.size:,}")
    return table, problems


def _header_problems(lines: list[str], source: Source) -> tuple[list[str], int]:
    """What is wrong with the start of the file, and how many lines come before the first rating."""
    problems = []
    if lines[0].startswith("\ufeff"):
        lines[0] = lines[0][1:]
        problems.append("it starts with a byte-order mark")
    if any(line.endswith("\r") for line in lines):
        lines[:] = [line.removesuffix("\r") for line in lines]
        problems.append("it has Windows line ends (CRLF)")
    first = lines[0].split(source.delimiter)[0].strip()
    has_header = not first.lstrip("+-").isdigit() and any(c.isalpha() for c in lines[0])
    if has_header and source.header is None:
        problems.append(f"it has a header line ({lines[0][:60]!r})")
    elif not has_header and source.header is not None:
        problems.append(f"it has no header line (expected {source.header!r})")
    elif has_header and lines[0] != source.header:
        problems.append(f"its header is {lines[0][:60]!r} instead of {source.header!r}")
    return problems, int(has_header)


def _table(lines: list[str], source: Source, skipped: int, problems: list[str]) -> Float | None:
    rows = [line.split(source.delimiter) for line in lines]
    if not rows:
        problems.append("it has no ratings")
        return None
    for number, row in enumerate(rows):
        if len(row) != _COLUMNS:
            place, text = number + 1 + skipped, lines[number][:60]
            problems.append(f"line {place} has {len(row)} fields instead of {_COLUMNS}: {text!r}")
            return None
    try:
        return np.array(rows, dtype=np.float64)
    except ValueError:
        number = next(i for i, row in enumerate(rows) if not all(_is_number(cell) for cell in row))
        problems.append(
            f"line {number + 1 + skipped} holds something that is no number: {lines[number][:60]!r}"
        )
        return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _count_problems(rows: int, source: Source) -> list[str]:
    if source.rows is None or rows == source.rows:
        return []
    change = f"{rows - source.rows:,} extra" if rows > source.rows else f"{source.rows - rows:,} missing"
    return [f"it has {rows:,} rows instead of {source.rows:,}: {change}"]


def _value_problems(table: Float, source: Source, skipped: int) -> list[str]:
    problems = []
    ids = table[:, :2]
    bad = ~(np.isfinite(ids) & (ids >= 1) & (ids == np.floor(ids))).all(axis=1)
    if bad.any():
        row = int(np.argmax(bad))
        problems.append(
            f"line {row + 1 + skipped} has ids {ids[row].tolist()}, which are not whole numbers from 1"
        )
    bad = ~np.isin(table[:, 2], source.scale)
    if bad.any():
        row = int(np.argmax(bad))
        problems.append(
            f"line {row + 1 + skipped} has the rating {table[row, 2]:g}, which is not one of "
            f"{', '.join(f'{s:g}' for s in source.scale)} ({int(bad.sum()):,} such lines)"
        )
    return problems + _repeat_problems(ids, skipped)


def _repeat_problems(ids: Float, skipped: int) -> list[str]:
    _, first, which = np.unique(ids, axis=0, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[which.ravel()] != np.arange(len(ids)))
    if not len(repeated):
        return []
    row = int(repeated[0])
    return [
        f"line {row + 1 + skipped} rates item {ids[row, 1]:g} by user {ids[row, 0]:g} again "
        f"({len(repeated):,} such lines)"
    ]
