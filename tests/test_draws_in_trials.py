"""Draws in a trial: judged by their expected reward, and the same as a live bandit's to the last bit."""

from dataclasses import replace

import numpy as np
import pytest

import banister as bn
from banister.contract import Choices, Outcomes, Requests
from banister.environments.banners import Banners
from banister.errors import InputError, SettingError, ShapeError
from banister.policies.no_promise import RULES
from banister.policies.schedules import GrowthSchedule
from banister.safety.gates import EVERY_TASK
from banister.safety.promise import Terms
from banister.simulation.metrics import Totals
from banister.simulation.trial import draw_value, one_trial


class TwoArms(bn.LinearEnvironment):
    """One task, arms worth 1 (the baseline) and `other`; no noise."""

    rank, theta = 1, np.ones((2, 1))

    def __init__(self, other):
        super().__init__()
        self.theta = np.array([[1.0], [other]])

    def reset(self, rng): ...

    def requests(self, rounds, rng, start=0):
        task, unknown = np.zeros(rounds, dtype=int), np.full(rounds, np.nan)
        actions = np.tile(np.eye(2), (rounds, 1, 1))
        return bn.Requests(task, actions, task, unknown, 0.0, start + np.arange(rounds))

    def noise(self, requests, rng):
        return np.zeros(len(requests))


class Drawn(bn.BaselineOnly):
    """Plays the other arm in every second request, which its draws say had the probability `p`."""

    block = 1

    def __init__(self, p):
        self.p = p

    def reset(self, n_tasks, rng):
        self.turn, self.rewards = 0, []

    def decide(self, requests):
        index = (self.turn + np.arange(len(requests))) % 2
        self.turn += len(requests)
        choices = Choices.of_index(requests, index, "drawn")
        odds = np.tile([1.0 - self.p, self.p], (len(requests), 1))
        return Choices(*(getattr(choices, f) for f in ("features", "index", "certified", "lower_bound")),
                       choices.floor, choices.reason, odds)  # fmt: skip

    def learn(self, outcomes):
        self.rewards += outcomes.reward.tolist()


def test_a_draw_is_judged_by_its_expected_reward_and_paid_by_what_was_drawn():
    # The other arm is worth 0.6: with p = 0.25 every draw is worth 0.75 + 0.25·0.6 = 0.9.
    policy = Drawn(0.25)
    result = bn.simulate(TwoArms(0.6), policy, epochs=1, rounds=4, alpha=0.2)
    assert policy.rewards == [1.0, 0.6, 1.0, 0.6]
    assert result.regret[0] == pytest.approx(4 * 0.1)
    assert result.violations[0] == 0  # 0.9 ≥ 0.8, although every second play was worth 0.6
    assert result.cumulative_violations[0] == 0
    assert result.possible[0] == 0.0
    assert np.isnan(result.captured[0])
    below = bn.simulate(TwoArms(0.6), Drawn(0.75), epochs=1, rounds=4, alpha=0.2)  # 0.25 + 0.45 = 0.7
    assert below.violations[0] == below.cumulative_violations[0] == below.fleet_violations[0] == 4
    assert below.tasks_below[0] == below.tasks_below_now[0] == 1
    halves = bn.simulate(TwoArms(0.6), Drawn(0.75), epochs=2, rounds=2, alpha=0.2)
    assert halves.fleet_violations.tolist() == halves.cumulative_violations.tolist() == [2, 2]
    assert below.shortfall[0] == pytest.approx(0.1)


def test_captured_is_the_share_of_what_was_possible_since_the_start():
    # The other arm is worth 1.4: a draw of p = 0.25 earns 0.1 of the 0.4 that were possible.
    result = bn.simulate(TwoArms(1.4), Drawn(0.25), epochs=3, rounds=2, alpha=0.2)
    np.testing.assert_allclose(result.captured, 0.25)
    np.testing.assert_allclose(result.possible, 0.8)
    assert result.frame["captured"].to_list() == result.captured.tolist()


def test_draw_value_is_the_sum_over_actions():
    env, rng = Banners(tasks=4), np.random.default_rng(0)
    env.reset(rng)
    asked = env.requests(3, rng)
    m, K, _ = asked.actions.shape
    odds = rng.dirichlet(np.ones(K), m)
    one = Choices.of_index(asked, np.zeros(m, dtype=int), "")
    choices = Choices(one.features, one.index, one.certified, one.floor, one.floor, one.reason, odds)
    theta = env.theta.T[asked.task]
    by_hand = (odds / (1 + np.exp(-np.einsum("mkd,md->mk", asked.actions, theta)))).sum(axis=1)
    np.testing.assert_allclose(draw_value(env, asked, choices), by_hand)


def test_totals_know_which_tasks_were_below_and_which_are():
    # α = 0.5. Task 0 earns 0.4 of 1 (below), then 1 of 1 (1.4 of 2: above); task 1 earns 1, then 0 (1 of 2:
    # at its floor), then 0 (below). Fleet: .4/1 below, 1.4/2, 2.4/3, 2.4/4, 2.4/5 below.
    totals = Totals(3)
    task, earned = np.array([0, 1, 0, 1, 1]), np.array([0.4, 1.0, 1.0, 0.0, 0.0])
    assert totals.below(task, earned, np.ones(5), 0.5) == 2
    assert totals.ever.tolist() == [True, True, False]
    assert totals.now.tolist() == [False, True, False]
    assert totals.fleet_below == 2
    assert totals.below(np.array([1]), np.array([1.0]), np.ones(1), 0.5) == 0  # 2 of 4: at its floor again
    assert totals.ever.tolist() == [True, True, False]
    assert totals.now.tolist() == [False, False, False]


@pytest.mark.parametrize(
    ("odds", "error"),
    [
        ([[0.5, 0.4]], InputError),
        ([[1.5, -0.5]], InputError),
        ([[0.0, 1.0]], InputError),  # what is played had no chance
        ([[np.nan, 1.0]], InputError),
        ([[1.0, 0.0], [1.0, 0.0]], ShapeError),
        ([1.0], ShapeError),
    ],
)
def test_probabilities_that_cannot_be_are_refused(odds, error):
    asked = Requests(np.array([0]), np.eye(2)[None], np.array([0]), np.array([0.4]))
    one = Choices.of_index(asked, np.array([0]), "x")
    with pytest.raises(error):
        Choices(one.features, one.index, one.certified, one.floor, one.floor, one.reason, np.array(odds))


def test_propensities_without_a_draw():
    asked = Requests(np.array([0, 0]), np.tile(np.eye(3), (2, 1, 1)), np.array([0, 0]), np.full(2, np.nan))
    choices = Choices.uncertified(np.eye(3)[:2], np.array([2, -1]), "x")
    np.testing.assert_array_equal(choices.propensities(3), [[0, 0, 1], [0, 0, 0]])
    np.testing.assert_array_equal(Choices.of_baseline(asked).propensities(3), [[1, 0, 0], [1, 0, 0]])


# --- the policy and the live bandit -----------------------------------------------------------------------


class Arms(bn.LinearEnvironment):
    """Four tasks, three arms; with a `period`, what is good and what is bad changes that often."""

    rank, theta, later = 1, np.tile([[0.9], [0.3], [0.05]], (1, 4)), np.tile([[0.05], [0.95], [0.05]], (1, 4))

    def __init__(self, period=0):
        super().__init__()
        self.change_points = tuple(range(period, 5000, period)) if period else ()

    def theta_at(self, round):  # noqa: A002
        flips = sum(round >= point for point in self.change_points)
        return self.later if flips % 2 else self.theta

    def reset(self, rng): ...

    def requests(self, rounds, rng, start=0):
        task, round_ = np.tile(np.arange(4), rounds), np.repeat(start + np.arange(rounds), 4)
        actions, one = np.tile(np.eye(3), (len(task), 1, 1)), np.ones(len(task), dtype=int)
        return bn.Requests(task, actions, one, np.full(len(task), np.nan), 0.0, round_)

    def noise(self, requests, rng):
        return rng.random(len(requests))

    def reward(self, requests, expected, noise):
        return np.clip(expected + 0.2 * (noise - 0.5), 0.0, 1.0)


def both(policy, env, rounds, *, claimed=False, seed=5, growth=0.25, **live):
    """A policy and a `SafeBandit` with its seed, given the same rows; yields what each answered."""
    policy.reset(env.n_tasks, np.random.default_rng(seed))
    bandit = bn.SafeBandit(policy.alpha, seed=policy.terms.seed, refits="inline", growth=growth, **live)
    ask, luck = np.random.default_rng(6), np.random.default_rng(7)
    for start in range(rounds):
        asked = env.requests(1, ask, start)
        if start == 0:  # a bandit numbers tasks as they come
            asked = Requests(np.arange(env.n_tasks), asked.actions, asked.baseline, asked.baseline_reward)
        claims = env.baseline(asked) if claimed else np.full(len(asked), np.nan)
        asked = Requests(asked.task, asked.actions, asked.baseline, claims, 0.0, asked.round)
        choices = policy.decide(asked)
        names = [f"task {t}" for t in asked.task]
        made = bandit.decide_many(names, asked.actions, baselines=asked.baseline, baseline_rewards=claims)
        yield choices, made, bandit
        reward = env.reward(asked, env.expected(asked, choices), env.noise(asked, luck))
        keep = luck.random(len(asked)) < 0.9  # some rewards never come
        number = np.array([d.id - 1 for d in made])[keep]
        policy.learn(Outcomes(asked.task[keep], choices.features[keep], reward[keep], number))
        bandit.reward_many((number + 1).tolist(), reward[keep].tolist())
    assert bandit.version == policy._mode.version > 5


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("promise", ["task", "fleet", "decision"])
def test_the_policy_draws_what_a_live_bandit_draws(promise, claimed):
    env = Banners(tasks=6, arms=3, contexts=1, rank=1)
    env.reset(np.random.default_rng(1))
    policy = bn.SafeDraws((0, 1), alpha=0.3, promise=promise, schedule=GrowthSchedule(5, 0.25))
    left, settings = [], {"promise": promise, "reward_range": (0, 1)}
    for choices, made, _ in both(policy, env, 60, claimed=claimed, **settings):
        np.testing.assert_array_equal(choices.probabilities, [d.probabilities for d in made])
        np.testing.assert_array_equal(choices.index, [d.action for d in made])
        np.testing.assert_array_equal(choices.certified, [d.certified for d in made])
        np.testing.assert_array_equal(choices.lower_bound, [d.lower_bound for d in made])
        np.testing.assert_array_equal(choices.floor, [d.floor for d in made])
        assert choices.reason.tolist() == [d.reason for d in made]
        left.append(1.0 - choices.probabilities[np.arange(6), env.incumbent])
    assert len(np.unique(np.round(left, 6))) > 10  # the promise, the belief and the account had a say


@pytest.mark.parametrize(("promise", "on_harm"), [("task", "free"), ("fleet", "free"), ("fleet", "stop")])
def test_drift_and_harm_cost_the_policy_what_they_cost_live(promise, on_harm, monkeypatch):
    usual = Terms.budget  # a test for harm that rings within the few decisions played here
    monkeypatch.setattr(Terms, "budget", lambda terms: replace(usual(terms), alarm=0.01))
    settings = {"promise": promise, "on_harm": on_harm}
    policy = bn.SafeDraws((0, 1), alpha=0.3, schedule=GrowthSchedule(5, 0.25), **settings)
    seen = set()
    for choices, made, bandit in both(policy, Arms(100), 250, reward_range=(0, 1), **settings):  # noqa: B007
        np.testing.assert_array_equal(choices.probabilities, [d.probabilities for d in made])
        seen.update(choices.reason)
    assert bandit._engine.store.drifts > 4  # every task, and some again
    mine, live = policy._mode.account, bandit._engine.account
    for name, value in live.budget.state().items():
        np.testing.assert_array_equal(mine.budget.state()[name], value, err_msg=name)
    assert mine.gain(EVERY_TASK) == live.gain(EVERY_TASK)
    assert ("fallback:harm" in seen) == (on_harm == "stop")


def test_a_contradicted_claim_shuts_the_policy_as_it_does_live():
    policy = bn.SafeDraws((0, 1), alpha=0.3, promise="decision", schedule=GrowthSchedule(5, 0.25))
    seen, env = set(), Arms()
    settings = {"promise": "decision", "reward_range": (0, 1), "claimed": True}
    for turn, (choices, made, bandit) in enumerate(both(policy, env, 120, **settings)):
        np.testing.assert_array_equal(choices.probabilities, [d.probabilities for d in made])
        assert choices.reason.tolist() == [d.reason for d in made]
        seen.update(choices.reason)
        assert policy._mode.learner.memory.since == bandit._engine.learner.memory.since
        if turn == 90:
            env.theta = np.where(np.arange(4) == 2, [[0.9], [0.8], [0.05]], env.theta)  # one task
    assert "fallback:baseline-disagrees" in seen
    assert 2 in policy._mode.learner.memory.since


def test_a_long_trial_samples_offers_as_a_live_bandit_does():
    env = Banners(tasks=6, arms=3, contexts=1, rank=1)
    env.reset(np.random.default_rng(1))
    policy = bn.SafeDraws((0, 1), alpha=0.3, promise="fleet", schedule=GrowthSchedule(5, 0.25))
    *_, (choices, made, bandit) = both(policy, env, 500, promise="fleet", reward_range=(0, 1))
    mine, live = policy._mode.learner.memory.snapshot(), bandit._engine.store.memory.snapshot()
    np.testing.assert_array_equal(mine.offered, live.offered)
    np.testing.assert_array_equal(mine.offered_task, live.offered_task)
    np.testing.assert_array_equal(choices.probabilities, [d.probabilities for d in made])


def test_it_refits_when_a_live_bandit_does():
    """Once hardly a decision stays at the baseline, rows must double before the next fit."""
    settings = {"promise": "decision", "reward_range": (0, 1), "claimed": True, "growth": None}
    policy = bn.SafeDraws((0, 1), alpha=0.3, promise="decision")
    versions = []
    for _, _, bandit in both(policy, Arms(), 200, **settings):
        assert bandit.version == policy._mode.version
        versions.append(bandit.version)
    assert policy._mode.learner.settled
    assert versions[-1] <= versions[80] + 1  # by quarters it would have been four more


@pytest.mark.parametrize("promise", ["task", "fleet"])
def test_no_total_is_below_its_floor_with_late_and_missing_rewards(promise):
    env, policy = Banners(tasks=5, effects="harmful"), None
    policy = bn.SafeDraws((0, 1), alpha=0.1, promise=promise, expire_after=10)
    result = bn.simulate(env, policy, epochs=2, rounds=100, delay=3, drop=0.2)
    assert result.fleet_violations.sum() == 0
    assert promise == "fleet" or result.tasks_below[-1] == 0
    assert np.all(result.regret > 0)  # it did try other arms


def test_a_missing_reward_is_the_worst_one_once_it_expires():
    """Draws that wait for ever hold their part of the budget; expired ones are counted and let go."""
    env = Banners(tasks=3)
    waiting = {}
    for limit in (None, 2):
        policy = bn.SafeDraws((0, 1), alpha=0.1, expire_after=limit)
        one_trial(env, {"p": policy}, epochs=1, rounds=20, drop=1.0)
        waiting[limit] = len(policy._mode.account.waiting)
    assert waiting[None] == 60
    assert waiting[2] <= 3 * 3


def test_rewards_outside_the_range_are_refused():
    env = Banners(tasks=3)
    env.reset(np.random.default_rng(0))
    policy = bn.SafeDraws((0, 1))
    policy.reset(3, np.random.default_rng(0))
    asked = env.requests(1, np.random.default_rng(0))
    choices = policy.decide(asked)
    with pytest.raises(InputError, match=r"outcome 1: reward=2.0 is outside reward_range=\(0.0, 1.0\)"):
        policy.learn(Outcomes(asked.task, choices.features, np.array([1.0, 2.0, 0.0])))


@pytest.mark.parametrize(
    "settings",
    [
        {"reward_range": None},
        {"reward_range": (1, 0)},
        {"reward_range": (0, 1), "promise": "all"},
        {"reward_range": (0, 1), "holdout": 0.0},
        {"reward_range": (0, 1), "alpha": 1.5},
        {"reward_range": (0, 1), "on_harm": "shrug"},
        {"reward_range": (0, 1), "expire_after": 0},
        {"reward_range": (0, 1), "rank": 0},
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings):
    with pytest.raises(SettingError):
        bn.SafeDraws(**settings)


# --- rules without a promise ------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_without_a_promise_begins_with_equal_chances_and_learns(rule):
    env = Banners(tasks=6, level=0.0)
    env.reset(np.random.default_rng(0))
    policy = bn.NoPromise(rule)
    policy.reset(6, np.random.default_rng(0))
    np.testing.assert_allclose(policy.decide(env.requests(1, np.random.default_rng(0))).probabilities, 0.2)
    result = bn.simulate(env, policy, epochs=2, rounds=60)
    assert result.regret[1] < result.regret[0]


def test_the_rules_by_what_the_belief_says():
    env = Banners(tasks=6, level=0.0)
    odds = {}
    for rule in RULES:
        policy = bn.NoPromise(rule, epsilon=0.2, width=0.0)
        bn.simulate(env, policy, epochs=1, rounds=40)
        asked = env.requests(3, np.random.default_rng(1))
        odds[rule] = policy.decide(asked).probabilities
        if rule != "thompson":
            best = asked.scores(policy.theta).argmax(axis=1)
            assert np.array_equal(odds[rule].argmax(axis=1), best)
    np.testing.assert_allclose(np.sort(odds["epsilon-greedy"]), [[0.04] * 4 + [0.84]] * 18)
    assert set(odds["ucb"].ravel()) == {0.0, 1.0}  # with no width the greedy choice, without chance
    assert np.all(odds["thompson"] * 64 % 1 == 0)


@pytest.mark.parametrize("settings", [{"rule": "best"}, {"epsilon": 1.5}, {"width": -1.0}], ids=str)
def test_rules_that_cannot_be(settings):
    with pytest.raises(SettingError):
        bn.NoPromise(**settings)
