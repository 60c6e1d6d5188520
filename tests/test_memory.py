"""Memory: rows are kept as they came, snapshots do not change, and forgetting leaves the right ones out."""

import numpy as np
import pytest

from banister.learner import blocks as module
from banister.learner.blocks import Blocks
from banister.learner.memory import SAMPLE, Memory
from banister.safety.gates import EVERY_TASK


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "_BLOCK", 4)


@pytest.mark.usefixtures("small_blocks")
def test_blocks_keep_rows_one_by_one_and_many_at_once():
    rows = np.arange(22.0).reshape(11, 2)
    blocks = Blocks(2)
    blocks.add(rows[0])
    blocks.extend(rows[1:8])
    blocks.add(rows[8])
    blocks.extend(rows[9:])
    assert blocks.size == 11
    for first in range(12):
        np.testing.assert_array_equal(np.concatenate(blocks.pieces(first)), rows[first:])
    assert Blocks(3).pieces()[0].shape == (0, 3)
    assert Blocks(dtype=np.int64).pieces()[0].dtype == np.int64


@pytest.mark.usefixtures("small_blocks")
def test_pieces_are_untouched_by_what_comes_later():
    blocks = Blocks()
    blocks.extend(np.arange(6.0))
    pieces = blocks.pieces()
    blocks.extend(np.arange(6.0, 20.0))
    np.testing.assert_array_equal(np.concatenate(pieces), np.arange(6.0))


def filled():
    memory = Memory(2)
    for i in range(10):
        memory.plays.add(i % 3, np.full(2, i), float(i), i % 2 == 0, np.nan if i % 2 else float(i), i)
        memory.labels.add(i % 3, np.full(2, i), 10.0 + i, 0.5, i)
        memory.offer(i % 3, np.full(2, -i))
    return memory


def test_what_a_fit_sees():
    seen = filled().snapshot().seen()
    assert seen.task.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]
    assert seen.y.tolist() == list(range(10))
    assert seen.X[:, 1].tolist() == list(range(10))
    assert seen.is_baseline.tolist() == [True, False] * 5
    np.testing.assert_array_equal(seen.claim[:3], [0.0, np.nan, 2.0])
    assert seen.label.tolist() == [10.0 + i for i in range(10)]
    assert set(seen.label_std) == {0.5}
    assert seen.offered[:, 0].tolist() == [-float(i) for i in range(10)]
    assert seen.offered_task.tolist() == seen.task.tolist()


def test_forgetting_a_task_leaves_out_its_rows_and_claims_from_before():
    memory = filled()
    memory.forget(1, 5)
    seen = memory.snapshot().seen()
    assert seen.y.tolist() == [0, 2, 3, 5, 6, 7, 8, 9]
    assert seen.label.tolist() == [10, 12, 13, 15, 16, 17, 18, 19]
    assert memory.snapshot().row_counts(4).tolist() == [4, 1, 3, 0]
    memory.forget(1, 2)  # an earlier change is no news
    assert memory.since == {1: 5}
    memory.forget(EVERY_TASK, 3)
    seen = memory.snapshot().seen()
    assert seen.y.tolist() == [3, 5, 6, 7, 8, 9]
    memory.forget(EVERY_TASK, 6)
    assert memory.snapshot().seen().y.tolist() == [6, 7, 8, 9]
    memory.forget(1, 8)
    assert memory.snapshot().seen().y.tolist() == [6, 8, 9]


def test_the_later_change_counts_be_it_of_one_task_or_of_all():
    memory = filled()
    memory.forget(1, 2)
    memory.forget(EVERY_TASK, 6)
    memory.forget(2, 9)
    assert memory.snapshot().seen().y.tolist() == [6, 7, 9]


def test_rewards_taken_back_are_left_out_and_their_claims_stay():
    memory = filled()
    for number in (4, 7):
        memory.retract(number, number % 3, np.full(2, number), float(number), number % 2 == 0)
    snapshot = memory.snapshot()
    memory.retract(8, 2, np.full(2, 8.0), 8.0, True)
    assert snapshot.seen().y.tolist() == [0, 1, 2, 3, 5, 6, 8, 9]
    assert len(snapshot.seen().label) == 10
    assert memory.snapshot().row_counts(3).tolist() == [4, 1, 2]
    memory.forget(0, 5)
    assert memory.snapshot().seen().y.tolist() == [1, 2, 5, 6, 9]


def test_a_snapshot_stays_as_it_was():
    memory = filled()
    snapshot = memory.snapshot()
    memory.plays.add(0, np.zeros(2), 99.0, True, 1.0, 10)
    memory.offer(0, np.full(2, 99.0))
    memory.forget(0, 9)
    assert snapshot.seen().y.tolist() == list(range(10))
    assert snapshot.seen().offered.max() == 0.0


def test_the_sample_of_what_was_offered_is_the_latest():
    memory = Memory(1)
    for i in range(SAMPLE + 3):
        memory.offer(i, np.array([float(i)]))
    offered = memory.snapshot().seen().offered[:, 0]
    assert sorted(offered) == list(range(3, SAMPLE + 3))
    many = Memory(1)
    many.offer_many(np.arange(5), np.arange(5.0)[:, None])
    many.offer_many(np.arange(2 * SAMPLE), np.arange(2.0 * SAMPLE)[:, None])
    assert sorted(many.snapshot().offered[:, 0]) == list(range(SAMPLE, 2 * SAMPLE))


def test_every_decision_gives_to_the_sample_at_first_and_every_eighth_later():
    assert all(Memory.samples(n) for n in (0, 1, SAMPLE))
    assert [Memory.samples(SAMPLE + n) for n in range(1, 9)] == [False] * 7 + [True]


def test_nothing_seen():
    seen = Memory(3).snapshot().seen()
    assert seen.X.shape == (0, 3)
    assert seen.offered.shape == (0, 3)
    assert Memory(3).snapshot().row_counts(2).tolist() == [0, 0]
