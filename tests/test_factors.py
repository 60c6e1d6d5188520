"""Factors: what rows say, kept exactly, however many rows there were."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.safety.factors import Factors, Information
from banister.safety.pairs import Merged


def rows(counts, p, seed=0):
    rng = np.random.default_rng(seed)
    task = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return task, rng.normal(size=(len(task), p)), rng.normal(size=len(task))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(1, 4), st.integers(0, 99))
def test_factors_keep_every_sum(counts, p, seed):
    task, Z, y = rows(counts, p, seed)
    if len(y) > 1:  # duplicate and zero rows are rows too
        Z[0], y[0] = Z[-1], y[-1]
        Z[len(y) // 2] = 0.0
    f = Factors.of(task, Z, y, len(counts))
    assert f.R.shape == (len(counts), min(max(counts), p), p)
    for t, n in enumerate(counts):
        X, v = Z[task == t], y[task == t]
        np.testing.assert_allclose(f.R[t].T @ f.R[t], X.T @ X, atol=1e-12)
        np.testing.assert_allclose(f.R[t].T @ f.z[t], X.T @ v, atol=1e-12)
        assert f.n[t] == n
        assert f.yy[t] == pytest.approx(v @ v)
        assert f.z[t] @ f.z[t] + f.rest[t] == pytest.approx(v @ v)
        # what no θ explains is in the rest, and in rows of zeros where the features are collinear
        whole, own = _unexplained(X, v), _unexplained(f.R[t], f.z[t])
        assert f.rest[t] + own == pytest.approx(whole, abs=1e-12)
        if n <= p:
            assert f.rest[t] == 0.0
            np.testing.assert_array_equal(f.R[t, :n], X)  # few rows are their own factor, in order
            np.testing.assert_array_equal(f.z[t, :n], v)


def _unexplained(X, y):
    left = y - X @ np.linalg.lstsq(X, y, rcond=1e-10)[0] if len(y) else np.zeros(0)
    return left @ left


def test_short_factors_end_in_rows_of_zeros():
    f = Factors.of(np.array([0, 0, 1]), np.ones((3, 3)), np.ones(3), 3)
    assert f.R.shape == (3, 2, 3)
    assert not f.R[1, 1:].any()
    assert not f.R[2].any()
    assert not f.z[2].any()


def test_none_and_some_tasks():
    none = Factors.none(4, 3)
    assert none.R.shape == (4, 0, 3)
    assert none.n.tolist() == [0, 0, 0, 0]
    f = Factors.of(*rows([2, 5, 1], 3), 3)
    part = f.of_tasks(np.array([2, 0]))
    for name in ("R", "z", "rest", "yy", "n"):
        np.testing.assert_array_equal(getattr(part, name), getattr(f, name)[[2, 0]])


def test_information_is_in_units_of_each_rows_noise():
    plays, labels = Factors.of(*rows([2, 3], 2), 2), Factors.of(*rows([1, 2], 2, seed=1), 2)
    info = Information.of(Merged.of(plays, labels), np.array([4.0, 9.0]), np.array([0.25, 1.0]))
    np.testing.assert_allclose(info.R[0], np.concatenate([plays.R[0] / 2, labels.R[0] * 2]))
    np.testing.assert_allclose(info.y[1], np.concatenate([plays.z[1] / 3, labels.z[1]]))
    alone = Information.of(Merged.of(plays, Factors.none(2, 2)), np.array([4.0, 9.0]), np.ones(2))
    np.testing.assert_allclose(alone.R[1], plays.R[1] / 3)
    np.testing.assert_allclose(alone.y[1], plays.z[1] / 3)
    some = info.of_tasks(slice(1, 2))
    np.testing.assert_array_equal(some.R, info.R[1:])
