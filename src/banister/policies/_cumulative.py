"""Conservative bandits whose promise is about totals: what CLUCB and its improvement share.

One bandit per task. Over all rounds so far a task must have earned `f · Σ x_b'θ` at least, f = 1 − α (and
1 + α while that sum is negative, as in `Constraint`). Split by what is known of each round:

    left     Σ x of plays that left the baseline, and Σ x_b of baselines played whose reward is unknown
    earned   Σ r_b of baselines played whose reward is known
    asked    Σ x_b of all rounds whose baseline reward is unknown
    owed     Σ r_b of all rounds whose baseline reward is known

Playing x keeps the promise if, for one f,

    (left + x − f·asked)'θ + earned − f·owed ≥ 0   for the worst θ of the confidence set.

With every r_b known this is the rule of CLUCB; with none known, that of its variant for unknown baselines.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from banister.contract import Bool, Choices, Requests
from banister.data import Float, Int
from banister.policies._conservative import ConservativeBandit
from banister.policies._ridge import RunningRidge
from banister.safety.reasons import Reason


class CumulativeBandit(ConservativeBandit):
    """Optimism held back by the total so far; a subclass says which action that allows is played.

    None of its choices is called certified: a single play may well be below its own floor.
    """

    def __init__(
        self,
        alpha: float = 0.2,
        *,
        lam: float = 1e-3,
        noise: float | None = None,
        norm_bound: float | Float | None = None,
        delta: float = 0.01,
        radius: Literal["determinant", "source"] = "determinant",
        labels: bool = False,
        literal_floor: bool = False,
    ) -> None:
        super().__init__(
            alpha, lam=lam, noise=noise, norm_bound=norm_bound, delta=delta, radius=radius, labels=labels,
            mixing=False, literal_floor=literal_floor,
        )  # fmt: skip

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        super().reset(n_tasks, rng)
        self._left: Float = np.zeros((n_tasks, 0))
        self._asked = self._left
        self._earned, self._owed = np.zeros(n_tasks), np.zeros(n_tasks)

    def decide(self, requests: Requests) -> Choices:
        """The preferred action that keeps the total, else the baseline."""
        self._see(requests)
        self._size(requests.dim)
        ridge = self._statistics(requests.dim)
        radius = self._radius(ridge, self._norm_bounds())
        index = np.empty(len(requests), dtype=np.int64)
        for rows in occurrences(requests.task):
            index[rows] = self._decide_once(requests[rows], ridge, radius)
        return self._chosen(requests, index)

    def _size(self, dim: int) -> None:
        """The first requests say how long features are."""
        if self._left.shape[1] != dim:
            self._left, self._asked = np.zeros((self.n_tasks, dim)), np.zeros((self.n_tasks, dim))

    def _decide_once(self, asked: Requests, ridge: RunningRidge, radius: Float) -> Int:
        """One request a task: the action, or −1 for the baseline; the totals are brought up to date."""
        self._owe(asked)
        task = asked.task
        offered = Turned.of(asked.actions, task, ridge)
        mean, width = offered.bounds(radius[task])
        sure = np.isfinite(radius[task])
        margin = np.where(sure[:, None], self._margins(asked, offered, ridge, radius), -np.inf)
        index = np.where(sure, self._pick(mean + width, margin), -1)
        index = np.where(index == asked.baseline_index(), -1, index)
        self._take(asked, index)
        return index

    @abstractmethod
    def _pick(self, upper: Float, margin: Float) -> Int:
        """The action (m,) by upper bounds and by how much each clears the promise, (m, K); −1 for none."""

    def _margins(self, asked: Requests, offered: Turned, ridge: RunningRidge, radius: Float) -> Float:
        """By how much each action surely clears the promise, (m, K)."""
        return self._joint(asked.task, offered, self._left[asked.task], ridge, radius)

    def _joint(self, task: Int, offered: Turned, left: Float, ridge: RunningRidge, radius: Float) -> Float:
        """The worst θ for past plays (m, d) and what is offered together: the best of the factors f."""
        owed, unknown = self._owed[task], self._asked[task]
        margins: list[Float] = []
        for factor in self.constraint.factors:
            if unknown.any() or not margins:  # if every reward was known, θ matters only for what was played
                past = Turned.of((left - factor * unknown)[:, None], task, ridge)
                mean, width = (offered + past).bounds(radius[task])
            margins.append(mean - width + (self._earned[task] - factor * owed)[:, None])
        best: Float = np.max(margins, axis=0)
        return best

    def _owe(self, asked: Requests) -> None:
        """The rounds' baselines join what is owed."""
        known = known_rewards(asked)
        self._owed[asked.task[known]] += asked.baseline_reward[known]
        self._asked[asked.task[~known]] += asked.baseline_features()[~known]

    def _take(self, asked: Requests, index: Int) -> None:
        """What is played joins the totals."""
        known, stays = known_rewards(asked), index < 0
        self._earned[asked.task[stays & known]] += asked.baseline_reward[stays & known]
        features = np.where(
            stays[:, None], asked.baseline_features(), asked.actions[range(len(asked)), index]
        )
        moves = ~(stays & known)
        self._join(asked.task[moves], features[moves])

    def _join(self, task: Int, features: Float) -> None:
        """Plays whose worth is not known, one a task."""
        self._left[task] += features

    def _chosen(self, requests: Requests, index: Int) -> Choices:
        answer = Choices.of_baseline(requests, Reason.BASELINE)
        rows = np.flatnonzero(index >= 0)
        features, places = answer.features.copy(), answer.index.copy()
        features[rows], places[rows] = requests.actions[rows, index[rows]], index[rows]
        reason = np.where(index >= 0, Reason.CUMULATIVE, Reason.BASELINE).astype(object)
        return Choices(features, places, answer.certified, answer.lower_bound, answer.floor, reason)

    def _preference(self, requests: Requests, ridge: RunningRidge, radius: Float) -> tuple[Float, float]:
        raise NotImplementedError("the cumulative rule picks by `_pick`")


def known_rewards(asked: Requests) -> Bool:
    """Whose baseline reward is known exactly; one that is itself an estimate counts as unknown."""
    known: Bool = ~np.isnan(asked.baseline_reward) & (np.asarray(asked.baseline_reward_std) == 0)
    return known


@dataclass(frozen=True, eq=False)
class Turned:
    """Features (m, k, d) as their tasks' estimates see them: `x'θ̂` (m, k) and `S'x` (m, k, d).

    Both are linear in x, so what an action and the past are worth together is a sum, at d operations each.
    """

    mean: Float
    turned: Float

    @classmethod
    def of(cls, features: Float, task: Int, ridge: RunningRidge) -> Turned:
        """One request a task; nothing large is copied where every task asks, in order."""
        everyone = len(task) == len(ridge.rows) and bool((np.diff(task) > 0).all())
        theta, root = (ridge.theta, ridge.root) if everyone else (ridge.theta[task], ridge.root[task])
        return cls((features @ theta[:, :, None])[:, :, 0], features @ root)

    def __add__(self, other: Turned) -> Turned:
        return Turned(self.mean + other.mean, self.turned + other.turned)

    def bounds(self, radius: Float) -> tuple[Float, Float]:
        """`x'θ̂` and `β‖x‖_{V⁻¹}`, each (m, k), for radii β (m,)."""
        length = np.sqrt(np.einsum("mkd,mkd->mk", self.turned, self.turned))
        return self.mean, np.where(length > 0, radius[:, None], 0.0) * length


def occurrences(task: Int) -> Iterator[Int]:
    """Rows in which each task appears once: first every task's first request, then its second, and so on.

    Examples:
        >>> [rows.tolist() for rows in occurrences(np.array([0, 1, 0, 0]))]
        [[0, 1], [2], [3]]
    """
    order = np.argsort(task, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(task[order]) != 0][: len(task)])
    place = np.empty(len(task), dtype=np.int64)
    place[order] = np.arange(len(task)) - np.repeat(starts, np.diff(np.r_[starts, len(task)]))
    for n in range(int(place.max(initial=-1)) + 1):
        yield np.flatnonzero(place == n)
