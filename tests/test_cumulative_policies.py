"""CLUCB and CLUCB2: rounds by hand in two dimensions, the totals, unknown baselines, late rewards."""

import numpy as np
import pytest

import banister as bn
from banister.contract import Outcomes, Requests
from banister.policies._cumulative import occurrences
from banister.simulation.metrics import Totals

E1, E2 = [1.0, 0.0], [0.0, 1.0]
BOTH = pytest.mark.parametrize("cls", [bn.CLUCB, bn.CLUCB2])


def taught(cls, **settings):
    """One task, λ = 1, S = 1, no noise, so β = 1; after three rewards of 1 for (1, 0).

    Then V = diag(4, 1) and θ̂ = (3/4, 0): the bounds of (1, 0) are 0.75 ± 0.5, those of (0, 1) are 0 ± 1.
    """
    policy = cls(**{"lam": 1.0, "noise": 0.0, "norm_bound": 1.0, **settings})
    policy.reset(1, np.random.default_rng(0))
    policy.learn(Outcomes(np.zeros(3, dtype=np.int64), np.array([E1] * 3), np.ones(3)))
    return policy


def ask(reward, *actions, baseline=1, std=0.0):
    return Requests(
        np.array([0]), np.array([actions or [E1, E2]]), np.array([baseline]), np.array([reward]), std
    )


@BOTH
def test_the_first_play_by_hand(cls):
    """(1, 0) has the highest upper bound, 1.25, and surely earns 0.25: enough for 0.8 · r_b up to 0.3125."""
    for reward, index, reason in ((0.3, 0, "cumulative"), (0.32, 1, "baseline")):
        choices = taught(cls).decide(ask(reward))
        assert choices.index.tolist() == [index]
        assert choices.reason.tolist() == [reason]
        assert not choices.certified.any()


@BOTH
def test_baseline_rounds_save_up(cls):
    """Each round at r_b = 1 saves 0.2, and (1, 0) surely earns 0.25.

    Fourth round: 3 + 0.25 ≥ 0.8 · 4. Eighth: 6 + 2 · 0.25 ≥ 0.8 · 8, but not the seventh: 5.5 < 5.6.
    """
    policy = taught(cls)
    chosen = [int(policy.decide(ask(1.0)).index[0]) for _ in range(8)]
    assert chosen == [1, 1, 1, 0, 1, 1, 1, 0]


def test_past_plays_are_bounded_together():
    """Two plays of (1, 0), rewards still out: at worst 2(0.75 − 0.5) = 0.5 ≥ 0.8(0.3 + 0.3)."""
    policy = taught(bn.CLUCB)
    assert [int(policy.decide(ask(0.3)).index[0]) for _ in range(2)] == [0, 0]
    assert policy.decide(ask(0.4)).index.tolist() == [1]  # 0.75 < 0.8


def test_only_the_improvement_settles_for_less():
    """(0, 2) has the highest upper bound, 2, but may cost 2; (1, 0) is allowed, and CLUCB2 takes it."""
    request = ask(0.3, E1, E2, [0.0, 2.0])
    assert taught(bn.CLUCB).decide(request).index.tolist() == [1]
    assert taught(bn.CLUCB2).decide(request).index.tolist() == [0]


def test_only_the_improvement_believes_the_rewards():
    """The first (1, 0) came back as 1 without noise: 1 + 0.25 ≥ 0.8 · (0.3 + r) allows r = 1.2 at once.

    V is then diag(5, 1) and θ̂ = (0.8, 0), so (1, 0) surely earns 0.8 − 1/√5 = 0.353, and 2 · 0.353 < 1.2.
    """
    for cls, index in ((bn.CLUCB, 1), (bn.CLUCB2, 0)):
        policy = taught(cls)
        choices = policy.decide(ask(0.3))
        policy.learn(Outcomes(np.array([0]), choices.features, np.array([1.0])))
        assert policy.decide(ask(1.2)).index.tolist() == [index]


def test_luck_is_taken_off_the_rewards_by_hand():
    """With R = 0.1: log det(V/λ) = log 4, β = 0.1 √(log 4 + 2 log 100) + 1; one reward of 1 for (1, 0)."""
    policy = taught(bn.CLUCB2, noise=0.1)
    policy._size(2)
    policy._join(np.array([0]), np.array([E1]))
    policy.learn(Outcomes(np.array([0]), np.array([E1]), np.array([1.0])))
    asked = ask(0.0)
    ridge = policy._statistics(2)
    settled = policy._settled(asked, ridge, policy._radius(ridge, policy._norm_bounds()))
    assert settled[0, 0] == pytest.approx(1.0 - 0.1 * np.sqrt(2 * np.log(2 / 0.01**2)))


def test_a_reward_that_belongs_to_no_play_settles_nothing():
    policy = taught(bn.CLUCB2)
    assert policy._returned.tolist() == [0]
    choices = policy.decide(ask(0.3))
    policy.learn(Outcomes(np.array([0]), np.array([E2]), np.array([5.0])))
    assert policy._returned.tolist() == [0]
    policy.learn(Outcomes(np.array([0]), choices.features, np.array([1.0])))
    policy.learn(Outcomes(np.array([0]), choices.features, np.array([1.0])))
    assert policy._returned.tolist() == [1]
    np.testing.assert_array_equal(policy._out, [[0.0, 0.0]])


@BOTH
@pytest.mark.parametrize(("reward", "std"), [(np.nan, 0.0), (0.3, 0.1)])
def test_an_unknown_baseline_is_bounded_by_the_same_set(cls, reward, std):
    """x − 0.8 x_b: for x_b = (0.2, 0), (0.84, 0)'θ ≥ 0.84 · 0.25; for (0, 1), 0.75 − √(1/4 + 0.64) < 0."""
    near = ask(reward, E1, [0.2, 0.0], std=std)
    assert taught(cls).decide(near).index.tolist() == [0]
    assert taught(cls).decide(ask(reward, std=std)).index.tolist() == [1]


@BOTH
def test_a_task_that_asks_twice_at_once_is_counted_twice(cls):
    one, two = taught(cls), taught(cls)
    apart = [int(one.decide(ask(1.0)).index[0]) for _ in range(5)]
    many = Requests(
        np.zeros(5, dtype=np.int64), np.array([[E1, E2]] * 5), np.ones(5, dtype=np.int64), np.ones(5)
    )
    assert two.decide(many).index.tolist() == apart


@BOTH
def test_before_the_first_reward_the_baseline_is_played(cls):
    policy = cls()
    policy.reset(1, np.random.default_rng(0))
    assert policy.decide(ask(1.0)).index.tolist() == [1]


@BOTH
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.statistical
def test_the_total_is_kept_and_regret_falls(cls, known):
    env = bn.Synthetic(
        dim=8, rank=2, tasks=10, actions=6, baseline_rank=3, noise_std=0.05, baseline_known=known
    )
    policy = cls(noise=0.05, norm_bound=1.0)
    for seed in range(3):
        result = bn.simulate(env, policy, epochs=2, rounds=150, seed=seed)
        assert result.cumulative_violations.sum() == 0
        assert result.regret[1] < 0.8 * result.regret[0]


def test_occurrences_of_nothing():
    assert list(occurrences(np.zeros(0, dtype=np.int64))) == []


def test_totals_by_hand():
    """Two tasks in turn; task 1's baseline total is negative, so its floor is 1.2 times that."""
    totals = Totals(2)
    task = np.array([0, 1, 0, 1])
    # Task 0 earns 0.7 (floor 0.8), then 1.7 (1.6): one below. Task 1: −1.1 (−1.2), then −2.5 (−2.4): one.
    assert totals.below(task, np.array([0.7, -1.1, 1.0, -1.4]), np.array([1.0, -1.0, 1.0, -1.0]), 0.2) == 2
    assert totals.below(np.array([0]), np.array([0.6]), np.array([1.0]), 0.2) == 1  # 2.3 < 2.4
    assert totals.below(np.array([0]), np.array([1.0]), np.array([1.0]), 0.2) == 0  # 3.3 ≥ 3.2
    assert totals.below(np.zeros(0, dtype=np.int64), np.zeros(0), np.zeros(0), 0.2) == 0


def test_totals_in_one_call_or_many():
    rng = np.random.default_rng(0)
    task, earned, base = rng.integers(4, size=60), rng.normal(0.7, 1, 60), rng.normal(1, 1, 60)
    whole, parts = Totals(4), Totals(4)
    pieces = [slice(0, 7), slice(7, 30), slice(30, 60)]
    counted = sum(parts.below(task[p], earned[p], base[p], 0.2) for p in pieces)
    assert whole.below(task, earned, base, 0.2) == counted
    total = np.zeros((2, 4))
    slow = 0
    for t, e, b in zip(task, earned, base, strict=True):
        total[:, t] += e, b
        slow += total[0, t] < total[1, t] - 0.2 * abs(total[1, t])
    assert counted == slow


def test_the_baseline_never_falls_behind_itself():
    env = bn.Synthetic(dim=6, rank=1, tasks=5, actions=4, baseline_rank=2)
    result = bn.simulate(env, bn.BaselineOnly(), epochs=2, rounds=20)
    assert result.cumulative_violations.tolist() == [0, 0]
