"""One epoch of Algorithm 1: each line by hand on a tiny case, splitting, and where its step fails."""

from __future__ import annotations

import numpy as np
import pytest

from banister.data import TaskData
from banister.estimators._printed_sweep import sweep
from banister.estimators.altgdmin import AltGDmin
from banister.estimators.paper import PaperSolver, estimate_truncation, spectral_init, task_least_squares
from problems import fifth_best, problem, relative_error

# Two tasks of two rows. Task 0: (1,0), (0,1) with y = 1, 2. Task 1: (1,1), (1,-1) with y = 3, 1.
TINY = TaskData.from_rows(
    [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]], [1.0, 2.0, 3.0, 1.0], [0, 0, 1, 1]
)


def test_truncation_constant_by_hand():
    # ‖θ̂_t‖²: (1+4)/2 = 2.5 and (9+1)/2 = 5; κ²μ² ≈ T·max/sum = 2·5/7.5; C̃ = 9 times that.
    assert estimate_truncation(TINY) == pytest.approx(9 * 2 * 5 / 7.5)


def test_spectral_initialisation_by_hand():
    # No truncation: Θ̂0 = ½[(1,2), (3+1, 3−1)] as columns = [[.5, 2], [1, 1]].
    theta0 = np.array([[0.5, 2.0], [1.0, 1.0]])
    B, norm = spectral_init(TINY, 1, truncation=100.0)
    assert norm == pytest.approx(np.linalg.norm(theta0, 2))
    np.testing.assert_allclose(np.abs(B[:, 0]), np.abs(np.linalg.svd(theta0)[0][:, 0]), atol=1e-12)


def test_truncation_drops_large_rewards():
    # α = C̃·mean(y²) = 1.2·15/4 = 4.5 drops y = 3 (9 > 4.5) and keeps 2 (4 ≤ 4.5): task 1 keeps ½(1, −1).
    theta0 = np.array([[0.5, 0.5], [1.0, -0.5]])
    assert spectral_init(TINY, 1, truncation=1.2)[1] == pytest.approx(np.linalg.norm(theta0, 2))


def test_least_squares_by_hand():
    # B = (1, 0): task 0 sees z = (1, 0), w = 1; task 1 sees z = (1, 1), w = 2.
    np.testing.assert_allclose(task_least_squares(TINY, np.array([[1.0], [0.0]])), [[1.0, 2.0]])


def test_one_iteration_by_hand():
    # From B = (1, 0), W = (1, 2): residuals z w − y are (0, −2) and (−1, 1), so the gradient is
    # X_0'(0,−2)·1 + X_1'(−1,1)·2 = (0,−2) + (0,−4) = (0,−6). With σ_max = 1, c = ½ and ρ = 0 the step is
    # γ = .5/1.04², over 2 rows; B ∝ (1, 3γ), and W is the one computed before the step, as printed.
    gamma = 0.5 / 1.04**2
    solution = PaperSolver(iterations=1, sigma_max=1.0).solve(TINY, 1, warm=np.array([[1.0], [0.0]]))
    expected = np.array([1.0, 3 * gamma]) / np.hypot(1.0, 3 * gamma)
    np.testing.assert_allclose(np.abs(solution.B[:, 0]), expected, atol=1e-12)
    np.testing.assert_allclose(solution.W, [[1.0, 2.0]])
    assert solution.history[0] == pytest.approx(4 + 1 + 1)
    assert solution.iterations == 1


def test_step_size_uses_rho():
    solver = PaperSolver(c=0.3, sigma_max=2.0)
    assert solver.step_size(TINY, rho=0.2) == pytest.approx(0.3 / ((1 + 0.04 / 0.36) ** 2 * 4.0))
    # A ρ of the solver's own is not overruled by the one that was played.
    tied = PaperSolver(c=0.3, sigma_max=2.0, rho=0.0)
    assert tied.step_size(TINY, rho=0.2) == pytest.approx(0.3 / (1.04**2 * 4.0))


def test_ragged_tasks_take_the_loop_and_equal_ones_the_batch_to_the_same_result():
    data, _ = problem(T=4, counts=[14, 15, 20, 21])
    equal, _ = problem(T=4, n=15)
    for rows in (data, equal):
        B = np.linalg.qr(np.random.default_rng(0).standard_normal((rows.dim, 2)))[0]
        W = np.column_stack([np.linalg.pinv(X @ B) @ y for X, y in rows])
        np.testing.assert_allclose(task_least_squares(rows, B), W, atol=1e-12)
        gradient = sum(np.outer(X.T @ (X @ B @ w - y), w) for (X, y), w in zip(rows, W.T, strict=True))
        step = np.linalg.qr(B - 0.1 * rows.n_tasks / rows.n_rows * gradient)[0]
        solution = PaperSolver(iterations=1).solve(rows, 2, B, gamma=0.1)
        np.testing.assert_allclose(solution.B @ solution.B.T, step @ step.T, atol=1e-12)


def test_a_sweep_does_what_numpy_does_task_by_task():
    # Tasks without rows, with fewer rows than the rank, with equal rows, and with enough of them.
    fit_on, _ = problem(T=6, counts=[0, 1, 2, 9, 15, 21])
    used, _ = problem(T=6, counts=[3, 4, 5, 0, 8, 7], seed=1)
    fit_on.X[fit_on.offsets[3] : fit_on.offsets[4]] = 1.0
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((used.dim, 3)))[0]
    W, squares, gradient = sweep(fit_on, used, B)
    by_hand = [np.linalg.pinv(X @ B) @ y for X, y in fit_on]
    errors = [X @ B @ w - y for (X, y), w in zip(used, by_hand, strict=True)]
    np.testing.assert_allclose(W, np.column_stack(by_hand), atol=1e-10)
    assert squares == pytest.approx(sum(e @ e for e in errors), rel=1e-10)
    pulls = [np.outer(X.T @ e, w) for (X, _), e, w in zip(used, errors, by_hand, strict=True)]
    np.testing.assert_allclose(gradient, sum(pulls), atol=1e-10)


@pytest.mark.parametrize(("with_init", "parts"), [(True, 7), (False, 6)])
def test_splitting_is_a_partition(with_init, parts):
    data, _ = problem(T=4, counts=[14, 15, 20, 21])
    sets = PaperSolver(iterations=3, split=True)._partition(data, with_init=with_init)
    used = sets if with_init else sets[1:]
    assert len(sets) == 7
    for t, n in enumerate([14, 15, 20, 21]):
        sizes = [s.counts[t] for s in used]
        assert sizes == [n // parts] * parts if n % parts < n // parts else len(set(sizes[:-1])) == 1
    rows = np.concatenate([s.y for s in used])
    assert len(np.unique(rows)) == len(rows)
    assert set(rows) <= set(data.y)


def test_split_fit_runs_and_learns_on_gaussian_data():
    data, theta = problem(n=500, noise=1e-3)
    solver = PaperSolver(iterations=12, split=True)
    solution = solver.solve(data, 2)
    start = spectral_init(solver._partition(data, with_init=True)[0], 2)[0]
    first = start @ task_least_squares(data, start)
    assert relative_error(solution.B @ solution.W, theta) < 0.5 * relative_error(first, theta)


def test_it_solves_gaussian_data():
    data, theta = problem(n=50, noise=1e-3)
    fast = AltGDmin(rank=2, shrink=False).fit_data(data)
    paper = AltGDmin(rank=2, solver=PaperSolver(iterations=300)).fit_data(data)
    assert paper.converged_
    assert paper.objective_ == pytest.approx(fast.objective_, rel=1e-6)
    assert relative_error(paper.theta_, theta) < 2e-3


def test_the_printed_step_oscillates_on_the_fifth_best_action():
    """‖Θ̂0‖ is about a quarter of σ_max = 1 there, so the printed step is far too long."""
    data, theta = fifth_best(d=40, T=40, r=2, n=50, noise=1e-3, seed=0)
    norm = spectral_init(data, 2)[1]
    assert 0.15 < norm < 0.6
    literal = PaperSolver(iterations=100).solve(data, 2)
    assert not literal.converged
    assert relative_error(literal.B @ literal.W, theta) > 0.2
    for remedy in (PaperSolver(iterations=200, sigma_max=1.0), PaperSolver(iterations=200, c=0.02)):
        solution = remedy.solve(data, 2)
        assert relative_error(solution.B @ solution.W, theta) < 0.01


def test_a_literal_fit_that_fails_says_so():
    data, _ = fifth_best(d=40, T=40, r=2, n=50, noise=1e-3, seed=0)
    with pytest.warns(Warning, match="stopping rule"):
        model = AltGDmin(rank=2, solver="paper").fit_data(data)
    assert not model.converged_
