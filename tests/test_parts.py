"""Columns that are never there together: found, made use of, and never trusted blindly."""

import numpy as np
import pytest

from banister.safety.parts import Parts
from banister.safety.past import Period, Start, reduced


def arms(rng, n, n_arms=3, width=4, shared=2):
    """Rows with a shared part and the own columns of one of some arms, and whose they are."""
    arm = rng.integers(n_arms, size=n)
    X = np.zeros((n, shared + n_arms * width))
    X[:, :shared] = rng.standard_normal((n, shared))
    for i, a in enumerate(arm):
        X[i, shared + a * width : shared + (a + 1) * width] = rng.standard_normal(width)
    return X, arm


def with_level(rng, X):
    return np.column_stack([X, np.ones(len(X)), rng.standard_normal(len(X))])


def test_parts_of_arms_are_found():
    X, _ = arms(np.random.default_rng(0), 60)
    parts = Parts.of(X)
    assert sorted(map(list, parts.own)) == [[2, 3, 4, 5], [6, 7, 8, 9], [10, 11, 12, 13]]
    assert list(parts.shared) == [0, 1]


def test_an_arm_that_was_never_played_is_a_part():
    X, arm = arms(np.random.default_rng(0), 60)
    parts = Parts.of(X[arm != 2])
    assert [10, 11, 12, 13] in list(map(list, parts.own))


def test_dense_rows_and_too_many_parts_have_none():
    assert Parts.of(np.random.default_rng(0).standard_normal((30, 6))) is None
    assert Parts.of(np.eye(65)) is None
    assert len(Parts.of(np.eye(64)).own) == 64


@pytest.mark.parametrize("n", [30, 400])
def test_the_factor_has_the_same_moments_and_no_more_rows_than_columns(n):
    rng = np.random.default_rng(1)
    X, _ = arms(rng, n)
    rows = with_level(rng, X)
    factor = Parts.of(X).reduced(rows)
    np.testing.assert_allclose(factor.T @ factor, rows.T @ rows, rtol=1e-12, atol=1e-11)
    assert len(factor) <= rows.shape[1]
    np.testing.assert_allclose(reduced(rows, Parts.of(X)), factor)


def test_rows_of_no_part_and_arms_with_few_rows_are_counted():
    rng = np.random.default_rng(2)
    X, arm = arms(rng, 200)
    parts = Parts.of(X)
    X = np.concatenate([X[arm == 0], X[arm == 1][:2], np.pad(rng.standard_normal((5, 2)), ((0, 0), (0, 12)))])
    rows = with_level(rng, X)
    factor = parts.reduced(rows)
    np.testing.assert_allclose(factor.T @ factor, rows.T @ rows, rtol=1e-12, atol=1e-11)


def test_a_row_in_two_parts_is_reduced_with_the_others_all_the_same():
    rng = np.random.default_rng(3)
    X, _ = arms(rng, 100)
    parts = Parts.of(X)
    X[50] = 1.0
    rows = with_level(rng, X)
    assert parts.reduced(rows) is None
    factor = reduced(rows, parts)
    np.testing.assert_allclose(factor.T @ factor, rows.T @ rows, rtol=1e-12, atol=1e-11)


def test_periods_of_arms_are_joined_exactly():
    rng = np.random.default_rng(4)
    X, _ = arms(rng, 200)
    start, y = Start.of(X), rng.standard_normal(200)
    number, sums = np.arange(200), np.zeros(1)
    halves = [Period.of(X[h], y[h], number[h], start, sums, {}) for h in (slice(0, 100), slice(100, 200))]
    both, whole = halves[0].joined(halves[1], start.parts), Period.of(X, y, number, start, sums, {})
    np.testing.assert_allclose(both.F.T @ both.F, whole.F.T @ whole.F, rtol=1e-12, atol=1e-11)
    assert len(both.F) <= X.shape[1] + 2


def test_only_columns_that_are_never_zero_have_an_origin():
    start = Start.of(np.array([[5.0, 5.0], [6.0, 0.0]]))
    assert list(start.origin) == [5.0, 0.0]
