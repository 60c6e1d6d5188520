"""The results the proofs lean on, by hand and against simulation."""

import numpy as np
import pytest

import banister.theory as th
from banister.errors import SettingError

T10 = {
    "rounds": 200, "tasks": 100, "rank": 2, "rho": 0.0, "mu": 1.0, "sigma_max": 1.0, "delta": 0.1,
    "epochs": 4, "iterations": 100, "dim": 100,
}  # fmt: skip
GRADIENT = {
    "rows": 1000, "mu": 1.0, "rank": 2, "dim": 10, "tasks": 100, "sigma_max": 2.0, "kappa": 2.0,
    "noise": 0.1, "epsilon_3": 0.1, "epsilon_4": 0.1,
}  # fmt: skip


def test_bernstein_by_hand():
    """Near zero the square counts, far out the ratio: K = (1, 2), g = 1 gives 1/5, g = 10 gives 10/2."""
    assert th.bernstein_tail(deviation=1.0, norms=[1.0, 2.0]).value == pytest.approx(2 * np.exp(-0.2))
    far = th.bernstein_tail(deviation=10.0, norms=[1.0, 2.0], c=0.5)
    assert far.value == pytest.approx(2 * np.exp(-0.5 * 5.0))
    assert far.probability == pytest.approx(1 - 2 * np.exp(-2.5))
    assert th.bernstein_tail(deviation=0.0, norms=[1.0]).probability == 0.0
    with pytest.raises(SettingError, match="norms"):
        th.bernstein_tail(deviation=1.0, norms=[0.0])


def test_bernstein_holds_for_centred_squares_of_gaussians():
    """z² − 1 has ψ1 norm below 2.7; with c = 1/8 the bound must cover the tails of sums of 20."""
    rng = np.random.default_rng(0)
    sums = np.abs((rng.standard_normal((20_000, 20)) ** 2 - 1).sum(axis=1))
    for g in (5.0, 15.0, 30.0):
        bound = th.bernstein_tail(deviation=g, norms=np.full(20, 2.7), c=1 / 8).value
        assert np.mean(sums >= g) <= bound


def test_centred_noise_is_the_second_moment_of_what_the_paper_calls_noise():
    rng = np.random.default_rng(0)
    theta, mean = np.array([1.0, 2.0]), rng.standard_normal((50_000, 2))
    eta = 0.5 * rng.standard_normal(50_000)
    level = th.centred_noise(noise=0.5, mean_rewards=mean @ theta)
    assert level == pytest.approx(np.sqrt(np.mean((eta + mean @ theta) ** 2)), rel=0.02)
    assert th.centred_noise(noise=0.5, mean_rewards=np.zeros(3)) == 0.5


def test_two_roots_by_hand_and_below_the_theorem():
    """2 √(200 log 10) (√50 + √300) at G_1 = 50."""
    found = th.regret_bound_two_roots(first=50, **T10)
    assert found.value == pytest.approx(2 * np.sqrt(200 * np.log(10)) * (np.sqrt(50) + np.sqrt(300)))
    whole = th.regret_bound(**T10)
    assert found.probability == whole.probability
    for first in (1, 50, 133, 200):
        assert th.regret_bound_two_roots(first=first, **T10).value <= whole.value


def test_two_roots_are_the_two_parts_of_the_proof():
    later = th.later_epochs_regret_printed(first=50, **T10)
    shared = {k: v for k, v in T10.items() if k not in ("rounds", "epochs", "iterations", "dim")}
    early = th.first_epoch_regret_printed(rounds=50, **shared)
    both = th.regret_bound_two_roots(first=50, **T10)
    assert early.value + later.value == pytest.approx(both.value)
    assert later.probability == pytest.approx(1 - 0.1 - 3 * 100 * 100.0**-10)
    assert th.later_epochs_regret_printed(first=200, **T10).value == 0.0
    with pytest.raises(SettingError, match="first exceeds rounds"):
        th.later_epochs_regret_printed(first=201, **T10)


def test_the_printed_incoherence_is_never_below_the_least():
    rng = np.random.default_rng(0)
    for _ in range(20):
        theta = rng.standard_normal((8, 3)) @ rng.standard_normal((3, 12))
        assert th.incoherence_printed(theta) >= th.incoherence(theta, rank=3) - 1e-12
    with pytest.raises(SettingError, match="task 1"):
        th.incoherence_printed([[1.0, 0.0]])


def test_a_part_of_the_gradient_by_hand():
    """ρ = 0: q = 1, so 1.04 · 3 · ε_4 G_1 σ_min² δ = 3.12 · 0.1 · 1000 · 1 · 0.003, a half of Lemma l4's."""
    part = th.gradient_part_deviation(distance=0.003, rho=0.0, **GRADIENT)
    assert part.value == pytest.approx(3.12 * 0.1 * 1000 * 0.003)
    assert part.holds  # 0.003 ≤ 0.02/(√2 · 4)
    assert not th.gradient_part_deviation(distance=0.01, rho=0.0, **GRADIENT).holds
    same = {k: v for k, v in GRADIENT.items() if not k.startswith("epsilon")}
    whole = th.gradient_deviation(distance=0.003, rho=0.0, epsilon=0.1, **same)
    assert whole.value == pytest.approx(2 * part.value)
    # exp(12 − 0.01 · 1000 · 100/(2 · 16)) and the tasks' terms, both negligible or not:
    wanted = 1 - np.exp(12 - 31.25) - 800 * np.exp(2 - 1000) - 200 * np.exp(2 - 0.01 * 1000 / 0.01)
    assert part.probability == pytest.approx(wanted)


def test_the_probability_of_lemma_l4_by_hand():
    found = th.gradient_probability_printed(epsilon_5=0.05, **GRADIENT)
    # ε_5² G_1 σ_min²/(σ_η² κ²) = 0.0025 · 1000/(0.01 · 4) = 62.5
    wanted = 1 - 2 * np.exp(12 - 62.5) - 4 * np.exp(12 - 31.25) - 800 * np.exp(-998) - 200 * np.exp(-998)
    assert found == pytest.approx(wanted)
    assert th.gradient_probability_printed(epsilon_5=0.001, **GRADIENT) == 0.0
    quiet = {**GRADIENT, "noise": 0.0}
    assert th.gradient_probability_printed(epsilon_5=0.05, **quiet) == pytest.approx(
        1 - 4 * np.exp(12 - 31.25)
    )


def test_the_parts_deviate_less_than_the_proposition_says_when_its_constants_are_met():
    """Monte Carlo: Gaussian x_b, Θ − Θ* and W of the sizes Lemma l2 allows; ε_4 from the simulated spread."""
    rng = np.random.default_rng(0)
    d, T, n = 6, 8, 400
    W, D = rng.standard_normal((1, T)) / np.sqrt(T), 0.01 * rng.standard_normal((d, T))
    mean = n * D @ W.T
    spread = []
    for _ in range(50):
        part = np.zeros((d, 1))
        for t in range(T):
            X = rng.standard_normal((n, d))
            part += np.outer(X.T @ (X @ D[:, t]), W[:, t])
        spread.append(np.linalg.norm(part - mean, 2) / n)
    assert np.mean(spread) < 0.2 * np.linalg.norm(D)  # concentrates around n (Θ − Θ*) W'
