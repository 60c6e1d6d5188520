"""SEGE and optimism around a spectral start: rounds by hand; and learning from labels."""

import numpy as np
import pytest

import banister as bn
from banister.contract import Outcomes, Requests
from banister.errors import SettingError
from banister.policies._conservative import LABEL_WEIGHT
from banister.policies._ridge import RunningRidge
from banister.simulation.trial import one_trial

E1, E2 = [1.0, 0.0], [0.0, 1.0]


def ask(reward, *actions, baseline=1, std=0.0):
    return Requests(
        np.array([0]), np.array([actions or [E1, E2]]), np.array([baseline]), np.array([reward]), std
    )


def teach(policy, rows, rewards):
    policy.reset(1, np.random.default_rng(0))
    policy.learn(Outcomes(np.zeros(len(rows), dtype=np.int64), np.array(rows), np.array(rewards)))
    return policy


# --- SEGE -----------------------------------------------------------------------------------------------


def sege(**settings):
    return bn.SafeExploreGreedy(**{"lam": 1.0, "noise": 0.0, "norm_bound": 1.0, "mixing": False, **settings})


def test_greedy_waits_for_the_least_eigenvalue():
    """V = diag(4, 1) after three rows (1, 0): λ_min = 1 keeps up with c√3 for c up to 0.577."""
    for growth, index in ((0.5, 0), (0.6, 1)):
        policy = teach(sege(growth=growth), [E1] * 3, [1.0] * 3)
        choices = policy.decide(ask(0.25))  # floor 0.2: (1, 0) surely earns 0.25
        assert choices.index.tolist() == [index]
        assert choices.certified.tolist() == [index == 0]


def test_it_is_greedy_where_ucb_is_optimistic():
    """After (1, 0) three times and (0, 1) once: V = diag(4, 2), θ̂ = (0.75, 0.25).

    At a floor of −1 both are safe; the upper bounds are 0.75 + 0.5 and 0.25 + 0.71, the means 0.75 and 0.25.
    With (0, 3) in place of (0, 1) UCB prefers it, 0.75 + 2.12, at an equal mean; SEGE keeps the first.
    """
    rows, rewards = [E1] * 3 + [E2], [1.0, 1.0, 1.0, 0.5]
    request = ask(-2.0, E1, [0.0, 2.9])
    assert teach(sege(), rows, rewards).decide(request).index.tolist() == [0]
    ucb = bn.ConservativeUCB(lam=1.0, noise=0.0, norm_bound=1.0, mixing=False)
    assert teach(ucb, rows, rewards).decide(request).index.tolist() == [1]


def test_the_eigenvalue_is_looked_at_again_only_after_a_tenth_more_rows(monkeypatch):
    policy = teach(sege(growth=2.0), [E1, E2] * 20, [1.0] * 40)
    looked = []
    real = RunningRidge.least_eigenvalue
    monkeypatch.setattr(RunningRidge, "least_eigenvalue", lambda self, t: looked.append(t) or real(self, t))
    assert policy.decide(ask(0.25)).certified.tolist() == [True]  # 21 ≥ 2√40: found once, then remembered
    policy.decide(ask(0.25))
    assert looked == [0]


def test_nothing_is_greedy_before_the_first_reward():
    policy = sege()
    policy.reset(1, np.random.default_rng(0))
    assert policy.decide(ask(0.25)).certified.tolist() == [False]


def test_growth_must_be_positive():
    with pytest.raises(SettingError, match="growth"):
        bn.SafeExploreGreedy(growth=0.0)


# --- optimism around a spectral start -------------------------------------------------------------------


def spectral(**settings):
    return bn.SpectralUCB(
        **{"rank": 1, "noise": 0.0, "norm_bound": 1.0, "lam": 1.0, "explore": 2, **settings}
    )


def test_a_round_by_hand():
    """Two random rows of one task: (2, 0) earns 2, (0, 1) earns 0. Θ̂0 = ½(4, 0): the subspace is (1, 0).

    Its penalty is λ = 1, the other's λ_⊥ = 200/log 201 = 37.71. V = diag(4 + 1, 1 + λ_⊥), θ̂ = (4/5, 0).
    β = √λ S + 0.1 √λ_⊥ S = 1.614 without noise; the upper bounds are 0.8 + β/√5 and 0 + β/√38.71.
    """
    policy = teach(spectral(), [[2.0, 0.0], E2], [2.0, 0.0])
    outside = 200 / np.log(201)
    np.testing.assert_allclose(policy.theta, [[0.8], [0.0]], atol=1e-12)
    beta = policy._radius(policy._ridge)
    np.testing.assert_allclose(beta, [1 + 0.1 * np.sqrt(outside)])
    assert policy.decide(ask(0.0)).index.tolist() == [0]
    # (0, 8): 0 + 8β/√38.71 = 2.07 against 0.8 + 0.72 = 1.52.
    assert policy.decide(ask(0.0, E1, [0.0, 8.0])).index.tolist() == [1]
    # (0, 5): 1.30, not enough.
    choices = policy.decide(ask(0.0, E1, [0.0, 5.0]))
    assert choices.index.tolist() == [0]
    assert choices.reason.tolist() == ["optimistic"]


def test_it_is_the_ridge_with_two_penalties():
    rng = np.random.default_rng(0)
    policy = bn.SpectralUCB(rank=2, explore=10, lam=0.5)
    policy.reset(3, rng)
    X, y, task = rng.standard_normal((60, 5)), rng.standard_normal(60), np.tile(np.arange(3), 20)
    for rows in (slice(0, 30), slice(30, 60)):
        policy.learn(Outcomes(task[rows], X[rows], y[rows]))
    turn = policy._turn
    basis = turn * np.sqrt([0.5, 0.5, *[policy._outside] * 3])
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    for t in range(3):
        mine = task == t
        penalty = basis @ np.diag([0.5, 0.5, *[policy._outside] * 3]) @ basis.T
        direct = np.linalg.solve(X[mine].T @ X[mine] + penalty, X[mine].T @ y[mine])
        np.testing.assert_allclose(policy.theta[:, t], direct, atol=1e-10)


def test_random_until_the_epoch_ends_then_round_by_round():
    policy = bn.SpectralUCB(rank=1)
    policy.reset(1, np.random.default_rng(0))
    assert policy.block is None
    assert policy.decide(ask(0.0)).reason.tolist() == ["explore"]
    policy.end_epoch()  # without rows nothing can start
    assert policy.theta is None
    policy.learn(Outcomes(np.zeros(4, dtype=np.int64), np.array([E1, E2] * 2), np.array([1, 0, 1, 0])))
    policy.end_epoch()
    assert policy.block == 1
    assert policy.theta is not None


def test_it_learns_from_the_shared_subspace():
    env = bn.Synthetic(dim=20, rank=1, tasks=30, actions=6, baseline_rank=3, noise_std=0.05)
    found = one_trial(env, {"s": bn.SpectralUCB(rank=1), "u": bn.ConservativeUCB()}, epochs=3, rounds=40)
    assert found["s"].regret[1:].sum() < 0.5 * found["u"].regret[1:].sum()


# --- labels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cls",
    [
        bn.ConservativeThompson,
        bn.ConservativeUCB,
        bn.CLUCB,
        bn.CLUCB2,
        bn.SafeExploreGreedy,
        bn.PooledConservativeUCB,
    ],
)
def test_a_label_is_a_row_without_noise(cls):
    """Asked three times with x_b = (1, 0) and r_b = 1, nothing played back: θ̂ = (3w/(3w + 1), 0)."""
    policy = cls(lam=1.0, noise=0.0, norm_bound=1.0, labels=True)
    policy.reset(1, np.random.default_rng(0))
    for _ in range(3):
        policy.decide(ask(1.0, baseline=0))
    expected = [[3 * LABEL_WEIGHT / (3 * LABEL_WEIGHT + 1)], [0.0]]
    np.testing.assert_allclose(policy.theta, expected)
    policy.decide(ask(np.nan, baseline=0))
    policy.decide(ask(1.0, baseline=0, std=0.1))
    np.testing.assert_allclose(policy.theta, expected)
    assert policy._ridge.exact.tolist() == [3]


def test_labels_do_not_make_the_noise_look_smaller():
    """Forty exact rows beside forty noisy ones: the level must not come out below the truth's order."""
    rng = np.random.default_rng(0)
    theta = np.array([1.0, -1.0, 0.5])
    ridge = RunningRidge(1, 3, lam=1e-6)
    X = rng.standard_normal((400, 3))
    noise = 0.3 * rng.standard_normal(200)
    task = np.zeros(200, dtype=np.int64)
    ridge.update(Outcomes(task, X[:200], X[:200] @ theta), exact=True)
    assert ridge.noise_level() == np.inf
    ridge.update(Outcomes(task, X[200:], X[200:] @ theta + noise))
    assert 0.28 < ridge.noise_level() < 0.36


def test_thompson_with_labels_learns_under_noise():
    env = bn.Synthetic(dim=10, rank=1, tasks=10, actions=5, baseline_rank=3, noise_std=0.3)
    told = {"noise": 0.3, "norm_bound": 1.0}
    pair = {str(on): bn.ConservativeThompson(labels=on, **told) for on in (False, True)}
    found = one_trial(env, pair, epochs=2, rounds=60)
    assert found["True"].regret.sum() < 0.9 * found["False"].regret.sum()
    assert found["True"].violations.sum() == 0


def test_pooled_agents_share_their_labels():
    settings = {"lam": 1.0, "noise": 0.0, "norm_bound": 1.0, "mixing": False}
    policy = bn.PooledConservativeUCB(labels=True, threshold=0.0, **settings)
    policy.reset(2, np.random.default_rng(0))
    both = Requests(np.array([0, 1]), np.array([[E1, E2]] * 2), np.array([0, 0]), np.array([1.0, 1.0]))
    choices = policy.decide(both)
    policy.learn(Outcomes(both.task, choices.features, np.ones(2)))
    # Two labels and two rewards of (1, 0), all shared: θ̂ = 1 − 1/(2w + 3) for both.
    np.testing.assert_allclose(policy.theta, [[1 - 1 / (2 * LABEL_WEIGHT + 3)] * 2, [0.0, 0.0]])
    assert policy._ridge.exact.tolist() == [2, 2]
