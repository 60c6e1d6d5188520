"""Checks of single tasks: the U-statistic pair by pair, its law under the model, thresholds by hand."""

import numpy as np
import pytest

from banister.data import TaskData
from banister.safety import checks
from banister.safety.regime import misfit_correlations
from banister.solver import Whitening
from problems import problem


def white(data):
    """The same data with X'X/N = I, so that raw and whitened lengths agree."""
    X = np.sqrt(data.n_rows) * np.linalg.qr(data.X)[0]
    return TaskData(X, data.y, data.offsets, data.labels)


def statistic_of(data, residual, variance):
    correlation = misfit_correlations(data, Whitening.of(data).A, residual)
    return checks.misfit(data, correlation, residual, variance)


def test_the_statistic_is_the_sum_over_pairs():
    data = white(problem(d=6, T=3, n=15, seed=0)[0])
    residual = np.random.default_rng(1).standard_normal(data.n_rows)
    variance = np.array([1.0, 2.0, 0.5])
    by_pairs = []
    for t, (X, _) in enumerate(data):
        e, n, lengths = residual[data.codes == t], len(X), np.sum(X**2, axis=1)
        total = sum(e[i] * e[j] * X[i] @ X[j] for i in range(n) for j in range(n) if i != j)
        pairs = sum(lengths[i] * lengths[j] for i in range(n) for j in range(n) if i != j)
        by_pairs.append(total / variance[t] / np.sqrt(2 * pairs / data.dim))
    np.testing.assert_allclose(statistic_of(data, residual, variance), by_pairs, rtol=1e-4, atol=1e-4)


@pytest.mark.statistical
def test_under_the_model_it_is_standard_and_seldom_large():
    # 2000 tasks: mean within 0.1 of 0, deviation within 15 % of 1, and a skew tail above 4 of at most 1 %.
    data, _ = problem(d=10, T=2000, n=20, seed=2)
    residual = np.random.default_rng(3).standard_normal(data.n_rows)
    statistic = statistic_of(data, residual, np.ones(2000))
    assert abs(statistic.mean()) < 0.1
    assert statistic.std() == pytest.approx(1.0, rel=0.15)
    assert checks.misfitting(statistic).mean() <= 0.01


def test_a_task_outside_the_model_misfits():
    data, _ = problem(d=10, T=15, n=20, seed=4)
    rng = np.random.default_rng(5)
    residual = rng.standard_normal(data.n_rows)
    residual[data.codes == 3] += data.rows_of(3)[0] @ (1.5 * rng.standard_normal(10))
    assert np.flatnonzero(checks.misfitting(statistic_of(data, residual, np.ones(15)))).tolist() == [3]


def test_few_rows_by_hand():
    assert checks.few_rows(np.array([0.0, 4.9, 5.0, 50.0]), 2).tolist() == [True, True, False, False]


def test_baseline_misfit_by_hand():
    data = TaskData.from_codes(np.ones((5, 1)), np.zeros(5), np.array([0, 0, 0, 1, 2]), np.arange(3))
    residual, is_label = np.array([3.0, 4.0, 100.0, 7.0, 2.0]), np.array([1, 1, 0, 0, 1], dtype=bool)
    np.testing.assert_allclose(checks.baseline_rms(residual, is_label, data), [np.sqrt(12.5), 0.0, 2.0])


@pytest.mark.parametrize(
    ("rms", "shut"),
    [
        ([1.0, 1.0, 1.7, 0.0], []),  # within 1.75
        ([1.0, 1.0, 1.8, 0.0], [2]),
        ([0.05, 0.05, 0.05, 0.19, 0.21], [4]),  # exact labels: four times the usual
        ([0.001, 0.001, 0.001, 0.09, 0.11], [4]),  # but never less than a tenth of a standard error
        ([0.0, 0.0, 0.0, 0.0], []),
        ([2.0, 2.0, 2.0, 2.0], [0, 1, 2, 3]),
    ],
)
def test_which_baselines_disagree(rms, shut):
    assert np.flatnonzero(checks.disagreeing(np.array(rms))).tolist() == shut


def test_every_code_has_a_reason_of_its_own():
    assert len(set(checks.REASONS)) == len(checks.REASONS) == checks.RANK + 1
    assert checks.REASONS[checks.OPEN] == "certified"
    assert all(r.startswith("fallback:") for r in checks.REASONS[1:])


def test_a_direction_of_ones_own_needs_rows_of_ones_own():
    # Tasks 0 to 3 share direction 1; task 4 alone has direction 2, which is 10 numbers: 20 rows will do.
    W = np.array([[1.0, 0.0], [2.0, 0.0], [1.5, 0.01], [-1.0, 0.0], [0.3, 1.0]])
    counts = np.full(5, 19.0)
    assert checks.alone(W, counts, np.ones(5), 10).tolist() == [False] * 4 + [True]
    assert not checks.alone(W, counts + 2, np.ones(5), 10).any()
    # With a second task on it neither is alone.
    assert not checks.alone(np.vstack([W, [0.0, 1.2]]), np.full(6, 19.0), np.ones(6), 10)[:4].any()
    assert checks.alone(np.ones((1, 1)), np.array([19.0]), np.ones(1), 10).tolist() == [True]
    assert not checks.alone(np.ones((8, 1)), np.full(8, 3.0), np.ones(8), 10).any()
