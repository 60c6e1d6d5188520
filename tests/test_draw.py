"""Draws: committees, caps against brute force, free shares, combining, and the keyed draw."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.errors import InputError
from banister.safety import _draw_kernels as kernels
from banister.safety._matrix_kernels import Dense
from banister.safety.draw import (
    LEAVE,
    MEMBERS,
    SEARCH,
    Committee,
    Wish,
    combine,
    free_share,
    members,
    pick,
    root_of,
    uniform,
    wish,
)


def belief(seed, d=3, spread=1.0):
    rng = np.random.default_rng(seed)
    root = spread * rng.standard_normal((d, d)) / np.sqrt(d)
    return rng.standard_normal(d), root @ root.T, root


# --- the committee ----------------------------------------------------------------------------------------


def test_a_committee_is_the_same_whenever_it_is_asked_for():
    mean, _, root = belief(0)
    first = members(mean, root, seed=1, version=2, task=3)
    np.testing.assert_array_equal(first.away, members(mean, root, seed=1, version=2, task=3).away)
    for other in ({"seed": 2}, {"version": 3}, {"task": 4}):
        another = members(mean, root, **{"seed": 1, "version": 2, "task": 3, **other})
        assert not np.array_equal(first.away, another.away)


def test_a_root_of_a_covariance_that_rounding_spoilt():
    _, cov, _ = belief(1)
    np.testing.assert_allclose(root_of(cov) @ root_of(cov).T, cov, atol=1e-12)
    flat = np.diag([1.0, 0.0, -1e-18])
    np.testing.assert_allclose(root_of(flat) @ root_of(flat).T, np.diag([1.0, 0.0, 0.0]), atol=1e-12)


def test_a_committee_has_the_belief_s_mean_and_its_covariance():
    mean, cov, root = belief(0)
    made = [members(mean, root, seed=0, version=v, task=0) for v in range(400)]
    assert all(np.array_equal(m.mean, mean.astype(np.float32)) for m in made)
    away = np.concatenate([m.away for m in made])
    assert len(away) == 400 * MEMBERS
    np.testing.assert_allclose(away.mean(0), 0.0, atol=5 * np.sqrt(cov.diagonal().max() / len(away)))
    np.testing.assert_allclose(np.cov(away.T), cov, atol=0.02 * np.abs(cov).max())


def test_votes_agree_with_plain_numpy():
    rng = np.random.default_rng(0)
    mean, away = 0.1 * rng.standard_normal(6), rng.standard_normal((MEMBERS, 6))
    actions = rng.standard_normal((9, 6))
    asked = wish(Committee.of(mean, away), actions, 4, search=SEARCH)
    narrow, wide = (
        np.bincount(((mean + width * away) @ actions.T).argmax(1), minlength=9) / MEMBERS
        for width in (LEAVE, SEARCH)
    )
    np.testing.assert_allclose(asked.share, narrow, atol=1e-12)
    assert asked.p == pytest.approx(1 - narrow[4])
    rest = np.where(np.arange(9) == 4, 0.0, wide)
    np.testing.assert_allclose(asked.others, rest / rest.sum(), atol=1e-12)
    assert not np.allclose(rest, np.where(np.arange(9) == 4, 0.0, narrow))  # the widths tell


def test_a_tie_is_a_vote_for_the_baseline():
    asked = wish(Committee.of(np.ones(2), np.ones((4, 2))), np.ones((3, 2)), 2)
    assert asked.p == 0.0
    np.testing.assert_array_equal(asked.others, [0.5, 0.5, 0.0])  # even, should anything ever leave
    assert wish(Committee.of(np.ones(2), np.ones((4, 2))), np.ones((3, 2)), 0).p == 0.0  # wherever it stands


# --- the decision cap -------------------------------------------------------------------------------------


def by_search(gain, base, v_gain, cross, v_base, z, free):
    """The largest p of a fine grid that clears."""
    p = np.linspace(free, 1.0, 100_001)
    spread = np.sqrt(np.maximum(p**2 * v_gain + 2 * p * cross + v_base, 0.0))
    good = p * gain + base - z * spread >= 0
    return p[good].max() if good.any() else -1.0


def test_the_largest_share_by_hand():
    # certain knowledge: 0.1 − 0.5 p ≥ 0 up to p = 0.2
    assert kernels.largest(-0.5, 0.1, 0.0, 0.0, 0.0, 2.0, 0.1) == pytest.approx(0.2)
    # no expected loss, and a standard error of 0.5 of the gain alone: 0.1 ≥ 1 · 0.5 p up to p = 0.2
    assert kernels.largest(0.0, 0.1, 0.25, 0.0, 0.0, 1.0, 0.05) == pytest.approx(0.2)
    assert kernels.largest(0.5, 0.1, 0.01, 0.0, 0.0001, 2.0, 0.1) == 1.0
    assert kernels.largest(-9.0, 0.1, 1.0, 0.0, 0.01, 2.0, 0.1) == -1.0


def numbers(least, most):
    """Floats of four places: roots of a quadratic that is flat to the last bit are not asked for."""
    return st.floats(least, most).map(lambda v: round(v, 4))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 10**6), numbers(-1.0, 1.0), numbers(-0.5, 0.5), numbers(0.01, 1.0), numbers(0.0, 0.2),
    numbers(0.0, 4.0),
)  # fmt: skip
def test_the_largest_share_by_search(seed, gain, base, spread, free, z):
    _, cov, _ = belief(seed, 2, spread)
    args = (gain, base, cov[0, 0], cov[0, 1], cov[1, 1], z, free)
    found, searched = kernels.largest(*args), by_search(*args)
    assert max(found, free) >= searched - 2e-5  # `free` is what a caller falls back to
    if found >= 0.0:  # and it does clear: its own margin, computed afresh
        var = max(found * found * cov[0, 0] + 2 * found * cov[0, 1] + cov[1, 1], 0.0)
        assert found * gain + base - z * np.sqrt(var) >= -1e-12


def plain_mixture(p, mean, cov, x_b, x_q, away, left, alpha, z, low, high, labelled, label_error):
    """Whether a draw clears its floor, by definition: the worst θ of the ellipsoid."""

    def clears(g, level, mu, V, own_cov, extra=0.0):
        turned = away.T @ own_cov(g)
        more = 2.0 * np.sqrt(np.sum((turned**2 * left) ** 2))
        return g @ mu - level - z * np.sqrt(max(g @ V @ g, 0.0) + more + extra) >= -1e-12

    mixed = (1 - p) * x_b + p * x_q
    floor = high - alpha * abs(high)
    if low == high and labelled:
        v = cov @ x_b
        total = x_b @ v + label_error**2
        mu = mean + v * (high - x_b @ mean) / total
        V = cov - np.outer(v, v) / total
        return clears(mixed, floor, mu, V, lambda g: g - (g @ v) / total * x_b, (p * label_error) ** 2)
    unknown = any(clears(mixed - f * x_b, 0.0, mean, cov, lambda g: g) for f in (1 - alpha, 1 + alpha))
    return unknown and (np.isnan(high) or clears(mixed, floor, mean, cov, lambda g: g))


@pytest.mark.parametrize("kind", ["unknown", "label", "claimed"])
@pytest.mark.parametrize("seed", range(12))
def test_the_cap_of_a_draw_clears_its_floor_by_definition(kind, seed):
    """The largest share clears; without the left-over's doubt, whose bound is rough, no larger one does."""
    rng = np.random.default_rng(seed)
    mean, cov, _ = belief(seed, 3, rng.uniform(0.02, 0.3))
    actions = rng.standard_normal((3, 3))
    others = np.array([0.0, 0.3, 0.7])
    reward = np.nan if kind == "unknown" else float(actions[0] @ mean)
    for left in (np.zeros(3), np.full(3, 0.001)):
        away = rng.standard_normal((3, 3))
        rest = (
            mean,
            cov,
            actions[0],
            others @ actions,
            away,
            left,
            0.2,
            2.0,
            reward,
            reward,
            kind == "label",
        )
        p, bound, floor = kernels.mixture(
            actions, 0, others, reward, reward, 0.0, False, 0.2, np.zeros(3), np.ones(3), 1.0, mean,
            Dense(cov, away), left, kind == "label", 0.01, 2.0, 0.0,
        )  # fmt: skip
        assert 0.0 <= p <= 1.0
        if p > 0.0:
            assert plain_mixture(p, *rest, 0.01)
            assert bound >= floor or np.isnan(bound)
        if not left.any() and p < 1.0:
            assert not any(plain_mixture(q, *rest, 0.01) for q in np.linspace(p + 1e-6, 1.0, 200))


def test_units_do_not_matter_to_the_cap():
    mean, cov, _ = belief(3, 3, 0.1)
    actions, others = np.random.default_rng(3).standard_normal((3, 3)), np.array([0.0, 0.5, 0.5])
    scale, unit = np.array([10.0, 0.1, 3.0]), 1e6
    nothing = Dense(cov, np.zeros((3, 3))), np.zeros(3), False, 1.0, 2.0, 0.0
    one = kernels.mixture(
        actions, 0, others, np.nan, np.nan, 0.0, False, 0.2, np.zeros(3), np.ones(3), 1.0, mean, *nothing
    )
    other = kernels.mixture(
        actions * scale + 5.0, 0, others, np.nan, np.nan, 0.0, False, 0.2, np.full(3, 5.0), scale, unit, mean,
        *nothing,
    )  # fmt: skip
    assert other[0] == pytest.approx(one[0], rel=1e-9)
    assert other[1] == pytest.approx(one[1] * unit, rel=1e-6)


def test_a_variance_that_is_none_allows_nothing():
    mean, _, _ = belief(3, 3, 0.1)
    actions, others = np.eye(3), np.array([0.0, 0.5, 0.5])
    rest = np.zeros(3), False, 1.0, 2.0, 0.05
    for cov in (-np.eye(3), np.full((3, 3), np.nan)):
        found = kernels.mixture(
            actions,
            0,
            others,
            np.nan,
            np.nan,
            0.0,
            False,
            0.2,
            np.zeros(3),
            np.ones(3),
            1.0,
            mean,
            Dense(cov, np.zeros((3, 3))),
            *rest,
        )
        assert found[0] == 0.05


# --- free shares ------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.floats(0.01, 0.9), st.floats(-3, 3), st.floats(0, 3), st.floats(0, 3), st.floats(0, 1))
def test_a_free_draw_is_above_its_floor_whatever_is_true(alpha, low, above, width, at):
    """The rest earns the least possible; the baseline is anywhere in what is known of it."""
    least = low + above
    p = free_share(alpha, low, r_b_low=least, r_b_high=least + width)
    r_b = least + at * width
    assert (1 - p) * r_b + p * low >= r_b - alpha * abs(r_b) - 1e-9
    assert 0.0 <= p <= 1.0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_worst_share_makes_more_free(share):
    p = free_share(0.1, 0.0, worst_share=share)
    assert p == pytest.approx(min(1.0, 0.1 / (1 - share)))
    assert (1 - p) * 2.0 + p * share * 2.0 >= 0.9 * 2.0 - 1e-12


def test_nothing_is_free_without_a_range_or_a_bound():
    assert free_share(0.1, -np.inf) == 0.0
    assert free_share(0.1, -1.0, r_b_low=-0.5, r_b_high=2.0) == 0.0
    assert free_share(0.1, -1.0, worst_share=0.5) == 0.0  # the baseline may be negative: half of it is more
    assert free_share(0.1, -2.0, r_b_high=-1.0) == pytest.approx(0.1)
    with pytest.raises(InputError, match="worst_share"):
        free_share(0.1, 0.0, worst_share=1.0)


# --- combining --------------------------------------------------------------------------------------------

WISHED = Wish(np.array([0.1, 0.6, 0.3]), 0.9, np.array([0.0, 2 / 3, 1 / 3]))


@pytest.mark.parametrize(
    ("free", "caps", "holdout", "p", "name"),
    [
        (0.1, {"decision": 0.5, "budget": 0.3}, 0.1, 0.3, "budget"),
        (0.1, {"decision": 0.2, "budget": 0.3}, 0.1, 0.2, "decision"),
        (0.1, {"budget": 0.0}, 0.1, 0.1, "free share"),
        (0.1, {}, 0.05, 0.9, "committee"),
        (0.1, {"budget": 1.0}, 0.2, 0.8, "holdout"),
        (0.0, {"budget": 0.0}, 0.1, 0.0, "free share"),
    ],
)
def test_the_smallest_limit_is_named(free, caps, holdout, p, name):
    draw = combine(WISHED, 0, free=free, caps=caps, holdout=holdout)
    assert draw.p == pytest.approx(p)
    assert draw.limited_by == name
    np.testing.assert_allclose(draw.probabilities, [1 - p, p * 2 / 3, p / 3])


def test_a_baseline_that_is_not_listed():
    with pytest.raises(InputError, match="action 3"):
        combine(WISHED, 3, free=0.1, caps={}, holdout=0.1)
    with pytest.raises(InputError, match="action -1"):
        wish(Committee.of(np.ones(2), np.ones((4, 2))), np.ones((3, 2)), -1)


# --- the keyed draw ---------------------------------------------------------------------------------------


def test_the_uniform_number_is_the_hash_s():
    digest = hashlib.blake2b(b"store-1/42", digest_size=8, key=(7).to_bytes(16, "little")).digest()
    assert uniform(7, "store-1/42") == (int.from_bytes(digest, "little") >> 11) / 2**53


def test_draws_follow_their_probabilities():
    probabilities = np.array([0.7, 0.0, 0.25, 0.05])
    counts = np.bincount([pick(probabilities, uniform(3, str(i))) for i in range(20_000)], minlength=4)
    error = np.sqrt(probabilities * (1 - probabilities) / 20_000)
    assert np.all(np.abs(counts / 20_000 - probabilities) <= 4 * error)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0, 1, exclude_max=True))
def test_what_has_no_probability_is_never_drawn(weights, u):
    total = sum(weights)
    if total <= 1e-9:
        return
    probabilities = np.array(weights) / total
    assert probabilities[pick(probabilities, u)] > 0.0


def test_what_rounding_leaves_falls_on_the_last_that_has_a_probability():
    u, least = np.nextafter(1.0, 0.0), 5e-324
    assert u * least == least  # no part of the whole reaches beyond this
    assert kernels.fallen_on(np.array([0.0, least, 0.0]), u) == 1
