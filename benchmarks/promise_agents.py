"""The agents of `promises.py`: one reference belief, and what to do with it.

The belief is a hierarchical Gaussian one fitted by EM: `θ_t ~ N(μ, Σ)`, Σ a low-rank matrix plus a multiple
of the identity, noise of one variance. `make_agent` is the seam: an agent has `decide(requests)`, which gives
probabilities (m, K), and `learn(requests, played, probabilities, rewards)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

from banister.contract import Requests
from banister.safety._draw_kernels import ask_many
from banister.safety.betting import Budget, BudgetSettings
from banister.safety.draw import MEMBERS, SPREAD, free_share

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
        return np.ascontiguousarray(self.mean[:, None] + SPREAD * z @ root.transpose(0, 2, 1))

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


@dataclass(kw_only=True)
class Plan:
    """What an agent does: a rule without safety, or the caps that hold the committee back."""

    rule: str = "draw"  # draw, thompson, ucb, greedy, baseline
    budget: str = ""  # "", task, fleet
    z: float = np.inf  # the decision cap's; inf: no such cap for a budget, the free share alone without one
    holdout: float = 0.1
    push: float = 1.0
    epsilon: float = 0.1
    pending: str = "range"
    window: float | None = None
    alarm: float = 0.01
    delta: float = 0.05
    control: bool = False


PLANS = {
    "baseline": Plan(rule="baseline"),
    "free share": Plan(),
    "decision z=4.75": Plan(z=4.75, holdout=0.0),
    "decision z=2": Plan(z=2.0, holdout=0.0),
    "task": Plan(budget="task"),
    "task + cap": Plan(budget="task", z=2.0),
    "fleet": Plan(budget="fleet", pending="mean"),
    "fleet + cap": Plan(budget="fleet", pending="mean", z=1.0),
    "thompson": Plan(rule="thompson"),
    "linear ucb": Plan(rule="ucb"),
    "epsilon-greedy": Plan(rule="greedy"),
}


def make_agent(name: str | Plan, world: Any, seed: int, alpha: float = 0.1) -> Agent:
    """The agent of that name for a world with `tasks`, `dim`, `low`, `high`."""
    return Agent(PLANS[name] if isinstance(name, str) else name, world, seed, alpha)


class Agent:
    def __init__(self, plan: Plan, world: Any, seed: int, alpha: float) -> None:
        self.plan, self.alpha = plan, alpha
        self.rng = np.random.default_rng((seed, 77))
        self.belief = Belief(world.tasks, world.dim)
        settings = BudgetSettings(
            alpha=alpha, low=world.low, high=world.high, delta=plan.delta, pending=plan.pending,
            window=plan.window, alarm=plan.alarm,
        )  # fmt: skip
        self.budget = Budget(world.tasks, settings)
        self.free = free_share(alpha, world.low, r_b_high=world.high)
        self.seen, self.next_fit = 0, FIRST_FIT

    def decide(self, requests: Requests) -> Float:
        m, K, _ = requests.actions.shape
        base = np.zeros((m, K))
        base[np.arange(m), requests.baseline] = 1.0
        even = (1.0 - base) / (K - 1)
        if self.plan.rule == "baseline":
            return base
        if self.belief.prior is None:
            p = self.free if self.plan.rule == "draw" else 0.5
            return (1 - p) * base + p * even
        share, others, wish, cap = np.empty((m, K)), np.empty((m, K)), np.empty(m), np.empty(m)
        free, b = np.full(m, self.free), self.belief
        ask_many(
            requests.task, requests.actions, requests.baseline, self.members, b.mean, b.cov, self.alpha,
            self.plan.z, free, share, others, wish, cap,
        )  # fmt: skip
        if self.plan.rule != "draw":
            return self._unsafe(requests, share)
        p = self._allowed(requests.task, wish, cap, free)
        return (1 - p)[:, None] * base + p[:, None] * others

    def learn(self, requests: Requests, played: Float, probabilities: Float, y: Float) -> None:
        m = len(requests)
        x = requests.actions[np.arange(m), played]
        if self.plan.budget:
            pi_b = probabilities[np.arange(m), requests.baseline]
            free = np.full(m, self.free)
            k = np.full(m, np.nan)
            if self.plan.control and self.belief.prior is not None:
                k = np.einsum("ij,ij->i", requests.baseline_features(), self.belief.mean[requests.task])
            self.budget.sums[:, -2:] = 0.0  # the whole batch has come back
            self.budget.update_many(requests.task, played == requests.baseline, y, pi_b, k, free)
        self.belief.add(requests.task, x, y)
        self.seen += m
        if self.seen >= self.next_fit and self.plan.rule != "baseline":
            self.belief.fit()
            self.members = self.belief.committee(self.rng)
            self.next_fit = 1.2 * self.seen

    def _unsafe(self, requests: Requests, share: Float) -> Float:
        K = share.shape[1]
        if self.plan.rule == "thompson":
            return share
        b = self.belief
        scores = requests.scores(b.mean.T)
        if self.plan.rule == "greedy":
            return (1 - self.plan.epsilon) * np.eye(K)[scores.argmax(1)] + self.plan.epsilon / K
        x = requests.actions
        spread = np.sqrt(np.einsum("mkd,mkd->mk", np.matmul(x, b.cov[requests.task]), x))
        return np.eye(K)[(scores + 1.5 * spread).argmax(1)]

    def _allowed(self, task: Float, wish: Float, cap: Float, free: Float) -> Float:
        plan = self.plan
        wish = np.minimum(wish, 1.0 - plan.holdout)
        if not plan.budget:
            return np.minimum(wish, cap)
        fleet = plan.budget == "fleet"
        if np.isinf(plan.z):
            cap = np.ones(len(task))
        rows = [self.budget.fleet] if fleet else range(self.budget.fleet)
        grow = np.array([self.budget.cap_grow(r, plan.holdout, plan.push) for r in rows])
        cap = np.minimum(cap, grow[0] if fleet else grow[task])
        return self.budget.allot(task, wish, cap, free, fleet=fleet)
