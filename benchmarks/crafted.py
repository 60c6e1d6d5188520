"""Damaged and crafted stores, one for each seed: bytes, pages, headers, SQL, JSON, whole forgeries."""

from __future__ import annotations

import json
import shutil
import sqlite3
import struct
from dataclasses import fields
from pathlib import Path

import numpy as np

from banister import SafeBandit
from banister.online.head import Head
from banister.online.model_file import pack, unpack
from banister.online.record import chained, digest_of
from banister.online.sqlite import statements
from banister.online.sqlite.frames import frame_at, top
from banister.online.sqlite.schema import TRIGGERS

PAGE = 8192
ALONE = 40  # records of the store that was not closed which stand in its tail alone
NUMBERS = [0, -1, 1, 2**31, -(2**31), 2**62, -(2**63), 0.5, -1e308, 1e308, 5e-324]
TEXTS = ["", "x", "\x00", "0" * 5000, "nan", "[" * 3000, "'; DROP TABLE head; --", "\U0001f600"]
HOSTILE = [
    "CREATE TRIGGER t AFTER INSERT ON decisions BEGIN DELETE FROM rewards; END",
    "CREATE TRIGGER u BEFORE INSERT ON rewards BEGIN SELECT RAISE(IGNORE); END",
    "CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
    "CREATE INDEX i ON decisions (abs(bound))",
    "CREATE TABLE more (x)",
    "CREATE VIRTUAL TABLE f USING fts5(x)",
    "ALTER TABLE rewards ADD COLUMN more TEXT",
    "ALTER TABLE rewards RENAME COLUMN value TO worth",
    "DROP TABLE retractions",
    TRIGGERS[0],
    "PRAGMA user_version = 99",
    "PRAGMA application_id = 99",
    "DELETE FROM head",
    "UPDATE head SET links = links + 1",
    "UPDATE model_parts SET bytes = zeroblob(150000000)",
    "INSERT INTO model_parts VALUES (1, 9, zeroblob(150000000))",
    "UPDATE rewards SET value = -value",
    "DELETE FROM rewards WHERE id > 50",
    "DELETE FROM decisions WHERE id > 50",
]
SCHEMES = [
    ("decisions", "CREATE TABLE decisions AS SELECT 1"),
    ("rewards", "CREATE TABLE rewards (id INTEGER PRIMARY KEY DEFAULT (load_extension('x')))"),
    ("head", "CREATE VIEW head AS SELECT * FROM head"),
    ("tasks", "garbage ((("),
]


def make(folder: Path) -> Path:
    """A store with everything in it: logs, models, drifts, a refusal, a retraction."""
    rng, path = np.random.default_rng(0), folder / "good"
    theta = rng.normal(size=(3, 4))
    bandit = SafeBandit(0.1, path=path, refits="manual", seed=0, keep_actions=True)
    X = rng.normal(size=(40, 4))
    columns = {f"f{j}": X[:, j].tolist() for j in range(4)}
    bandit.warm_start({"task": ["a"] * 40, "reward": (X @ theta[0]).tolist(), **columns}, refit=False)
    for i in range(160):
        t, A = i % 3, rng.normal(size=(4, 4))
        theta[2] *= -1.0 if i == 120 else 1.0
        d = bandit.decide("abc"[t], A, baseline=0, baseline_reward=None if i % 2 else float(A[0] @ theta[t]))
        bandit.reward(d.id, float(d.features @ theta[t]) + 0.1 * rng.normal())
        if i in (60, 110, 150):
            bandit.refit()
    bandit.reward(5, 1.0)
    bandit.retract(7, "wrong")
    _leave_open(bandit, path, rng)
    return path


def _leave_open(bandit: SafeBandit, path: Path, rng: np.random.Generator) -> None:
    """Close the store; beside it one as a kill leaves it, whose last calls stand in its tail."""
    shutil.copy(path, f"{path}-open")
    for _ in range(ALONE // 2):
        d = bandit.decide("a", rng.normal(size=(4, 4)), baseline=0)
        bandit.reward(d.id, float(rng.normal()))
    for end in ("", "-wal", "-tail"):
        shutil.copy(f"{path}.ledger{end}", f"{path}-open.ledger{end}")
    bandit.close()


def craft(good: Path, folder: Path, seed: int) -> tuple[str, Path]:
    """Crafted store number `seed`: what was done to it, and where it is."""
    rng = np.random.default_rng(seed)
    path = folder / f"store-{seed}"
    for suffix in ("", ".ledger", "-open", "-open.ledger", "-open.ledger-wal", "-open.ledger-tail"):
        shutil.copy(f"{good}{suffix}", f"{path}{suffix}")
    kind = KINDS[seed % len(KINDS)]
    kind(path, rng)
    return kind.__name__, path


def ledger(path: Path) -> Path:
    return path.with_name(path.name + ".ledger")


def _damage(data: bytes, rng: np.random.Generator) -> bytes:
    """Bits turned over, a stretch of noise, zeros, a cut, something twice, or something more."""
    raw, n = bytearray(data), len(data)
    way, a = rng.integers(6), int(rng.integers(n))
    length = int(min(n - a, rng.choice([1, 8, 100, 5000])))
    if way == 0:
        for place in rng.integers(n, size=rng.choice([1, 3, 30])):
            raw[place] ^= 1 << int(rng.integers(8))
    elif way == 1:
        raw[a : a + length] = rng.bytes(length)
    elif way == 2:
        raw[a : a + length] = bytes(length)
    elif way == 3:
        del raw[a:]
    elif way == 4:
        raw[a:a] = raw[a : a + length]
    else:
        raw += rng.bytes(length)
    return bytes(raw)


def damaged_model(path: Path, rng: np.random.Generator) -> None:
    path.write_bytes(_damage(path.read_bytes(), rng))


def damaged_ledger(path: Path, rng: np.random.Generator) -> None:
    ledger(path).write_bytes(_damage(ledger(path).read_bytes(), rng))


def moved_pages(path: Path, rng: np.random.Generator) -> None:
    """Pages swapped, copied over others, or blanked."""
    raw = bytearray(ledger(path).read_bytes())
    for _ in range(int(rng.choice([1, 2, 5]))):
        a, b = (int(x) * PAGE for x in rng.integers(len(raw) // PAGE, size=2))
        one, two = raw[a : a + PAGE], raw[b : b + PAGE]
        way = rng.integers(3)
        raw[a : a + PAGE] = bytes(PAGE) if way == 2 else two
        if way == 0:
            raw[b : b + PAGE] = one
    ledger(path).write_bytes(raw)


def forged_header(path: Path, rng: np.random.Generator) -> None:
    """SQLite's own first hundred bytes, and the first bytes of pages (cell counts, pointers)."""
    raw = bytearray(ledger(path).read_bytes())
    if rng.random() < 0.6:
        place = int(rng.choice([16, 18, 19, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64, 92, 96]))
        raw[place : place + 4] = struct.pack(">I", int(rng.choice([0, 1, 7, 2**16, 2**31, 2**32 - 1])))
    else:
        page = int(rng.integers(1, len(raw) // PAGE)) * PAGE
        place = page + int(rng.choice([0, 1, 3, 5, 7, 8, 10]))
        raw[place : place + 2] = rng.bytes(2)
    ledger(path).write_bytes(raw)


def stray_companions(path: Path, rng: np.random.Generator) -> None:
    """A -wal, -shm, -tail or journal that does not belong here."""
    companion = Path(f"{ledger(path)}{rng.choice(['-wal', '-shm', '-journal', '-tail', '-lock'])}")
    head = struct.pack(">8I", 0x377F0682, 3007000, PAGE, 1, 5, 6, 7, 8)
    body = [rng.bytes(5000), head + rng.bytes(9000), b"", bytes(40000), ledger(path).read_bytes()[:9000]]
    companion.write_bytes(body[int(rng.integers(len(body)))])


def damaged_tail(path: Path, rng: np.random.Generator) -> None:
    """A store that was not closed, whose tail is damaged, cut, or full of noise."""
    tail = _opened(path)
    if rng.random() < 0.7:  # where records stand
        used = len(tail.read_bytes().rstrip(b"\0"))
        tail.write_bytes(_damage(tail.read_bytes()[:used], rng))
    else:
        tail.write_bytes(_damage(tail.read_bytes(), rng))


def forged_tail(path: Path, rng: np.random.Generator) -> None:
    """One record that stands in the tail alone changed, and every hash after it written anew."""
    tail = _opened(path)
    data, place, frames = tail.read_bytes(), 64, []
    while (frame := frame_at(data, data[8:16], place)) is not None:
        frames.append((place, frame))
        place = frame.end
    first = len(frames) - int(rng.integers(1, ALONE))
    head, out = frames[first - 1][1].head, bytearray(data)
    for place, frame in frames[first:]:
        content = bytearray(frame.content)
        if place == frames[first][0]:
            content[int(rng.integers(len(content)))] = int(rng.integers(256))
        head = chained(head, bytes(content))
        out[place : frame.end] = top(data[8:16], bytes(content), frame.link, head) + content
    tail.write_bytes(out)


def _opened(path: Path) -> Path:
    """The tail of the store that was not closed, put in this one's place."""
    for end in ("", ".ledger", ".ledger-wal", ".ledger-tail"):
        shutil.copy(f"{path}-open{end}", f"{path}{end}")
    return Path(f"{path}.ledger-tail")


def hostile_sql(path: Path, rng: np.random.Generator) -> None:
    _run(path, HOSTILE[int(rng.integers(len(HOSTILE)))])


def hostile_schema(path: Path, rng: np.random.Generator) -> None:
    """Another meaning for a table, written past SQLite's own checks."""
    name, sql = SCHEMES[int(rng.integers(len(SCHEMES)))]
    db = sqlite3.connect(ledger(path))
    db.execute("PRAGMA writable_schema=ON")
    db.execute("UPDATE sqlite_master SET sql = ? WHERE name = ?", (sql, name))
    db.commit()
    db.close()


def changed_cell(path: Path, rng: np.random.Generator) -> None:
    """One value of one row; the chain is left as it was."""
    db = sqlite3.connect(ledger(path))
    _change(db, rng)
    db.commit()
    db.close()


def hostile_settings(path: Path, rng: np.random.Generator) -> None:
    """The settings' JSON: another value somewhere, or no JSON at all."""
    db = sqlite3.connect(ledger(path))
    key = str(rng.choice(["settings", "schema", "start", "attempt", "banister"]))
    found = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    value = TEXTS[int(rng.integers(len(TEXTS)))]
    if key == "settings" and rng.random() < 0.8:
        settings = json.loads(found[0])
        name = list(settings)[int(rng.integers(len(settings)))]
        values = [None, True, "x", [], {}, 1e400, -1, 10**400, [[[[]]]], {"a": {"b": 1}}]
        settings[name] = values[int(rng.integers(len(values)))]
        value = json.dumps(settings)
    db.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    db.commit()
    db.close()


def forged_chain(path: Path, rng: np.random.Generator) -> None:
    """One value changed and every hash written anew: what somebody could do who knows this program."""
    db = sqlite3.connect(ledger(path))
    _change(db, rng)
    _rechain(db)
    db.commit()
    db.close()
    path.unlink()


def forged_model(path: Path, rng: np.random.Generator) -> None:
    """A model that was never fitted, put in with a chain to match."""
    meta, arrays = unpack(path.read_bytes(), "good")
    data = _forged(meta, dict(arrays), rng)
    db = sqlite3.connect(ledger(path))
    (last,) = db.execute("SELECT MAX(version) FROM models").fetchone()
    db.execute("DELETE FROM model_parts WHERE version = ?", (last,))
    db.execute("INSERT INTO model_parts VALUES (?, 0, ?)", (last, data))
    db.execute("UPDATE models SET size = ?, digest = ? WHERE version = ?", (len(data), digest_of(data), last))
    _rechain(db)
    db.commit()
    db.close()
    path.unlink()


KINDS = [
    damaged_model, damaged_ledger, moved_pages, forged_header, stray_companions, hostile_sql, hostile_schema,
    changed_cell, hostile_settings, forged_chain, forged_model, damaged_tail, forged_tail,
]  # fmt: skip
FORGED = {
    "forged_chain",
    "forged_model",
    "forged_tail",
}  # whose chains hold: an audit may find more than opening does


def _forged(meta: dict, arrays: dict, rng: np.random.Generator) -> bytes:
    way = int(rng.integers(8))
    name = list(arrays)[int(rng.integers(len(arrays)))]
    array = arrays[name]
    if way == 0 and array.size:
        flat = array.astype(float).ravel()
        flat[int(rng.integers(len(flat)))] = float(rng.choice([np.nan, np.inf, -1.0, 0.0, 1e308, -1e200]))
        arrays[name] = flat.reshape(array.shape).astype(array.dtype)
    elif way == 1:
        arrays[name] = array * 0
    elif way == 2:
        arrays[name] = array[..., :0]
    elif way == 3:
        arrays[name] = rng.normal(size=(3, 3, 3))
    elif way == 4:
        meta = {**meta, str(rng.choice(list(meta))): TEXTS[int(rng.integers(len(TEXTS)))]}
    elif way == 5:
        own = dict(meta["belief"])
        own[str(rng.choice(list(own)))] = [None, "x", -1, 1e400, [1], {}][int(rng.integers(6))]
        meta = {**meta, "belief": own}
    elif way == 6:
        size = str(int(rng.choice([10**6, 10**9, 10**12, 2**62]))).encode()
        return pack(meta, arrays).replace(b"'shape': (", b"'shape': (" + size + b", ", 1)
    else:
        return _damage(pack(meta, arrays), rng)
    return pack(meta, arrays)


def _change(db: sqlite3.Connection, rng: np.random.Generator) -> None:
    tables = ["tasks", "decisions", "rewards", "refusals", "retractions", "drifts", "logs", "models"]
    table = tables[int(rng.integers(len(tables)))]
    columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] not in ("link", "head")]
    column = columns[int(rng.integers(len(columns)))]
    (n,) = db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()
    place = db.execute(
        f"SELECT rowid FROM {table} LIMIT 1 OFFSET ?", (int(rng.integers(max(n, 1))),)
    ).fetchone()
    blobs = [
        b"",
        b"\x00",
        rng.bytes(8),
        rng.bytes(32),
        np.full(4, np.nan).tobytes(),
        np.full(4, 1e308).tobytes(),
    ]
    values = [*NUMBERS, *TEXTS, *blobs, None]
    for _ in range(20):  # strict tables take only values of their own kind
        try:
            value = values[int(rng.integers(len(values)))]
            db.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, place and place[0]))
            return
        except (sqlite3.Error, OverflowError):
            continue


def _rechain(db: sqlite3.Connection) -> None:
    """Hashes and counts as if what is there had been written."""
    head = Head(bytes.fromhex(db.execute("SELECT value FROM meta WHERE key = 'start'").fetchone()[0]))
    for link, _, record in list(statements.entries(db)):
        head.add(record)
        table = statements.PLACES[type(record)][0]
        db.execute(f"UPDATE {table} SET link = ?, head = ? WHERE link = ?", (head.links, head.hash, link))
    names = [field.name for field in fields(Head)]
    db.execute(f"UPDATE head SET {', '.join(f'{n} = ?' for n in names)}", head.state())


def _run(path: Path, statement: str) -> None:
    db = sqlite3.connect(ledger(path))
    db.execute(statement)
    db.commit()
    db.close()
