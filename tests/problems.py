"""Problems shared by the estimators' tests: data from a known low-rank truth."""

from __future__ import annotations

import numpy as np

from banister.data import TaskData


def low_rank(d, T, r, rng, *, scale=1.0):
    """Θ (d, T) of rank r with columns of about unit length."""
    return scale * np.linalg.qr(rng.standard_normal((d, r)))[0] @ rng.standard_normal((r, T)) / np.sqrt(r)


def rows_for(counts, d, rng):
    """Gaussian features and the task of each row."""
    counts = np.asarray(counts)
    return rng.standard_normal((int(counts.sum()), d)), np.repeat(np.arange(len(counts)), counts)


def problem(*, d=12, T=15, r=2, n=20, noise=0.1, seed=0, counts=None, dtype=np.float64):
    """(TaskData, Θ) of Gaussian rows; `counts` makes it ragged."""
    rng = np.random.default_rng(seed)
    theta = low_rank(d, T, r, rng)
    X, tasks = rows_for([n] * T if counts is None else counts, d, rng)
    y = np.einsum("ij,ji->i", X, theta[:, tasks]) + noise * rng.standard_normal(len(X))
    return TaskData.from_rows(X, y, tasks, labels=np.arange(T), dtype=dtype), theta


def fifth_best(*, d, T, r, n, noise, seed):
    """(TaskData, Θ) as the paper's baseline collects it: the 5th best of ten Gaussian actions."""
    rng = np.random.default_rng(seed)
    B, W = np.linalg.qr(rng.standard_normal((d, r)))[0], np.linalg.qr(rng.standard_normal((T, r)))[0]
    theta, tasks = B @ W.T, np.repeat(np.arange(T), n)
    actions = rng.standard_normal((T * n, 10, d))
    scores = np.einsum("nkd,dn->nk", actions, theta[:, tasks])
    X = actions[np.arange(T * n), np.argsort(scores, axis=1)[:, 5]]
    y = np.einsum("ij,ji->i", X, theta[:, tasks]) + noise * rng.standard_normal(T * n)
    return TaskData.from_rows(X, y, tasks), theta


def relative_error(model_theta, theta):
    """‖Θ̂ − Θ‖_F / ‖Θ‖_F."""
    return float(np.linalg.norm(model_theta - theta) / np.linalg.norm(theta))


def pupils(*, T=139, noise=11.0, seed=0, sizes=(3, 2, 3, 13)):
    """(X, y, tasks) as in schools: categories whose shares differ between tasks, facts of a task, a constant.

    22 to 251 rows a task. Coefficients are a common mean, two shared directions and a little of each task's
    own. With the default sizes there are 28 features.
    """
    rng = np.random.default_rng(seed)
    counts = np.clip(np.exp(rng.normal(4.55, 0.55, T)).astype(int), 22, 251)
    tasks = np.repeat(np.arange(T), counts)
    columns = []
    for size in sizes:
        shares = rng.dirichlet(np.full(size, 0.5), T)
        columns.append(np.eye(size)[[rng.choice(size, p=shares[t]) for t in tasks]])
    X = np.column_stack([*columns, rng.random((T, 6))[tasks], np.ones(len(tasks))])
    d = X.shape[1]
    own = rng.normal(0, 1, (d, 2)) @ rng.normal(0, 0.8, (2, T)) + 0.5 * rng.normal(0, 1, (d, T))
    theta = np.append(rng.normal(0, 3, d - 1), 20.0)[:, None] + own
    return X, np.einsum("ij,ji->i", X, theta[:, tasks]) + noise * rng.standard_normal(len(tasks)), tasks
