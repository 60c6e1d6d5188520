"""Stage-wise conservative linear bandits: what their Thompson sampling and their UCB share.

Moradipari, Thrampoulidis and Alizadeh 2020, one bandit per task. In every round, for every task:

    V = λI + Σ xx',   θ̂ = V⁻¹ Σ xy,   β = R √(d log((1 + nL²/λ)/δ')) + √λ S
    safe set: the actions with  x'θ̂ − β‖x‖_{V⁻¹} ≥ floor
    play the preferred action of the safe set; if it is empty, the conservative mixture (1−ρ)x_b + ρζ.

| symbol | here | meaning |
| --- | --- | --- |
| R | `noise` | sub-Gaussian level of the noise |
| S | `norm_bound` | bound on ‖θ_t‖ |
| L | the longest action offered so far | bound on ‖x‖; it is seen, so it is not asked for |
| δ' | `delta` / T | so that all tasks' intervals hold at all times with probability 1 − `delta` |
| n | rows of the task so far | |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, Self

import numpy as np

from banister.contract import Bool, Choices, Environment, Outcomes, Requests
from banister.data import Float, Int
from banister.policies import _ridge_kernels as kernels
from banister.policies._checks import (
    check_choice,
    check_count,
    check_levels,
    check_positive,
    check_probability,
)
from banister.policies._reset import NeedsReset
from banister.policies._ridge import RunningRidge
from banister.safety.constraint import Constraint
from banister.safety.exploration import ConservativeMixture
from banister.safety.norm_guess import NormGuess
from banister.safety.reasons import Reason

# A label has no noise, so it may weigh as much as one likes: the confidence set holds for any weights. The
# widths along labels shrink by its root, the radius grows only with its logarithm. At the default setting
# with noise 0.3 Thompson's regret is 3,566 at weight 1, 2,675 at 1e4, 1,815 at 1e6; more is rounding's risk.
LABEL_WEIGHT = 1e6


class ConservativeBandit(NeedsReset, ABC):
    """One ridge regression per task, a safe set, and the conservative mixture where it is empty.

    A subclass says which action of the safe set it prefers.
    """

    block: int | None = 1
    certifies = True  # whether plays from the safe set may be called certified
    reason = Reason.CERTIFIED

    def __init__(
        self,
        alpha: float = 0.2,
        *,
        lam: float = 1e-3,
        noise: float | None = None,
        norm_bound: float | Float | None = None,
        delta: float = 0.01,
        radius: Literal["determinant", "source"] = "determinant",
        wait_for_eigenvalue: bool = False,
        least_gap: float = 0.0,
        labels: bool = False,
        mixing: bool = True,
        horizon: int = 200,
        literal_floor: bool = False,
    ) -> None:
        self.constraint = Constraint(alpha, literal_floor)
        self.alpha = alpha
        self.lam, self.delta = check_positive("lam", lam), check_probability("delta", delta)
        check_levels("noise", noise)
        check_levels("norm_bound", norm_bound)
        check_levels("least_gap", least_gap)
        check_choice("radius", radius, ("determinant", "source"))
        self.noise, self.norm_bound, self.radius = noise, norm_bound, radius
        self.wait_for_eigenvalue, self.least_gap = wait_for_eigenvalue, least_gap
        self.labels, self.mixing, self.horizon = labels, mixing, check_count("horizon", horizon)

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls()

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        self.n_tasks, self.rng = n_tasks, rng
        self._ridge: RunningRidge | None = None
        self._norms = NormGuess(n_tasks, delta=self.delta)
        self._longest = 0.0

    @property
    def theta(self) -> Float | None:
        """The ridge estimates, (d, T); None before the first reward."""
        if self._ridge is None or not self._ridge.rows.any():
            return None
        return self._ridge.theta.T

    def decide(self, requests: Requests) -> Choices:
        """The preferred safe action, else the mixture."""
        self._see(requests)
        ridge = self._statistics(requests.dim)
        norms = self._norm_bounds()
        radius = self._radius(ridge, norms)
        floor = self.constraint.floor(requests.baseline_reward + self._slack(requests))
        prefer, optimism = self._preference(requests, ridge, radius)
        chosen, bound = np.empty(len(requests), dtype=np.int64), np.empty(len(requests))
        kernels.choose(
            requests.task, np.ascontiguousarray(requests.actions), requests.baseline_features(), floor,
            np.array(self.constraint.factors), self._shut(requests, ridge, radius, floor), ridge.root,
            ridge.theta, radius, prefer, optimism, chosen, bound,
        )  # fmt: skip
        return self._answer(requests, chosen, bound, floor, norms)

    def learn(self, outcomes: Outcomes) -> None:
        """Take in rewards: a rank-one update each."""
        if len(outcomes):
            self._absorb(outcomes)

    def _absorb(self, outcomes: Outcomes, *, exact: bool = False) -> None:
        self._statistics(outcomes.features.shape[1]).update(outcomes, exact=exact)

    def end_epoch(self) -> None:
        """The fixed epochs of the paper mean nothing here."""

    @abstractmethod
    def _preference(self, requests: Requests, ridge: RunningRidge, radius: Float) -> tuple[Float, float]:
        """Parameters (m, d) to rank safe actions by, and the weight of their width in the ranking."""

    def _statistics(self, dim: int) -> RunningRidge:
        if self._ridge is None:
            self._ridge = RunningRidge(self.n_tasks, dim, lam=self.lam)
        return self._ridge

    def _see(self, requests: Requests) -> None:
        squares = np.einsum("mkd,mkd->mk", requests.actions, requests.actions)
        self._longest = max(self._longest, float(np.sqrt(squares.max(initial=0.0))))
        if self.norm_bound is None:
            self._see_norms(requests)
        if self.labels:
            self._see_labels(requests)

    def _see_labels(self, requests: Requests) -> None:
        """A baseline reward that is known exactly is a row without noise, of any weight."""
        known = ~np.isnan(requests.baseline_reward) & (np.asarray(requests.baseline_reward_std) == 0)
        if known.any():
            x, r = requests.baseline_features()[known], requests.baseline_reward[known]
            root = np.sqrt(LABEL_WEIGHT)
            self._absorb(Outcomes(requests.task[known], root * x, root * r), exact=True)

    def _see_norms(self, requests: Requests) -> None:
        self._norms.see(requests)

    def _norm_bounds(self) -> Float:
        if self.norm_bound is None:
            return self._norms.bound()
        return np.array(np.broadcast_to(np.asarray(self.norm_bound, dtype=float), self.n_tasks))

    def _radius(self, ridge: RunningRidge, norms: Float) -> Float:
        """β of each task, (T,).

        Both forms bound the same quantity (Abbasi-Yadkori, Pál and Szepesvári 2011, Theorem 2). "determinant"
        is their own, `R √(log det(V/λ) + 2 log(1/δ'))`; "source" replaces the determinant by what it can be
        at most, and is larger.
        """
        noise = ridge.noise_level() if self.noise is None else self.noise
        dim, fail = ridge.theta.shape[1], self.delta / self.n_tasks
        if self.radius == "determinant":
            spread = ridge.log_det - 2.0 * np.log(fail)
        else:
            spread = dim * np.log((1.0 + ridge.rows * self._longest**2 / self.lam) / fail)
        return np.asarray(noise * np.sqrt(spread) + np.sqrt(self.lam) * norms)

    def _slack(self, requests: Requests) -> Float:
        """What the floor allows for a baseline reward that is itself an estimate."""
        deviations = np.sqrt(2.0 * np.log(self.horizon * self.n_tasks / self.delta))
        return np.asarray(deviations * requests.baseline_reward_std)

    def _shut(self, requests: Requests, ridge: RunningRidge, radius: Float, floor: Float) -> Bool:
        """The source's waiting rule: nothing is certified while `λ_min(V) < (2Lβ/(κ_l + α r_b))²`."""
        if not self.wait_for_eigenvalue:
            return np.zeros(len(requests), dtype=bool)
        # κ_l + α|r_b|, by how much the best action clears the floor at least; unknown r_b: the gap alone.
        room = self.least_gap + np.nan_to_num(requests.baseline_reward - floor)
        needed = np.full(len(requests), np.inf)  # no room: no eigenvalue is large enough
        np.divide(2.0 * self._longest * radius[requests.task], room, out=needed, where=room > 0)
        needed = np.square(needed)
        # λ_min ≤ d / tr V⁻¹: mostly this cheap bound says no already.
        shut: Bool = ~(ridge.theta.shape[1] / ridge.trace[requests.task] >= needed)
        for n in np.flatnonzero(~shut):
            shut[n] = ridge.least_eigenvalue(int(requests.task[n])) < needed[n]
        return shut

    def _answer(self, requests: Requests, chosen: Int, bound: Float, floor: Float, norms: Float) -> Choices:
        safe = chosen >= 0
        answer = Choices(
            requests.actions[np.arange(len(requests)), chosen],
            chosen,
            safe & self.certifies,
            bound,
            floor,
            np.full(len(requests), self.reason, dtype=object),
        )
        rest = np.flatnonzero(~safe)
        if len(rest):
            _overwrite(answer, rest, self._mixture(norms).choose(requests[rest], self.constraint, self.rng))
        return answer

    def _mixture(self, norms: Float) -> ConservativeMixture:
        return ConservativeMixture(
            plays=self.horizon * self.n_tasks, norm_bound=norms, delta=self.delta, mixing=self.mixing
        )


def _overwrite(answer: Choices, rows: Int, other: Choices) -> None:
    """Put the choices `other` into the given rows of a fresh answer; the floor stays."""
    answer.features[rows], answer.index[rows] = other.features, other.index
    answer.lower_bound[rows], answer.reason[rows] = other.lower_bound, other.reason
