"""The certificate: may this action be played now, and why (not)?

It is a frozen model: estimates `θ̂_t`, their covariances `V_t`, a quantile `z_t` and the state of each
task's gate. An action is certified when its lower bound `x'θ̂_t − z_t √(x'V_t x)` clears the floor; the best
certified action is played. A request's own baseline reward, where known, is used twice: a contradiction
with the model shuts the task's gate, and otherwise it sharpens every estimate of that request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import binom

from banister.contract import Choices, Outcomes, Requests
from banister.data import Float, Int
from banister.safety import _kernels, checks
from banister.safety.constraint import Constraint
from banister.safety.scales import Scales

_WATCHED = 20  # rewards at once from which a drift can be told
_LARGE = (
    0.05  # share of rewards that may exceed the usual size: estimates are not exact, and 1 % did in the fit
)
_ALARM = 1e-6

NOT_CLEARED = "fallback:no-action-clears"
NEW_TASK = "fallback:new-task"


@dataclass(frozen=True, eq=False)
class Certificate:
    """A frozen model of every task and what it may be trusted with.

    Attributes:
        theta: (T, d) estimates.
        V: (T, d, d) covariances, everything included.
        z: (T,) quantiles.
        shut: (T,) codes of `checks`, 0 where a task's gate is open; requests may shut more.
        scales: noise levels.
        slack: how many standard errors of a baseline reward the floor allows for.
        rank: of the fit; 0 if there was none.
        surprises: (2,) tasks whose baseline reward has contradicted the model so far, and how many of them
            are taken for a drift that shuts every gate.
        usual: the size of standardised reward residuals that one in a hundred exceeds.
    """

    theta: Float
    V: Float
    z: Float
    shut: Int
    scales: Scales
    slack: float
    rank: int = 0
    surprises: Int = field(default_factory=lambda: np.array([0, np.iinfo(np.int64).max]))
    usual: float = np.inf
    details: dict[str, float] = field(default_factory=dict)

    @classmethod
    def closed(
        cls,
        n_tasks: int,
        dim: int,
        reason: int = checks.NO_DATA,
        estimate: Float | None = None,
        rank: int = 0,
    ) -> Certificate:
        """Nothing is certified; `estimate` (T, d) is kept for those who want to see it."""
        return cls(
            np.zeros((n_tasks, dim)) if estimate is None else estimate,
            np.zeros((0, dim, dim)),
            np.ones(n_tasks),
            np.full(n_tasks, reason),
            Scales(np.ones(max(n_tasks, 1))),
            0.0,
            rank,
        )

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.theta)

    @property
    def opened(self) -> bool:
        """Whether any task's gate is open."""
        return bool((self.shut == checks.OPEN).any())

    @property
    def undecided(self) -> bool:
        """Whether everything is shut only because the fit did not settle, for which nobody is to blame."""
        return bool((self.shut == checks.UNDECIDED).all())

    @property
    def drifted(self) -> bool:
        """Whether the world no longer fits the model: a drift shut every gate."""
        return bool((self.shut == checks.DRIFT).all())

    def watch(self, outcomes: Outcomes) -> None:
        """Compare rewards with the model; far more large residuals than usual are a drift."""
        known = outcomes.task < self.n_tasks
        if not self.opened or known.sum() < _WATCHED:
            return
        task, X = outcomes.task[known], outcomes.features[known]
        error = outcomes.reward[known] - np.einsum("nd,nd->n", X, self.theta[task])
        large = int(np.sum(np.abs(error) > self.usual * self.scales.play[task]))
        if binom.sf(large - 1, len(error), _LARGE) < _ALARM:
            self.shut[:] = checks.DRIFT

    def judge(self, requests: Requests, constraint: Constraint) -> Choices:
        """The best certified action of each request, or its baseline with the reason why nothing is."""
        fallback = Choices.of_baseline(requests)
        known_task = requests.task < self.n_tasks
        if not self.opened or not known_task.any():
            return self._all_shut(requests, constraint, fallback)
        chosen, bound, floor, code = self._run(requests, constraint, known_task)
        return _explained(requests, fallback, chosen, bound, floor, code, known_task)

    def _run(
        self, requests: Requests, constraint: Constraint, known_task: Float
    ) -> tuple[Int, Float, Float, Int]:
        m = len(requests)
        chosen, code = np.full(m, -1), np.zeros(m, dtype=np.int64)
        bound, floor = np.full(m, np.nan), np.full(m, np.nan)
        std = np.asarray(requests.baseline_reward_std)
        arguments = (
            requests.task,
            requests.actions,
            requests.baseline_features(),
            requests.baseline_index(),
            requests.baseline_reward,
            self.scales.of_labels(std),
            self.slack * self.scales.beyond_doubt(std),
        )
        if not known_task.all():
            arguments = tuple(a[known_task] for a in arguments)
        results = [a[known_task] for a in (chosen, bound, floor, code)]
        self.apply(constraint, arguments, results)
        for whole, part in zip((chosen, bound, floor, code), results, strict=True):
            whole[known_task] = part
        return chosen, bound, floor, code

    def apply(self, constraint: Constraint, columns: Sequence[Any], results: Sequence[Any]) -> None:
        """Judge clean columns of requests into arrays given: the kernel as this certificate feeds it.

        Args:
            constraint: the floor.
            columns: task, actions, baseline features, index, baseline reward, its error and its slack.
            results: chosen, bound, floor, code; see `_kernels.judge`.
        """
        _kernels.judge(
            *columns, constraint.literal, constraint.alpha,
            self.theta, self.V, self.z, self.shut, self.surprises, *results,
        )  # fmt: skip

    def _all_shut(self, requests: Requests, constraint: Constraint, fallback: Choices) -> Choices:
        known = requests.task < self.n_tasks
        reason = np.full(len(requests), NEW_TASK, dtype=object)
        names = np.array(checks.REASONS, dtype=object)
        reason[known] = names[self.shut[requests.task[known]]]
        floor = constraint.floor(requests.baseline_reward)
        return Choices(
            fallback.features, fallback.index, fallback.certified, fallback.lower_bound, floor, reason
        )


def _explained(
    requests: Requests,
    fallback: Choices,
    chosen: Int,
    bound: Float,
    floor: Float,
    code: Int,
    known_task: Float,
) -> Choices:
    certified = chosen >= 0
    features = fallback.features
    if certified.any():
        rows = np.flatnonzero(certified)
        features = features.copy() if features.base is not None or features is fallback.features else features
        features[rows] = requests.actions[rows, chosen[rows]]
    reason = np.empty(len(requests), dtype=object)
    names = np.array(checks.REASONS, dtype=object)
    cleared = code != _kernels.NOT_CLEARED
    reason[cleared] = names[code[cleared]]
    reason[~cleared] = NOT_CLEARED
    reason[~known_task.astype(bool)] = NEW_TASK
    return Choices(features, np.where(certified, chosen, fallback.index), certified, bound, floor, reason)
