"""Uplift: hand arithmetic, an unbiased contrast, a plain twin, coverage, and the sign of the naive figure."""

import numpy as np
import pytest
from scipy.optimize import brentq

from banister.errors import InputError, SettingError, ShapeError
from banister.safety.uplift import Uplift, contrast


def mean_of_contrast(pi, means, guesses, k):
    """E Z over a draw of three arms (0 is the baseline) with clicks of these means."""
    m_bar = pi[0] * k + pi[1:] @ guesses[1:]
    total = 0.0
    for a in range(3):
        for y, chance in ((1.0, means[a]), (0.0, 1 - means[a])):
            m_a = k if a == 0 else guesses[a]
            total += pi[a] * chance * contrast(y, a == 0, pi[0], k, m_a, m_bar)
    return total


def test_the_contrast_by_hand():
    assert contrast(1.0, True, 0.5, 0.2, 0.2, 0.2) == pytest.approx(0.8 - 1.6)
    assert contrast(1.0, False, 0.5, 0.2, 0.2, 0.2) == pytest.approx(0.8)
    assert contrast(1.0, False, 0.5, 0.2, 0.7, 0.4) == pytest.approx(0.4 + 0.3 - 0.2)


@pytest.mark.parametrize("guesses", [[0.2, 0.2, 0.2], [0.3, 0.5, 0.1], [0.0, 0.9, 1.0]])
def test_wrong_guesses_do_not_bias(guesses):
    pi, means = np.array([0.6, 0.3, 0.1]), np.array([0.3, 0.5, 0.1])
    true = pi @ means - 0.3
    assert mean_of_contrast(pi, means, np.array(guesses), guesses[0]) == pytest.approx(true)


def test_good_guesses_narrow_the_interval():
    rng = np.random.default_rng(0)
    rows = 2000
    level = rng.choice([0.1, 0.8], rows)
    played = rng.random(rows) < 0.5
    y = np.clip(np.where(played, level, level + 0.1) + 0.02 * rng.standard_normal(rows), 0, 1)
    task, pi_b = np.zeros(rows, dtype=np.int64), np.full(rows, 0.5)
    widths = []
    for k, drawn, mean in (
        (level, np.where(played, level, level + 0.1), level + 0.05),
        (np.full(rows, 0.45), np.full(rows, np.nan), np.full(rows, 0.45)),
    ):
        uplift = Uplift(1, low=0.0, high=1.0)
        uplift.update_many(task, played, y, pi_b, k, drawn, mean)
        seen = uplift.interval(0)
        assert seen.low < 0.05 < seen.high
        widths.append(seen.high - seen.low)
    assert widths[0] < 0.5 * widths[1]


def test_the_interval_agrees_with_plain_numpy():
    rng = np.random.default_rng(1)
    uplift = Uplift(2, low=-1.0, high=3.0)
    rates = 8.0 / 4.0 * 0.5 ** np.arange(22)
    below, above, z_sum = np.zeros(22), np.zeros(22), 0.0
    for _ in range(200):
        played, y = bool(rng.random() < 0.7), float(rng.uniform(-1, 3))
        uplift.update(1, played, y, 0.7, k=0.5)
        z = y - 0.5 - played * (y - 0.5) / 0.7
        ends = [v - 0.5 - (v - 0.5) / 0.7 for v in (-1.0, 3.0)] + [-1.5, 2.5]
        for wealth, x, least in ((below, z, min(ends)), (above, -z, -max(ends))):
            size = np.minimum(rates, 0.9 / -least)
            wealth += np.log(1 + size * x) - (rates - size) * 0.3 * 4.0
        z_sum += z

    def root(wealth):
        return brentq(
            lambda s: np.logaddexp.reduce(wealth - rates * s) - np.log(22.0) - np.log(40.0),
            -1e4,
            1e3,
            xtol=1e-12,
        )

    seen = uplift.interval(1)
    assert seen.value == pytest.approx(z_sum / 200, rel=1e-10)
    assert seen.low == pytest.approx(root(below) / 200, rel=1e-8)
    assert seen.high == pytest.approx(-root(above) / 200, rel=1e-8)
    assert uplift.interval(uplift.fleet) == seen
    assert uplift.intervals()[0][1] == seen.low


def test_a_width_is_never_zero():
    uplift = Uplift(1, low=0.0, high=1.0)
    assert uplift.interval(0).high - uplift.interval(0).low == 2.0
    for _ in range(50):  # never left the baseline, always the same reward
        uplift.update(0, True, 1.0, 1.0, k=1.0)
    seen = uplift.interval(0)
    assert seen.low < seen.value == 0.0 < seen.high


def test_the_naive_difference_has_the_wrong_sign_and_this_one_has_not():
    """Visitors of two kinds; the policy leaves the baseline mostly with the kind that earns little anyway."""
    rng = np.random.default_rng(0)
    rows = 20_000
    poor = rng.random(rows) < 0.5
    pi_b = np.where(poor, 0.2, 0.8)
    played = rng.random(rows) < pi_b
    base = np.where(poor, 0.1, 0.5)
    y = (rng.random(rows) < base + 0.05 * ~played).astype(float)
    naive = y[~played].mean() - y[played].mean()
    uplift = Uplift(1, low=0.0, high=1.0)
    k = np.full(rows, 0.3)
    uplift.update_many(np.zeros(rows, dtype=np.int64), played, y, pi_b, k, np.full(rows, np.nan), k)
    assert naive < -0.1
    assert 0.0 < uplift.interval(0).low < 0.025 < uplift.interval(0).high  # left half of the time, 0.05 each


@pytest.mark.statistical
def test_intervals_hold_at_every_step():
    """400 paths, watched all the time: at most 5 % ever miss, three errors on top."""
    paths, rng = 400, np.random.default_rng(2)
    uplift, missed = Uplift(paths, low=0.0, high=1.0), np.zeros(paths, dtype=bool)
    pi_b, k, none = np.full(paths, 0.6), np.full(paths, 0.3), np.full(paths, np.nan)
    for _ in range(400):
        played = rng.random(paths) < 0.6
        y = (rng.random(paths) < np.where(played, 0.3, 0.4)).astype(float)
        uplift.update_many(np.arange(paths), played, y, pi_b, k, none, k)
        low, high = uplift.intervals()
        missed |= (low[:-1] > 0.04) | (high[:-1] < 0.04)
    assert missed.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / paths)


def test_a_state_comes_back_bit_for_bit():
    first = Uplift(2, low=0.0, high=1.0)
    first.update(0, True, 1.0, 0.5, k=0.3)
    again = Uplift(2, low=0.0, high=1.0).restore(first.state())
    for each in (first, again):
        each.update(1, False, 0.0, 0.5, k=0.3, drawn=0.4, mean=0.35)
    assert first.interval(2) == again.interval(2)
    with pytest.raises(ShapeError):
        Uplift(3, low=0.0, high=1.0).restore(first.state())


@pytest.mark.parametrize("change", [{"y": 1.5}, {"y": np.nan}, {"pi_b": 0.0}, {"drawn": 0.5}], ids=str)
def test_rewards_that_cannot_be(change):
    row = {"y": 1.0, "pi_b": 0.5, "k": 0.3, **change}
    with pytest.raises(InputError):
        Uplift(1, low=0.0, high=1.0).update(0, True, **row)


def test_settings_outside_their_domain():
    for options in (
        {"low": 1.0, "high": 0.0},
        {"low": 0.0, "high": np.inf},
        {"low": 0, "high": 1, "confidence": 1},
    ):
        with pytest.raises(SettingError):
            Uplift(1, **options)
