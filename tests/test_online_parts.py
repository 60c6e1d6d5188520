"""The small parts of `banister.online`: digests, growing rows, the span of the features, rows needed."""

from __future__ import annotations

import numpy as np
import pytest
from banister.online.drift import EVERY_TASK
from banister.online.memory import Blocks, Memory, _after
from banister.online.span import Span
from banister.safety.certificate import Certificate
from banister.safety.scales import Scales
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.errors import ModelFileError
from banister.online._digest import digests
from banister.online.files import write_atomically
from banister.online.model_file import pack, require, unpack
from banister.online.needed import rows_needed
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


def test_rows_from_before_a_drift_are_left_out():
    task, number = np.array([0, 0, 1, 1, 2]), np.array([1, 5, 2, 6, 7])
    kept = _after([task, number], {0: 5})
    assert kept[1].tolist() == [5, 2, 6, 7]
    assert _after([task, number], {EVERY_TASK: 6, 2: 8})[1].tolist() == [6]
    assert _after([task, number], {})[1].tolist() == number.tolist()


def test_a_drift_forgets_what_was_gained():
    memory = Memory(2)
    memory.tally(0, True, 0.5, np.ones(2))
    memory.tally(1, True, 0.2, np.ones(2))
    memory.start_anew(0, 3)
    assert memory.moved.view[:2].tolist() == [0, 1]
    assert memory.shift.view[0].tolist() == [0.0, 0.0]
    memory.start_anew(EVERY_TASK, 4)
    assert memory.moved.view[:2].tolist() == [0, 0]
    assert memory.since == {0: 3, EVERY_TASK: 4}


def test_the_span_by_hand():
    X = np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    span = Span.of([X], 3)
    np.testing.assert_allclose(span.reduce(X) @ span.reduce(X).T, X @ X.T, atol=1e-12)
    assert span.Q.shape == (3, 2)
    assert Span.of([X, np.eye(3)], 3).Q is None


def test_what_leaves_the_span_is_never_certain():
    span = Span.of([np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])], 3)
    small = Certificate(
        np.ones((1, 2)) @ np.eye(2),
        np.eye(2)[None] * 0.01,
        np.ones(1),
        np.zeros(1, dtype=int),
        Scales(np.ones(1)),
        1.0,
    )
    whole = span.restore(small)
    inside, outside = np.array([0.6, 0.8, 0.0]), np.array([0.0, 0.0, 1.0])
    assert inside @ whole.V[0] @ inside == pytest.approx(0.01)
    assert outside @ whole.V[0] @ outside == pytest.approx(1e4)
    assert abs(whole.theta[0] @ outside) < 1e-12


def test_rows_needed_by_hand():
    """Estimate 2 above a floor of 0.9: z·se just below 2.2 must shrink to 1.1, so four times the rows."""
    _, bandit = trained(400)
    model, constraint = bandit._engine.model, bandit.settings.constraint
    c = model.certificate
    x = c.theta[0] * 2.0 / float(c.theta[0] @ c.theta[0])  # its estimate is 2
    c.V[0] = np.eye(8) * (2.199 / c.z[0]) ** 2 / float(x @ x)
    sets, baseline = [x[None]], np.zeros((1, 8))
    assert rows_needed(model, constraint, 0, 10, sets, baseline, np.array([1.0])) == 30
    assert rows_needed(model, constraint, 99, 10, sets, baseline, np.array([1.0])) is None
    assert rows_needed(model, constraint, 0, 10, sets, baseline, np.array([9.0])) is None


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
