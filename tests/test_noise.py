"""Moderated variances: limma's formulas by another route, and what they mean."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

from banister.safety.noise import _inverse_trigamma, moderate


def limma(variance, freedom):
    """`fitFDist` and `squeezeVar` as Smyth (2004) writes them: d0, s0² and the posterior variances."""
    z = np.log(variance)
    e = z - digamma(freedom / 2) + np.log(freedom / 2)
    n = len(e)
    spread = np.mean(n / (n - 1) * (e - e.mean()) ** 2 - polygamma(1, freedom / 2))
    prior = 2 * brentq(lambda x: polygamma(1, x) - spread, 1e-6, 1e6)
    level = np.exp(e.mean() + digamma(prior / 2) - np.log(prior / 2))
    return prior, level, (prior * level + freedom * variance) / (prior + freedom)


def test_moderation_agrees_with_limma():
    variance = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 0.25])
    freedom = np.array([4.0, 5.0, 6.0, 8.0, 10.0, 3.0])
    prior, _, posterior = limma(variance, freedom)
    out = moderate(variance, freedom)
    np.testing.assert_allclose(out.variance, posterior, rtol=1e-7)
    np.testing.assert_allclose(out.freedom, prior + freedom, rtol=1e-7)


def test_a_task_without_freedom_gets_the_common_level():
    variance = np.array([0.5, 1.0, 2.0, 4.0, 8.0, 0.25])
    freedom = np.array([4.0, 5.0, 6.0, 8.0, 10.0, 3.0])
    prior, level, posterior = limma(variance, freedom)
    out = moderate(np.append(variance, [99.0, 0.0]), np.append(freedom, [0.5, 5.0]))
    np.testing.assert_allclose(out.variance, [*posterior, level, level], rtol=1e-7)
    np.testing.assert_allclose(out.freedom[-2:], prior, rtol=1e-7)


def test_variances_that_differ_by_chance_only_are_pooled():
    # Weighted by freedom: (10·1 + 30·1.2) / 40 = 1.15; all 40 degrees of freedom stand behind each.
    out = moderate(np.array([1.0, 1.2]), np.array([10.0, 30.0]))
    np.testing.assert_allclose(out.variance, 1.15)
    np.testing.assert_allclose(out.freedom, 40.0)


def test_one_task_keeps_its_own():
    out = moderate(np.array([3.0]), np.array([7.0]))
    assert out.variance.tolist() == [3.0]
    assert out.freedom.tolist() == [7.0]


def test_no_noise_at_all_is_no_noise():
    out = moderate(np.zeros(4), np.full(4, 5.0))
    assert out.variance.tolist() == [0.0] * 4


@given(st.floats(1e-4, 1e4))
def test_the_inverse_of_trigamma(value):
    assert float(polygamma(1, _inverse_trigamma(value))) == pytest.approx(value, rel=1e-6)


@pytest.mark.statistical
def test_the_prior_is_recovered():
    # Variances s0² d0/χ²(d0) seen through χ²(8)/8; over 4000 tasks d0 and s0² come out within 15 and 3 %.
    rng = np.random.default_rng(0)
    true = 2.0 * 6 / rng.chisquare(6, 4000)
    seen = true * rng.chisquare(8, 4000) / 8
    out = moderate(seen, np.full(4000, 8.0))
    assert out.freedom[0] - 8 == pytest.approx(6, rel=0.15)
    shrunk = np.mean((np.log(out.variance) - np.log(true)) ** 2)
    assert shrunk < 0.7 * np.mean((np.log(seen) - np.log(true)) ** 2)
