"""The certificate: may this action be played now, and why (not)?

It is a frozen model: estimates `θ̂_t`, their covariances `V_t`, a quantile `z_t` and the state of each
task's gate. An action is certified when its lower bound `x'θ̂_t − z_t √(x'V_t x)` clears the floor; the best
certified action is played. A request's own baseline reward, where known, is used twice: a contradiction
with the model shuts the task's gate, and otherwise it sharpens every estimate of that request.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
from scipy.stats import binom

from banister.contract import Bool, Choices, Outcomes, Requests
from banister.data import Float, Int
from banister.safety import _kernels, checks
from banister.safety.constraint import Constraint
from banister.safety.scales import Scales

_WATCHED = 20  # rewards from which a drift can be told
_LARGE = (
    0.05  # share of rewards that may exceed the usual size: estimates are not exact, and 1 % did in the fit
)
_ALARM = 1e-6

_REASONS = np.array([*checks.REASONS, "fallback:no-action-clears", "fallback:new-task"], dtype=object)
_NEW_TASK = len(_REASONS) - 1


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
        watched: (2,) rewards compared with the model since the last verdict on a drift, and how many of them
            were of unusual size.
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
    watched: Int = field(default_factory=lambda: np.zeros(2, dtype=np.int64))
    details: dict[str, float] = field(default_factory=dict)

    @classmethod
    def closed(
        cls,
        n_tasks: int,
        dim: int,
        reason: int | Int = checks.NO_DATA,
        estimate: Float | None = None,
        rank: int = 0,
    ) -> Certificate:
        """Nothing is certified, for one reason or each task's own (T,); `estimate` (T, d) is kept to see."""
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
        """Whether the world no longer fits this model: a drift shut every gate of it."""
        return self.rank > 0 and bool((self.shut == checks.DRIFT).all())

    def watch(self, outcomes: Outcomes) -> None:
        """Compare rewards with the model; far more large residuals than usual are a drift."""
        known = outcomes.task < self.n_tasks
        if not self.opened or not known.any():
            return
        task, X = outcomes.task[known], outcomes.features[known]
        error = outcomes.reward[known] - np.einsum("nd,nd->n", X, self.theta[task])
        self.watched[:] += len(error), self._unusual(task, X, error)
        if self.watched[0] < _WATCHED:
            return
        if binom.sf(self.watched[1] - 1, self.watched[0], _LARGE) < _ALARM:
            self.shut[:] = checks.DRIFT
        self.watched[:] = 0

    def _unusual(self, task: Int, X: Float, error: Float) -> int:
        """How many errors are larger than the noise and the estimate's own error together make them.

        The latter costs d² a row, so it is computed only where noise alone is not enough.
        """
        noise = self.scales.play[task]
        rows = np.flatnonzero(np.abs(error) > self.usual * noise)
        spread = np.array([X[i] @ self.V[task[i]] @ X[i] for i in rows])
        return int(np.sum(np.abs(error[rows]) > self.usual * np.sqrt(noise[rows] ** 2 + spread)))

    def judge(self, requests: Requests, constraint: Constraint) -> Choices:
        """The best certified action of each request, or its baseline with the reason why nothing is."""
        known = requests.task < self.n_tasks
        if not self.opened or not known.any():
            return self._all_shut(requests, constraint, known)
        if known.all():
            return self._explain(requests, *self._run(requests, constraint))
        return _joined(
            known,
            self.judge(requests[known], constraint),
            self._all_shut(requests[~known], constraint, known[~known]),
        )

    def _run(self, requests: Requests, constraint: Constraint) -> tuple[Int, Float, Float, Int]:
        m, std = len(requests), np.asarray(requests.baseline_reward_std)
        chosen, code = np.empty(m, dtype=np.int64), np.empty(m, dtype=np.int64)
        bound, floor = np.empty(m), np.empty(m)
        _kernels.judge(
            requests.task,
            requests.actions,
            requests.baseline_features(),
            requests.baseline_index(),
            requests.baseline_reward,
            self.scales.of_labels(std),
            self.slack * self.scales.beyond_doubt(std),
            constraint.literal,
            constraint.alpha,
            self.theta,
            self.V,
            self.z,
            self.shut,
            self.surprises,
            chosen,
            bound,
            floor,
            code,
        )
        return chosen, bound, floor, code

    def _explain(self, requests: Requests, chosen: Int, bound: Float, floor: Float, code: Int) -> Choices:
        certified = chosen >= 0
        rows = np.flatnonzero(certified)
        features = np.array(requests.baseline_features())
        features[rows] = requests.actions[rows, chosen[rows]]
        index = np.where(certified, chosen, requests.baseline_index())
        return Choices(features, index, certified, bound, floor, _REASONS[code])

    def _all_shut(self, requests: Requests, constraint: Constraint, known: Bool) -> Choices:
        code = np.full(len(requests), _NEW_TASK)
        code[known] = self.shut[requests.task[known]]
        plain = Choices.of_baseline(requests)
        floor = constraint.floor(requests.baseline_reward)
        return replace(plain, floor=floor, reason=_REASONS[code])


def _joined(first: Bool, one: Choices, other: Choices) -> Choices:
    """Choices of two parts of the requests, put back in their order."""
    order = np.argsort(np.concatenate([np.flatnonzero(first), np.flatnonzero(~first)]))
    columns = [np.concatenate([getattr(one, f.name), getattr(other, f.name)])[order] for f in fields(Choices)]
    return Choices(*columns)
