"""numpy's numbers are numbers at every public door: settings, requests, rewards."""

from __future__ import annotations

import numpy as np
import pytest

import banister as bn
from banister.errors import InputError
from banister.policies.schedules import GrowthSchedule

F, K = np.float32, np.int64

POLICIES = {
    "certified": lambda n, k: bn.SafeAltGDmin(n(0.25), rank=k(1), confidence=n(0.875), horizon=k(50)),
    "paper": lambda n, k: bn.SafeAltGDmin(n(0.25), safety="paper", rank=k(1), rho=n(0.125), delta=n(0.125)),
    "thompson": lambda n, k: bn.ConservativeThompson(n(0.25), lam=n(0.125), noise=n(0.5), horizon=k(10)),
    "ucb": lambda n, k: bn.ConservativeUCB(n(0.25), norm_bound=n(2.0), delta=n(0.125), least_gap=n(0.5)),
    "pooled": lambda n, k: bn.PooledConservativeUCB(n(0.25), threshold=n(3.0)),
    "low-rank": lambda n, k: bn.LowRankUCB(
        rank=k(1), noise=n(0.5), delta=n(0.125), schedule=GrowthSchedule(first=k(3), share=n(0.5))
    ),
    "altgdmin": lambda n, k: bn.AltGDminGreedy(rank=k(1), online=k(3)),
    "moments": lambda n, k: bn.MomentsGreedy(rank=k(1), online=k(3)),
    "trace-norm": lambda n, k: bn.TraceNormGreedy(online=k(3)),
}


def trial(make, n, k):
    env = bn.Synthetic(dim=k(6), rank=k(1), tasks=k(5), actions=k(4), baseline_rank=k(2), noise_std=n(0.125))
    return bn.simulate(env, make(n, k), epochs=k(2), rounds=k(8), seed=k(3), delay=k(1), drop=n(0.125))


@pytest.mark.parametrize("name", POLICIES)
def test_a_trial_is_the_same_with_numpy_numbers(name):
    """The numbers are exact in float32, so that both trials are one."""
    own, numpys = trial(POLICIES[name], float, int), trial(POLICIES[name], F, K)
    assert np.array_equal(own.regret, numpys.regret)
    assert own.rounds.tolist() == numpys.rounds.tolist() == [8, 8]


ESTIMATORS = {
    "altgdmin": lambda n, k: bn.AltGDmin(k(1), noise_std=n(0.5), tol=n(2**-20), max_passes=k(50), seed=k(1)),
    "trace-norm": lambda n, k: bn.TraceNorm(noise=n(0.5), holdout=n(0.25), tol=n(2**-12), max_iter=k(100)),
    "moments": lambda n, k: bn.MethodOfMoments(rank=k(1)),
    "ridge": lambda n, k: bn.TaskRidge(lam=n(0.5)),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fit_is_the_same_with_numpy_numbers(name):
    rng = np.random.default_rng(0)
    X, tasks = rng.standard_normal((60, 3)), np.repeat(np.arange(6), 10)
    y = X @ [1.0, 2.0, 0.0] + 0.5 * rng.standard_normal(60)
    own, numpys = (ESTIMATORS[name](*kinds).fit(X, y, tasks) for kinds in ((float, int), (F, K)))
    assert np.array_equal(own.theta_, numpys.theta_)


def test_a_bandit_takes_numpy_numbers_everywhere(tmp_path):
    path = tmp_path / "shop.banister"
    bandit = bn.SafeBandit(
        path=path, alpha=F(0.1), confidence=F(0.9), rank=K(2), mixing=np.True_, norm_bound=F(2.0),
        max_mixtures=K(10), growth=F(0.5), expire_after=F(10.0), seed=K(3), drift_guard=np.False_,
        refits="manual",
    )  # fmt: skip
    with bandit:
        d = bandit.decide("a", np.eye(3), baseline=K(1), baseline_reward=F(0.5), baseline_reward_std=F(0.1))
        assert bandit.reward(K(d.id), F(0.25)) == "accepted"
        d = bandit.decide("a", np.eye(3), baseline=K(1), baseline_reward=(F(0.25), F(0.5)))
        assert bandit.reward_many([K(d.id)], [F(0.25)]) == ["accepted"]
    with bn.SafeBandit.load(path) as again:  # what was kept is what JSON can hold
        assert (again.settings.rank, again.settings.mixing, again.settings.drift_guard) == (2, True, False)
        assert again.settings.alpha == float(F(0.1))


def test_a_truth_value_of_numpy_is_no_number():
    with pytest.raises(InputError, match="alpha=True"):
        bn.SafeBandit(alpha=np.True_)
    with pytest.raises(InputError, match="share=True"):
        bn.SafeBandit().dry_run({"task": ["a"], "reward": [1.0], "f0": [1.0]}, share=True)
