"""The statements, made from the records' own columns."""

from __future__ import annotations

from typing import Any

from banister.online.head import COUNTS
from banister.online.ledger import Decided
from banister.online.postgres.schema import columns
from banister.online.record import DecisionRecord

BLOCK = 4096  # rows read at once

_KEPT = ", ".join(("hash", "links", *COUNTS.values(), "ids", "epoch"))
HEAD = f"SELECT {_KEPT} FROM head"
LOCK = f"SELECT {_KEPT} FROM head FOR UPDATE"
SET_HEAD = (
    "UPDATE head SET hash = %b, links = %b, "
    + ", ".join(f"{name} = %b" for name in COUNTS.values())
    + ", ids = %b, epoch = %b"
)

TABLES = tuple(COUNTS.values())
COLUMNS = {kind: ", ".join(kind._fields) for kind in COUNTS}

# One record under the lock: its link and hash are known.
INSERT = {
    kind: f"INSERT INTO {table} ({COLUMNS[kind]}, link, head) VALUES (%b, %b{', %b' * len(kind._fields)})"
    for kind, table in COUNTS.items()
}

KEEP = "INSERT INTO meta VALUES (%b::text, %b::text) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
# A model that serves is never written over, whoever believes to be the one that refits.
PART = (
    "INSERT INTO model_parts SELECT %b, %b, %b WHERE NOT EXISTS (SELECT 1 FROM models WHERE version = %b) "
    "ON CONFLICT (version, part) DO UPDATE SET bytes = EXCLUDED.bytes"
)

# A commit that waits for the disk, and so for all commits before it.
SYNC = "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'banister', '')"

_STALE = 256  # ids that others may have been given since this one was: it stays near its place in the chain


def _link(kind: type[Any]) -> str:
    """One record in one statement: the database takes the next link and its hash while it holds the head.

    Nothing is written, and no row comes back, if the epoch is no longer the caller's, or the chain does not
    end as the caller knows it and is not longer; nor if a decision's id is neither the next one nor one that
    was set aside for the caller not long ago.
    """
    table, change, more = COUNTS[kind], "", ""
    if kind is DecisionRecord:
        change = ", ids = GREATEST(ids, %b::bigint) + %b::bigint"
        more = f" AND (ids + 1 = %b::bigint OR (%b::boolean AND ids < %b::bigint + {_STALE}))"
    values = ", ".join(f"%b::{type_}" for type_ in columns(kind).values())
    return (
        f"WITH h AS (UPDATE head SET hash = sha256(hash || %b::bytea), links = links + 1, "
        f"{table} = {table} + 1, epoch = epoch + %b::bigint{change} "
        f"WHERE epoch = %b::bigint AND (links > %b::bigint OR hash = %b::bytea){more} "
        f"RETURNING {_KEPT}), i AS (INSERT INTO {table} ({COLUMNS[kind]}, link, head) "
        f"SELECT {values}, links, hash FROM h) SELECT {_KEPT} FROM h"
    )


LINK = {kind: _link(kind) for kind in COUNTS}

# What a reward needs to know of its decision: whose it was, what was played, and whether it has come before.
_WHAT = """
d.task, COALESCE(d.features, d.baseline_features), d.action = d.baseline,
CASE WHEN d.action = d.baseline AND d.low = d.high THEN d.high ELSE 'NaN' END
"""
FIND = f"""
SELECT {_WHAT}, d.time, r.value, r.key, t.id IS NOT NULL
FROM decisions d LEFT JOIN rewards r ON r.id = d.id LEFT JOIN retractions t ON t.id = d.id WHERE d.id = %b
"""
FIND_MANY = FIND.replace("SELECT", "SELECT d.id,").replace("= %b", "= ANY(%b)")
REWARDED = f"""
SELECT r.link, r.id, r.value, {_WHAT}
FROM rewards r JOIN decisions d ON d.id = r.id WHERE r.link > %b AND r.link <= %b
ORDER BY r.link LIMIT {BLOCK}
"""


DECIDED = f"""
SELECT link, {", ".join(Decided._fields)} FROM decisions WHERE link > %b AND link <= %b
ORDER BY link LIMIT {BLOCK}
"""


def reading(kind: type[Any], more: str = "") -> str:
    """One block of a kind's records, in the order of the chain, from a link on."""
    return (
        f"SELECT link, head, {COLUMNS[kind]} FROM {COUNTS[kind]} WHERE link > %b AND link <= %b {more} "
        f"ORDER BY link LIMIT {BLOCK}"
    )
