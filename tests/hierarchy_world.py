"""Rows of tasks with known θ (T, p), for the tests of the hierarchical fit and of what follows from it."""

from __future__ import annotations

import numpy as np

from banister.safety.factors import Factors
from banister.safety.posterior import Posterior
from banister.safety.rows import Rows


def plays(theta, n, noise, seed=0):
    """(task, Z, y) of `n` Gaussian rows a task; `noise` is one number or one a task."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(len(theta)), n)
    Z = rng.normal(size=(len(task), theta.shape[1]))
    y = np.einsum("np,np->n", Z, theta[task])
    return task, Z, y + np.broadcast_to(noise, len(theta))[task] * rng.normal(size=len(task))


def rows_of(task, Z, y, n_tasks, labels=None, claimed=0.0):
    """`Rows` of plays, and of labels (task, Z, y) if there are some."""
    other = Factors.none(n_tasks, Z.shape[1]) if labels is None else Factors.of(*labels, n_tasks)
    plays = Factors.of(task, Z, y, n_tasks)
    return Rows(plays, other, np.full(n_tasks, claimed), plays.n)


def planted(p, T, k, seed, scale=1.0):
    """θ (T, p) = μ + L w and the directions L (p, k)."""
    rng = np.random.default_rng(seed)
    L = scale * rng.normal(size=(p, k))
    return rng.normal(size=p) + rng.normal(size=(T, k)) @ L.T, L


def given(rows, hierarchy):
    """Each task given what the fit found."""
    info = rows.information(hierarchy.noise.variance, hierarchy.label_level)
    return Posterior(info, hierarchy.shared)
