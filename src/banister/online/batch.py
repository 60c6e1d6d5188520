"""Many requests at once, for batch systems: checked together, judged in order, written in one transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import Any

import numpy as np

from banister.data import Float, Int, as_vector, is_masked
from banister.errors import InputError, NonFiniteError, ShapeError
from banister.learner.memory import Memory
from banister.online._digest import digest, digests
from banister.online.decision import Decision
from banister.online.door import (
    Request,
    check_actions,
    check_indices,
    check_keys,
    check_number,
    check_sequence,
    check_tasks,
)
from banister.online.engine import Engine
from banister.online.following import repeated
from banister.online.judging import judged
from banister.online.record import DecisionRecord
from banister.safety.exploration import ConservativeMixture
from banister.safety.reasons import WORDS, Reason

_DISAGREES = Reason.DISAGREES.value
_ROWS = 2048  # requests judged at once; bounds the memory beside the actions themselves


@dataclass(frozen=True, eq=False)
class Batch:
    """Clean requests: labels and columns of m entries; `actions` are m arrays (K_i, d) or one (m, K, d)."""

    labels: list[str]
    actions: Any
    baseline: Int
    low: Float
    high: Float
    std: Float
    keys: list[str | None]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def dim(self) -> int | None:
        """d; None if there are no requests."""
        return int(self.actions[0].shape[1]) if len(self.labels) else None

    def runs(self) -> Iterator[slice]:
        """Stretches of requests with equally many actions, none too long."""
        whole = isinstance(self.actions, np.ndarray)
        alike = [len(self.labels)] if whole else [len([*g]) for _, g in groupby(map(len, self.actions))]
        start = 0
        for size in alike:
            stop = start + size
            for first in range(start, stop, _ROWS):
                yield slice(first, min(first + _ROWS, stop))
            start = stop

    def requests(self, rows: slice = slice(None)) -> Iterator[Request]:
        """One by one."""
        for i in range(len(self.labels))[rows]:
            label = self.labels[i]
            numbers = float(self.high[i]), float(self.low[i]), float(self.std[i])
            yield Request(label, self.actions[i], int(self.baseline[i]), *numbers)

    def take(self, rows: list[int]) -> Batch:
        """These requests."""
        whole = isinstance(self.actions, np.ndarray)
        return Batch(
            [self.labels[i] for i in rows],
            self.actions[rows] if whole else [self.actions[i] for i in rows],
            self.baseline[rows], self.low[rows], self.high[rows], self.std[rows],
            [self.keys[i] for i in rows],
        )  # fmt: skip

    def stacked(self, rows: slice) -> Float:
        """Actions of one run, (m, K, d)."""
        part = self.actions[rows]
        return part if isinstance(part, np.ndarray) else np.stack(part)


def check_batch(
    tasks: Any, actions: Any, baselines: Any, rewards: Any, std: Any, keys: Any, dim: int | None
) -> Batch:
    """Clean requests, or an error that names the request at fault."""
    if isinstance(tasks, str):
        raise InputError(f"tasks={tasks!r} is one task; give a sequence with one label per request.")
    labels = check_tasks(check_sequence(tasks, "tasks"))
    m = len(labels)
    sets = _check_sets(check_sequence(actions, "actions"), m, dim)
    if len(check_sequence(baselines, "baselines")) != m:
        raise ShapeError(f"There are {m} tasks and {len(baselines)} baselines; give one per request.")
    index = check_indices(_items(baselines), _sizes(sets))
    low, high = _check_rewards(rewards, m)
    stds, names = _check_stds(std, m), _check_apart(check_keys(keys, m))
    return Batch(labels, sets, index, low, high, stds, names)


def _check_apart(keys: list[str | None]) -> list[str | None]:
    twice = [key for key, n in Counter(keys).items() if n > 1 and key is not None]
    if twice:
        raise InputError(f"keys has {twice[0]!r} twice; give each request a key of its own.")
    return keys


def _sizes(sets: Any) -> Int:
    """How many actions each request has, (m,)."""
    whole = isinstance(sets, np.ndarray) and sets.ndim == 3
    return np.full(len(sets), sets.shape[1]) if whole else np.array([len(a) for a in sets], dtype=np.int64)


def _items(values: Any) -> list[Any]:
    return list(values.tolist() if isinstance(values, np.ndarray) else values)


def _check_sets(actions: Any, m: int, dim: int | None) -> Any:
    if len(actions) != m:
        raise ShapeError(f"There are {m} tasks and {len(actions)} action sets; give one per request.")
    if type(actions) is np.ndarray and actions.ndim == 3 and actions.size:
        whole = np.ascontiguousarray(actions, dtype=np.float64) if actions.dtype.kind in "fiu" else actions
        flat = check_actions(whole.reshape(-1, whole.shape[2]), dim)
        return flat.reshape(whole.shape)
    sets = [check_actions(a, dim, f"request {i}: ") for i, a in enumerate(actions)]
    for i, a in enumerate(sets):
        if a.shape[1] != sets[0].shape[1]:
            raise ShapeError(
                f"request {i}: actions has {a.shape[1]} features, request 0 has {sets[0].shape[1]}."
            )
    return sets


def _check_rewards(rewards: Any, m: int) -> tuple[Float, Float]:
    if rewards is None:
        unknown = np.full(m, np.nan)
        return unknown, unknown.copy()
    try:
        given = np.asarray(rewards)
        odd = given.dtype.kind == "O" and any(isinstance(v, (str, bytes, bool)) for v in given.flat)
        if odd or given.dtype.kind not in "fiuO":
            raise TypeError(f"it holds {given.dtype}")
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as reason:
        raise InputError(
            f"baseline_rewards cannot be read as numbers ({reason}); NaN where unknown."
        ) from None
    if is_masked(rewards):
        raise InputError("baseline_rewards has masked entries; give NaN where the reward is unknown.")
    if values.shape not in ((m,), (m, 2)):
        raise ShapeError(
            f"baseline_rewards must be {m} numbers or ({m}, 2) bounds; its shape is {values.shape}."
        )
    if np.isinf(values).any():
        raise NonFiniteError("baseline_rewards holds infinity; give NaN where the reward is unknown.")
    low, high = (values, values.copy()) if values.ndim == 1 else values.T.copy()
    bad = np.flatnonzero((low > high) | (np.isnan(low) != np.isnan(high)))
    if len(bad):
        raise InputError(f"request {bad[0]}: baseline_reward bounds {values[bad[0]]} are not (low, high).")
    return low, high


def _check_stds(std: Any, m: int) -> Float:
    if isinstance(std, np.ndarray) and std.ndim == 0:
        std = std.item()
    if np.isscalar(std) or std is None:
        std = [check_number(std, "baseline_reward_std")] * m
    values = as_vector(check_sequence(std, "baseline_reward_std"), "baseline_reward_std", size=m)
    if (values < 0).any():
        raise InputError("baseline_reward_std must not be negative; give 0 where the reward is exact.")
    return values


@repeated
def decide_batch(engine: Engine, batch: Batch, mixture: ConservativeMixture | None) -> list[Decision]:
    """Decisions in order; all are written, or none and nothing has changed. Known keys give the old ones."""
    if not len(batch):
        return []
    if mixture is not None:  # each mixture is a draw of its own, and each request a transaction
        rows = zip(batch.requests(), batch.keys, strict=True)
        return [engine.decide(request, _digest(request), mixture, key) for request, key in rows]
    before, new, records = _made(engine, batch)
    if new:
        engine.open_memory(len(batch.actions[0][0]))
        engine.store.remember_many(records)
    engine.count_alarms()
    made = Decision.of_many(records, [batch.labels[i] for i in new]) if new else []
    for i, decision in sorted(before.items()):
        made.insert(i, decision)
    return made


def _made(engine: Engine, batch: Batch) -> tuple[dict[int, Decision], list[int], list[DecisionRecord]]:
    """In one transaction: decisions of known keys by place, the places of all others, and their records.

    The account has followed the records, or is as it was.
    """
    account, records, waiting = engine.account, list[DecisionRecord](), None
    try:
        with engine.call_alone:
            engine.check_dim(batch.dim)
            waiting = None if account is None else account.exposed()
            before = _made_before(engine, batch)
            new = [i for i in range(len(batch)) if i not in before]
            _make(engine, batch.take(new) if before else batch, records)
    except BaseException:
        if account is not None:
            account.undecide([record.id for record in records], waiting)
        raise
    return before, new, records


def _made_before(engine: Engine, batch: Batch) -> dict[int, Decision]:
    """Decisions that were made under the batch's keys, by place; an error if one was of another request."""
    places = {key: i for i, key in enumerate(batch.keys) if key is not None}
    found = engine.store.ledger.find_keys(list(places)) if places else {}
    out = {}
    for key, record in found.items():
        request = next(batch.requests(slice(places[key], places[key] + 1)))
        out[places[key]] = engine.again(record, request, _digest(request))
    return out


def _make(engine: Engine, batch: Batch, records: list[DecisionRecord]) -> None:
    task = np.array([engine.store.code_of(label) for label in batch.labels], dtype=np.int64)
    written = _written if engine.drawer is None else _drawn
    for rows in batch.runs():
        written(engine, batch, rows, task, records)
    for record in [record for record in records if record.reason == _DISAGREES]:
        engine.note_disagreement(record.task, record.id, records[-1].id)


def _drawn(engine: Engine, batch: Batch, rows: slice, tasks: Int, records: list[DecisionRecord]) -> None:
    """One run: each draw waits for its reward before the next is made."""
    number, first = engine.store.ledger.next_id(), len(records)
    marks = digests(batch.stacked(rows)).tolist()
    keys = batch.keys[rows]
    for i, request in enumerate(batch.requests(rows)):
        record = judged(engine, request, int(tasks[rows][i]), number + i, marks[i], None, keys[i])
        records.append(record)
        engine.post(record)
    engine.store.ledger.add_decisions(records[first:])


def _digest(request: Request) -> int:
    return digest(request.actions)


def _written(engine: Engine, batch: Batch, rows: slice, tasks: Int, records: list[DecisionRecord]) -> None:
    """One run, judged together and written in order."""
    made = list(_judged(engine, batch, rows, tasks[rows]))
    engine.store.ledger.add_decisions(made)
    records += made


def _judged(engine: Engine, batch: Batch, rows: slice, task: Int) -> Iterator[DecisionRecord]:
    """Records of one run, made of columns: what is the same for all rows is repeated."""
    actions, baseline, m = batch.stacked(rows), batch.baseline[rows], len(task)
    low, high, std = batch.low[rows], batch.high[rows], batch.std[rows]
    usual = actions[np.arange(m), baseline]
    verdicts = engine.learner.decide(task, actions, baseline, usual, low, high, std)
    certified = verdicts.chosen >= 0
    action = np.where(certified, verdicts.chosen, baseline)
    number, none = engine.store.ledger.next_id(), repeat(None)
    columns = zip(
        range(number, number + m), repeat(time.time()), task.tolist(), repeat(engine.model.version),
        action.tolist(), baseline.tolist(), certified.tolist(), [WORDS[code] for code in verdicts.code],
        verdicts.bound.tolist(), verdicts.floor.tolist(), low.tolist(), high.tolist(), std.tolist(),
        repeat(1.0), none, none, none, repeat(actions.shape[1]), digests(actions).tolist(),
        _rows_of(usual), _played(actions, action, baseline), _offered(actions, number),
        map(np.ndarray.tobytes, actions) if engine.settings.keep_actions else none, batch.keys[rows],
        strict=False,
    )  # fmt: skip
    return map(DecisionRecord._make, columns)


def _played(actions: Float, action: Int, baseline: Int) -> list[bytes | None]:
    """The features of what is played, where that is not the baseline."""
    moved = np.flatnonzero(action != baseline)
    found: list[bytes | None] = [None] * len(action)
    for i, row in zip(moved.tolist(), _rows_of(actions[moved, action[moved]]), strict=True):
        found[i] = row
    return found


def _offered(actions: Float, first: int) -> list[bytes | None]:
    """One action of each decision that gives one to the sample; `first` is the first decision's number."""
    n = actions.shape[1]
    return [
        own[Memory.sampled(number, n)].tobytes() if Memory.samples(number) else None
        for number, own in enumerate(actions, first)
    ]


def _rows_of(matrix: Float) -> list[bytes]:
    """The bytes of each row."""
    whole, size = matrix.tobytes(), matrix.shape[1] * matrix.itemsize
    return [whole[first : first + size] for first in range(0, len(whole), size)]
