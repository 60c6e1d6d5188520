"""Rows by task, a block at a time: the same factors whichever way they are made."""

import numpy as np
import pytest

from banister.safety import gathering, posterior
from banister.safety.frame import Frame
from banister.safety.gathering import Gathered, Labels, Old
from banister.safety.past import Past

T, D = 5, 3
NOTHING_OLD = Old(Past.none(D), Past.none(D))


def gathered(counts=(2, 9, 4, 12, 1), *, labels=True, old=NOTHING_OLD):
    rng = np.random.default_rng(0)
    task = rng.permutation(np.repeat(np.arange(T), counts))
    n = len(task)
    frame = Frame(np.array([1.0, 2.0, 4.0]), True)
    claims = Labels(np.array([3, 1, 3, 0, -1]), rng.normal(size=(5, D)), rng.normal(size=5), np.arange(5.0))
    used = np.array([0, 1, 2]) if labels else np.zeros(0, dtype=int)
    plays = task, rng.normal(size=(n, D)), rng.normal(size=n), np.ones(n, dtype=bool)
    return Gathered(frame, *plays, claims, used, np.arange(T, dtype=float), old)


@pytest.fixture
def small_blocks(monkeypatch):
    """Two tasks a block."""
    monkeypatch.setattr(gathering, "chunks", lambda n, entries: posterior.chunks(n, 2**17))


def test_blocks_hold_every_row_once_in_its_tasks_order(small_blocks):
    data = gathered()
    blocks = list(data.blocks())
    assert [block.tasks for block in blocks] == [slice(0, 2), slice(2, 4), slice(4, 5)]
    row = np.concatenate([block.row for block in blocks])
    assert sorted(row.tolist()) == list(range(28))
    for block in blocks:
        np.testing.assert_array_equal(block.task + block.tasks.start, data.task[block.row])
        np.testing.assert_array_equal(block.features, data.frame.rows(data.X[block.row]))
        np.testing.assert_array_equal(block.rewards, data.y[block.row])
        for t in np.unique(block.task):
            assert np.all(np.diff(block.row[block.task == t]) > 0)


def same(found, wanted):
    """Factors of blocks may be shorter: rows of zeros say nothing."""
    for name in ("claimed", "telling"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    for a, b in ((found.plays, wanted.plays), (found.labels, wanted.labels)):
        r = a.R.shape[1]
        np.testing.assert_allclose(a.R, b.R[:, :r], rtol=1e-13)
        np.testing.assert_allclose(a.z, b.z[:, :r], rtol=1e-13)
        assert not b.R[:, r:].any()
        for name in ("n", "yy", "rest"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-13)


@pytest.mark.parametrize("labels", [True, False])
def test_factors_of_blocks_are_those_of_all_tasks(small_blocks, labels):
    whole = gathered(labels=labels).sample(np.arange(T))
    data = gathered(labels=labels)
    for block in data.blocks():
        same(data.rows(block), whole.of_tasks(block.tasks))
    assert whole.claimed.tolist() == ([1.0, 1.0, 1.0, (0 + 4) / 2, 1.0] if labels else [1.0] * T)


def test_a_sample_of_tasks():
    data = gathered()
    same(data.sample(np.array([1, 3])), gathered().sample(np.arange(T)).of_tasks(np.array([1, 3])))


def test_what_is_kept_and_what_is_made_again(small_blocks, monkeypatch):
    made = []
    plain = gathering.Factors.of
    monkeypatch.setattr(gathering.Factors, "of", lambda *rows: (made.append(len(rows[0])), plain(*rows))[1])
    data = gathered((2, 9, 20, 12, 1), labels=False)
    for _ in range(2):
        for block in data.blocks():
            data.rows(block)
    # 2 + 9 rows are 2 × 4 of factors, not half; 32 rows are 2 × 4: kept; one row is its own factor
    assert made == [11, 32, 1, 11, 1]
    made.clear()
    data.sample(np.arange(T))  # all tasks, a few at a time: from here on these serve
    for block in data.blocks():
        data.rows(block)
    assert made == [11, 32, 1]


def past(tasks, rng, periods):
    """Three rows of factors and a period or two for each of some tasks."""
    of = np.repeat(tasks, periods)
    ends = rng.normal(size=(len(of), D + 1))
    return Past(
        np.repeat(tasks, 3), rng.normal(size=(3 * len(tasks), D + 2)), rng.normal(size=D), of,
        np.arange(len(of)) + 20.0, ends, ends + 1, ends[:, 0], np.ones(len(of)),
        rng.normal(size=(len(of), D + 1)) ** 2,
    )  # fmt: skip


def test_rows_of_long_ago_are_in_their_tasks_blocks(small_blocks):
    rng = np.random.default_rng(3)
    old = Old(past(np.array([0, 2, 4]), rng, 2), past(np.array([1, 4]), rng, 1))
    whole = gathered(old=old).sample(np.arange(T))
    data = gathered(old=old)
    for block in data.blocks():
        same(data.rows(block), whole.of_tasks(block.tasks))
    assert whole.plays.n.tolist() == [2 + 41, 9, 4 + 45, 12, 1 + 49]
    assert whole.labels.n.tolist() == [0, 1 + 20, 0, 2, 21]
    same(gathered(old=old).sample(np.array([2, 4])), whole.of_tasks(np.array([2, 4])))


def test_rows_of_long_ago_by_place():
    rng = np.random.default_rng(4)
    given = past(np.array([7, 3, 5]), rng, 2)
    placed = given.placed(np.array([-1, -1, -1, 1, -1, 0, -1, -1]))  # task 5 is the first, 3 the second
    assert placed.task.tolist() == [0, 0, 0, 1, 1, 1]
    assert placed.of.tolist() == [0, 0, 1, 1]
    np.testing.assert_array_equal(placed.F, given.F[[6, 7, 8, 3, 4, 5]])
    np.testing.assert_array_equal(placed.n, given.n[[4, 5, 2, 3]])
    second = placed.between(1, 2)
    np.testing.assert_array_equal(second.F, given.F[3:6])
    np.testing.assert_array_equal(second.n, given.n[2:4])
