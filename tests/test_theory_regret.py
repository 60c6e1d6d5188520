"""Theorem T10, the complexities, the comparison table, and the door every argument passes."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister import theory as th
from banister.errors import InputError, SettingError

rhos = st.one_of(st.floats(0, 0.25), st.floats(0.75, 1.0))
scale = st.floats(0.01, 100.0)
size = st.integers(1, 10_000)


# ---- regret (T10) ------------------------------------------------------------------------------------------


def test_order_statistics_by_hand() -> None:
    assert th.expected_order(place=1, actions=2) == pytest.approx(1 / math.sqrt(math.pi))
    assert th.expected_order(place=1, actions=3) == pytest.approx(1.5 / math.sqrt(math.pi))
    assert th.expected_order(place=2, actions=3) == pytest.approx(0.0, abs=1e-12)
    assert th.expected_order(place=[1, 4], actions=4).sum() == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(SettingError, match="beyond"):
        th.expected_order(place=3, actions=2)


def test_regret_bound_by_hand() -> None:
    got = th.regret_bound(
        rounds=200,
        tasks=100,
        rank=2,
        rho=0.0,
        mu=1.0,
        sigma_max=1.0,
        delta=0.01,
        epochs=4,
        iterations=10,
        dim=2,
    )
    assert float(got) == pytest.approx(4 * math.sqrt(2) * 200 * math.sqrt(math.log(100)))
    assert got.probability == pytest.approx(1 - 0.02 - 40 / 1024)
    part = th.first_epoch_regret_printed(
        rounds=50, tasks=100, rank=2, rho=0.0, mu=1.0, sigma_max=1.0, delta=0.01
    )
    assert float(part) == pytest.approx(2 * 100 * math.sqrt(math.log(100)))


@given(rho=rhos, rounds=size, delta=st.floats(1e-6, 0.4))
def test_regret_bound_grows_as_the_root(rho: float, rounds: int, delta: float) -> None:
    def bound(**changed: float) -> float:
        base = {
            "rounds": rounds,
            "tasks": 9,
            "rank": 2,
            "rho": rho,
            "mu": 1.0,
            "sigma_max": 1.0,
            "delta": delta,
        }
        return float(th.regret_bound(**{**base, **changed}, epochs=2, iterations=3, dim=10))

    assert bound(rounds=4 * rounds) == pytest.approx(2 * bound())
    assert bound(tasks=36) == pytest.approx(2 * bound())
    assert bound(delta=delta / 2) > bound()


def test_first_epoch_regret_by_hand() -> None:
    norms = [3.0, 4.0]
    gap = 1.5 / math.sqrt(math.pi)  # best of 3 against the middle one
    slope = th.first_epoch_slope(theta_norms=norms, rho=0.0, actions=3, place=2)
    assert slope == pytest.approx(7 * gap)
    got = th.first_epoch_regret(rounds=100, theta_norms=norms, rho=0.0, actions=3, place=2, delta=0.1)
    assert float(got) == pytest.approx(700 * gap + 2 * 5 * math.sqrt(100 * math.log(10)))
    by_gap = th.first_epoch_regret_by_gap(
        rounds=100, tasks=2, gap_high=0.5, baseline_high=2.0, rho=0.1, frobenius=5.0, delta=0.1
    )
    assert float(by_gap) == pytest.approx(200 * 0.7 + 0.1 * math.sqrt(200 * math.log(10)) * 5)


@pytest.mark.statistical
def test_first_epoch_regret_holds_and_the_printed_bound_does_not() -> None:
    rng = np.random.default_rng(9)
    runs, rounds, tasks, K, place, rho, delta = 200, 100, 20, 6, 3, 0.1, 0.1
    norms = rng.uniform(0.5, 1.0, tasks)
    regret = np.empty(runs)
    for i in range(runs):
        ranked = np.sort(rng.standard_normal((rounds, tasks, K)), axis=-1)
        mixed = (1 - rho) * ranked[..., -place] + rho * rng.standard_normal((rounds, tasks))
        regret[i] = ((ranked[..., -1] - mixed) * norms).sum()
    shared = {"rounds": rounds, "rho": rho, "delta": delta}
    bound = th.first_epoch_regret(theta_norms=norms, actions=K, place=place, **shared)
    slope = th.first_epoch_slope(theta_norms=norms, rho=rho, actions=K, place=place)
    assert (regret > bound.value).mean() <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)
    # the mean is what the module says it is: four standard errors
    assert regret.mean() == pytest.approx(rounds * slope, abs=4 * regret.std() / math.sqrt(runs))
    # the paper's bound at its most generous here: rank 1, with 1, the largest norm, for every task
    printed = th.first_epoch_regret_printed(tasks=tasks, rank=1, mu=1.0, sigma_max=math.sqrt(tasks), **shared)
    assert regret.min() > printed.value


def test_failing_rounds_is_the_crossing() -> None:
    shared = {"tasks": 100, "rank": 2, "rho": 0.0, "mu": 1.0, "sigma_max": 1.0, "delta": 0.01}
    G = float(th.failing_rounds(slope=17.7, share=0.25, **shared))
    assert pytest.approx((4 * math.sqrt(400 * math.log(100)) / 17.7) ** 2 * 4) == G
    rest = {"epochs": 4, "iterations": 1, "dim": 10}
    for rounds, fails in ((math.floor(G) - 1, False), (math.ceil(G) + 1, True)):
        assert (17.7 * rounds > float(th.regret_bound(rounds=4 * rounds, **shared, **rest))) is fails


def test_regret_iterations_by_hand() -> None:
    asked = math.sqrt(2) / 3
    assert th.accuracy_asked(rho=0.0) == pytest.approx(asked)
    factor = 1 - 0.23 * 0.5 / 1.04**2
    got = th.regret_iterations(rho=0.0, kappa=1.0)
    assert float(got) == math.ceil(math.log(1 / asked) / -math.log(factor))
    assert float(th.regret_iterations(rho=0.0, kappa=1.0, start=0.02)) == 0.0


@given(rho=rhos, kappa=st.floats(1, 10))
def test_printed_iterations_of_t10_are_negative_everywhere(rho: float, kappa: float) -> None:
    printed = th.regret_iterations_printed(rho=rho, kappa=kappa)
    assert float(printed) < 0
    assert not printed.holds
    assert float(th.regret_iterations(rho=rho, kappa=kappa)) > 0


def test_greedy_regret_by_hand() -> None:
    m1 = 1 / math.sqrt(math.pi)
    got = th.greedy_regret_mean(rounds=10, theta_norm=2.0, error=[0.0, 1.2, 2.0], actions=2)
    assert got == pytest.approx([0.0, 10 * m1 * 2 * 0.2, 10 * m1 * 2 * 2])
    high = th.greedy_regret(rounds=10, errors=[0.1, 0.2], actions=2, delta=0.1)
    assert float(high) == pytest.approx(2 * math.sqrt(2 * math.log(2 * 10 * 2 * 2 / 0.1)) * 10 * 0.3)


@pytest.mark.statistical
def test_greedy_regret_mean_is_attained() -> None:
    rng = np.random.default_rng(10)
    n, K, sine = 200_000, 5, 0.6
    Z = rng.standard_normal((n, K))
    seen = 0.8 * Z + sine * rng.standard_normal((n, K))
    loss = Z.max(axis=1) - Z[np.arange(n), seen.argmax(axis=1)]
    expected = th.greedy_regret_mean(rounds=1, theta_norm=1.0, error=sine, actions=K)
    assert loss.mean() == pytest.approx(expected, abs=4 * loss.std() / math.sqrt(n))


# ---- complexity and comparison -----------------------------------------------------------------------------


def test_complexities_by_hand() -> None:
    assert float(th.first_epoch_complexity(dim=100, rank=2, nsr=5.0)) == 510.0
    assert float(th.later_epoch_complexity(dim=100, rank=2, nsr=0.04, target=0.1, C=3.0)) == pytest.approx(
        2448.0
    )
    assert th.separate_complexity(dim=100, tasks=7) == 700.0
    assert float(th.sharing_tasks(dim=100, rank=2, nsr=0.0, target=0.1)) == pytest.approx(2.04)
    time = th.time_complexity(rows=50, tasks=10, dim=4, rank=2, target=math.exp(-3))
    assert float(time) == pytest.approx(12_000)
    assert float(th.communication_complexity(dim=4, rank=2, kappa=3.0, target=math.exp(-2))) == pytest.approx(
        48
    )
    assert th.bytes_per_iteration(dim=100, rank=2) == 3200


def test_comparison_table_by_hand() -> None:
    s = th.Setting(dim=9, rank=4, tasks=16, rounds=25, error=0.5, nsr=1.0, rho=0.0)
    got = {system.name: float(system.regret(s)) for system in th.SYSTEMS}
    assert list(got.values()) == pytest.approx(
        [16 * 10 + 120, 16 * 30 + 9 * 40, 16 * 10 + 120, 9 * 16 * 5, 9 * 20, 0.5 * 40, 40]
    )
    ours, prior = th.SYSTEMS[-1], th.SYSTEMS[-2]
    assert ours.samples is not None
    assert ours.task_samples is not None
    assert prior.samples is not None
    assert prior.task_samples is not None
    assert ours.samples(s) == pytest.approx(13 * 4 * 4)
    assert ours.task_samples(s) == pytest.approx(4 + math.log(16) + math.log(9))
    assert prior.samples(s) == pytest.approx(25 * 4 * (16 + math.log(2)))
    assert prior.task_samples(s) == pytest.approx(4 * math.log(2))
    assert [s.shared for s in th.SYSTEMS] == [True, True, True, False, False, True, True]
    assert [s.constrained for s in th.SYSTEMS] == [False, False, False, True, True, False, True]
    assert all(system.citation for system in th.SYSTEMS)


def test_rates_broadcast() -> None:
    s = th.Setting(dim=[10, 20], rank=2, tasks=5, rounds=100)
    assert all(np.shape(system.regret(s)) in ((2,), ()) for system in th.SYSTEMS)


# ---- the door ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: th.first_step_size(rho=0.5, sigma_max=1.0), r"rho=0.5 is not possible.*0.25"),
        (lambda: th.mixture_variance(rho=1.5), "rho=1.5"),
        (lambda: th.gaussian_radius(events=10, delta=0.0), "delta=0.0"),
        (lambda: th.gaussian_radius(events=2.5, delta=0.1), "events=2.5.*whole number"),
        (
            lambda: th.noise_to_signal(noise=[0.1, -1.0], tasks=3, sigma_min=1.0),
            r"noise=-1.0 at index \(1,\)",
        ),
        (lambda: th.noise_to_signal(noise=np.nan, tasks=3, sigma_min=1.0), "noise=nan.*finite"),
        (lambda: th.norm_bound(mu=0.5, rank=1, tasks=1, sigma_max=1.0), "mu=0.5.*at least 1"),
        (lambda: th.contraction(gamma="fast", sigma_min=1.0), "not a number"),
        (lambda: th.Setting(dim=0, rank=1, tasks=1, rounds=1), "dim=0.0"),
        (
            lambda: th.least_margin(gap_low=0.0, baseline_low=2.0, baseline_high=1.0, alpha=0.1),
            "baseline_low exceeds baseline_high",
        ),
    ],
)
def test_bad_settings_are_named(call: object, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        call()  # type: ignore[operator]
    assert issubclass(SettingError, InputError)


def test_bounds_broadcast_and_print() -> None:
    grid = th.largest_safe_rho(
        baseline_reward=np.array([[0.5], [1.0], [2.0]]),
        alpha=np.array([0.1, 0.2]),
        theta_norm=1.0,
        rounds=10,
        tasks=2,
        delta=0.1,
    )
    assert grid.value.shape == (3, 2)
    printed = th.regret_iterations_printed(rho=0.0, kappa=1.0)
    assert str(printed) == "Theorem T10 (L): -0.752 (C=1; does not hold: L >= 0)"
    assert json.loads(json.dumps(printed.as_dict()))["conditions"] == {"L >= 0": False}


@settings(max_examples=30)
@given(rho=rhos, kappa=st.floats(1, 20), c=st.floats(0.01, 1.0))
def test_contraction_is_a_contraction(rho: float, kappa: float, c: float) -> None:
    assert 0.0 < float(th.step_contraction(rho=rho, kappa=kappa, c=c)) < 1.0
