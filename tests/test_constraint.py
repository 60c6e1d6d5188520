"""The floor, by hand and by its properties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.errors import SettingError
from banister.safety._kernels import floor_of
from banister.safety.constraint import Constraint

rewards = st.floats(-1e6, 1e6)
alphas = st.floats(0.001, 0.999)


def test_floor_by_hand():
    np.testing.assert_allclose(Constraint(0.2).floor([10.0, -10.0, 0.0]), [8.0, -12.0, 0.0])
    np.testing.assert_allclose(Constraint(0.2, literal=True).floor([10.0, -10.0, 0.0]), [8.0, -8.0, 0.0])
    assert np.isnan(Constraint(0.2).floor(np.nan))


def test_the_floor_lies_below_the_baseline_by_the_room():
    np.testing.assert_allclose(Constraint(0.2).room([10.0, -10.0, 0.0]), [2.0, 2.0, 0.0])
    np.testing.assert_allclose(Constraint(0.2, literal=True).room([10.0, -10.0, 0.0]), [2.0, -2.0, 0.0])


@settings(deadline=None)  # the first call compiles
@given(rewards, alphas, st.booleans())
def test_the_compiled_floor_is_the_same(reward, alpha, literal):
    floor = float(Constraint(alpha, literal=literal).floor(reward))
    assert floor_of(reward, alpha, literal) == pytest.approx(floor, rel=1e-14, abs=1e-14 * abs(reward))


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, 1.5, np.nan, "0.2", True, None])
def test_alpha_outside_its_domain(alpha):
    with pytest.raises(SettingError, match="alpha="):
        Constraint(alpha)


@given(rewards, alphas)
def test_the_floor_is_the_smallest_factor_and_never_above_the_baseline(reward, alpha):
    constraint = Constraint(alpha)
    floor = float(constraint.floor(reward))
    assert floor == pytest.approx(min(f * reward for f in constraint.factors), abs=1e-9)
    assert floor <= reward
    literal = Constraint(alpha, literal=True)
    assert float(literal.floor(reward)) == pytest.approx(literal.factors[0] * reward, abs=1e-9)


@given(st.integers(0, 2**32 - 1), alphas, st.booleans())
def test_a_non_negative_difference_means_the_floor_is_cleared_and_only_then(seed, alpha, literal):
    rng = np.random.default_rng(seed)
    theta, actions, baseline = rng.normal(size=3), rng.normal(size=(5, 4, 3)), rng.normal(size=(5, 3))
    constraint = Constraint(alpha, literal=literal)
    contrasts = [actions - factor * baseline[:, None] for factor in constraint.factors]
    worth = np.stack(contrasts) @ theta
    margin = actions @ theta - constraint.floor(baseline @ theta)[:, None]
    assert worth.shape == (1 if literal else 2, 5, 4)
    clear = np.abs(margin) > 1e-9
    np.testing.assert_array_equal((worth >= 0).any(axis=0)[clear], (margin >= 0)[clear])
