"""Lemma l8 and Theorem l9: the largest safe ρ and the iterations for safety, and a million rounds of both."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banister import theory as th
from banister.errors import SettingError

rhos = st.one_of(st.floats(0, 0.25), st.floats(0.75, 1.0))
scale = st.floats(0.01, 100.0)
size = st.integers(1, 10_000)


# ---- safety (l8) -------------------------------------------------------------------------------------------


def test_largest_safe_rho_by_hand() -> None:
    shared = {"alpha": 0.2, "theta_norm": 0.5, "rounds": 50, "tasks": 10, "delta": 0.05}
    z = 0.5 * math.sqrt(2 * math.log(10_000))
    got = th.largest_safe_rho(baseline_reward=[1.0, -1.0, 0.0, -z, -5.0], **shared).value
    assert got == pytest.approx([0.2 / (1 + z), 0.2 / (z - 1), 0.0, 1.0, 1.0])
    printed = th.largest_safe_rho_printed(baseline_reward=[1.0, 3.0], **shared)
    assert printed.value == pytest.approx(th.largest_safe_rho(baseline_reward=[1.0, 3.0], **shared).value)
    with pytest.raises(SettingError, match="negative"):
        th.largest_safe_rho_printed(baseline_reward=[1.0, -0.1], **shared)


@given(
    reward=st.floats(-100, 100),
    alpha=st.floats(0.01, 0.99),
    norm=scale,
    delta=st.floats(1e-6, 0.99),
    rounds=size,
)
def test_largest_safe_rho_is_a_weight_and_exactly_safe_at_its_reach(
    reward: float, alpha: float, norm: float, delta: float, rounds: int
) -> None:
    shared = {"alpha": alpha, "theta_norm": norm, "rounds": rounds, "tasks": 7, "delta": delta}
    rho = float(th.largest_safe_rho(baseline_reward=reward, **shared))
    reach = norm * float(th.gaussian_radius(events=rounds * 7, delta=delta))
    floor = reward - alpha * abs(reward)
    slack = 1e-9 * (abs(reward) + reach)
    assert 0.0 <= rho <= 1.0
    assert (1 - rho) * reward - rho * reach >= floor - slack
    if rho < 1.0:  # the largest: the worst mixture touches the floor
        assert (1 - rho) * reward - rho * reach == pytest.approx(floor, abs=10 * slack)


@given(norm=scale, delta=st.floats(1e-6, 0.5), alpha=st.floats(0.01, 0.9), reward=st.floats(-10, 10))
def test_largest_safe_rho_moves_the_right_way(norm: float, delta: float, alpha: float, reward: float) -> None:
    def rho(**changed: float) -> float:
        base = {"alpha": alpha, "theta_norm": norm, "rounds": 50, "tasks": 10, "delta": delta}
        return float(th.largest_safe_rho(baseline_reward=reward, **{**base, **changed}))

    assert rho(alpha=alpha * 1.1) >= rho()
    assert rho(theta_norm=norm * 2) <= rho()
    assert rho(delta=delta / 2) <= rho()
    assert rho(rounds=100) <= rho()


@given(ends=st.tuples(st.floats(-5, 5), st.floats(-5, 5)), share=st.floats(0, 1))
def test_unknown_baseline_is_safe_for_every_member(ends: tuple[float, float], share: float) -> None:
    low, high = sorted(ends)
    shared = {"alpha": 0.3, "theta_norm": 1.0, "rounds": 20, "tasks": 5, "delta": 0.1}
    worst = float(th.largest_safe_rho_interval(baseline_low=low, baseline_high=high, **shared))
    inside = low + share * (high - low)
    assert worst <= float(th.largest_safe_rho(baseline_reward=inside, **shared)) + 1e-12
    ends_value = th.largest_safe_rho(baseline_reward=[low, high], **shared).value
    assert worst == pytest.approx(0.0 if low <= 0 <= high else ends_value.min())


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.05, 0.5])
def test_rho_of_lemma_l8_in_a_million_rounds(delta: float) -> None:
    """200 runs of 5,000 explored rounds: the share of runs with any violation is at most δ."""
    rng = np.random.default_rng(7)
    runs, rounds, tasks, alpha = 200, 50, 100, 0.2
    norms = rng.uniform(0.5, 1.0, tasks)
    baseline = rng.standard_normal((runs, rounds, tasks)) * norms
    rho = th.largest_safe_rho(
        baseline_reward=baseline, alpha=alpha, theta_norm=norms, rounds=rounds, tasks=tasks, delta=delta
    ).value
    earned = (1 - rho) * baseline + rho * rng.standard_normal(baseline.shape) * norms
    # rounding may put an exploration-free round (ρ = 0) a hair below; no such round can lose anything real
    broken = (earned < baseline - alpha * np.abs(baseline) - 1e-12).any(axis=(1, 2))
    assert rho.max() > 0.01
    assert broken.mean() <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)
    # and the test can see a violation: twice the weight breaks the floor far more often than δ
    reckless = np.minimum(1.0, 2 * rho)
    earned = (1 - reckless) * baseline + reckless * rng.standard_normal(baseline.shape) * norms
    assert (earned < baseline - alpha * np.abs(baseline) - 1e-12).any(axis=(1, 2)).mean() > 0.9


# ---- iterations (l9) ---------------------------------------------------------------------------------------

L9 = {"theta_norm": 0.5, "rho": 0.0, "kappa": 2.0, "rounds": 100, "tasks": 10, "delta": 0.1}


def test_safety_iterations_by_hand() -> None:
    margin = float(th.safety_margin(baseline_gap=0.3, baseline_reward=-0.5, alpha=0.2))
    assert margin == pytest.approx(0.4)
    z = math.sqrt(2 * math.log(2 * 100 * 10 * 4 / 0.1))
    worst = 2 * z * 3 * 0.5
    factor = 1 - 0.23 * 0.5 / (1.04**2 * 4)
    got = th.safety_iterations(margin=margin, actions=4, **L9)
    assert float(got) == math.ceil(math.log(worst / margin) / -math.log(factor))
    assert got.constants == {"c": 0.5, "coefficient": 0.23}
    printed = th.safety_iterations_printed(margin=margin, C=2.0, **L9)
    old = 2 * math.sqrt(2 * math.log(100 * 10 / 0.1)) * 3 * 0.5
    assert float(printed) == pytest.approx(2 * 4 * math.log(margin / old))
    assert not printed.holds  # negative: the sign the paper lost


@given(margin=st.floats(0.001, 1.0))
def test_sign_of_theorem_l9(margin: float) -> None:
    """A thinner margin needs more iterations; the printed form says fewer."""
    more, less = (float(th.safety_iterations(margin=m, actions=4, **L9)) for m in (margin / 2, margin))
    assert more > less
    thin, wide = (float(th.safety_iterations_printed(margin=m, **L9)) for m in (margin / 2, margin))
    assert thin < wide < 0


def test_safety_iterations_limits() -> None:
    assert np.isinf(th.safety_iterations(margin=0.0, actions=4, **L9).value)
    assert float(th.safety_iterations(margin=1e6, actions=4, **L9)) == 0.0
    enough = th.safety_iterations(margin=0.4, actions=4, **L9)
    reached = float(th.step_contraction(rho=0.0, kappa=2.0)) ** float(enough) * 3 * 0.5
    assert reached <= th.largest_safe_error(margin=0.4, rounds=100, tasks=10, actions=4, delta=0.1)


@given(ends=st.tuples(st.floats(-5, 5), st.floats(-5, 5)), share=st.floats(0, 1), gap=st.floats(0, 3))
def test_least_margin_is_the_least(ends: tuple[float, float], share: float, gap: float) -> None:
    low, high = sorted(ends)
    least = th.least_margin(gap_low=gap, baseline_low=low, baseline_high=high, alpha=0.2)
    inside = low + share * (high - low)
    assert least <= th.safety_margin(baseline_gap=gap, baseline_reward=inside, alpha=0.2) + 1e-12


@pytest.mark.statistical
def test_greedy_play_within_the_safe_error_keeps_its_floor() -> None:
    """Each round's estimate is off by exactly the largest safe error, at right angles to θ."""
    rng = np.random.default_rng(8)
    rounds, tasks, K, alpha, delta = 1000, 100, 5, 0.2, 0.5
    Z = rng.standard_normal((rounds * tasks, K))  # x'θ with ‖θ‖ = 1
    ranked = np.sort(Z, axis=1)
    base = ranked[:, 1]
    margin = th.safety_margin(baseline_gap=ranked[:, -1] - base, baseline_reward=base, alpha=alpha)
    error = th.largest_safe_error(margin=margin, rounds=rounds, tasks=tasks, actions=K, delta=delta)
    estimate = Z + error[:, None] * rng.standard_normal(Z.shape)
    played = Z[np.arange(len(Z)), estimate.argmax(axis=1)]
    assert not (played < base - alpha * np.abs(base)).any()
