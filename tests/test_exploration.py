"""The conservative mixture: Lemma l8's ρ by hand, as a tight bound, and against its promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banister.contract import Requests
from banister.environments.synthetic import Synthetic
from banister.errors import SettingError
from banister.safety.constraint import Constraint
from banister.safety.exploration import MAX_RHO, ConservativeMixture, estimate_norm_bound, lemma_rho


def requests_of(rewards, *, std=0.0, dim=3):
    rewards = np.asarray(rewards, dtype=float)
    m = len(rewards)
    actions = np.random.default_rng(0).normal(size=(m, 2, dim))
    return Requests(np.zeros(m, dtype=np.int64), actions, np.ones(m, dtype=np.int64), rewards, std)


def rho_of(rewards, reach, *, alpha=0.2, literal=False):
    r = np.atleast_1d(np.asarray(rewards, dtype=float))
    return lemma_rho(Constraint(alpha, literal=literal), r, r, np.full(len(r), float(reach)))


def test_the_lemma_by_hand():
    # 0.2·1/(1+3) = 0.05; 0.2·1/(3−1) = 0.1; r_b ≤ −c leaves any ρ, capped; r_b = 0 leaves none.
    np.testing.assert_allclose(rho_of([1.0, -1.0, -3.0, -5.0, 0.0], 3.0), [0.05, 0.1, 0.25, 0.25, 0.0])
    np.testing.assert_allclose(rho_of([1.0, -1.0, -5.0], 3.0, literal=True), [0.05, 0.0, 0.0])
    np.testing.assert_allclose(rho_of([1.0], np.inf), [0.0])
    np.testing.assert_allclose(rho_of([2.0], 0.0), [0.2])
    np.testing.assert_allclose(rho_of([2.0], 0.0, alpha=0.9), [MAX_RHO])


@given(st.floats(-5, 5), st.floats(0.001, 10), st.floats(0.01, 0.99))
def test_rho_is_safe_and_no_larger_rho_is(reward, reach, alpha):
    rho = float(rho_of(reward, reach, alpha=alpha)[0])
    floor = float(Constraint(alpha).floor(reward))
    assert (1 - rho) * reward - rho * reach >= floor - 1e-12
    if 1e-300 < rho < MAX_RHO:  # smaller doubles have too few digits for a millionth more
        more = rho * (1 + 1e-6)
        assert (1 - more) * reward - more * reach < floor


@given(st.floats(-5, 5), st.floats(0, 5), st.floats(0.001, 10), st.floats(0.01, 0.99))
def test_an_interval_is_as_safe_as_its_worst_reward(low, width, reach, alpha):
    constraint, c = Constraint(alpha), np.array([reach])
    rho = lemma_rho(constraint, np.array([low]), np.array([low + width]), c)
    inside = np.linspace(low, low + width, 101)
    assert rho[0] <= rho_of(inside, reach, alpha=alpha).min() + 1e-12
    if low < 0 < low + width:
        assert rho[0] == 0.0


def test_unknown_reward_needs_bounds():
    rng, constraint = np.random.default_rng(1), Constraint(0.2)
    asked = requests_of([np.nan, np.nan])
    plain = ConservativeMixture(plays=10, norm_bound=1.0).choose(asked, constraint, rng)
    np.testing.assert_array_equal(plain.features, asked.baseline_features())
    np.testing.assert_array_equal(plain.index, [1, 1])
    bounded = ConservativeMixture(plays=10, norm_bound=1.0, reward_bounds=(1.0, 2.0))
    assert np.all(bounded.choose(asked, constraint, rng).index == -1)


def test_an_uncertain_reward_makes_rho_smaller():
    constraint, explorer = Constraint(0.2), ConservativeMixture(plays=10, norm_bound=1.0)
    bounds = [
        explorer.choose(requests_of([1.0], std=s), constraint, np.random.default_rng(1)).lower_bound[0]
        for s in (0.0, 0.1, 1.0)
    ]
    assert bounds[0] == pytest.approx(0.8)  # the exact reward lets ρ go all the way to the floor
    assert bounds[0] < bounds[1] < bounds[2] == 1.0


def test_the_mixture_is_what_it_says():
    asked = requests_of([1.0, 2.0, -1.0])
    choices = ConservativeMixture(plays=3, rho=0.25).choose(asked, Constraint(0.2), np.random.default_rng(7))
    zeta = np.random.default_rng(7).standard_normal((3, 3))
    np.testing.assert_allclose(choices.features, 0.75 * asked.baseline_features() + 0.25 * zeta)
    assert choices.index.tolist() == [-1, -1, -1]
    assert not choices.certified.any()
    assert choices.reason.tolist() == ["explore"] * 3
    np.testing.assert_allclose(choices.floor, [0.8, 1.6, -1.2])


def test_without_mixing_the_baseline_is_played():
    asked = requests_of([1.0, 2.0])
    choices = ConservativeMixture(plays=2, mixing=False).choose(
        asked, Constraint(0.2), np.random.default_rng(0)
    )
    np.testing.assert_array_equal(choices.features, asked.baseline_features())
    assert choices.index.tolist() == [1, 1]


@pytest.mark.parametrize(
    "bad",
    [{"rho": 0.5}, {"rho": -0.1}, {"delta": 0.0}, {"plays": 0}, {"norm_bound": -1.0}, {"norm_bound": np.nan}],
)
def test_settings_outside_their_domain(bad):
    with pytest.raises(SettingError, match=next(iter(bad))):
        ConservativeMixture(**{"plays": 10, **bad})


def world(**settings):
    env = Synthetic(**{"dim": 20, "rank": 2, "tasks": 20, **settings})
    rng = np.random.default_rng(5)
    env.reset(rng)
    return env, env.requests(50, rng)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"baseline_rank": 1},
        {"baseline_rank": 10},
        {"contexts": "correlated"},
        {"contexts": "shifted"},
        {"contexts": "non-negative"},
        {"action_sets": "fixed", "tasks": 200},
    ],
    ids=str,
)
def test_the_estimated_norm_errs_upwards(settings):
    """Seeded: every norm is below its estimate, which is below 20 times the norm where data suffice."""
    env, asked = world(**settings)
    norms = np.linalg.norm(env.theta, axis=0)
    bound = estimate_norm_bound(asked)
    assert np.all(bound >= norms)
    if settings.get("contexts") != "correlated" and "action_sets" not in settings:
        assert np.all(bound <= 20 * norms)


def test_nothing_known_turns_exploration_off():
    assert np.all(np.isinf(estimate_norm_bound(requests_of([np.nan] * 20))))
    assert estimate_norm_bound(requests_of([])).shape == (0,)


@pytest.mark.statistical
@pytest.mark.parametrize("known", [True, False])
def test_no_mixture_falls_below_the_floor(known):
    """Seeded: Lemma l8 allows a failure in 1 of 100 such runs of 1,000 plays; none happens here."""
    env, asked = world()
    norm = np.linalg.norm(env.theta, axis=0) if known else None
    explorer = ConservativeMixture(plays=len(asked), norm_bound=norm)
    choices = explorer.choose(asked, Constraint(0.2), np.random.default_rng(8))
    assert np.mean(choices.index == -1) > 0.99
    assert np.all(env.expected(asked, choices) >= Constraint(0.2).floor(env.baseline(asked)))
