"""How many directions the tasks share."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from banister.data import TaskData
from banister.errors import ConvergenceWarning
from banister.estimators import rank
from banister.estimators.altgdmin import AltGDmin
from banister.estimators.rank import direction_snrs, noise_variance, scan_ranks, whiten_basis
from banister.solver import LocalPool, Spectra, Whitening, fitted_numbers, fitted_share, minimise, noise_norm
from problems import fifth_best, problem


def scan(data, **options):
    return scan_ranks(data, Whitening.of(data), rng=np.random.default_rng(0), threads=1, **options)


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_the_true_rank_is_found(r):
    data, _ = problem(d=25, T=30, r=r, n=40, noise=0.1, seed=r)
    found = scan(data)
    assert found.rank == r
    assert found.explained
    assert found.solution.B.shape == (25, r)
    assert all(found.snr[k] > 1.25 for k in found.snr)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_every_rank_is_tried_where_no_fit_explains_the_data(r, monkeypatch):
    monkeypatch.setattr(rank, "explains", lambda *_: False)
    data, _ = problem(d=25, T=30, r=r, n=40, noise=0.1, seed=r)
    found = scan(data)
    assert found.rank == r
    assert not found.explained
    assert list(found.snr) == list(range(1, r + 2))
    assert found.snr[r] > 1.25 > found.snr[r + 1]


def test_sizes_of_a_low_rank_fit_by_hand():
    assert noise_norm(16, 9) == 7.0
    assert fitted_numbers(16, 9, 2) == 46  # 2 · 16 + 2 · 9 − 4
    assert fitted_share(16, 9, 2, rows=92) == 0.5
    assert fitted_share(16, 9, 2, rows=0) == 46


def test_the_true_rank_is_found_on_policy_collected_data():
    data, _ = fifth_best(d=30, T=30, r=2, n=40, noise=1e-2, seed=0)
    assert scan(data).rank == 2


@pytest.mark.statistical
def test_pure_noise_has_no_rank():
    """Noise sits near 0.85: below the threshold of 1.25 in all of 20 seeds."""
    seen = []
    for seed in range(20):
        data, _ = problem(d=20, T=25, n=30, seed=seed)
        noise = np.random.default_rng(seed).standard_normal(data.n_rows)
        found = scan(data.replace_y(noise))
        assert found.rank == 0
        seen.append(found.snr[1])
    assert 0.6 < np.mean(seen) < 1.1


def test_no_rank_is_settled_by_one_fit_where_a_direction_is_drowned(monkeypatch):
    data, _ = problem(d=25, T=30, r=2, n=40)
    scale = np.append(np.ones(24), 1e-4)
    data = TaskData(data.X * scale, data.y, data.offsets, data.labels)
    found = scan(data)
    assert not found.explained
    assert found.rank == 2


def test_a_climb_ends_where_a_direction_drowns_in_noise(monkeypatch):
    data, _ = problem(d=20, T=25, n=30)
    data = data.replace_y(np.random.default_rng(0).standard_normal(data.n_rows))
    pool, whitening, fits = LocalPool(data, threads=1), Whitening.of(data), []
    monkeypatch.setattr(rank, "minimise", lambda *a, **k: fits.append(a) or minimise(*a, **k))
    assert rank._climb(pool, whitening, Spectra(pool, whitening, 10), 10, False) is None
    assert len(fits) == 1


def test_a_climb_trusts_no_fit_that_was_cut_short(monkeypatch):
    data, _ = problem(d=25, T=30, r=2, n=40)
    pool, whitening = LocalPool(data, threads=1), Whitening.of(data)
    assert rank._climb(pool, whitening, Spectra(pool, whitening, 10), 10, False).rank == 2
    monkeypatch.setattr(rank, "_CLIMB", 1)
    monkeypatch.setattr(rank, "explains", lambda *_: True)
    assert rank._climb(pool, whitening, Spectra(pool, whitening, 10), 10, False) is None


def fewest(B):
    return -B.shape[1]


def test_an_explained_fit_settles_nothing_if_its_weakest_direction_does_not_pay():
    data, _ = problem(d=25, T=30, r=3, n=40, noise=0.1, seed=3)
    found = scan(data, score=fewest)
    assert not found.explained
    assert found.rank == 3  # directions stand out as before
    assert found.solution.B.shape == (25, 1)
    assert scan(data, score=lambda B: B.shape[1]).explained


def test_the_search_ends_once_the_best_rank_is_well_behind():
    data, _ = problem(d=25, T=40, r=6, n=60, noise=0.1)
    assert list(scan(data, score=fewest).snr) == [1, 2, 3, 4]
    third = scan(data, score=lambda B: -abs(B.shape[1] - 3))  # in the upper half of four: on to the end
    assert list(third.snr) == [1, 2, 3, 4, 5, 6, 7]
    assert third.solution.B.shape == (25, 3)


def test_a_basis_without_its_weakest_direction():
    data, _ = problem(d=8, T=30, r=2, n=40, noise=0.01)
    pool, whitening, solution = LocalPool(data, threads=1), Whitening.of(data), scan(data).solution
    left = rank.without_weakest(pool, whitening, solution)
    axes = np.linalg.svd(whitening.inverse @ solution.B @ solution.W * np.sqrt(data.counts))[0]
    np.testing.assert_allclose(np.abs(axes[:, 0] @ (whitening.inverse @ left)), 1.0, atol=1e-6)


def test_auto_is_the_scan_and_shows_what_it_saw():
    data, _ = problem(d=25, T=30, r=3, n=40, noise=0.1)
    model = AltGDmin(threads=1).fit_data(data)
    assert model.rank_ == 3
    assert model.B_.shape == (25, 3)
    assert np.all(model.singular_values_ > 1)
    assert np.all(np.diff(model.singular_values_) <= 0)


def test_auto_without_signal_uses_one_direction_and_says_so():
    data, _ = problem(n=30)
    data = data.replace_y(np.random.default_rng(0).standard_normal(450))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = AltGDmin(threads=1).fit_data(data)
    assert model.rank_ == 1
    assert any("No shared direction stands out" in w for w in model.warnings_)


def test_too_few_rows_to_tell():
    data, _ = problem(n=2, noise=0.01)
    assert direction_snrs(data, np.ones((15, 1)), np.ones(15))[1] == [0.0]


def test_noise_variance_counts_degrees_of_freedom():
    data, _ = problem(n=10, noise=0.3, T=40)
    found = scan(data, max_rank=2)
    solution = found.solution
    assert noise_variance(data, solution) == pytest.approx(solution.objective / (400 - 80 - 20))
    assert noise_variance(data, solution, intercepts=True) == pytest.approx(
        solution.objective / (400 - 120 - 20)
    )
    assert noise_variance(data, solution, 0.5) == 0.5
    assert noise_variance(data, solution) == pytest.approx(0.09, rel=0.2)


def test_whitened_basis_is_the_same_model():
    data, _ = problem()
    whitening, solution = Whitening.of(data), scan(data, max_rank=2).solution
    basis, W = whiten_basis(whitening, solution.B, solution.W)
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(whitening.A @ basis @ W.T, solution.B @ solution.W, atol=1e-10)
