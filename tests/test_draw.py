"""Draws: committees, caps against brute force, free shares, combining, and the keyed draw."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.errors import InputError
from banister.safety import _draw_kernels as kernels
from banister.safety.draw import (
    MEMBERS,
    Wish,
    combine,
    decision_cap,
    decision_cap_known,
    free_share,
    members,
    pick,
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
    np.testing.assert_array_equal(first, members(mean, root, seed=1, version=2, task=3))
    for other in ({"seed": 2}, {"version": 3}, {"task": 4}):
        assert not np.array_equal(first, members(mean, root, **{"seed": 1, "version": 2, "task": 3, **other}))


def test_a_committee_has_the_belief_s_mean_and_a_quarter_of_its_covariance():
    mean, cov, root = belief(0)
    drawn = np.concatenate([members(mean, root, seed=0, version=v, task=0) for v in range(400)])
    assert len(drawn) == 400 * MEMBERS
    np.testing.assert_allclose(drawn.mean(0), mean, atol=5 * 0.5 * np.sqrt(cov.diagonal().max() / len(drawn)))
    np.testing.assert_allclose(np.cov(drawn.T), 0.25 * cov, atol=0.05 * np.abs(cov).max())


def test_shares_agree_with_plain_numpy():
    rng = np.random.default_rng(0)
    theta, actions = rng.standard_normal((MEMBERS, 6)), rng.standard_normal((9, 6))
    asked = wish(theta, actions, 4)
    votes = np.bincount((theta @ actions.T).argmax(1), minlength=9) / MEMBERS
    np.testing.assert_allclose(asked.share, votes, atol=1e-12)
    assert asked.p == pytest.approx(1 - votes[4])
    rest = np.where(np.arange(9) == 4, 0.0, votes)
    np.testing.assert_allclose(asked.others, rest / rest.sum(), atol=1e-12)


def test_a_tie_is_a_vote_for_the_baseline():
    asked = wish(np.ones((4, 2)), np.ones((3, 2)), 2)
    assert asked.p == 0.0
    np.testing.assert_array_equal(asked.others, [0.5, 0.5, 0.0])  # even, should anything ever leave


def test_many_requests_are_single_ones():
    rng = np.random.default_rng(1)
    m, K, d, T = 20, 4, 3, 2
    beliefs = [belief(s, d, 0.3) for s in range(T)]
    task, baseline = rng.integers(T, size=m), rng.integers(K, size=m)
    actions = rng.standard_normal((m, K, d))
    committee = np.stack(
        [members(mu, root, seed=0, version=0, task=t) for t, (mu, _, root) in enumerate(beliefs)]
    )
    mean, cov = np.stack([x[0] for x in beliefs]), np.stack([x[1] for x in beliefs])
    share, others, p, cap = np.empty((m, K)), np.empty((m, K)), np.empty(m), np.empty(m)
    free = np.full(m, 0.1)
    kernels.ask_many(task, actions, baseline, committee, mean, cov, 0.1, 2.0, free, share, others, p, cap)
    for i in range(m):
        t, b = task[i], int(baseline[i])
        one = wish(committee[t], actions[i], b)
        np.testing.assert_allclose(share[i], one.share, atol=1e-12)
        assert p[i] == pytest.approx(one.p)
        single = decision_cap(mean[t], cov[t], actions[i], b, one.others, alpha=0.1, z=2.0, free=0.1)
        assert cap[i] == pytest.approx(single, rel=1e-10)
    assert len(np.unique(cap)) > 2


# --- the decision cap -------------------------------------------------------------------------------------


def by_search(gain, mean_b, v_gain, cross, v_b, alpha, z, free):
    """The largest p of a fine grid that clears either floor."""
    p = np.linspace(free, 1.0, 100_001)
    good = np.zeros(len(p), dtype=bool)
    for a in (alpha, -alpha):
        spread = np.sqrt(np.maximum(p**2 * v_gain + 2 * p * a * cross + a * a * v_b, 0.0))
        good |= p * gain + a * mean_b - z * spread >= 0
    return p[good].max() if good.any() else free


def test_the_cap_by_hand():
    # certain knowledge: 1 − 0.5 p ≥ 0.9 up to p = 0.2; a negative baseline, −1 − 0.5 p ≥ −1.1, the same
    assert kernels.cap_unknown(-0.5, 1.0, 0.0, 0.0, 0.0, 0.1, 2.0, 0.1) == pytest.approx(0.2)
    assert kernels.cap_unknown(-0.5, -1.0, 0.0, 0.0, 0.0, 0.1, 2.0, 0.1) == pytest.approx(0.2)
    # no expected loss, and a standard error of 0.5 of the gain alone: 0.1 ≥ 1 · 0.5 p up to p = 0.2
    assert kernels.cap_unknown(0.0, 1.0, 0.25, 0.0, 0.0, 0.1, 1.0, 0.05) == pytest.approx(0.2)
    assert kernels.cap_unknown(0.5, 1.0, 0.01, 0.0, 0.01, 0.1, 2.0, 0.1) == 1.0
    assert kernels.cap_unknown(-9.0, 1.0, 1.0, 0.0, 1.0, 0.1, 2.0, 0.1) == 0.1


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 10**6), st.floats(-1.0, 1.0), st.floats(-2.0, 2.0), st.floats(0.01, 1.0),
    st.floats(0.02, 0.4), st.floats(0.0, 4.0),
)  # fmt: skip
def test_the_cap_by_search(seed, gain, mean_b, spread, alpha, z):
    _, cov, _ = belief(seed, 2, spread)
    args = (gain, mean_b, cov[0, 0], cov[0, 1], cov[1, 1], alpha, z, 0.5 * alpha)
    found, searched = kernels.cap_unknown(*args), by_search(*args)
    assert found >= searched - 2e-5
    if found > 0.5 * alpha:  # and it does clear a floor: its own margin, computed afresh
        p, margins = found, []
        for a in (alpha, -alpha):
            var = max(p * p * cov[0, 0] + 2 * p * a * cov[0, 1] + a * a * cov[1, 1], 0.0)
            margins.append(p * gain + a * mean_b - z * np.sqrt(var))
        assert max(margins) >= -1e-12


@settings(max_examples=100, deadline=None)
@given(st.integers(-300, 300), st.integers(-300, 300), st.floats(0.02, 0.5))
def test_the_cap_for_a_known_baseline_by_search(low, r_b, alpha):
    low, r_b = low / 100, r_b / 100
    p = np.linspace(0.01, 1.0, 10_001)
    good = p[(1 - p) * r_b + p * low >= r_b - alpha * abs(r_b) - 1e-12]
    searched = max(0.01, good.max() if len(good) else 0.0)
    assert kernels.cap_known(low, r_b, alpha, 0.01) == pytest.approx(searched, abs=2e-4)


def test_the_known_cap_uses_the_lower_bound_of_the_rest():
    mean, cov, actions = np.array([1.0, 0.5]), np.diag([0.0, 0.01]), np.eye(2)
    # the rest is worth at least 0.5 − 2 · 0.1 = 0.3; 1 − 0.7 p ≥ 0.9
    cap = decision_cap_known(mean, cov, actions, np.array([0.0, 1.0]), 1.0, alpha=0.1, z=2.0, free=0.05)
    assert cap == pytest.approx(0.1 / 0.7)


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
        wish(np.ones((4, 2)), np.ones((3, 2)), -1)


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
