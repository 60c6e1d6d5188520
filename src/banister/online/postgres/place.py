"""Where a store in PostgreSQL is: an ordinary URL, and the name of the store within the database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from banister.errors import InputError

_SCHEMES = ("postgresql", "postgres")
_STORE = "store"  # the query parameter that is ours; all others are the database's own
_USUAL = "banister"
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")  # what a schema may be called without quotes


@dataclass(frozen=True)
class PostgresPlace:
    """A store in a database.

    Attributes:
        url: for libpq, which may hold a password.
        store: the schema that holds its tables.
    """

    url: str
    store: str

    def __str__(self) -> str:
        """Without user and password, as messages and logs may show it."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2] or dict(parse_qsl(parts.query)).get("host", "")
        return f"postgresql://{unquote(host)}{parts.path}?{_STORE}={self.store}"


def is_url(path: Any) -> bool:
    """Whether this names a database rather than a file."""
    return isinstance(path, str) and path.split("://", 1)[0] in _SCHEMES and "://" in path


def read_place(url: str) -> PostgresPlace:
    """The parts of a URL.

    Examples:
        >>> place = read_place("postgresql://me:secret@db/shops?store=north&sslmode=require")
        >>> place.store, str(place)
        ('north', 'postgresql://db/shops?store=north')
    """
    try:
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError as reason:
        raise InputError(f"path is no URL ({reason}); write postgresql://user@host/database.") from None
    names = [value for name, value in query if name == _STORE] or [_USUAL]
    if not _NAME.fullmatch(names[-1]) or names[-1].startswith("pg_"):
        raise InputError(
            f"store={names[-1]!r} in the URL must be a lower-case name such as 'shops', at most 63 letters."
        )
    rest = urlencode([(name, value) for name, value in query if name != _STORE])
    return PostgresPlace(urlunsplit(parts._replace(query=rest)), names[-1])
