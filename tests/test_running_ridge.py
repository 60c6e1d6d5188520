"""The ridge statistics behind Thompson sampling and UCB: incremental = batch, kernels = plain numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.contract import Outcomes
from banister.policies import _ridge_kernels as kernels
from banister.policies._ridge import RunningRidge
from banister.safety.constraint import Constraint


def rows(seed, n=40, T=3, d=4, noise=0.1):
    rng = np.random.default_rng(seed)
    task, X = rng.integers(T, size=n), rng.standard_normal((n, d))
    theta = rng.standard_normal((T, d))
    return Outcomes(task, X, np.einsum("nd,nd->n", X, theta[task]) + noise * rng.standard_normal(n))


def batch(outcomes, t, lam):
    X, y = outcomes.features[outcomes.task == t], outcomes.reward[outcomes.task == t]
    V = lam * np.eye(X.shape[1]) + X.T @ X
    return V, np.linalg.solve(V, X.T @ y), X, y


def test_two_rows_by_hand():
    ridge = RunningRidge(1, 2, lam=1.0)
    ridge.update(Outcomes(np.array([0, 0]), np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([4.0, 5.0])))
    np.testing.assert_allclose(ridge.root[0] @ ridge.root[0].T, np.diag([1 / 2, 1 / 5]))
    np.testing.assert_allclose(ridge.theta, [[2.0, 2.0]])  # (4/2, 10/5)
    np.testing.assert_allclose(ridge.log_det, np.log(10.0))
    np.testing.assert_allclose(ridge.trace, 0.7)
    np.testing.assert_allclose(ridge.energy, (2.0**2 + 1.0**2) + (2.0**2 + 2.0**2))
    assert ridge.least_eigenvalue(0) == pytest.approx(2.0)
    assert ridge.noise_level() == pytest.approx(np.sqrt(13.0 / (2 - 2 + 0.7)))


@given(seed=st.integers(0, 10**6), lam=st.sampled_from([1e-4, 1e-3, 1.0, 10.0]), chunk=st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_incremental_is_batch(seed, lam, chunk):
    outcomes, ridge = rows(seed), RunningRidge(3, 4, lam=lam)
    for start in range(0, 40, chunk):
        part = slice(start, start + chunk)
        ridge.update(Outcomes(outcomes.task[part], outcomes.features[part], outcomes.reward[part]))
    for t in range(3):
        V, theta, X, y = batch(outcomes, t, lam)
        np.testing.assert_allclose(ridge.theta[t], theta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(ridge.root[t] @ ridge.root[t].T, np.linalg.inv(V), rtol=1e-7, atol=1e-9)
        assert ridge.log_det[t] == pytest.approx(np.linalg.slogdet(V / lam)[1])
        assert ridge.trace[t] == pytest.approx(np.trace(np.linalg.inv(V)), rel=1e-7)
        assert ridge.energy[t] == pytest.approx(np.sum((y - X @ theta) ** 2) + lam * theta @ theta)
        assert ridge.least_eigenvalue(t) == pytest.approx(np.linalg.eigvalsh(V)[0], rel=1e-6)


def test_a_thousand_rows_with_a_small_penalty_lose_no_digits():
    outcomes, ridge = rows(0, n=3000, noise=1e-3), RunningRidge(3, 4, lam=1e-6)
    ridge.update(outcomes)
    for t in range(3):
        np.testing.assert_allclose(ridge.theta[t], batch(outcomes, t, 1e-6)[1], rtol=1e-9)


def test_adopting_shared_sums_is_updating_with_all_rows():
    outcomes = rows(1)
    alone, shared = RunningRidge(1, 4, lam=0.5), RunningRidge(2, 4, lam=0.5)
    alone.update(Outcomes(np.zeros(40, dtype=np.int64), outcomes.features, outcomes.reward))
    X, y = outcomes.features, outcomes.reward
    shared.adopt(0.5 * np.eye(4) + X.T @ X, X.T @ y, float(y @ y), 40)
    for t in range(2):
        np.testing.assert_allclose(shared.theta[t], alone.theta[0])
        np.testing.assert_allclose(shared.root[t] @ shared.root[t].T, alone.root[0] @ alone.root[0].T)
        for name in ("log_det", "trace", "energy", "rows"):
            assert getattr(shared, name)[t] == pytest.approx(getattr(alone, name)[0]), name


def test_noise_is_unknown_before_the_first_row_and_errs_upwards():
    assert RunningRidge(2, 3, lam=1.0).noise_level() == np.inf
    few = RunningRidge(3, 4, lam=1e-3)
    few.update(rows(2, n=6))
    assert few.noise_level() > 0.1
    quiet = RunningRidge(3, 4, lam=1e-3)
    quiet.update(rows(2, n=600, noise=0.0))
    assert 0 < quiet.noise_level() < 0.01


@pytest.mark.statistical
def test_the_noise_level_is_found():
    """200 seeds of 60 rows a task: the mean of σ̂² is within 5 % of σ² = 0.01 (its standard error is 1 %)."""
    levels = []
    for seed in range(200):
        ridge = RunningRidge(3, 4, lam=1e-3)
        ridge.update(rows(seed, n=180))
        levels.append(ridge.noise_level() ** 2)
    assert np.mean(levels) == pytest.approx(0.01, rel=0.05)


def test_samples_are_the_square_root_times_normals():
    ridge = RunningRidge(3, 4, lam=0.1)
    ridge.update(rows(3))
    task, normal, out = (
        np.array([2, 0, 2]),
        np.random.default_rng(0).standard_normal((3, 4)),
        np.empty((3, 4)),
    )
    radius = np.array([0.5, 1.0, 2.0])
    kernels.sample(task, ridge.root, ridge.theta, radius, normal, out)
    plain = ridge.theta[task] + radius[task, None] * np.einsum("nij,nj->ni", ridge.root[task], normal)
    np.testing.assert_allclose(out, plain)


def plain_choose(task, actions, baseline, floor, factors, shut, ridge, radius, prefer, optimism):
    """The kernel in plain numpy: every bound of every action, then the best of the safe ones."""
    chosen = np.full(len(task), -1)
    for n, t in enumerate(task):
        if shut[n] or np.isinf(radius[t]):
            continue
        Vinv = ridge.root[t] @ ridge.root[t].T

        def low(x, t=t, Vinv=Vinv):
            return x @ ridge.theta[t] - radius[t] * np.sqrt(x @ Vinv @ x)

        width = np.array([radius[t] * np.sqrt(x @ Vinv @ x) for x in actions[n]])
        if np.isnan(floor[n]):
            safe = np.array([any(low(x - f * baseline[n]) >= 0 for f in factors) for x in actions[n]])
        else:
            safe = np.array([low(x) >= floor[n] for x in actions[n]])
        if safe.any():
            chosen[n] = np.argmax(np.where(safe, actions[n] @ prefer[n] + optimism * width, -np.inf))
    return chosen


@pytest.mark.parametrize("optimism", [0.0, 1.0])
@pytest.mark.parametrize("known", [True, False])
def test_the_choice_is_that_of_plain_numpy(optimism, known):
    rng, ridge, m = np.random.default_rng(4), RunningRidge(3, 4, lam=0.1), 60
    ridge.update(rows(4, n=30))
    task, actions = rng.integers(3, size=m), rng.standard_normal((m, 5, 4))
    floor = rng.standard_normal(m) - 1.0 if known else np.full(m, np.nan)
    prefer, radius = rng.standard_normal((m, 4)), np.array([0.05, 0.4, np.inf])
    shut, baseline = rng.random(m) < 0.1, actions[:, 0]
    factors = np.array(Constraint(0.2).factors)
    chosen, bound = np.empty(m, dtype=np.int64), np.empty(m)
    kernels.choose(
        task, actions, baseline, floor, factors, shut, ridge.root, ridge.theta, radius, prefer, optimism,
        chosen, bound,
    )  # fmt: skip
    wanted = plain_choose(task, actions, baseline, floor, factors, shut, ridge, radius, prefer, optimism)
    np.testing.assert_array_equal(chosen, wanted)
    assert {-1} < set(chosen.tolist())
    assert np.isnan(bound[chosen < 0]).all()
