"""The tables: one a kind of record, with the record's own columns, its place in the chain and the hash there.

The table `head` has one row. Whoever adds to the chain updates it in the same transaction, so the database's
lock of that row is what puts the records of several processes into one order.
"""

from __future__ import annotations

from types import NoneType
from typing import Any, get_args, get_type_hints

from banister.online.head import COUNTS
from banister.online.record import (
    AlarmRecord,
    DecisionRecord,
    LogRecord,
    ModelRecord,
    RefusalRecord,
    RetractionRecord,
    RewardRecord,
    TaskRecord,
)

SCHEMA = 3  # of these tables; those of SQLite, whose content they share, count for themselves

_TYPES: dict[Any, str] = {
    int: "bigint", float: "double precision", bool: "boolean", str: "text", bytes: "bytea",
    str | None: "text", bytes | None: "bytea",
}  # fmt: skip


def columns(kind: type[Any]) -> dict[str, str]:
    """A record's fields and their types in the database."""
    return {name: _TYPES[hint] for name, hint in get_type_hints(kind).items()}


# What no two records of a kind share, besides their place in the chain; refusals may repeat.
_KEYS: dict[type[Any], str | None] = {
    TaskRecord: "code", DecisionRecord: "id", RewardRecord: "id", RefusalRecord: None,
    RetractionRecord: "id", AlarmRecord: "seq", LogRecord: "seq", ModelRecord: "version",
}  # fmt: skip

_COUNTS = ", ".join(f"{name} bigint NOT NULL" for name in COUNTS.values())


def _table(kind: type[Any]) -> str:
    hints = get_type_hints(kind)
    fields = [
        f"{name} {type_}" if NoneType in get_args(hints[name]) else f"{name} {type_} NOT NULL"
        for name, type_ in columns(kind).items()
    ]
    fields += ["link bigint PRIMARY KEY", "head bytea NOT NULL"]
    if _KEYS[kind] is not None:
        fields.append(f"UNIQUE ({_KEYS[kind]})")
    return f"CREATE TABLE {COUNTS[kind]} ({', '.join(fields)})"


TABLES = (
    "CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL)",
    "CREATE TABLE model_parts (version bigint, part bigint, bytes bytea NOT NULL, "
    "PRIMARY KEY (version, part))",
    # Room on the page for the row's next versions, so that an update touches no index.
    f"CREATE TABLE head (one smallint PRIMARY KEY CHECK (one = 1), hash bytea NOT NULL, "
    f"links bigint NOT NULL, {_COUNTS}, ids bigint NOT NULL, epoch bigint NOT NULL) WITH (fillfactor = 10)",
    *(_table(kind) for kind in COUNTS),
    "CREATE UNIQUE INDEX decisions_by_key ON decisions (key) WHERE key IS NOT NULL",
)

# Everything in a schema that could hold data or run: tables with their columns, triggers, rules, functions.
CONTENT = """
SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.relnamespace = %s::regnamespace AND c.relkind NOT IN ('i', 'I', 't') AND a.attnum > 0
AND NOT a.attisdropped
UNION ALL SELECT 'trigger ' || t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = %s::regnamespace AND NOT t.tgisinternal
UNION ALL SELECT 'rule ' || r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
WHERE c.relnamespace = %s::regnamespace
UNION ALL SELECT 'function ' || p.proname FROM pg_proc p WHERE p.pronamespace = %s::regnamespace
"""


def expected() -> set[str]:
    """What `CONTENT` finds in a schema with these tables and nothing else."""
    found = {"meta.key text", "meta.value text", "head.one smallint", "head.hash bytea"}
    found |= {"model_parts.version bigint", "model_parts.part bigint", "model_parts.bytes bytea"}
    found |= {f"head.{name} bigint" for name in ("links", *COUNTS.values(), "ids", "epoch")}
    for kind, table in COUNTS.items():
        found |= {f"{table}.{name} {type_}" for name, type_ in columns(kind).items()}
        found |= {f"{table}.link bigint", f"{table}.head bytea"}
    return found
