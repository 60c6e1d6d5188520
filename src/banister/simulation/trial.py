"""One trial: an environment asks, policies answer, and the truth keeps score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from banister.contract import Choices, Environment, Outcomes, Policy, Requests
from banister.data import Float, Int, Whole
from banister.errors import SettingError
from banister.safety.constraint import Constraint
from banister.simulation.metrics import Tally, Totals, Worth
from banister.simulation.result import Result
from banister.simulation.taking_part import check_environment, check_ready, named_policies
from banister.simulation.wrappers import Late, Timed

CHUNK_BYTES = 32 * 2**20  # actions held at once, so that memory does not grow with the rounds
DEFAULT_ALPHA = 0.2


def interact(env: Environment, policy: Timed, requests: Requests, noise: Float) -> tuple[Float, Float]:
    """The interaction loop; returns the choices' worth (m,), and which were certified (m,).

    A draw is worth what it is expected to earn; what comes back is the reward of what was drawn.
    """
    expected, certified = np.empty(len(requests)), np.empty(len(requests))
    for rows in _blocks(requests.round, policy):
        asked = requests[rows]
        choices = policy.decide(asked)
        played = env.expected(asked, choices)
        expected[rows] = played if choices.probabilities is None else draw_value(env, asked, choices)
        certified[rows] = choices.certified
        reward = env.reward(asked, played, noise[rows])
        policy.learn(Outcomes(asked.task, choices.features, reward))
    return expected, certified


def draw_value(env: Environment, asked: Requests, choices: Choices) -> Float:
    """The expected reward of each draw, `Σ π_a r_a`, shape (m,)."""
    m, n_actions, _ = asked.actions.shape
    odds, value = choices.propensities(n_actions), np.zeros(m)
    for k in range(n_actions):
        value += odds[:, k] * env.expected(asked, Choices.of_index(asked, np.full(m, k), ""))
    return value


def simulate(
    env: Environment,
    policy: Policy,
    *,
    epochs: Whole | Sequence[int] = 4,
    rounds: Whole = 50,
    seed: Whole | np.random.SeedSequence = 0,
    alpha: float | None = None,
    delay: int = 0,
    drop: float = 0.0,
) -> Result:
    """Let a policy play one trial.

    Args:
        env: the environment; it is reset.
        policy: the policy; it is reset.
        epochs: how many epochs of `rounds` rounds, or a list with the length of each epoch.
        rounds: rounds of each epoch. In a round every task asks once, unless the environment says otherwise.
        seed: of this trial; the same seed gives the same truth, requests and noise to every policy.
        alpha: the share of the baseline reward against which violations are counted. None: the policy's
            own, or 0.2 if it has none.
        delay: rewards arrive this many rounds late.
        drop: the share of rewards that never arrive.

    Returns:
        One entry an epoch of regret, violations, decisions, error and more.

    Examples:
        >>> from banister import BaselineOnly, Synthetic, simulate
        >>> env = Synthetic(dim=8, rank=2, tasks=6, actions=4, baseline_rank=2)
        >>> result = simulate(env, BaselineOnly(), epochs=2, rounds=10)
        >>> result.violations, result.decisions
        (array([0, 0]), array([60, 60]))
    """
    name = type(policy).__name__
    results = one_trial(
        env, {name: policy}, epochs=epochs, rounds=rounds, seed=seed, alpha=alpha, delay=delay, drop=drop
    )
    return results[name]


def one_trial(
    env: Environment,
    policies: Mapping[str, Policy],
    *,
    epochs: Whole | Sequence[int] = 4,
    rounds: Whole = 50,
    seed: Whole | np.random.SeedSequence = 0,
    alpha: float | None = None,
    delay: int = 0,
    drop: float = 0.0,
) -> dict[str, Result]:
    """Let policies play the same trial: the same truth, the same requests, the same noise.

    A policy's numbers depend on the seed, not on who else takes part.

    Args:
        env: the environment; it is reset.
        policies: policies by name; they are reset.
        epochs: how many epochs of `rounds` rounds, or the length of each epoch (see `schedules.lengths`).
        rounds: rounds of each epoch.
        seed: of this trial.
        alpha: the share of the baseline reward against which violations are counted. None: the policies'
            own, or 0.2 if none of them has one.
        delay: rewards arrive this many rounds late.
        drop: the share of rewards that never arrive.

    Examples:
        >>> from banister import BaselineOnly, Oracle, Synthetic
        >>> from banister.simulation.trial import one_trial
        >>> env = Synthetic(dim=8, rank=2, tasks=6, actions=4, baseline_rank=2)
        >>> results = one_trial(env, {"in place": BaselineOnly(), "best": Oracle(env)}, epochs=1, rounds=10)
        >>> bool(results["in place"].regret[0] > results["best"].regret[0])
        True
    """
    check_environment(env)
    policies = named_policies(policies)
    plan = _lengths(epochs, rounds)
    _check_plan(plan, delay, drop)
    alpha = float(Constraint(_common_alpha(policies) if alpha is None else alpha).alpha)
    streams = _Streams(seed)
    env.reset(streams.make(0))
    ask, disturb = streams.make(1), streams.make(2)
    players = [_Player.seat(name, p, env, streams, delay, drop) for name, p in policies.items()]
    most = _chunk_rounds(env)
    for first, length in zip(np.cumsum([0, *plan[:-1]]).tolist(), plan, strict=True):
        for player in players:
            player.tallies.append(Tally())
        for start, n in _chunks(first, length, most):
            requests = env.requests(n, ask, start)
            noise = env.noise(requests, disturb)
            worth = Worth(env.best(requests), env.baseline(requests))
            for player in players:
                player.play(env, requests, noise, worth, alpha)
        for player in players:
            player.end_epoch(env.theta_at(first + length - 1))
    return {p.name: p.result(alpha, plan, env.rank) for p in players}


@dataclass
class _Player:
    """A policy in a trial, and its record so far."""

    name: str
    policy: Timed
    totals: Totals
    tallies: list[Tally] = field(default_factory=list)
    clock: list[float] = field(default_factory=lambda: [0.0])
    estimates: list[Float | None] = field(default_factory=list)
    truths: list[Float] = field(default_factory=list)

    @classmethod
    def seat(
        cls, name: str, policy: Policy, env: Environment, streams: _Streams, delay: int, drop: float
    ) -> _Player:
        policy.reset(env.n_tasks, streams.make(3))
        check_ready(policy)
        if delay == 0 and drop == 0.0:
            return cls(name, Timed(policy), Totals(env.n_tasks))
        late = Late(policy, delay=delay, drop=drop, rng=streams.make(4))
        return cls(name, late, Totals(env.n_tasks))

    def play(self, env: Environment, requests: Requests, noise: Float, worth: Worth, alpha: float) -> None:
        expected, certified = interact(env, self.policy, requests, noise)
        tally = self.tallies[-1]
        tally.add(expected, certified, worth, alpha)
        tally.cumulative_violations += self.totals.below(requests.task, expected, worth.baseline, alpha)
        tally.tasks_below, tally.tasks_below_now = int(self.totals.ever.sum()), int(self.totals.now.sum())
        tally.fleet_violations = self.totals.fleet_below - sum(t.fleet_violations for t in self.tallies[:-1])

    def end_epoch(self, truth: Float) -> None:
        self.policy.end_epoch()
        self.clock.append(self.policy.seconds)
        theta = self.policy.theta
        self.estimates.append(None if theta is None else np.array(theta))
        self.truths.append(truth)

    def result(self, alpha: float, plan: list[int], rank: int) -> Result:
        return Result(
            policy=self.name,
            alpha=alpha,
            rounds=np.array(plan),
            tallies=self.tallies,
            seconds=np.diff(self.clock),
            estimates=self.estimates,
            truths=self.truths,
            rank=rank,
        )


class _Streams:
    """The trial's sources of randomness, each its own child of the seed.

    The children are those of `SeedSequence.spawn`, made by number so that the seed given is left untouched:
    the same seed gives the same trial however often it is used.
    """

    def __init__(self, seed: Whole | np.random.SeedSequence) -> None:
        self.root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(int(seed))

    def make(self, child: int) -> np.random.Generator:
        key = (*self.root.spawn_key, child)
        return np.random.default_rng(np.random.SeedSequence(self.root.entropy, spawn_key=key))


def _blocks(rounds: Int, policy: Timed) -> Iterator[slice]:
    """Slices of rows, as many rounds at a time as the policy wishes at that moment."""
    start = 0
    while start < len(rounds):
        size = policy.block
        stop = len(rounds) if size is None else int(np.searchsorted(rounds, rounds[start] + max(size, 1)))
        yield slice(start, stop)
        start = stop


def _chunks(first: int, length: int, most: int) -> Iterator[tuple[int, int]]:
    """Where each chunk of an epoch starts, and how many rounds it has."""
    for start in range(first, first + length, most):
        yield start, min(most, first + length - start)


def _chunk_rounds(env: Environment) -> int:
    """Rounds whose actions fit the cap, judged by one round drawn for the purpose."""
    probe = env.requests(1, np.random.default_rng(0))
    per_row = probe.actions.nbytes // max(len(probe), 1)
    return max(1, CHUNK_BYTES // max(per_row * env.n_tasks, 1))


def _common_alpha(policies: Mapping[str, Policy]) -> float:
    found = {name: p.alpha for name, p in policies.items() if hasattr(p, "alpha")}
    if len(set(found.values())) > 1:
        raise SettingError(f"The policies' alphas differ ({found}); give the alpha to count violations by.")
    return next(iter(found.values()), DEFAULT_ALPHA)


def _lengths(epochs: Whole | Sequence[int], rounds: Whole) -> list[int]:
    if isinstance(epochs, (int, np.integer)):
        return [int(rounds)] * int(epochs)
    return [int(length) for length in epochs]


def _check_plan(plan: list[int], delay: int, drop: float) -> None:
    if not plan or min(plan) < 1:
        raise SettingError(f"The epochs' lengths are {plan}; give at least one epoch of at least one round.")
    if delay < 0 or not 0.0 <= drop <= 1.0:
        raise SettingError(f"delay={delay!r} must be at least 0, and drop={drop!r} from 0 to 1.")
