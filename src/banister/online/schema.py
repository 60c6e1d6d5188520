"""The ledger's tables. Rows are only ever added, but for archived models that were asked to be forgotten."""

from __future__ import annotations

SCHEMA = 1

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tasks (code INTEGER PRIMARY KEY, label TEXT NOT NULL);
CREATE TABLE decisions (
    id INTEGER PRIMARY KEY, time REAL NOT NULL, task INTEGER NOT NULL, version INTEGER NOT NULL,
    action INTEGER NOT NULL, baseline INTEGER NOT NULL, certified INTEGER NOT NULL, reason TEXT NOT NULL,
    bound REAL, floor REAL, low REAL, high REAL, std REAL NOT NULL,
    n_actions INTEGER NOT NULL, digest INTEGER NOT NULL,
    baseline_features BLOB NOT NULL, features BLOB, offered BLOB, actions BLOB
);
CREATE TABLE rewards (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, time REAL NOT NULL, value REAL NOT NULL);
CREATE TABLE refused (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, decision INTEGER NOT NULL, value REAL NOT NULL,
    why TEXT NOT NULL
);
CREATE TABLE drifts (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, task INTEGER NOT NULL, version INTEGER NOT NULL,
    since INTEGER NOT NULL, after INTEGER NOT NULL, statistic REAL NOT NULL
);
CREATE TABLE logs (
    seq INTEGER PRIMARY KEY, time REAL NOT NULL, task BLOB NOT NULL, features BLOB NOT NULL,
    reward BLOB NOT NULL, baseline BLOB NOT NULL, baseline_reward BLOB NOT NULL
);
CREATE TABLE models (version INTEGER PRIMARY KEY, time REAL NOT NULL, size INTEGER NOT NULL);
CREATE TABLE model_parts (
    version INTEGER NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (version, part)
);
"""

INSERT_DECISION = f"INSERT INTO decisions VALUES ({', '.join('?' * 19)})"

# What a reward needs to know of its decision: whose it was, what was played, and whether it has come before.
FIND_DECISION = """
SELECT d.task, d.baseline_features, d.features, d.time, r.value
FROM decisions d LEFT JOIN rewards r ON r.id = d.id WHERE d.id = ?
"""
