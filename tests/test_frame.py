"""The frame: units by hand, and the odd columns that data bring."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banister.safety.frame import Frame

NO_ROWS = np.zeros((0, 2))


def test_columns_are_divided_by_their_root_mean_square_over_what_was_offered():
    offered = np.array([[3.0, 1.0], [-4.0, 7.0]])
    frame = Frame.of(offered, np.array([[100.0, 100.0]]), np.array([3.0, 4.0]))
    np.testing.assert_allclose(frame.scale, [np.sqrt(12.5), 5.0])
    assert frame.reward == pytest.approx(np.sqrt(12.5))
    assert frame.intercept
    assert frame.dim == 3
    np.testing.assert_allclose(frame.rows(np.array([[1.0, 10.0]])), [[1 / np.sqrt(12.5), 2.0, 1.0]])
    np.testing.assert_allclose(frame.units, np.sqrt(12.5) * np.array([1 / np.sqrt(12.5), 0.2, 1.0]))


def test_without_offers_what_was_played_sets_the_scale():
    frame = Frame.of(NO_ROWS, np.array([[3.0, 0.5], [-3.0, -0.5]]), np.array([1.0]))
    np.testing.assert_allclose(frame.scale, [3.0, 0.5])


def test_a_column_offered_as_zeros_but_played_takes_its_scale_from_both():
    frame = Frame.of(np.array([[1.0, 0.0]]), np.array([[2.0, 4.0]]), np.array([1.0]))
    np.testing.assert_allclose(frame.scale, [1.0, np.sqrt(8.0)])


def test_a_constant_column_is_the_intercept_and_a_column_of_zeros_is_not():
    varied = np.array([[1.0, 5.0], [2.0, 5.0 + 1e-11]])
    assert not Frame.of(varied, NO_ROWS, np.ones(1)).intercept
    assert Frame.of(np.array([[1.0, 5.0], [2.0, 5.0 + 1e-8]]), NO_ROWS, np.ones(1)).intercept
    assert Frame.of(np.array([[1.0, 0.0], [2.0, 0.0]]), NO_ROWS, np.ones(1)).intercept
    # constant among the offers alone is not constant
    assert Frame.of(np.array([[1.0, 5.0], [2.0, 5.0]]), np.array([[1.0, 4.0]]), np.ones(1)).intercept


def test_negligible_columns_and_rewards_of_nothing_have_unit_scale():
    frame = Frame.of(np.array([[1e10, 1e-10], [-1e10, 2e-10]]), NO_ROWS, np.zeros(3))
    np.testing.assert_allclose(frame.scale, [1e10, 1.0])
    assert frame.reward == 1.0
    kept = Frame.of(np.array([[1.0, 1e-12], [-1.0, 2e-12]]), NO_ROWS, np.zeros(3))
    assert kept.scale[1] == pytest.approx(np.sqrt(2.5) * 1e-12)


def test_nothing_at_all():
    frame = Frame.of(NO_ROWS, NO_ROWS, np.zeros(0))
    np.testing.assert_array_equal(frame.scale, [1.0, 1.0])
    assert frame.intercept
    assert frame.reward == 1.0


@given(st.integers(-150, 150), st.integers(-150, 150))
def test_standardised_rows_do_not_know_their_unit(k, q):
    rng = np.random.default_rng(0)
    offered, played, y = rng.normal(size=(6, 2)), rng.normal(size=(4, 2)), rng.normal(size=4)
    plain = Frame.of(offered, played, y)
    other = Frame.of(offered * 10.0**k, played * 10.0**k, y * 10.0**q)
    np.testing.assert_allclose(other.rows(played * 10.0**k), plain.rows(played), rtol=1e-12)
    np.testing.assert_allclose(y * 10.0**q / other.reward, y / plain.reward, rtol=1e-12)


def test_units_of_any_size():
    frame = Frame.of(np.array([[3e200, 1e-200], [-4e200, 7e-200]]), NO_ROWS, np.array([3e200, 4e200]))
    np.testing.assert_allclose(frame.scale[0], np.sqrt(12.5) * 1e200)
    assert frame.reward == pytest.approx(np.sqrt(12.5) * 1e200)


def test_rows_of_any_shape():
    frame = Frame(np.array([2.0, 4.0]), False, 3.0)
    X = np.arange(12.0).reshape(3, 2, 2)
    np.testing.assert_array_equal(frame.rows(X), X / [2.0, 4.0])
    assert frame.dim == 2
    np.testing.assert_array_equal(frame.units, [1.5, 0.75])


def test_a_column_around_a_large_mean_is_centred_and_zeros_and_ones_are_not():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [50 + rng.standard_normal(400), rng.random(400) < 0.3, rng.standard_normal(400) + 1.0]
    )
    frame = Frame.of(X, X[:0], np.ones(1))
    assert frame.shift[0] == pytest.approx(X[:, 0].mean())
    assert frame.shift[1:].tolist() == [0.0, 0.0]
    assert frame.scale[0] == pytest.approx(X[:, 0].std())
    assert frame.intercept
    # a constant is a level, whatever its size
    assert Frame.of(np.full((5, 1), 7.0), np.zeros((0, 1)), np.ones(1)).shift.tolist() == [0.0]


def test_offsets_of_features_change_no_estimate():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 3))
    frames = [Frame.of(A, A[:0], np.ones(1)) for A in (X + 40.0, X - 7000.0)]
    np.testing.assert_allclose(frames[0].rows(X + 40.0), frames[1].rows(X - 7000.0), atol=1e-9)
    # a difference of two actions has no offset, an action has one
    step = frames[0].combinations(X[0] - X[1], 0.0)
    np.testing.assert_allclose(step, frames[0].rows(X[0] + 40.0) - frames[0].rows(X[1] + 40.0), atol=1e-12)
