"""`Synthetic`: the paper's simulated setting, and what life adds to it, each as a parameter."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from banister.contract import Requests
from banister.data import Float, Int
from banister.environments._contexts import CONTEXTS, Fill
from banister.environments._truth import Truth
from banister.environments.base import LinearEnvironment, action_scores
from banister.errors import NotFittedError, SettingError


@dataclass(kw_only=True, eq=False)
class Synthetic(LinearEnvironment):
    """Linear rewards through a shared representation; the defaults are the paper's setting.

    Requests come in round-major order: all tasks of round 0, then of round 1, and so on.

    Args:
        dim, rank, tasks, actions: d, r, T, K.
        baseline_rank: the policy in place plays the action that is this good: 1 the best, 5 the fifth best;
            None: one drawn at random, whose features are Gaussian as the paper's Assumption 3 has them.
        noise_std: standard deviation of the reward noise (the paper's variance is 1e-6).
        noise_law: "gaussian", or "student" for Student's t with 3 degrees of freedom at the same variance.
        noise_spread: task levels run from `noise_std / noise_spread` to `noise_std · noise_spread`.
        contexts: "gaussian", "correlated", "uniform", "non-negative" or "shifted".
        context_options: settings of that distribution: `condition` (correlated, 100), `shift` (shifted, 0.5).
        action_sets: "fresh" in every round, or "fixed" per task for the whole trial.
        normalise: "orthonormal" as in the paper, where `‖θ_t‖ ≈ √(r/T)` shrinks with T; "unit-task" scales Θ
            so that the root mean square of the tasks' norms is 1.
        kappa: ratio of the largest to the smallest of the r singular values of Θ.
        decay: above 0, Θ is not exactly of rank r: later singular values fall by this factor a step.
        imbalance: ratio of the heaviest to the lightest task before W is made orthonormal.
        outliers: how many tasks lie outside the shared subspace.
        traffic_ratio: how many times more often the busiest task asks than the quietest; 1 is lockstep. Rates
            are spread geometrically over the tasks, and a task asks at regular intervals.
        baseline_known: False reports NaN for every baseline reward.
        baseline_reward_std: standard deviation of the error in the reported baseline reward.
        claimed_std: the standard error that requests claim for it; the true one unless given.
        baseline_bias: added to every reported baseline reward.
        drift_at: round from which the tasks' coefficients are others; None: never.
        drift: share of the coefficients that is new then, from 0 to 1.

    Examples:
        >>> env = Synthetic(dim=6, rank=2, tasks=4, actions=3, baseline_rank=2)
        >>> rng = np.random.default_rng(0)
        >>> env.reset(rng)
        >>> requests = env.requests(5, rng)
        >>> requests.actions.shape, np.allclose(requests.baseline_reward, env.baseline(requests))
        ((20, 3, 6), True)
    """

    dim: int = 100
    rank: int = 2
    tasks: int = 100
    actions: int = 10
    baseline_rank: int | None = 5
    noise_std: float = 1e-3
    noise_law: Literal["gaussian", "student"] = "gaussian"
    noise_spread: float = 1.0
    contexts: Literal["gaussian", "correlated", "uniform", "non-negative", "shifted"] = "gaussian"
    context_options: dict[str, Any] = field(default_factory=dict)
    action_sets: Literal["fresh", "fixed"] = "fresh"
    normalise: Literal["orthonormal", "unit-task"] = "orthonormal"
    kappa: float = 1.0
    decay: float = 0.0
    imbalance: float = 1.0
    outliers: int = 0
    traffic_ratio: float = 1.0
    baseline_known: bool = True
    baseline_reward_std: float = 0.0
    claimed_std: float | None = None
    baseline_bias: float = 0.0
    drift_at: int | None = None
    drift: float = 1.0

    def __post_init__(self) -> None:
        super().__init__()
        _check_settings(self)
        self.change_points = () if self.drift_at is None else (self.drift_at,)
        self._thetas: tuple[Float, Float] | None = None

    @classmethod
    def example(cls) -> Self:
        """A small instance for the contract tests."""
        return cls(dim=6, rank=2, tasks=5, actions=4, baseline_rank=2)

    def reset(self, rng: np.random.Generator) -> None:
        """Draw the truth of a new trial: Θ, noise levels, traffic, and action sets that are fixed."""
        self._worth.clear()
        self._thetas = self._truth.draw(rng, drift=0.0 if self.drift_at is None else self.drift)
        levels = np.geomspace(1.0 / self.noise_spread, self.noise_spread, self.tasks)
        self._noise_levels: Float = self.noise_std * rng.permutation(levels)
        self._rates: Float = rng.permutation(np.geomspace(1.0 / self.traffic_ratio, 1.0, self.tasks))
        self._phases: Float = rng.random(self.tasks)
        self._fill: Fill = CONTEXTS[self.contexts](self.dim, rng, **self.context_options)
        self._fixed: Float | None = None
        if self.action_sets == "fixed":
            self._fixed = np.empty((self.tasks, self.actions, self.dim))
            self._fill(rng, self._fixed)

    @property
    def _truth(self) -> Truth:
        return Truth(
            dim=self.dim,
            rank=self.rank,
            tasks=self.tasks,
            kappa=self.kappa,
            decay=self.decay,
            imbalance=self.imbalance,
            outliers=self.outliers,
            unit_task=self.normalise == "unit-task",
        )

    @property
    def n_tasks(self) -> int:
        """T."""
        return self.tasks

    @property
    def theta(self) -> Float:
        """The truth at round 0, shape (d, T); for scoring only."""
        return self.theta_at(0)

    def theta_at(self, round: int) -> Float:  # noqa: A002
        """The truth at a round, shape (d, T)."""
        if self._thetas is None:
            raise NotFittedError("This Synthetic has no truth yet; call reset(rng) to draw one.")
        return self._thetas[self.drift_at is not None and round >= self.drift_at].T

    def requests(self, rounds: int, rng: np.random.Generator, start: int = 0) -> Requests:
        """The requests of `rounds` rounds, the first of which is round number `start`."""
        task, round_ = self._arrivals(rounds, start)
        actions = np.empty((len(task), self.actions, self.dim))
        scores = np.empty((len(task), self.actions))
        error = np.zeros(len(task))
        edges = np.searchsorted(round_, np.arange(start, start + rounds + 1))
        for n in range(rounds):  # a round's actions are scored while they are in the processor's cache
            rows = slice(edges[n], edges[n + 1])
            self._offer(actions[rows], task[rows], rng)
            theta = self.theta_at(start + n).T
            scores[rows] = action_scores(actions[rows], theta[task[rows]])
            if self.baseline_reward_std > 0:
                rng.standard_normal(out=error[rows])
        return self._asked(task, actions, round_, scores, error)

    def noise(self, requests: Requests, rng: np.random.Generator) -> Float:
        """Reward noise of each request, the same whatever is chosen, shape (m,)."""
        m = len(requests)
        student = self.noise_law == "student"
        draws = rng.standard_t(3, m) / np.sqrt(3.0) if student else rng.standard_normal(m)
        noise: Float = self._noise_levels[requests.task] * draws
        return noise

    def _arrivals(self, rounds: int, start: int) -> tuple[Int, Int]:
        """The task and the round of each row. A task of rate p asks whenever `phase + n·p` passes a whole."""
        clock = np.arange(start, start + rounds + 1)[:, None] * self._rates + self._phases
        n, task = np.nonzero(np.diff(np.floor(clock), axis=0))
        return task.astype(np.int64, copy=False), n.astype(np.int64, copy=False) + start

    def _offer(self, out: Float, task: Int, rng: np.random.Generator) -> None:
        if self._fixed is None:
            self._fill(rng, out)
        else:
            np.take(self._fixed, task, axis=0, out=out)

    def _asked(self, task: Int, actions: Float, round_: Int, scores: Float, error: Float) -> Requests:
        if self.baseline_rank is None:
            baseline = np.zeros(
                len(task), dtype=np.int64
            )  # actions come in no order: the first is a random one
        else:
            place = self.actions - self.baseline_rank
            baseline = np.argpartition(scores, place, axis=1)[:, place]
        truth = np.take_along_axis(scores, baseline[:, None], axis=1)[:, 0]
        report = truth + self.baseline_bias + self.baseline_reward_std * error
        if not self.baseline_known:
            report = np.full(len(task), np.nan)
        claimed = self.baseline_reward_std if self.claimed_std is None else self.claimed_std
        return self.remember(Requests(task, actions, baseline, report, claimed, round_), scores)


def _check_settings(env: Synthetic) -> None:
    _check_choice("contexts", env.contexts, tuple(CONTEXTS))
    _check_choice("noise_law", env.noise_law, ("gaussian", "student"))
    _check_choice("action_sets", env.action_sets, ("fresh", "fixed"))
    _check_choice("normalise", env.normalise, ("orthonormal", "unit-task"))
    most = min(env.dim, env.tasks)
    _check_range("rank", env.rank, 1, most, f"with dim={env.dim} and tasks={env.tasks}")
    if env.baseline_rank is not None:
        _check_range("baseline_rank", env.baseline_rank, 1, env.actions, f"with {env.actions} actions")
    _check_range("outliers", env.outliers, 0, env.tasks if env.rank < env.dim else 0, "of the tasks")
    _check_range("decay", env.decay, 0.0, 1.0, "a step")
    _check_range("drift", env.drift, 0.0, 1.0, "of the coefficients")
    for name in ("kappa", "imbalance", "traffic_ratio", "noise_spread"):
        _check_range(name, getattr(env, name), 1.0, np.inf, "as a ratio of largest to smallest")
    for name in ("noise_std", "baseline_reward_std"):
        _check_range(name, getattr(env, name), 0.0, np.inf, "as a standard deviation")


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SettingError(f"{name}={value!r} is not known; choose one of {', '.join(known)}.")


def _check_range(name: str, value: float, low: float, high: float, what: str) -> None:
    if not low <= value <= high:
        raise SettingError(f"{name}={value!r} is not possible {what}; give a value from {low} to {high}.")
