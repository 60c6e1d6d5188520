"""The agents of `promises.py`: the live object, and rules without a promise on a reference belief.

The reference belief is a hierarchical Gaussian one fitted by EM: `θ_t ~ N(μ, Σ)`, Σ a low-rank matrix plus a
multiple of the identity, noise of one variance. An agent has `decide(requests)`, which gives probabilities
(m, K) and what was drawn (m,), and `learn(requests, played, rewards)`.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

import banister as bn
from banister.contract import Requests
from banister.safety.draw import LEAVE, MEMBERS

FIRST_FIT = 300
Float = Any


class Belief:
    """Sums of rows per task, and the posterior that EM makes of them."""

    def __init__(self, tasks: int, dim: int) -> None:
        self.G, self.h = np.zeros((tasks, dim, dim)), np.zeros((tasks, dim))
        self.yy, self.n = np.zeros(tasks), np.zeros(tasks)
        self.prior: tuple[Float, Float, float] | None = None

    def add(self, task: Float, x: Float, y: Float) -> None:
        _add_rows(self.G, self.h, self.yy, self.n, task, x, y)

    def fit(self) -> None:
        mu, sigma, s2 = self.prior or self._start()
        for _ in range(12 if self.prior else 60):
            mean, cov = self._posterior(mu, sigma, s2)
            rss = self.yy - 2 * (mean * self.h).sum(1) + np.einsum("ti,tij,tj->t", mean, self.G, mean)
            s2_new = max((rss.sum() + (self.G * cov).sum()) / self.n.sum(), 1e-9)
            centred = mean - mean.mean(0)
            sigma_new = _low_rank((centred.T @ centred + cov.sum(0)) / len(mean), len(mean))
            change = np.abs(sigma_new - sigma).max() / np.abs(sigma_new).max() + abs(s2_new / s2 - 1)
            mu, sigma, s2 = mean.mean(0), sigma_new, s2_new
            if change < 1e-3:
                break
        self.prior = mu, sigma, s2
        self.mean, cov = self._posterior(mu, sigma, s2)
        precision = np.linalg.inv(sigma)
        doubt = cov @ precision  # what the tasks leave open of μ
        of_mu = np.linalg.pinv((precision - precision @ doubt).sum(0) + 1e-9 * np.trace(precision) * _eye(mu))
        cov = cov + doubt @ of_mu @ doubt.transpose(0, 2, 1)
        self.cov = (cov + cov.transpose(0, 2, 1)) / 2

    def committee(self, rng: np.random.Generator) -> Float:
        jitter = 1e-12 * np.trace(self.cov, axis1=1, axis2=2)[:, None, None] * _eye(self.mean[0])
        root = np.linalg.cholesky(self.cov + jitter)
        z = rng.standard_normal((len(self.mean), MEMBERS, self.mean.shape[1]))
        return np.ascontiguousarray(self.mean[:, None] + LEAVE * z @ root.transpose(0, 2, 1))

    def _start(self) -> tuple[Float, Float, float]:
        G, h = self.G.sum(0), self.h.sum(0)
        mu = np.linalg.solve(G + 1e-3 * np.trace(G) / len(h) * _eye(h), h)
        s2 = max((self.yy.sum() - 2 * mu @ h + mu @ G @ mu) / self.n.sum(), 1e-9)
        return mu, (0.3 * mu @ mu / len(h) + 1e-9) * _eye(h), s2

    def _posterior(self, mu: Float, sigma: Float, s2: float) -> tuple[Float, Float]:
        precision = np.linalg.inv(sigma)
        cov = np.linalg.inv(precision + self.G / s2)
        return np.einsum("tij,tj->ti", cov, precision @ mu + self.h / s2), cov


def _eye(like: Float) -> Float:
    return np.eye(len(like))


def _low_rank(S: Float, tasks: int, most: int = 6) -> Float:
    """S with its smallest eigenvalues replaced by their mean; how many, by the Bayesian criterion."""
    d = len(S)
    w, U = np.linalg.eigh(S)
    w, U = np.maximum(w[::-1], 1e-300), U[:, ::-1]
    ranks = range(min(most, d - 1, tasks - 1) + 1)
    score = [
        -tasks / 2 * (np.log(w[:k]).sum() + (d - k) * np.log(w[k:].mean()))
        - (d * k - k * (k - 1) / 2 + 1) / 2 * np.log(tasks)
        for k in ranks
    ]
    k = int(np.argmax(score))
    rest = max(w[k:].mean(), 1e-8 * w[0])
    return (U[:, :k] * (w[:k] - rest)) @ U[:, :k].T + rest * np.eye(d)


@numba.njit(cache=True)
def _add_rows(G, h, yy, n, task, x, y):  # type: ignore[no-untyped-def]
    for i in range(len(task)):
        t = task[i]
        for a in range(x.shape[1]):
            if x[i, a] != 0.0:
                h[t, a] += x[i, a] * y[i]
                for b in range(x.shape[1]):
                    G[t, a, b] += x[i, a] * x[i, b]
        yy[t] += y[i] ** 2
        n[t] += 1


# Banister's own agents are live `SafeBandit`s, told the range of rewards and nothing else.
LIVE: dict[str, dict[str, Any]] = {
    "task": {"promise": "task"},
    "fleet": {"promise": "fleet"},
    "decision": {"promise": "decision"},
    "decision, no range": {"reward_range": None, "randomise": False},
}
RULES = ("baseline", "thompson", "linear ucb", "epsilon-greedy")  # without a promise
POLICIES = (*LIVE, *RULES)
_EPSILON, _WIDTH = 0.1, 1.5


def make_agent(name: str, world: Any, seed: int, alpha: float = 0.1) -> Any:
    """The agent of that name for a world with `tasks`, `dim`, `low`, `high`."""
    return Live(LIVE[name], world, seed, alpha) if name in LIVE else Rule(name, world, seed)


class Live:
    """A `SafeBandit` as an application holds it."""

    def __init__(self, settings: dict[str, Any], world: Any, seed: int, alpha: float) -> None:
        given = {"reward_range": (world.low, world.high), **settings}
        self.bandit = bn.SafeBandit(alpha=alpha, refits="inline", seed=seed, **given)
        self.names = [f"task {t}" for t in range(world.tasks)]

    def decide(self, requests: Requests) -> tuple[Float, Float]:
        names = [self.names[t] for t in requests.task]
        decisions = self.bandit.decide_many(names, requests.actions, baselines=requests.baseline)
        self.ids = [d.id for d in decisions]
        played = np.array([d.action for d in decisions])
        one = np.eye(requests.actions.shape[1])
        odds = [one[d.action] if d.probabilities is None else d.probabilities for d in decisions]
        return np.array(odds), played

    def learn(self, requests: Requests, played: Float, y: Float) -> None:
        self.bandit.reward_many(self.ids, y.tolist())


class Rule:
    """A learner without a promise, on the reference belief."""

    def __init__(self, name: str, world: Any, seed: int) -> None:
        self.name, self.rng = name, np.random.default_rng((seed, 77))
        self.belief = Belief(world.tasks, world.dim)
        self.seen, self.next_fit = 0, FIRST_FIT

    def decide(self, requests: Requests) -> tuple[Float, Float]:
        odds = self._odds(requests)
        edges = odds.cumsum(1)
        return odds, (edges > self.rng.random(len(odds))[:, None] * edges[:, -1:]).argmax(1)

    def learn(self, requests: Requests, played: Float, y: Float) -> None:
        self.belief.add(requests.task, requests.actions[np.arange(len(y)), played], y)
        self.seen += len(y)
        if self.seen >= self.next_fit and self.name != "baseline":
            self.belief.fit()
            self.members = self.belief.committee(self.rng)
            self.next_fit = 1.2 * self.seen

    def _odds(self, requests: Requests) -> Float:
        K = requests.actions.shape[1]
        one, b = np.eye(K), self.belief
        if self.name == "baseline":
            return one[requests.baseline]
        if b.prior is None:
            return 0.5 * one[requests.baseline] + 0.5 * (1 - one[requests.baseline]) / (K - 1)
        x, scores = requests.actions, requests.scores(b.mean.T)
        if self.name == "thompson":
            best = np.matmul(x, self.members[requests.task].transpose(0, 2, 1)).argmax(1)
            return one[best].mean(1)
        if self.name == "epsilon-greedy":
            return (1 - _EPSILON) * one[scores.argmax(1)] + _EPSILON / K
        spread = np.sqrt(np.einsum("mkd,mkd->mk", np.matmul(x, b.cov[requests.task]), x))
        return one[(scores + _WIDTH * spread).argmax(1)]
