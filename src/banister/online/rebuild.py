"""Memory from the ledger: what opening a store does, row by row in the order in which things happened."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np

from banister.data import Float
from banister.errors import DataFileError
from banister.online.memory import Memory
from banister.online.store import Store

_DECISIONS = """
SELECT id, task, action, baseline, certified, bound, floor, low, high, std, baseline_features, features,
       offered
FROM decisions ORDER BY id
"""
_REWARDS = """
SELECT r.seq, r.id, r.value, d.task, COALESCE(d.features, d.baseline_features)
FROM rewards r JOIN decisions d ON d.id = r.id ORDER BY r.seq
"""


def rebuild(store: Store) -> None:
    """Fill a fresh store's memory and counters."""
    for code, label in store.ledger.rows("SELECT code, label FROM tasks ORDER BY code"):
        if code != len(store.labels):
            raise DataFileError(
                f"{store.ledger.where} lacks task number {len(store.labels)}; restore a copy."
            )
        store.tasks[label] = code
        store.labels.append(label)
    dim = _dim(store)
    if dim is not None:
        store.open_memory(dim)
        _logs(store, dim)
        _decisions(store)
        _rewards(store, dim)


def _dim(store: Store) -> int | None:
    first = store.ledger.rows("SELECT LENGTH(baseline_features) FROM decisions LIMIT 1")
    if first:
        return int(first[0][0]) // 8
    log = store.ledger.rows("SELECT LENGTH(features) / LENGTH(reward) FROM logs LIMIT 1")
    return int(log[0][0]) if log else None


def _logs(store: Store, dim: int) -> None:
    """All blocks at once, as they were handed in: the sample of offered actions is taken over all rows."""
    batches = store.ledger.rows(
        "SELECT task, features, reward, baseline, baseline_reward, time FROM logs ORDER BY seq"
    )
    for batch in _by_call(batches):
        task, X, y, usual, known = (b"".join(column) for column in zip(*batch, strict=True))
        codes, rewards, rewarded = np.frombuffer(task, dtype=np.int64), np.frombuffer(y), np.frombuffer(known)
        store.remember_logs(codes, _matrix(X, dim), rewards, _matrix(usual, dim), rewarded)


def _by_call(rows: list[tuple[Any, ...]]) -> list[list[tuple[Any, ...]]]:
    """Rows of one call carry one time."""
    calls: dict[float, list[tuple[Any, ...]]] = {}
    for *columns, when in rows:
        calls.setdefault(when, []).append(tuple(columns))
    return list(calls.values())


def _matrix(data: bytes, dim: int) -> Float:
    return np.frombuffer(data).reshape(-1, dim)


def _decisions(store: Store) -> None:
    memory = store.memory
    assert memory is not None
    drifts = store.ledger.rows("SELECT after, task, since FROM drifts ORDER BY seq DESC")
    for block in store.ledger.stream(_DECISIONS):
        for row in block:
            _drifts_before(store, drifts, row[0])
            _decision(store, memory, row)
    _drifts_before(store, drifts, store.decisions + 1)


def _decision(store: Store, memory: Memory, row: tuple[Any, ...]) -> None:
    number, task, action, index, certified, bound, floor, low, high, std, base, played, offered = row
    baseline = np.frombuffer(base)
    if low is not None and low == high:
        memory.labels.add(task, baseline, high, std, number)
    if offered is not None:
        memory.offer(task, np.frombuffer(offered))
    step = np.frombuffer(played) - baseline if certified and action != index else None
    margin = bound - floor if step is not None else np.nan
    memory.tally(task, bool(certified), margin, step)
    store.decisions = number
    store.mixtures += action < 0


def _rewards(store: Store, dim: int) -> None:
    memory = store.memory
    assert memory is not None
    expected = count(1)
    for block in store.ledger.stream(_REWARDS):
        seq, number, value, task, features = zip(*block, strict=True)
        if any(s != next(expected) for s in seq):
            raise DataFileError(f"{store.ledger.where} has a gap in its rewards; restore it from a copy.")
        memory.plays.extend(
            np.array(task),
            _matrix(b"".join(features), dim),
            np.array(value),
            np.zeros(len(seq)),
            np.array(number),
        )
        store.rewards += len(seq)


def _drifts_before(store: Store, drifts: list[tuple[Any, ...]], number: int) -> None:
    """Drifts that were noted before a decision; the list is used up from its end."""
    while drifts and drifts[-1][0] < number:
        _, task, since = drifts.pop()
        store.count_drift(task, since)
