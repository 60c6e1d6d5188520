"""Contracts, run over every policy and every environment in the package.

A class in `banister.policies` that can decide and learn is a policy; one in `banister.environments` that can
make requests and score them is an environment. Each builds a small instance of itself by `example`.
"""

import gc
import inspect
import pkgutil
from dataclasses import fields
from importlib import import_module

import numpy as np
import pytest

import banister as bn
import banister.environments
import banister.policies
from banister.contract import Choices, Environment, Outcomes, Policy, Requests
from banister.safety.constraint import Constraint
from banister.simulation.wrappers import Timed

ALPHA = 0.2


def classes_of(package, methods):
    """Public, concrete classes of a package's modules that have the methods."""
    found = []
    for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for name, cls in inspect.getmembers(import_module(info.name), inspect.isclass):
            mine = cls.__module__ == info.name and not name.startswith("_") and not inspect.isabstract(cls)
            if mine and not getattr(cls, "_is_protocol", False) and all(hasattr(cls, m) for m in methods):
                found.append(cls)
    return found


POLICIES = classes_of(banister.policies, ["decide", "learn", "end_epoch", "reset"])
ENVIRONMENTS = classes_of(banister.environments, ["reset", "requests", "expected", "best", "noise", "reward"])
every_policy = pytest.mark.parametrize("cls", POLICIES, ids=lambda c: c.__name__)
every_environment = pytest.mark.parametrize("cls", ENVIRONMENTS, ids=lambda c: c.__name__)


def world(seed=0, **settings):
    env = bn.Synthetic(**{"dim": 6, "rank": 2, "tasks": 8, "actions": 4, "baseline_rank": 2, **settings})
    env.reset(np.random.default_rng(seed))
    return env


class Recorded(Timed):
    """Keeps everything that passes between a policy and the world."""

    def __init__(self, policy):
        super().__init__(policy)
        self.log = []

    def decide(self, requests):
        choices = super().decide(requests)
        self.log.append(("decide", requests, choices))
        return choices

    def learn(self, outcomes):
        self.log.append(("learn", outcomes, None))
        super().learn(outcomes)

    def end_epoch(self):
        self.log.append(("end_epoch", None, None))
        super().end_epoch()


def play(policy, env, *, epochs=3, rounds=12, seed=1):
    """A short trial by hand in the policy's own blocks; returns all that was said."""
    rng = np.random.default_rng(seed)
    recorded = Recorded(policy)
    for epoch in range(epochs):
        start = epoch * rounds
        while start < (epoch + 1) * rounds:
            n = min(policy.block or rounds, (epoch + 1) * rounds - start)
            requests = env.requests(n, rng, start)
            choices = recorded.decide(requests)
            reward = env.reward(requests, env.expected(requests, choices), env.noise(requests, rng))
            recorded.learn(Outcomes(requests.task, choices.features, reward))
            start += n
        recorded.end_epoch()
    return recorded.log


def fresh(cls, env, seed=2):
    policy = cls.example(env)
    policy.reset(env.n_tasks, np.random.default_rng(seed))
    return policy


def answers(log):
    return [choices for kind, _, choices in log if kind == "decide"]


def same(first, second):
    for a, b in zip(first, second, strict=True):
        for f in fields(Choices):
            np.testing.assert_array_equal(getattr(a, f.name), getattr(b, f.name), err_msg=f.name)


def check_shape(requests, choices):
    m, n_actions, dim = requests.actions.shape
    assert choices.features.shape == (m, dim)
    for f in fields(Choices):
        if f.name != "probabilities":
            assert len(getattr(choices, f.name)) == m, f.name
    odds = choices.propensities(n_actions)
    assert odds.shape == (m, n_actions)
    np.testing.assert_allclose(odds.sum(axis=1), choices.index >= 0, atol=1e-9)
    assert np.all(odds[np.arange(m), choices.index][choices.index >= 0] > 0)
    assert choices.certified.dtype == bool
    assert np.isfinite(choices.features).all()
    assert all(isinstance(r, str) and r for r in choices.reason)
    assert np.all((choices.index >= -1) & (choices.index < n_actions))
    listed = np.flatnonzero(choices.index >= 0)
    np.testing.assert_array_equal(choices.features[listed], requests.actions[listed, choices.index[listed]])
    sure = choices.certified & np.isfinite(choices.floor)
    assert np.all(choices.lower_bound[sure] >= choices.floor[sure])


def test_the_search_finds_what_is_there():
    assert {bn.BaselineOnly, bn.Oracle} <= set(POLICIES)
    assert bn.Synthetic in ENVIRONMENTS


# --- policies ---------------------------------------------------------------------------------------------


@every_policy
def test_policy_has_the_protocol(cls):
    env = world()
    policy = fresh(cls, env)
    assert isinstance(policy, Policy)
    assert policy.block is None or policy.block >= 1


@every_policy
def test_policy_answers_in_the_right_shape(cls):
    env = world()
    for kind, requests, choices in play(fresh(cls, env), env):
        if kind == "decide":
            check_shape(requests, choices)


@every_policy
def test_policy_repeats_itself_from_the_same_seed(cls):
    env = world()
    policy = fresh(cls, env)
    first = answers(play(policy, env))
    policy.reset(env.n_tasks, np.random.default_rng(2))  # reset forgets all of it
    same(first, answers(play(policy, env)))
    same(first, answers(play(fresh(cls, env), env)))


@every_policy
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_policy_answers_any_number_of_rows_at_any_time(cls, rows):
    env = world()
    policy = fresh(cls, env)
    requests = env.requests(2, np.random.default_rng(3))[:rows]
    check_shape(requests, policy.decide(requests))
    play(policy, env)
    check_shape(requests, policy.decide(requests))


@every_policy
def test_policy_takes_a_whole_epoch_or_one_round(cls):
    """Whatever block it wishes for, it must answer what it is asked."""
    env = world()
    policy = fresh(cls, env)
    rng = np.random.default_rng(4)
    for rounds in (30, 1, 7, 1):
        requests = env.requests(rounds, rng)
        choices = policy.decide(requests)
        check_shape(requests, choices)
        policy.learn(Outcomes(requests.task, choices.features, env.expected(requests, choices)))


@every_policy
@pytest.mark.parametrize(
    "settings",
    [
        {"traffic_ratio": 10.0},
        {"baseline_known": False},
        {"baseline_reward_std": 0.1},
        {"action_sets": "fixed"},
        {"actions": 1, "baseline_rank": 1},
    ],
    ids=str,
)
def test_policy_copes_with(cls, settings):
    env = world(noise_std=0.05, **settings)
    for kind, requests, choices in play(fresh(cls, env), env):
        if kind == "decide":
            check_shape(requests, choices)


@every_policy
def test_policy_takes_baselines_given_as_vectors(cls):
    env = world()
    policy = fresh(cls, env)
    listed = env.requests(5, np.random.default_rng(3))
    args = (listed.baseline_features() + 0.1, listed.baseline_reward, 0.0, listed.round)
    requests = Requests(listed.task, listed.actions, *args)
    check_shape(requests, policy.decide(requests))


@every_policy
def test_policy_learns_nothing_from_no_outcomes(cls):
    env = world()
    policy = fresh(cls, env)
    policy.learn(Outcomes(np.empty(0, dtype=np.int64), np.empty((0, 6)), np.empty(0)))
    policy.end_epoch()
    requests = env.requests(1, np.random.default_rng(3))
    check_shape(requests, policy.decide(requests))


@every_policy
@pytest.mark.parametrize(
    "options", [{"delay": 5}, {"drop": 0.4}, {"delay": 3, "drop": 0.2}, {"drop": 1.0}], ids=str
)
def test_policy_bears_late_and_missing_rewards(cls, options):
    env = world(noise_std=0.01)
    result = bn.simulate(env, cls.example(env), epochs=3, rounds=10, alpha=ALPHA, **options)
    assert result.decisions.tolist() == [80, 80, 80]
    assert np.isfinite(result.regret).all()
    assert np.all(result.regret > -1e-9)


@every_policy
def test_policy_estimates_in_the_right_shape(cls):
    env = world()
    policy = fresh(cls, env)
    play(policy, env)
    assert policy.theta is None or policy.theta.shape == (6, 8)


@every_policy
def test_policy_needs_only_requests_and_outcomes(cls):
    """The same requests and outcomes, replayed with no environment behind them, give the same choices."""
    if getattr(cls, "sees_truth", False):
        pytest.skip("is handed the truth on purpose")
    env = world(noise_std=0.05)
    log = play(fresh(cls, env), env)
    again = fresh(cls, world(seed=99))
    replayed = []
    for kind, said, _ in log:
        if kind == "decide":
            replayed.append(again.decide(said))
        elif kind == "learn":
            again.learn(said)
        else:
            again.end_epoch()
    same(answers(log), replayed)


def reachable(start):
    """Every object that can be reached from one; of functions, only what they enclose."""
    seen, todo = {}, [start]
    while todo:
        item = todo.pop()
        if id(item) in seen or inspect.ismodule(item) or inspect.isclass(item):
            continue
        seen[id(item)] = item
        todo.extend(_inside(item))
    return seen.values()


def _inside(item):
    if inspect.isfunction(item):
        return item.__closure__ or ()
    if isinstance(item, np.ndarray) and item.dtype == object:  # numpy hides its items from the collector
        return item.ravel().tolist()
    return gc.get_referents(item)


def holds_environment(thing):
    return any(isinstance(item, Environment) for item in reachable(thing))


def test_an_environment_is_found_wherever_it_hides():
    env = world()
    for hiding_place in (env, {"a": [env]}, env.expected, lambda: env, np.array([env], dtype=object)):
        assert holds_environment(hiding_place)
    assert not holds_environment([env.theta, bn.BaselineOnly()])


@every_policy
def test_policy_holds_no_environment(cls):
    env = world()
    policy = fresh(cls, env)
    play(policy, env)
    assert holds_environment(policy) == getattr(cls, "sees_truth", False)


@every_policy
@pytest.mark.parametrize(
    "settings", [{}, {"baseline_known": False}, {"contexts": "non-negative"}, {"traffic_ratio": 5.0}], ids=str
)
def test_policy_is_never_below_the_floor_when_it_says_certified(cls, settings):
    env = world(noise_std=0.0, **settings)
    policy = fresh(cls, env)
    alpha = getattr(policy, "alpha", ALPHA)
    for kind, requests, choices in play(policy, env, rounds=20):
        if kind == "decide":
            floor = Constraint(alpha).floor(env.baseline(requests))
            below = floor - env.expected(requests, choices)
            assert np.all(below[choices.certified] <= 1e-9)


# --- environments -----------------------------------------------------------------------------------------


def ready(cls, seed=0):
    env = cls.example()
    env.reset(np.random.default_rng(seed))
    return env


@every_environment
def test_environment_has_the_protocol(cls):
    env = ready(cls)
    assert isinstance(env, Environment)
    assert env.theta.shape[1] == env.n_tasks
    assert 1 <= env.rank <= min(env.theta.shape)


@every_environment
def test_environment_repeats_itself_from_the_same_seed(cls):
    first, second, other = ready(cls), ready(cls), ready(cls, seed=1)
    np.testing.assert_array_equal(first.theta, second.theta)
    asked = [env.requests(3, np.random.default_rng(5)) for env in (first, second)]
    for f in fields(Requests):
        np.testing.assert_array_equal(getattr(asked[0], f.name), getattr(asked[1], f.name), err_msg=f.name)
    noise = [env.noise(asked[0], np.random.default_rng(6)) for env in (first, second)]
    np.testing.assert_array_equal(*noise)
    other.reset(np.random.default_rng(0))
    np.testing.assert_array_equal(other.theta, first.theta)


@every_environment
def test_environment_draws_the_same_rows_however_it_is_asked(cls):
    env = ready(cls)
    whole = env.requests(5, np.random.default_rng(5))
    rng = np.random.default_rng(5)
    parts = [env.requests(2, rng, 0), env.requests(1, rng, 2), env.requests(2, rng, 3)]
    for f in fields(Requests):
        joined = np.concatenate([getattr(p, f.name) for p in parts])
        np.testing.assert_array_equal(getattr(whole, f.name), joined, err_msg=f.name)


@every_environment
def test_environment_asks_round_by_round(cls):
    env = ready(cls)
    requests = env.requests(4, np.random.default_rng(5), start=3)
    assert set(requests.round.tolist()) <= {3, 4, 5, 6}
    assert np.all(np.diff(requests.round) >= 0)
    assert np.all((requests.task >= 0) & (requests.task < env.n_tasks))
    assert requests.actions.shape[2] == env.theta.shape[0]


@every_environment
def test_environment_scores_agree(cls):
    env = ready(cls)
    requests = env.requests(4, np.random.default_rng(5))
    m, n_actions, _ = requests.actions.shape
    worth = np.stack(
        [env.expected(requests, Choices.of_index(requests, np.full(m, k), "x")) for k in range(n_actions)]
    )
    np.testing.assert_allclose(env.best(requests), worth.max(axis=0))
    np.testing.assert_allclose(env.baseline(requests), env.expected(requests, Choices.of_baseline(requests)))
    np.testing.assert_allclose(env.best(requests[1:5]), env.best(requests)[1:5])
    noise = env.noise(requests, np.random.default_rng(6))
    assert noise.shape == (m,)
    assert env.reward(requests, worth[0], noise).shape == (m,)


@every_environment
def test_requests_carry_nothing_of_the_truth(cls):
    env = ready(cls)
    requests = env.requests(2, np.random.default_rng(5))
    assert set(vars(requests)) == {f.name for f in fields(Requests)}
    assert not holds_environment(requests)
