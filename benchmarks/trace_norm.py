"""TraceNorm against cvxpy (small) and pyproximal (d = T = 100): objective on one lam, and time.

Run with one BLAS thread: `OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/trace_norm.py`.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from banister.data import TaskData
from banister.estimators._gram import QuadraticLoss
from banister.estimators._trace_tuning import rate_penalty
from banister.estimators.trace_norm import TraceNorm


def low_rank_data(d, T, n, r, noise, seed=0):
    """Gaussian rows of the paper's model: orthonormal B and rows of W."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((d, r)))[0]
    W = np.linalg.qr(rng.standard_normal((T, r)))[0].T
    codes = np.repeat(np.arange(T), n)
    X = rng.standard_normal((T * n, d))
    y = np.einsum("ij,ji->i", X, (B @ W)[:, codes]) + noise * rng.standard_normal(T * n)
    return TaskData.from_codes(X, y, codes, np.arange(T)), B @ W


def objective(data, theta, lam):
    fitted = np.einsum("ij,ji->i", data.X, theta[:, data.codes])
    return np.sum((data.y - fitted) ** 2) / (2 * data.n_rows) + lam * np.linalg.norm(theta, "nuc")


def by_cvxpy(data, lam):
    import cvxpy as cp

    theta = cp.Variable((data.dim, data.n_tasks))
    rows = [cp.sum_squares(y - X @ theta[:, t]) for t, (X, y) in enumerate(data)]
    problem = cp.Problem(cp.Minimize(sum(rows) / (2 * data.n_rows) + lam * cp.normNuc(theta)))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return theta.value


def by_pyproximal(data, lam, best, tol=1e-6):
    """Its FISTA with the exact Lipschitz step; iterations double until its objective is within `tol`.

    Only the last run is timed.
    """
    import pylops
    import pyproximal

    N, shape = data.n_rows, (data.n_tasks, data.dim)
    X, y = data.X.reshape(data.n_tasks, -1, data.dim), data.y.reshape(data.n_tasks, -1)
    step = N / max(np.linalg.norm(x, 2) ** 2 for x in X)

    def forward(v):
        return np.matmul(X, v.reshape(shape)[:, :, None]).ravel()

    def adjoint(e):
        return np.matmul(e.reshape(data.n_tasks, 1, -1), X).ravel()

    rows = pylops.FunctionOperator(forward, adjoint, N, data.n_tasks * data.dim, dtype="float64")
    loss = pyproximal.L2(Op=rows, b=y.ravel(), sigma=1.0 / N)
    iterations, start = 50, np.zeros(data.n_tasks * data.dim)
    while True:
        penalty = pyproximal.Nuclear(shape, sigma=lam)
        began = time.perf_counter()
        flat = pyproximal.optimization.primal.ProximalGradient(
            loss, penalty, x0=start, tau=step, niter=iterations, acceleration="fista", show=False
        )
        seconds = time.perf_counter() - began
        theta = np.asarray(flat).reshape(shape).T
        if objective(data, theta, lam) <= best * (1 + tol) or iterations >= 6400:
            return theta, seconds, iterations
        iterations *= 2


def line(case, who, lam, value, best, seconds, iterations, error):
    print(
        f"{case:28s} {who:12s} {lam:9.2e} {value:.10e} {value / best - 1:10.1e} {seconds:9.3f} "
        f"{iterations!s:>6} {error:9.5f}"
    )


def timed(call, repeats=3):
    best = np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - began)
    return result, best


def compare(case, data, truth, lam, oracle):
    reference = TraceNorm(lam=lam, tol=1e-10, max_iter=100_000).fit_data(data)
    model, seconds = timed(lambda: TraceNorm(lam=lam).fit_data(data))
    best, size = reference.objective_, np.linalg.norm(truth)
    for who, theta, took, count in [("banister", model.theta_, seconds, model.n_iter_), oracle(best)]:
        error = np.linalg.norm(theta - truth) / size
        line(case, who, lam, objective(data, theta, lam), best, took, count, error)


def main():
    warnings.simplefilter("ignore")
    print(
        f"{'case':28s} {'solver':12s} {'lam':>9} {'objective':>16} {'above best':>10} {'seconds':>9} "
        f"{'iter':>6} {'error':>9}"
    )
    data, truth = low_rank_data(8, 6, 10, 2, 0.1)
    lam = rate_penalty(QuadraticLoss(data), 0.1)
    theta, seconds = timed(lambda: by_cvxpy(data, lam), 1)
    compare("d=8 T=6 n=10 noise=0.1", data, truth, lam, lambda _: ("cvxpy", theta, seconds, "-"))
    for noise in (1e-3, 0.5):
        data, truth = low_rank_data(100, 100, 50, 2, noise)
        lam = rate_penalty(QuadraticLoss(data), noise)
        case = f"d=T=100 n=50 noise={noise:g}"
        compare(case, data, truth, lam, lambda best: ("pyproximal", *by_pyproximal(data, lam, best)))  # noqa: B023


if __name__ == "__main__":
    main()
