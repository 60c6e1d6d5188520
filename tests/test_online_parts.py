"""The small parts of `banister.online`: digests, growing rows, counts, rows needed, model files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from banister.errors import ModelFileError
from banister.learner.blocks import Blocks
from banister.learner.memory import SAMPLE
from banister.online._digest import digests
from banister.online.door import squares_finite
from banister.online.files import write_atomically
from banister.online.ledger import Decided, Played, Rewarded
from banister.online.model import Marks, Model
from banister.online.model_file import pack, require, unpack
from banister.online.needed import exploring, rows_needed
from banister.online.record import AlarmRecord
from banister.online.sqlite.ledger import SqliteLedger
from banister.online.store import Store
from banister.online.tallies import Tallies
from banister.safety.belief import Belief
from banister.safety.frame import Frame
from banister.safety.gates import EVERY_TASK
from banister.safety.labels import Claims
from online_world import trained


@settings(deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 10_000))
def test_a_digest_sees_every_bit_and_the_order(actions, dim, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((2, actions, dim))
    both = digests(A)
    assert both[0] != both[1]
    assert digests(A[:1])[0] == both[0]
    changed = A.copy()
    place = tuple(rng.integers(s) for s in A.shape)
    changed[place] = np.nextafter(changed[place], np.inf)
    assert (digests(changed) != both).sum() == 1
    if actions > 1:
        assert digests(np.ascontiguousarray(A[:, ::-1]))[0] != both[0]


@settings(deadline=None)
@given(st.lists(st.integers(1, 9000), min_size=1, max_size=5), st.integers(0, 9000))
def test_blocks_are_the_rows_in_order(sizes, first):
    column, every = Blocks(dtype=np.int64), np.arange(sum(sizes))
    start = 0
    for size in sizes:
        if size % 2:
            column.extend(every[start : start + size])
        else:
            for value in every[start : start + min(size, 50)]:
                column.add(value)
            column.extend(every[start + min(size, 50) : start + size])
        start += size
    first = min(first, start)
    np.testing.assert_array_equal(np.concatenate(column.pieces(first)), every[first:])


def test_pieces_do_not_see_later_rows():
    column = Blocks(2)
    column.add([1.0, 2.0])
    before = column.pieces()
    column.add([3.0, 4.0])
    assert [p.tolist() for p in before] == [[[1.0, 2.0]]]


def test_decisions_of_others_come_after_what_waits():
    world, bandit = trained(20)
    store = bandit._engine.store
    bandit.decide(**world.request())
    mine = store._made[-1]
    store.remember_block(Decided.of([mine._replace(id=mine.id + 1)]))
    *_, number = store.memory.labels.view().rows()
    assert number[-2:].tolist() == [mine.id, mine.id + 1]


def test_the_worst_margin_stays_the_worst():
    tallies, moved = Tallies(1), np.arange(3)
    tallies.count_many(np.zeros(3, dtype=int), np.array([0.5, 0.2, 0.4]), moved, np.ones((3, 1)))
    tallies.count_many(np.zeros(1, dtype=int), np.array([0.3]), moved[:1], np.ones((1, 1)))
    assert tallies.margin.view[0] == 0.2


def test_a_drift_forgets_what_was_gained():
    tallies = Tallies(2)
    tallies.count_many(np.array([0, 1, 1]), np.array([0.5, 0.2, np.nan]), np.array([0, 1]), np.ones((2, 2)))
    tallies.start_anew(0)
    assert tallies.moved.view[:2].tolist() == [0, 1]
    assert tallies.shift.view[:2].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    tallies.start_anew(EVERY_TASK)
    assert tallies.moved.view[:2].tolist() == [0, 0]
    assert tallies.decisions.view[:2].tolist() == [1, 2]
    assert tallies.left.view[:2].tolist() == [1, 1]
    assert tallies.margin.view[:2].tolist() == [0.5, 0.2]


def belief_of(mean, V, *, z=2.0, scale=1.0, reward=1.0) -> Belief:
    """A belief made by hand: one task after the other, no intercept, nothing left over."""
    T, p = np.shape(mean)
    return Belief(
        frame=Frame(np.full(p, scale), False, reward),
        mean=np.asarray(mean, dtype=float),
        V=np.asarray(V, dtype=float),
        away=np.zeros((T, p, p)),
        left=np.zeros(p),
        noise=np.ones(T),
        z=np.full(T, z),
        labelled=np.ones(T, dtype=bool),
        label_error=0.01,
        known=np.ones(T, dtype=bool),
        usual=np.linspace(-2.0, 2.0, 200),
        rank=1,
        claims=Claims.NONE,
    )


def test_rows_needed_by_hand():
    """z·se is 2 · 2 = 4 now. With rows of the same kind it halves when they are four times as many; with rows
    of another, one unit of information each, the variance 4 becomes 4/(1 + 4n)."""
    belief = belief_of([[1.0, 0.0]], 4 * np.eye(2)[None])
    one, height = np.array([[1.0, 0.0]]), np.array([1.0])
    everything, nothing = np.eye(2), np.diag([0.0, 1.0])
    assert rows_needed(belief, 0, one, height, everything, had=10) == 150  # 16 times as many
    assert rows_needed(belief, 0, one, height, everything) == 4  # 16/(1 + 4n) = 1
    assert rows_needed(belief, 0, one, height, 0.05 * everything) == 75
    assert rows_needed(belief, 0, one, height, nothing) is None  # what is not played is not learned
    assert rows_needed(belief, 0, one, height, nothing, had=10) is None
    assert rows_needed(belief, 0, one, 4 * height, nothing) == 0
    assert rows_needed(belief, 0, one, -height, everything, had=10) is None
    assert rows_needed(belief, 99, one, height, everything) is None
    # the median of three contrasts: heights 4 (now), 1 and 0.1
    three = np.repeat(one, 3, axis=0)
    assert rows_needed(belief, 0, three, np.array([4.0, 1.0, 0.1]), everything) == 4
    # at least two explored rows for each coefficient; nothing more where nothing is needed
    assert [exploring(n, belief) for n in (4, 1000, 0, None)] == [160, 1000, 0, None]


def test_the_allowance_for_the_left_over_shrinks_with_the_variance():
    """Variance 4 and an allowance of 2 √(1⁴ 0.5²) = 1: z·se = 2 √5 now, 2 √(5/4) with four times the rows."""
    plain = belief_of([[1.0, 0.0]], 4 * np.eye(2)[None])
    belief = dataclasses.replace(plain, away=np.eye(2)[None], left=np.array([0.5, 0.0]))
    one, height = np.array([[1.0, 0.0]]), np.array([2 * np.sqrt(5 / 4) + 1e-9])
    assert rows_needed(belief, 0, one, height, np.eye(2), had=10) == 30


def test_a_model_comes_back_from_its_bytes_bit_for_bit():
    _, bandit = trained(300)
    bandit.decide("silent", np.ones((2, 8)), baseline=0)
    bandit.refit()  # with a task that is not known
    model = bandit._engine.model
    data = model.to_bytes(bandit.settings, bandit._engine.store.labels)
    again, meta = Model.from_bytes(data, "x")
    assert (again.version, again.marks) == (2, Marks(301, 300, 0))
    assert meta["tasks"] == bandit._engine.store.labels
    a, b = model.belief, again.belief
    assert not a.known.all()
    np.testing.assert_array_equal(a.known, b.known)
    for name in ("mean", "left", "noise", "z", "labelled", "usual"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("V", "away"):
        np.testing.assert_array_equal(getattr(a, name)[a.known], getattr(b, name)[a.known])
    np.testing.assert_array_equal(a.frame.scale, b.frame.scale)
    assert (a.frame.intercept, a.frame.reward, a.label_error) == (
        b.frame.intercept, b.frame.reward, b.label_error,
    )  # fmt: skip
    assert (a.rank, a.claims) == (b.rank, b.claims)
    assert (a.start.noise, a.start.rows) == (b.start.noise, b.start.rows)
    for name in ("mu", "L", "D"):
        np.testing.assert_array_equal(getattr(a.start.shared, name), getattr(b.start.shared, name))
    assert again.to_bytes(bandit.settings, bandit._engine.store.labels) == data


def test_a_model_file_round_trip(tmp_path):
    data = pack({"a": 1}, {"x": np.arange(3.0)})
    write_atomically(tmp_path / "m", data)
    meta, arrays = unpack((tmp_path / "m").read_bytes(), "m")
    assert meta["a"] == 1
    assert require(arrays, "x", (3,), "m").tolist() == [0.0, 1.0, 2.0]
    assert [p.name for p in tmp_path.iterdir()] == ["m"]
    flipped = bytearray(data)
    flipped[data.index(np.arange(3.0).tobytes()) + 9] ^= 1
    with pytest.raises(ModelFileError, match="not a whole"):
        unpack(bytes(flipped), "m")


def state_of(store):
    """Everything that a store remembers, to be compared."""
    memory, tallies = store.memory, store.tallies
    snapshot = memory.snapshot()
    views = (getattr(tallies, name).view for name in ("decisions", "left", "moved", "shift", "margin"))
    return [
        *snapshot.plays.rows(), *snapshot.labels.rows(), snapshot.offered_task, snapshot.offered,
        *(view[: len(store.labels)] for view in views), tallies.pairs, str(sorted(tallies.reasons.items())),
        [tallies.first, tallies.last], [store.decisions, store.mixtures, store.rewards, memory._sampled],
    ]  # fmt: skip


def stores(bandit, n):
    made = []
    for _ in range(n):
        store = Store(SqliteLedger(None))
        for code, label in enumerate(bandit._engine.store.labels):
            store.know_task(label, code)
        store.open_memory(8)
        made.append(store)
    return made


def assert_same_state(*compared):
    first, *others = map(state_of, compared)
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_many_are_remembered_as_one_after_the_other():
    world, bandit = trained(100)
    for _ in range(20):
        bandit.decide(**{**world.request(), "baseline_reward": None})
    world.play(bandit, 100)
    records = list(bandit._engine.store.ledger.decisions())
    assert {r.moved for r in records} == {True, False}
    single, many, blocks = stores(bandit, 3)
    for record in records:
        single.remember(record)
        assert single.memory is not None  # a look takes in what waits
    many.remember_many(records)
    for first in range(0, len(records), 7):
        blocks.remember_many(records[first : first + 7])
    assert_same_state(single, many, blocks)


def test_a_margin_that_is_unknown_is_not_the_worst():
    records = list(trained(150)[1]._engine.store.ledger.decisions())
    base = records[0]
    moved = [
        base._replace(action=(base.baseline + 1) % 6, features=base.baseline_features, bound=b, floor=f)
        for b, f in ((np.nan, 1.0), (3.0, 1.0), (np.nan, np.nan), (2.5, 1.0))
    ]
    single, many = stores(trained(150)[1], 2)
    for record in moved:
        single.remember(record)
        assert single.memory is not None  # a look takes in what waits
    many.remember_many(moved)
    assert_same_state(single, many)
    assert many.tallies.margin.view[base.task] == 1.5


def test_more_offers_than_the_sample_has_room_for():
    _, bandit = trained(10)
    record = next(r for r in bandit._engine.store.ledger.decisions() if r.offered is not None)
    rng = np.random.default_rng(0)
    records = [
        record._replace(id=i, offered=rng.standard_normal(8).tobytes()) for i in range(1, 2 * SAMPLE + 100)
    ]
    single, many = stores(bandit, 2)
    for one in records:
        single.remember(one)
        assert single.memory is not None
    many.remember_many(records)
    assert_same_state(single, many)


def test_many_rewards_are_learned_as_one_after_the_other():
    _, bandit = trained(60)
    ledger = bandit._engine.store.ledger
    rewards = [(r.id, ledger.find(r.id), r.value) for r in ledger.rewards()]
    single, many = stores(bandit, 2)
    for number, played, value in rewards:
        single.learn_many([(number, played, value)])
        assert single.memory is not None
    many.learn_many(rewards)
    many.learn_many([])
    assert_same_state(single, many)


def test_what_waits_is_taken_in_before_a_drift_forgets_what_was_gained():
    _, bandit = trained(150)
    records = [r for r in bandit._engine.store.ledger.decisions() if not r.moved]
    left = records[0]._replace(action=(records[0].baseline + 1) % 6, features=records[0].baseline_features)
    (store,) = stores(bandit, 1)
    store.remember(left)
    store.count_alarm(AlarmRecord(1, 0.0, left.task, 1, left.id + 1, left.id, 1.0))
    assert store.tallies.left.view[left.task] == 1
    assert store.tallies.moved.view[left.task] == 0


def test_rewards_count_before_they_are_taken_in():
    _, bandit = trained(60)
    ledger = bandit._engine.store.ledger
    (store,) = stores(bandit, 1)
    for n, reward in enumerate(ledger.rewards(), start=1):
        store.learn_many([(reward.id, ledger.find(reward.id), reward.value)])
        assert (store.plays, store.rewards) == (n, n)
    assert len(store.memory.plays) == 60


def test_rows_of_others_come_after_those_that_wait():
    """Memory keeps the order of the chain: what this process learned first stands first."""
    store = Store(SqliteLedger(None))
    store.know_task("shop", 0)
    store.open_memory(2)
    store.learn_many([(1, Played(0, np.array([1.0, 0.0]), True, np.nan, 0.0, None, None, False), 0.25)])
    one = (np.array([2]), np.array([0.5]), np.array([0]), np.array([[0.0, 1.0]]), np.array([True]))
    store.learn_block(Rewarded(*one, np.full(1, np.nan)))
    rewards = store.memory.snapshot().plays.rows()[2]
    np.testing.assert_array_equal(rewards, [0.25, 0.5])


@settings(deadline=None)
@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_numbers_that_are_not_finite_or_too_large_are_found(numbers):
    with np.errstate(over="ignore", invalid="ignore"):
        assert squares_finite(numbers) == np.isfinite(np.sum(numbers**2))
