"""The rank that predicts best: its likelihood by brute force, and designs where strong directions mislead."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from banister import AltGDmin
from banister.estimators.prediction import criterion, log_likelihood
from banister.estimators.rank import scan_ranks
from banister.estimators.shrinkage import Moments, random_effects
from banister.solver import Whitening
from problems import problem, pupils


def test_the_likelihood_is_that_of_all_rewards_together():
    """Against the density of each task's rewards, whose covariance is `Z Σ Z' + σ² I`."""
    data, _ = problem(d=5, T=6, r=2, counts=[1, 3, 4, 6, 9, 12], noise=0.5)
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 2)))[0]
    moments = Moments.of(data, B)
    effects = random_effects(moments, dim=5)
    brute = 0.0
    for X, y in data:
        Z = X @ B
        cov = Z @ effects.cov @ Z.T + effects.noise * np.eye(len(y))
        brute += multivariate_normal(Z @ effects.mean, cov).logpdf(y)
    assert log_likelihood(moments, 5) - 0.5 * data.n_rows * np.log(2 * np.pi) == pytest.approx(brute)


def test_the_criterion_takes_off_each_fitted_number():
    data, _ = problem(d=5, T=6, r=2, n=9)
    moments = Moments.of(data, np.eye(5)[:, :2])
    # 2·(5 − 2) of the representation, 2 of the mean, 3 of the covariance, the noise
    assert log_likelihood(moments, 5) - criterion(moments, 5) == pytest.approx(12)


def explained(model, X, y, tasks):
    left = y - model.predict(X, tasks)
    return 1 - np.var(left) / np.var(y)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [0, 1])
def test_auto_is_as_good_as_the_best_fixed_rank_where_shares_differ(seed):
    """Noise alone makes directions stand out here; on held-out rows auto loses no more than 0.005."""
    X, y, tasks = pupils(T=70, sizes=(3, 2, 3), noise=9.0, seed=seed)
    test = np.random.default_rng(seed).random(len(y)) < 0.25
    train = ~test
    models = {rank: AltGDmin(rank).fit(X[train], y[train], tasks[train]) for rank in ("auto", 1, 2, 3, 4)}
    found = {rank: explained(m, X[test], y[test], tasks[test]) for rank, m in models.items()}
    auto = found.pop("auto")
    assert auto > max(found.values()) - 0.005
    data = models["auto"]._data
    standing = scan_ranks(data, Whitening.of(data), rng=np.random.default_rng(0)).rank
    assert models["auto"].rank_ < standing  # which is what the criterion is for


def test_auto_goes_on_to_higher_ranks_while_they_help():
    data, _ = problem(d=20, T=40, r=6, n=40, noise=0.1)
    assert AltGDmin().fit_data(data).rank_ == 6
