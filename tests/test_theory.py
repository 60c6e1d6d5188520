"""Constants of Θ, the spectral start, estimation and contraction: by hand, in the limit, and simulated."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banister import theory as th
from banister.errors import SettingError, ShapeError

rhos = st.one_of(st.floats(0, 0.25), st.floats(0.75, 1.0))
scale = st.floats(0.01, 100.0)
level = st.floats(1e-6, 0.999)
size = st.integers(1, 10_000)


# ---- matrices ----------------------------------------------------------------------------------------------


def test_matrix_constants_by_hand() -> None:
    theta = np.zeros((3, 4))
    theta[0] = [3.0, 3.0, 0.0, 0.0]  # singular value √18
    theta[1] = [0.0, 0.0, 1.0, 1.0]  # singular value √2
    assert th.condition_number(theta, rank=2) == pytest.approx(3.0)
    # max norm 3, √(T/r) = √2, σ_max = √18 = 3√2
    assert th.incoherence(theta, rank=2) == pytest.approx(1.0)
    assert th.noise_to_signal(noise=0.5, tasks=4, sigma_min=np.sqrt(2.0)) == pytest.approx(0.5)
    assert th.norm_bound(mu=2.0, rank=1, tasks=4, sigma_max=3.0) == pytest.approx(3.0)


def test_incoherence_is_at_most_the_papers_ratio_and_bounds_every_norm() -> None:
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 30))
    mu, norms = th.incoherence(theta, rank=2), np.linalg.norm(theta, axis=0)
    top = np.linalg.norm(theta, 2)
    assert 1.0 <= mu <= norms.max() / norms.min()
    assert norms.max() <= th.norm_bound(mu=mu, rank=2, tasks=30, sigma_max=top) * (1 + 1e-12)


def test_subspace_distance_ignores_the_basis_and_is_symmetric() -> None:
    rng = np.random.default_rng(1)
    A, B = (np.linalg.qr(rng.standard_normal((8, 3)))[0] for _ in range(2))
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    assert th.subspace_distance(A @ turn, B) == pytest.approx(th.subspace_distance(A, B))
    assert th.subspace_distance(A, B) == pytest.approx(th.subspace_distance(B, A))
    assert th.subspace_distance(A, A @ turn) == pytest.approx(0.0, abs=1e-12)


def test_rank_deficient_theta_is_refused() -> None:
    with pytest.raises(SettingError, match="only 1 directions"):
        th.condition_number(np.ones((3, 3)), rank=2)
    with pytest.raises(SettingError, match="rank=4"):
        th.condition_number(np.ones((3, 3)), rank=4)
    with pytest.raises(ShapeError):
        th.subspace_distance(np.ones((3, 1)), np.ones((3, 2)))


# ---- initialisation (p6) -----------------------------------------------------------------------------------


def test_start_samples_by_hand() -> None:
    # C μ² κ² d (r κ² + NSR) / δ0² = 2·4·9·10·(2·9 + 5)/0.0025
    bound = th.start_samples(target=0.05, dim=10, rank=2, tasks=3, mu=2.0, kappa=3.0, nsr=5.0, C=2.0, c=0.1)
    assert float(bound) == pytest.approx(2 * 4 * 9 * 10 * 23 / 0.0025)
    assert bound.probability == pytest.approx(1 - math.exp(-1.3))
    assert bound.constants == {"C": 2.0, "c": 0.1}


@given(rows=st.floats(1e5, 1e12), d=size, r=st.integers(1, 20), nsr=st.floats(0, 100))
def test_start_distance_inverts_start_samples(rows: float, d: int, r: int, nsr: float) -> None:
    shared = {"dim": d, "rank": r, "mu": 1.5, "kappa": 2.0, "nsr": nsr}
    start = th.start_distance(rows=rows, **shared)
    if start.holds:
        back = th.start_samples(target=start.value, tasks=5, **shared)
        assert float(back) == pytest.approx(rows)


def test_start_asked_and_truncation_by_hand() -> None:
    assert th.required_start(mu=2.0, rank=4, kappa=3.0) == pytest.approx(0.02 / 36)
    assert th.truncation_multiplier(mu=2.0, kappa=3.0) == pytest.approx(324.0)
    # powers 1 and 4: 9·2·4/5
    assert th.estimated_truncation_multiplier([[1.0, 2.0], [-1.0, -2.0]]) == pytest.approx(14.4)
    with pytest.raises(SettingError, match=r"delta_0 < 0\.1"):
        th.start_samples(target=0.1, dim=2, rank=1, tasks=2, mu=1, kappa=1, nsr=0)
    with pytest.raises(SettingError, match="not 0"):
        th.estimated_truncation_multiplier(np.zeros((2, 2)))


# ---- estimation (p1, l2) and gradient (p3, l4) -------------------------------------------------------------


def test_gram_inverse_by_hand() -> None:
    bound = th.gram_inverse(rho=0.25, rows=50, rank=2, tasks=10)
    assert float(bound) == pytest.approx(2 / (0.25 * 50))
    assert bound.probability == pytest.approx(1 - 40 * math.exp(-48))
    assert np.isinf(th.gram_inverse(rho=0.5, rows=50, rank=2, tasks=10).value)
    assert th.gram_inverse(rho=0.0, rows=2, rank=2, tasks=10).probability == 0.0
    assert float(th.leakage(rho=0.25, outside=0.1, rows=50, rank=2, tasks=10)) == pytest.approx(0.4)
    assert float(th.leakage(rho=0.5, outside=0.0, rows=50, rank=2, tasks=10)) == 0.0


def test_exact_gram_inverse_by_hand_and_when_rows_are_too_few() -> None:
    t = math.sqrt(2 * math.log(10 / 0.05))
    bound = th.gram_inverse_exact(rho=0.5, rows=100, rank=4, tasks=10, delta=0.05)
    assert float(bound) == pytest.approx(1 / (0.5 * (10 - 2 - t) ** 2))
    few = th.gram_inverse_exact(rho=0.5, rows=4, rank=4, tasks=10, delta=0.05)
    assert np.isinf(few.value)
    assert not few.holds


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [0.0, 0.25, 0.5])
def test_exact_gram_inverse_holds_with_its_probability(rho: float) -> None:
    rng = np.random.default_rng(3)
    runs, tasks, rows, rank, delta = 300, 20, 60, 3, 0.2
    shape = (runs, tasks, rows, rank)
    XB = (1 - rho) * rng.standard_normal(shape) + rho * rng.standard_normal(shape)
    worst = 1.0 / np.linalg.eigvalsh(XB.swapaxes(-1, -2) @ XB)[..., 0].min(axis=1)
    bound = th.gram_inverse_exact(rho=rho, rows=rows, rank=rank, tasks=tasks, delta=delta)
    # the bound must fail in at most δ of the runs; three standard errors of a share of 300
    assert (worst > bound.value).mean() <= delta + 3 * math.sqrt(delta * (1 - delta) / runs)


def test_lemma_l2_by_hand() -> None:
    got = th.estimation_errors(distance=0.001, rho=0.25, mu=2.0, rank=4, tasks=16, sigma_max=3.0, kappa=1.5)
    each, growth = 2 * 0.5 * 3, 4.0  # μ√(r/T)σ = 3, 1/(1−2ρ)² = 4
    assert got.coefficient == pytest.approx(2 * growth * 0.001 * each)
    assert got.coefficient_norm == pytest.approx(1.16 * each)
    assert got.coefficients == pytest.approx(2 * growth * 0.001 * each * 4)
    assert got.parameter == pytest.approx(9 * 0.001 * each)
    assert got.parameters == pytest.approx(9 * 0.001 * each * 4)
    assert got.smallest == pytest.approx((math.sqrt(1 - 4e-4) - 0.16) * 2.0)
    assert got.largest == pytest.approx(1.16 * 3.0)
    assert got.holds  # 0.02/(2·2·2.25) = 0.00222


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [0.0, 0.2, 1.0])
def test_lemma_l2_holds_on_simulated_data(rho: float) -> None:
    rng = np.random.default_rng(4)
    d, T, r, rows, noise = 40, 30, 2, 80, 1e-4
    B_star = np.linalg.qr(rng.standard_normal((d, r)))[0]
    W_star = np.linalg.qr(rng.standard_normal((T, r)))[0].T * np.array([[1.0], [0.7]])
    theta, kappa = B_star @ W_star, 1 / 0.7
    mu = th.incoherence(theta, rank=r)
    distance = float(th.required_start(mu=mu, rank=r, kappa=kappa))
    out = np.linalg.qr((np.eye(d) - B_star @ B_star.T) @ rng.standard_normal((d, r)))[0]
    sine = distance / math.sqrt(r)
    B = B_star * math.sqrt(1 - sine**2) + out * sine
    bound = th.estimation_errors(
        distance=distance, rho=rho, mu=mu, rank=r, tasks=T, sigma_max=1.0, kappa=kappa
    )
    assert bound.holds
    for _ in range(20):
        X = (1 - rho) * rng.standard_normal((T, rows, d)) + rho * rng.standard_normal((T, rows, d))
        y = np.einsum("tnd,dt->tn", X, theta) + noise * rng.standard_normal((T, rows))
        W = np.stack([np.linalg.lstsq(x @ B, v)[0] for x, v in zip(X, y, strict=True)], axis=1)
        G, error = B.T @ theta, B @ W - theta
        assert np.linalg.norm(W - G, axis=0).max() <= bound.coefficient
        assert np.linalg.norm(W, axis=0).max() <= bound.coefficient_norm
        assert np.linalg.norm(W - G) <= bound.coefficients
        assert np.linalg.norm(error, axis=0).max() <= bound.parameter
        assert np.linalg.norm(error) <= bound.parameters
        spectrum = np.linalg.svd(W, compute_uv=False)
        assert bound.smallest <= spectrum[-1]
        assert spectrum[0] <= bound.largest


def test_lemma_l2_probability_by_hand_and_falls_with_the_distance() -> None:
    shared = {"theta_norm": 2.0, "noise": 0.1, "rows": 100, "rank": 1, "tasks": 2}
    # ε3 = 0.5·0.05·2 = 0.05; exponent 1 − 0.25·100 = −24
    got = th.estimation_probability(distance=0.05, **shared)
    assert got == pytest.approx(1 - 16 * math.exp(-99) - 4 * math.exp(-24))
    along = th.estimation_probability(distance=np.array([0.0, 0.01, 0.03, 1.0]), **shared)
    assert along[0] == 0.0
    assert np.all(np.diff(along) >= 0)
    assert along[-1] > 0.999
    assert th.estimation_probability(distance=0.0, **{**shared, "noise": 0.0}) > 0.999


def test_lemma_l4_by_hand() -> None:
    # ρ = 0: s² = 1, growth 1.04·3; G1 μ √r δ σ² = 10·1·2·0.001·4
    assert th.gradient_mean(distance=0.001, rho=0, rows=10, mu=1, rank=4, sigma_max=2.0) == pytest.approx(
        3.12 * 0.08
    )
    shared = {"distance": 0.001, "rho": 0, "rows": 10, "mu": 1, "rank": 4, "dim": 5, "tasks": 6}
    got = th.gradient_deviation(**shared, sigma_max=2.0, kappa=2.0, noise=0.0)
    assert float(got) == pytest.approx(2 * 3.12 * 0.01 * 0.001 * 10)
    assert got.probability == 0.0  # ten rows guarantee nothing
    many = {**shared, "rows": 10_000_000}
    assert th.gradient_deviation(**many, sigma_max=2.0, kappa=2.0, noise=0.0).probability > 0.999
    assert th.gradient_deviation(**many, sigma_max=2.0, kappa=2.0, noise=10.0).probability == 0.0


@pytest.mark.statistical
def test_lemma_l4_mean_of_the_gradient() -> None:
    rng = np.random.default_rng(5)
    d, T, r, rows, rho = 6, 4, 2, 200_000, 0.3
    W, gap = rng.standard_normal((r, T)), rng.standard_normal((d, T))  # gap: Θ − Θ*
    gradient = np.zeros((d, r))
    for t in range(T):
        X = (1 - rho) * rng.standard_normal((rows, d)) + rho * rng.standard_normal((rows, d))
        gradient += np.outer(X.T @ (X @ gap[:, t]), W[:, t])
    expected = th.mixture_variance(rho=rho) * gap @ W.T
    # relative error of a mean of 200,000 products is about 1/√200,000 = 0.002; five times that
    assert np.linalg.norm(gradient / rows - expected) <= 0.011 * np.linalg.norm(gap) * np.linalg.norm(W)


# ---- contraction (T5, T11) ---------------------------------------------------------------------------------


def test_step_sizes_by_hand() -> None:
    assert th.first_step_size(rho=0.25, sigma_max=2.0, c=1.0) == pytest.approx(1 / (1.16**2 * 4))
    assert th.later_step_size(sigma_max=2.0) == pytest.approx(0.125)
    assert th.contraction(gamma=0.5, sigma_min=1.0) == pytest.approx(0.885)
    assert th.step_contraction(rho=0.0, kappa=2.0, c=1.0) == pytest.approx(1 - 0.23 / (1.0816 * 4))


def test_first_epoch_distance_by_hand() -> None:
    shared = {"gamma": 0.5, "rho": 0.0, "mu": 1.0, "rank": 1, "kappa": 1.0, "sigma_max": 1.0, "dim": 2}
    got = th.first_epoch_distance(iterations=3, start=0.02, **shared)
    assert float(got) == pytest.approx(0.02 * 0.885**3)
    assert got.probability == pytest.approx(1 - 3 / 1024)
    assert got.holds
    far = th.first_epoch_distance(iterations=3, start=0.5, **shared)
    assert not far.holds
    assert not th.first_epoch_distance(iterations=3, start=0.02, **{**shared, "gamma": 0.95}).holds


def test_later_epoch_distance_by_hand() -> None:
    got = th.later_epoch_distance(
        iterations=2,
        epoch=3,
        per_epoch=5,
        start=0.01,
        gamma=0.5,
        mu=1.0,
        rank=1,
        kappa=1.0,
        sigma_max=1.0,
        dim=2,
    )
    assert float(got) == pytest.approx(0.01 * 0.82**7)
    assert got.probability == pytest.approx(1 - 12 / 1024)
    assert got.holds
    assert got.constants == {"c": 0.02}


def test_proved_coefficient_supports_the_printed_one_only_for_small_rho() -> None:
    # by hand at ρ = 0: 0.9598² − 0.02·1.04·3 − 0.04·1.04·3·1.02
    first = (math.sqrt(0.9996) - 0.04) ** 2 - 0.0624 - 0.127296
    assert th.proved_coefficient(rho=0.0) == pytest.approx(first)
    assert th.proved_coefficient(rho=0.18) > 0.23 > th.proved_coefficient(rho=0.20)
    assert th.proved_coefficient(rho=0.25) < 0
    assert th.proved_coefficient(rho=[0.75, 1.0]) == pytest.approx(th.proved_coefficient(rho=[0.25, 0.0]))


def test_sample_sizes_by_hand() -> None:
    shared = {"dim": 10, "rank": 2, "tasks": 5, "mu": 2.0, "kappa": 3.0}
    logs = 2 + math.log(5) + math.log(10)
    plain = th.first_epoch_samples(**shared, nsr=100.0, with_start=False)
    assert plain.total == pytest.approx(12 * 9 * 100)  # max(μ²rκ² = 72, NSR = 100)
    assert plain.per_task == pytest.approx(logs * 100 / 72)
    whole = th.first_epoch_samples(**shared, nsr=100.0, C=2.0)
    assert whole.total == pytest.approx(2 * 16 * 10 * 2 * 729 * 100)
    later = th.later_epoch_samples(**shared, nsr=0.01, target=0.1)
    assert later.total == pytest.approx(4 * 81 * 12 * 2 * 9)  # κ²NSR/ε² = 9
    assert later.per_task == pytest.approx(logs)
    assert later.rows_per_task == math.ceil(4 * 81 * 12 * 2 * 9 / 5)
    assert json.loads(json.dumps(later.as_dict()))["constants"] == {"C": 1.0}


@given(target=st.floats(0.001, 1.0), nsr=st.floats(0.0, 10.0))
def test_more_accuracy_never_needs_fewer_rows(target: float, nsr: float) -> None:
    shared = {"dim": 10, "rank": 2, "tasks": 5, "mu": 1.0, "kappa": 1.0, "nsr": nsr}
    for rule in (th.first_epoch_samples, th.later_epoch_samples):
        tight, loose = rule(**shared, target=target), rule(**shared, target=2 * target)
        assert tight.total >= loose.total
        assert tight.per_task >= loose.per_task


@given(start=scale, share=level, factor=st.floats(0.01, 0.99))
def test_iterations_to_reach_is_the_least(start: float, share: float, factor: float) -> None:
    target = start * share
    n = float(th.iterations_to_reach(target=target, start=start, factor=factor))
    assert factor**n * start <= target * (1 + 1e-6)
    assert n == 0 or factor ** (n - 1) * start > target * (1 - 1e-6)


def test_iterations_to_reach_limits() -> None:
    got = th.iterations_to_reach(target=[0.0, 1.0, 2.0, 0.125], start=1.0, factor=0.5)
    assert got.tolist() == [np.inf, 0.0, 0.0, 3.0]


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [0.0, 0.25])
def test_contraction_of_theorem_t5_holds_when_simulated(rho: float) -> None:
    """Noise-free Gaussian rows, the true σ_max, a start within the hypothesis: all iterations contract."""
    rng = np.random.default_rng(6)
    d = T = 30
    r, rows = 2, 100
    B_star = np.linalg.qr(rng.standard_normal((d, r)))[0]
    W_star = np.linalg.qr(rng.standard_normal((T, r)))[0].T
    theta, gamma = B_star @ W_star, float(th.first_step_size(rho=rho, sigma_max=1.0))
    out = np.linalg.qr((np.eye(d) - B_star @ B_star.T) @ rng.standard_normal((d, r)))[0]
    sine = float(th.required_start(mu=th.incoherence(theta, rank=r), rank=r, kappa=1.0)) / math.sqrt(r)
    B = B_star * math.sqrt(1 - sine**2) + out * sine
    before = th.subspace_distance(B, B_star)
    for _ in range(10):
        B = _altgdmin_step(B, theta, gamma, rho, rows, rng)
        after = th.subspace_distance(B, B_star)
        assert after <= th.contraction(gamma=gamma, sigma_min=1.0) * before
        before = after


def _altgdmin_step(
    B: np.ndarray, theta: np.ndarray, gamma: float, rho: float, rows: int, rng: np.random.Generator
) -> np.ndarray:
    d, T = theta.shape
    fresh = [
        (1 - rho) * rng.standard_normal((T, rows, d)) + rho * rng.standard_normal((T, rows, d)) for _ in "ab"
    ]
    W = np.stack([np.linalg.lstsq(x @ B, x @ v)[0] for x, v in zip(fresh[0], theta.T, strict=True)], axis=1)
    gradient = sum(
        np.outer(x.T @ (x @ (B @ w - v)), w) for x, w, v in zip(fresh[1], W.T, theta.T, strict=True)
    )
    return np.linalg.qr(B - gamma / rows * gradient)[0]
