"""Conservative Thompson sampling and UCB: rounds by hand in two dimensions, safety, and what pooling does."""

import numpy as np
import pytest

import banister as bn
from banister.contract import Outcomes, Requests
from banister.errors import SettingError
from banister.policies.pooled_ucb import PooledConservativeUCB
from banister.simulation.trial import one_trial

E1, E2 = [1.0, 0.0], [0.0, 1.0]


def taught(cls, seed=0, **settings):
    """One task, λ = 1, S = 1, no noise, so β = 1; after three rewards of 1 for (1, 0).

    Then V = diag(4, 1) and θ̂ = (3/4, 0): the bounds of (1, 0) are 0.75 ± 0.5, those of (0, 1) are 0 ± 1.
    """
    policy = cls(**{"lam": 1.0, "noise": 0.0, "norm_bound": 1.0, "mixing": False, **settings})
    policy.reset(1, np.random.default_rng(seed))
    policy.learn(Outcomes(np.zeros(3, dtype=np.int64), np.array([E1] * 3), np.ones(3)))
    return policy


def ask(reward, *actions, baseline=1, std=0.0):
    return Requests(
        np.array([0]), np.array([actions or [E1, E2]]), np.array([baseline]), np.array([reward]), std
    )


BOTH = pytest.mark.parametrize("cls", [bn.ConservativeThompson, bn.ConservativeUCB])


@BOTH
def test_the_safe_set_by_hand(cls):
    policy = taught(cls)
    np.testing.assert_allclose(policy.theta, [[0.75], [0.0]])
    choices = policy.decide(ask(0.25))  # floor 0.2: only (1, 0) clears it, with 0.25
    assert choices.index.tolist() == [0]
    assert choices.certified.tolist() == [True]
    np.testing.assert_allclose([choices.lower_bound[0], choices.floor[0]], [0.25, 0.2])
    choices = policy.decide(ask(0.5))  # floor 0.4: nothing clears it
    assert choices.index.tolist() == [1]
    assert choices.certified.tolist() == [False]
    assert choices.reason.tolist() == ["explore"]


@BOTH
def test_an_estimated_baseline_reward_raises_the_floor(cls):
    """By √(2 log(200/0.01)) ≈ 4.45 standard errors: the floor 0.2 becomes 0.236 or, past 0.25, 0.271."""
    slack = np.sqrt(2 * np.log(200 / 0.01))
    for std, certified in ((0.01, True), (0.02, False)):
        choices = taught(cls).decide(ask(0.25, std=std))
        assert choices.certified.tolist() == [certified]
        np.testing.assert_allclose(choices.floor, 0.8 * (0.25 + slack * std))


@BOTH
def test_an_unknown_baseline_reward_by_hand(cls):
    """Safe if (x − 0.8 x_b)'θ or (x − 1.2 x_b)'θ is surely not negative: means ± √(v₁²/4 + v₂²)."""
    policy = taught(cls)
    assert policy.decide(ask(np.nan)).certified.tolist() == [False]  # (1, −0.8): 0.75 − 0.94 < 0
    near = [0.0, 0.2]
    assert policy.decide(ask(np.nan, E1, near)).index.tolist() == [0]  # (1, −0.16): 0.75 − 0.525 > 0


@BOTH
def test_the_mixture_where_nothing_is_safe(cls):
    """Lemma l8 by hand: c = √(2 log(200/0.01)), ρ = 0.2·0.5/(0.5 + c), and (1−ρ) x_b + ρζ is played."""
    policy = taught(cls, seed=7, mixing=True)
    choices = policy.decide(ask(0.5))
    reach = np.sqrt(2 * np.log(200 / 0.01))
    rho = 0.1 / (0.5 + reach)
    rng = np.random.default_rng(7)
    if cls is bn.ConservativeThompson:
        rng.standard_normal((1, 2))  # its sample is drawn first
    np.testing.assert_allclose(
        choices.features, (1 - rho) * np.array([E2]) + rho * rng.standard_normal((1, 2))
    )
    np.testing.assert_allclose(choices.lower_bound, choices.floor)
    assert choices.index.tolist() == [-1]


def test_ucb_prefers_the_highest_upper_bound():
    """Floor −1.2, all safe: upper bounds 1.25, 1 and, for (1, 1), 0.75 + √(1/4 + 1)."""
    choices = taught(bn.ConservativeUCB).decide(ask(-1.0, E1, E2, [1.0, 1.0]))
    assert choices.index.tolist() == [2]
    np.testing.assert_allclose(choices.lower_bound, 0.75 - np.sqrt(1.25))


@pytest.mark.parametrize("seed", range(8))
def test_thompson_prefers_the_best_of_its_sample(seed):
    """θ̃ = (0.75 + η₁/2, η₂), and all three actions are safe."""
    eta = np.random.default_rng(seed).standard_normal(2)
    wanted = np.argmax(np.array([E1, E2, [1.0, 1.0]]) @ [0.75 + eta[0] / 2, eta[1]])
    choices = taught(bn.ConservativeThompson, seed).decide(ask(-1.0, E1, E2, [1.0, 1.0]))
    assert choices.index.tolist() == [wanted]


@BOTH
def test_the_radius_by_hand(cls):
    """n = 3, L = 1, d = 2, T = 1, λ = S = 1, R = 0.1, δ = 0.01; det(V/λ) = 4."""
    seen = ask(-1.0)
    for form, spread in (("source", 2 * np.log(4 / 0.01)), ("determinant", np.log(4) - 2 * np.log(0.01))):
        policy = taught(cls, noise=0.1, radius=form)
        policy.decide(seen)
        np.testing.assert_allclose(
            policy._radius(policy._ridge, np.ones(1)), 0.1 * np.sqrt(spread) + 1, err_msg=form
        )


@BOTH
def test_the_waiting_rule_by_hand(cls):
    """λ_min(V) = 1, L = β = 1, α r_b = 0.05: open iff (2/(κ + 0.05))² ≤ 1."""
    for gap, certified in ((2.0, True), (1.9, False)):
        policy = taught(cls, wait_for_eigenvalue=True, least_gap=gap)
        assert policy.decide(ask(0.25)).certified.tolist() == [certified]


@BOTH
def test_the_waiting_rule_never_opens_without_room(cls):
    """Literal floor and r_b = −1: κ + α r_b = 0.1 − 0.2 is negative, and its square must not count."""
    options = {"literal_floor": True, "wait_for_eigenvalue": True, "lam": 1e-9, "norm_bound": 1e-3}
    for gap, certified in ((0.3, True), (0.1, False)):
        choices = taught(cls, **options, least_gap=gap).decide(ask(-1.0, E1, baseline=0))
        assert choices.certified.tolist() == [certified]


@BOTH
def test_without_a_norm_bound_or_baseline_rewards_nothing_is_certified(cls):
    policy = taught(cls, norm_bound=None)
    assert policy.decide(ask(np.nan, E1, [0.0, 0.2])).certified.tolist() == [False]


def test_pooling_by_hand():
    """λ = 1: after one round V = 2I and Σxy = (1, 2), for both agents once they have synchronised."""
    outcomes = Outcomes(np.array([0, 1]), np.array([E1, E2]), np.array([1.0, 2.0]))
    policy = bn.PooledConservativeUCB(lam=1.0, threshold=0.0)
    policy.reset(2, np.random.default_rng(0))
    policy.learn(outcomes)
    np.testing.assert_allclose(policy.theta, [[0.5, 0.5], [1.0, 1.0]])
    assert (policy.syncs, policy.communicated) == (1, 2 * 2 * 6)
    apart = bn.PooledConservativeUCB(lam=1.0, threshold=1.0)  # log det grew by log 2 < 1
    apart.reset(2, np.random.default_rng(0))
    apart.learn(outcomes)
    np.testing.assert_allclose(apart.theta, [[0.5, 0.0], [0.0, 1.0]])
    assert (apart.syncs, apart.communicated) == (0, 0)
    apart.learn(outcomes)  # (log 3) · 2 rounds > 1; V = 3I, Σxy = (2, 4)
    np.testing.assert_allclose(apart.theta, [[2 / 3, 2 / 3], [4 / 3, 4 / 3]])
    assert apart.syncs == 1


def test_the_default_threshold_is_the_source_s():
    policy = bn.PooledConservativeUCB(horizon=200)
    policy.reset(100, np.random.default_rng(0))
    assert policy._limit(100) == pytest.approx(200 * np.log(20_000) / 10_000)


@pytest.mark.parametrize("noise", [None, 0.0])
@pytest.mark.parametrize("cls", [bn.ConservativeThompson, bn.ConservativeUCB])
@pytest.mark.parametrize("options", [{}, {"baseline_known": False}, {"contexts": "non-negative"}], ids=str)
def test_safe_and_open_in_a_noiseless_world(cls, noise, options):
    env = bn.Synthetic(dim=5, rank=2, tasks=6, actions=5, baseline_rank=3, noise_std=0.0, **options)
    bound = 1.1 if options.get("baseline_known") is False else None  # ‖θ_t‖ ≤ 1 for orthonormal factors
    for seed in range(3):
        policy = cls(noise=noise, norm_bound=bound)
        result = bn.simulate(env, policy, epochs=3, rounds=20, seed=seed)
        assert result.violations.sum() == 0
        assert result.certified[-1] > 0.3


@pytest.mark.statistical
@pytest.mark.parametrize("cls", [bn.ConservativeThompson, bn.ConservativeUCB])
def test_safe_in_a_noisy_world(cls):
    """δ = 0.01 a trial: of 20 trials of 720 plays at noise 0.05, at most one may have a violation."""
    env = bn.Synthetic(dim=5, rank=2, tasks=6, actions=5, baseline_rank=3, noise_std=0.05)
    results = [bn.simulate(env, cls(), epochs=3, rounds=40, seed=seed) for seed in range(20)]
    assert sum(r.violations.sum() > 0 for r in results) <= 1
    assert np.mean([r.certified[-1] for r in results]) > 0.1


class OneTheta(bn.Synthetic):
    """Every task has the parameters of the first: where pooling is right."""

    def reset(self, rng):
        super().reset(rng)
        self._thetas = tuple(np.repeat(theta[:1], self.tasks, axis=0) for theta in self._thetas)


WORLD = {"dim": 20, "rank": 1, "tasks": 10, "actions": 5, "baseline_rank": 3, "noise_std": 0.01}


@pytest.mark.statistical
def test_pooling_pays_where_all_tasks_share_theta():
    """Over 5 seeds the pooled policy has less than half Thompson's regret, in each, and no violation."""
    for seed in range(5):
        rivals = {
            "pooled": bn.PooledConservativeUCB(noise=0.01),
            "alone": bn.ConservativeThompson(noise=0.01),
        }
        results = one_trial(OneTheta(**WORLD), rivals, epochs=2, rounds=30, seed=seed)
        assert results["pooled"].regret.sum() < 0.5 * results["alone"].regret.sum()
        assert results["pooled"].violations.sum() == 0


@pytest.mark.statistical
def test_pooling_harms_where_tasks_differ():
    """Same seeds, different θ: violations, none of which is called certified; Thompson has none."""
    env = bn.Synthetic(**{**WORLD, "rank": 5})
    for seed in range(5):
        rivals = {
            "pooled": bn.PooledConservativeUCB(noise=0.01),
            "alone": bn.ConservativeThompson(noise=0.01),
        }
        results = one_trial(env, rivals, epochs=2, rounds=30, seed=seed)
        assert results["pooled"].violations.sum() > 10
        assert results["pooled"].certified.sum() == 0
        assert results["alone"].violations.sum() == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.0},
        {"lam": 0.0},
        {"lam": float("nan")},
        {"noise": -1.0},
        {"norm_bound": float("inf")},
        {"norm_bound": [1.0, -1.0]},
        {"delta": 1.0},
        {"radius": "wide"},
        {"horizon": 0},
        {"horizon": True},
        {"least_gap": -0.1},
    ],
    ids=str,
)
@pytest.mark.parametrize("cls", [bn.ConservativeThompson, bn.ConservativeUCB, bn.PooledConservativeUCB])
def test_settings_are_checked(cls, settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        cls(**settings)


def test_the_threshold_is_checked():
    with pytest.raises(SettingError, match="threshold"):
        PooledConservativeUCB(threshold=-1.0)
