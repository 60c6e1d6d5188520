"""What the library is measured against: the same work by plain numpy, SciPy and pyproximal."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.optimize import minimize

from banister.data import Float, TaskData


class Reached(Exception):  # noqa: N818
    """Raised by a callback once a rival has reached its target."""


def batched_pass(X3: Float, Y: Float, B: Float) -> tuple[float, Float]:
    """f and its half gradient by batched numpy; X3 (T, n, d), Y (T, n)."""
    Z = X3 @ B
    Zt = Z.transpose(0, 2, 1)
    W = np.linalg.solve(Zt @ Z, Zt @ Y[..., None])
    E = Y[..., None] - Z @ W
    V = (X3.transpose(0, 2, 1) @ E)[..., 0]
    return float(np.sum(E**2)), -V.T @ W[..., 0]


def loop_pass(data: TaskData, B: Float) -> tuple[float, Float]:
    """The per-task loop with `pinv` that most research code uses."""
    value, gradient = 0.0, np.zeros_like(B)
    for X, y in data:
        w = np.linalg.pinv(X @ B) @ y
        e = y - X @ (B @ w)
        value += float(e @ e)
        gradient -= np.outer(X.T @ e, w)
    return value, gradient


def lbfgs_seconds(data: TaskData, B: Float, W: Float, target: float) -> tuple[float, float]:
    """Seconds of SciPy's L-BFGS on (B, W), analytic gradients, until f ≤ target; and the f it ended at."""
    X3, Y = cube(data)
    d, r = B.shape
    best = [np.inf]

    def value(z: Float) -> tuple[float, Float]:
        B, W = z[: d * r].reshape(d, r), z[d * r :].reshape(-1, r)
        Z = X3 @ B
        E = (Z @ W[..., None])[..., 0] - Y
        V = (E[:, None, :] @ X3)[:, 0]
        f = float(np.sum(E**2))
        best[0] = min(best[0], f)
        return f, 2 * np.concatenate([(V.T @ W).ravel(), (E[:, None, :] @ Z).ravel()])

    def stop(_: Any) -> None:
        if best[0] <= target:
            raise Reached

    start, begin = np.concatenate([B.ravel(), W.T.ravel()]), time.process_time()
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-14, "maxcor": 20}
    with suppress(Reached):
        minimize(value, start, jac=True, method="L-BFGS-B", options=options, callback=stop)
    return time.process_time() - begin, best[0]


def pyproximal_trace_norm(
    data: TaskData, lam: float, optimum: float | None, limit: int
) -> tuple[float, Float]:
    """pyproximal's FISTA on ½ Σ‖y − Xθ‖² + N·lam ‖Θ‖_*: seconds until within 1e-6 of `optimum`, and Θ.

    `lam` and `optimum` are in the normalisation of `TraceNorm` (divided by N). The step is the best safe one,
    1/L; without an optimum it runs for `limit` iterations.
    """
    import pylops
    import pyproximal
    from pyproximal.optimization.primal import ProximalGradient

    X3, Y = cube(data)
    T, n, d = X3.shape
    Xt3 = np.ascontiguousarray(X3.transpose(0, 2, 1))

    class Design(pylops.LinearOperator):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(dtype=np.dtype(float), shape=(T * n, d * T))

        def _matvec(self, z: Float) -> Float:
            return (X3 @ z.reshape(d, T).T[..., None]).ravel()

        def _rmatvec(self, e: Float) -> Float:
            return (Xt3 @ e.reshape(T, n, 1))[..., 0].T.ravel()

    last, watching = [np.zeros(d * T)], [0.0]

    def stop(z: Float) -> None:
        """Our own look at the objective, whose time is not charged to the rival."""
        now = time.process_time()
        last[0] = z
        reached = optimum is not None and trace_norm_objective(data, z.reshape(d, T), lam) <= optimum * (
            1 + 1e-6
        )
        watching[0] += time.process_time() - now
        if reached:
            raise Reached

    steepest = max(float(np.linalg.norm(X, 2)) ** 2 for X in X3)
    loss = pyproximal.L2(Op=Design(), b=Y.ravel())
    nuclear = pyproximal.Nuclear((d, T), data.n_rows * lam)
    settings = {"tau": 1.0 / steepest, "niter": limit, "acceleration": "fista", "callback": stop}
    begin = time.process_time()
    with suppress(Reached):
        ProximalGradient(loss, nuclear, x0=np.zeros(d * T), **settings)
    return time.process_time() - begin - watching[0], last[0].reshape(d, T)


def trace_norm_objective(data: TaskData, theta: Float, lam: float) -> float:
    X3, Y = cube(data)
    E = (X3 @ theta.T[..., None])[..., 0] - Y
    return float(np.sum(E**2) / (2 * data.n_rows) + lam * np.linalg.norm(theta, "nuc"))


def cvxpy_trace_norm(data: TaskData, lam: float) -> float:
    """The optimal objective by cvxpy."""
    import cvxpy as cp

    theta = cp.Variable((data.dim, data.n_tasks))
    loss = sum(cp.sum_squares(y - X @ theta[:, t]) for t, (X, y) in enumerate(data))
    problem = cp.Problem(cp.Minimize(loss / (2 * data.n_rows) + lam * cp.normNuc(theta)))
    return float(problem.solve(solver=cp.SCS, eps=1e-10, max_iters=200_000))


def cube(data: TaskData) -> tuple[Float, Float]:
    """(T, n, d) and (T, n) views of tasks with equal counts."""
    shape = (data.n_tasks, data.n_rows // data.n_tasks)
    return data.X.reshape(*shape, data.dim), data.y.reshape(shape)
