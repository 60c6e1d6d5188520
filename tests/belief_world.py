"""Beliefs made by hand, and what is seen in small worlds, for the tests of judging, watching and learning."""

from __future__ import annotations

import numpy as np

from banister.safety.belief import Belief
from banister.safety.frame import Frame
from banister.safety.seen import Seen

UNKNOWN = np.nan


def belief(mean, V, **settings):
    """A belief of T tasks in plain units: by default no intercept, no left-over, noise one, z = 2."""
    mean, V = np.asarray(mean, dtype=float), np.asarray(V, dtype=float)
    T, p = mean.shape
    values = {
        "frame": Frame(np.ones(p), False),
        "away": np.repeat(np.eye(p)[None], T, axis=0),
        "left": np.zeros(p),
        "noise": np.ones(T),
        "z": np.full(T, 2.0),
        "labelled": np.zeros(T, dtype=bool),
        "label_error": 0.01,
        "known": np.ones(T, dtype=bool),
        "usual": np.zeros(0),
        **settings,
    }
    return Belief(mean=mean, V=V, **values)


class World:
    """T tasks with θ (T, d), a level each, requests of K Gaussian actions and a baseline chosen by rank."""

    def __init__(self, *, T=12, d=4, rank=2, K=6, place=2, noise=0.1, level=1.0, seed=0):
        rng = np.random.default_rng([seed, 0])
        self.T, self.d, self.K, self.place, self.noise = T, d, K, place, noise
        self.theta = rng.normal(size=(T, rank)) @ rng.normal(size=(rank, d)) / np.sqrt(rank)
        self.level = level * rng.normal(size=T) + 2.0
        self.rng = np.random.default_rng([seed, 1])

    def ask(self, m, task=None):
        """(task, actions, baseline's place, expected rewards (m, K)) of m requests."""
        task = np.arange(m) % self.T if task is None else np.full(m, task)
        actions = self.rng.normal(size=(m, self.K, self.d))
        return task, actions, *self._of(task, actions)

    def _of(self, task, actions):
        expected = np.einsum("mkd,md->mk", actions, self.theta[task]) + self.level[task][:, None]
        return np.argsort(-expected, axis=1)[:, self.place], expected

    def seen(self, n, *, claims=True, exact=True):
        """What `n` baselines a task leave behind."""
        task, actions, index, expected = self.ask(n * self.T)
        rows = np.arange(len(task))
        X, r = actions[rows, index], expected[rows, index]
        y = r + self.noise * self.rng.normal(size=len(task))
        known = np.full(len(task), bool(claims))
        claim = r if exact else np.bincount(task, weights=r)[task] / n
        return Seen(
            task, X, y, np.ones(len(task), dtype=bool), np.where(known, claim, np.nan),
            task[known], X[known], claim[known], np.zeros(known.sum()),
            task, actions[rows, rows % self.K],
        )  # fmt: skip


def scaled(seen, features=1.0, rewards=1.0):
    """The same in other units."""
    return seen._replace(
        X=seen.X * features,
        y=seen.y * rewards,
        claim=seen.claim * rewards,
        labelled_features=seen.labelled_features * features,
        label=seen.label * rewards,
        label_std=seen.label_std * rewards,
        offered=seen.offered * features,
    )


def arms_played(task, arm, y, T):
    """Rewards of three fixed arms, the first of them the baseline, without claims."""
    nothing = np.zeros(0)
    return Seen(
        task=task, X=np.eye(3)[arm], y=y, is_baseline=arm == 0, claim=np.full(len(y), UNKNOWN),
        label_task=nothing.astype(int), labelled_features=np.zeros((0, 3)), label=nothing, label_std=nothing,
        offered_task=np.repeat(np.arange(T), 3), offered=np.tile(np.eye(3), (T, 1)),
    )  # fmt: skip
