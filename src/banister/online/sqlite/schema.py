"""The tables, as this version writes them. Rows are only ever added, but for models asked to be forgotten.

Every row that counts carries `link`, its place in the chain, and `head`, the hash of everything up to it. The
table `head` is brought up to date by each transaction.
"""

from __future__ import annotations

SCHEMA = 4  # 3 has triggers that keep the head in step, and no tail; 2 is chained by another rule; 1 is 0.1's

META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"  # in every schema

PARTS = """
CREATE TABLE model_parts (
    version INTEGER NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (version, part)
)
"""

TABLES = (
    """
    CREATE TABLE head (
        one INTEGER PRIMARY KEY CHECK (one = 1), hash BLOB NOT NULL, links INTEGER NOT NULL,
        tasks INTEGER NOT NULL, decisions INTEGER NOT NULL, rewards INTEGER NOT NULL,
        refusals INTEGER NOT NULL, retractions INTEGER NOT NULL, drifts INTEGER NOT NULL,
        logs INTEGER NOT NULL, models INTEGER NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE tasks (
        code INTEGER PRIMARY KEY, label TEXT NOT NULL, link INTEGER NOT NULL, head BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE decisions (
        id INTEGER PRIMARY KEY, time REAL NOT NULL, task INTEGER NOT NULL, version INTEGER NOT NULL,
        action INTEGER NOT NULL, baseline INTEGER NOT NULL, certified INTEGER NOT NULL, reason TEXT NOT NULL,
        bound REAL, floor REAL, low REAL, high REAL, std REAL NOT NULL,
        probability REAL NOT NULL, probabilities BLOB, promise TEXT, limited_by TEXT,
        n_actions INTEGER NOT NULL, digest INTEGER NOT NULL,
        baseline_features BLOB NOT NULL, features BLOB, offered BLOB, actions BLOB, key TEXT,
        link INTEGER NOT NULL, head BLOB NOT NULL
    ) STRICT
    """,
    "CREATE UNIQUE INDEX decisions_by_key ON decisions (key) WHERE key IS NOT NULL",
    """
    CREATE TABLE rewards (
        id INTEGER PRIMARY KEY, time REAL NOT NULL, value REAL NOT NULL, key TEXT,
        link INTEGER NOT NULL, head BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE refusals (
        decision INTEGER NOT NULL, time REAL NOT NULL, value REAL NOT NULL, why TEXT NOT NULL,
        link INTEGER PRIMARY KEY, head BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE retractions (
        id INTEGER PRIMARY KEY, time REAL NOT NULL, why TEXT NOT NULL,
        link INTEGER NOT NULL, head BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE drifts (
        seq INTEGER PRIMARY KEY, time REAL NOT NULL, task INTEGER NOT NULL, version INTEGER NOT NULL,
        since INTEGER NOT NULL, after INTEGER NOT NULL, statistic REAL NOT NULL,
        link INTEGER NOT NULL, head BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE logs (
        seq INTEGER PRIMARY KEY, time REAL NOT NULL, task BLOB NOT NULL, features BLOB NOT NULL,
        reward BLOB NOT NULL, baseline BLOB NOT NULL, baseline_reward BLOB NOT NULL, call BLOB NOT NULL,
        link INTEGER NOT NULL, head BLOB NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE models (
        version INTEGER PRIMARY KEY, time REAL NOT NULL, format INTEGER NOT NULL, size INTEGER NOT NULL,
        digest BLOB, decisions INTEGER NOT NULL, rewards INTEGER NOT NULL, drifts INTEGER NOT NULL,
        link INTEGER NOT NULL, head BLOB NOT NULL
    ) STRICT
    """,
)

_CHAINED = ("tasks", "decisions", "rewards", "refusals", "retractions", "drifts", "logs", "models")

TRIGGERS = tuple(  # of schemas 2 and 3
    f"CREATE TRIGGER {table}_head AFTER INSERT ON {table} BEGIN "
    f"UPDATE head SET hash = NEW.head, links = NEW.link, {table} = {table} + 1; END"
    for table in _CHAINED
)

ALL = (META, PARTS, *TABLES)

# The first release's tables, to know its stores by.
FIRST = (
    META,
    PARTS,
    "CREATE TABLE tasks (code INTEGER PRIMARY KEY, label TEXT NOT NULL)",
    """
    CREATE TABLE decisions (
        id INTEGER PRIMARY KEY, time REAL NOT NULL, task INTEGER NOT NULL, version INTEGER NOT NULL,
        action INTEGER NOT NULL, baseline INTEGER NOT NULL, certified INTEGER NOT NULL, reason TEXT NOT NULL,
        bound REAL, floor REAL, low REAL, high REAL, std REAL NOT NULL,
        n_actions INTEGER NOT NULL, digest INTEGER NOT NULL,
        baseline_features BLOB NOT NULL, features BLOB, offered BLOB, actions BLOB
    )
    """,
    """
    CREATE TABLE rewards (
        id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, time REAL NOT NULL, value REAL NOT NULL
    )
    """,
    """
    CREATE TABLE refused (
        seq INTEGER PRIMARY KEY, time REAL NOT NULL, decision INTEGER NOT NULL, value REAL NOT NULL,
        why TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE drifts (
        seq INTEGER PRIMARY KEY, time REAL NOT NULL, task INTEGER NOT NULL, version INTEGER NOT NULL,
        since INTEGER NOT NULL, after INTEGER NOT NULL, statistic REAL NOT NULL
    )
    """,
    """
    CREATE TABLE logs (
        seq INTEGER PRIMARY KEY, time REAL NOT NULL, task BLOB NOT NULL, features BLOB NOT NULL,
        reward BLOB NOT NULL, baseline BLOB NOT NULL, baseline_reward BLOB NOT NULL
    )
    """,
    "CREATE TABLE models (version INTEGER PRIMARY KEY, time REAL NOT NULL, size INTEGER NOT NULL)",
)
