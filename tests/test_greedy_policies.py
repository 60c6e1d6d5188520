"""The rivals without safety: rounds by hand in two dimensions, when they refit, and what they learn from."""

import numpy as np
import pytest

import banister as bn
from banister.contract import Outcomes, Requests
from banister.data import TaskData
from banister.errors import SettingError
from banister.estimators.paper import PaperSolver
from banister.policies.schedules import EqualSchedule
from banister.simulation.trial import one_trial

GREEDY = [bn.TraceNormGreedy, bn.MomentsGreedy, bn.AltGDminGreedy]
IDENTITY = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
TASK = np.array([0, 0, 1, 1])


def started(policy, n_tasks=2, seed=0):
    policy.reset(n_tasks, np.random.default_rng(seed))
    return policy


def ask(actions, tasks=(0, 1)):
    actions = np.array([actions] * len(tasks), dtype=float)
    m = len(tasks)
    return Requests(np.array(tasks), actions, np.zeros(m, dtype=np.int64), np.zeros(m))


def told(policy, rewards, X=IDENTITY, task=TASK):
    policy.learn(Outcomes(task, X, np.array(rewards, dtype=float)))


def test_trace_norm_by_hand():
    """Identity designs: every singular value of Y falls by N·lam = 2; Y = diag(4, 1) becomes diag(2, 0)."""
    policy = started(bn.TraceNormGreedy(lam=0.5, tol=1e-10))
    told(policy, [4.0, 0.0, 0.0, 1.0])
    policy.end_epoch()
    np.testing.assert_allclose(policy.theta, [[2.0, 0.0], [0.0, 0.0]], atol=1e-6)
    assert policy.decide(ask([[-1.0, 9.0], [1.0, 0.0]], tasks=(0,))).index.tolist() == [1]


def test_the_validated_penalty_follows_the_rows_until_they_have_doubled():
    """Three refits of 4 rows a task each: validated at 4 and at 8, at 12 the penalty of 8 times √(8/12)."""
    rng = np.random.default_rng(0)
    policy = started(bn.TraceNormGreedy(), n_tasks=5)
    theta, penalties = rng.standard_normal((3, 1)) @ rng.standard_normal((1, 5)), []
    for _ in range(3):
        X, task = rng.standard_normal((20, 3)), np.arange(20) % 5
        told(policy, np.einsum("nd,dn->n", X, theta[:, task]) + 0.1 * rng.standard_normal(20), X, task)
        policy.end_epoch()
        penalties.append(policy.lam_)
    assert penalties[2] == pytest.approx(penalties[1] * np.sqrt(8 / 12))


def test_without_pooling_the_penalty_is_validated_on_random_and_on_greedy_rows():
    """Four refits of 4 rows a task each: validated at the first two, kept from then on."""
    rng = np.random.default_rng(0)
    policy = started(bn.TraceNormGreedy(pool=False), n_tasks=5)
    theta, penalties = rng.standard_normal((3, 1)) @ rng.standard_normal((1, 5)), []
    for _ in range(4):
        X, task = rng.standard_normal((20, 3)), np.arange(20) % 5
        told(policy, np.einsum("nd,dn->n", X, theta[:, task]) + 0.1 * rng.standard_normal(20), X, task)
        policy.end_epoch()
        penalties.append(policy.lam_)
    assert penalties[0] != penalties[1] == penalties[2] == penalties[3]


def test_moments_by_hand():
    """mean y²xx' = diag(1, 9)/4, so B = (0, 1); then w = 3 from the row (0, 1) → 3, and 0 without one."""
    policy = started(bn.MomentsGreedy(rank=1, explore=1))
    told(policy, [1.0, 0.0, 0.0, 3.0])
    policy.end_epoch()
    np.testing.assert_allclose(policy.theta, [[0.0, 0.0], [0.0, 3.0]])
    choices = policy.decide(ask([[9.0, -1.0], [0.0, 1.0]]))
    assert choices.index.tolist() == [0, 1]  # a tie goes to the first action
    assert choices.reason.tolist() == ["greedy", "greedy"]


def test_moments_explores_twice_and_takes_the_subspace_from_random_rows_only():
    policy = started(bn.MomentsGreedy(rank=1))
    told(policy, [1.0, 0.0, 0.0, 3.0])
    policy.end_epoch()
    assert policy.theta is None
    told(policy, [2.0, 0.0, 0.0, 1.0])  # Σ y²xx' = diag(1 + 4, 9 + 1): B is still (0, 1)
    policy.end_epoch()
    np.testing.assert_allclose(policy.theta, [[0.0, 0.0], [0.0, 2.0]])  # w: the mean of 3 and 1
    told(policy, [100.0, 0.0, 0.0, 5.0])  # greedy rows would turn B to (1, 0)
    policy.end_epoch()
    np.testing.assert_allclose(policy.theta, [[0.0, 0.0], [0.0, 3.0]])


def test_moments_without_pooling_is_the_sources_split():
    """B from the first epoch, w from the last one alone."""
    policy = started(bn.MomentsGreedy(rank=1, pool=False))
    for rewards in ([1.0, 0.0, 0.0, 3.0], [50.0, 0.0, 0.0, 1.0]):
        told(policy, rewards)
        policy.end_epoch()
    np.testing.assert_allclose(policy.theta, [[0.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("solver", [None, PaperSolver(iterations=200, c=0.3)])
def test_altgdmin_by_hand(solver):
    """Y = (1, 2)(1, 2)' is of rank 1, and identity designs show all of it."""
    policy = started(bn.AltGDminGreedy(rank=1, solver=solver))
    told(policy, [1.0, 2.0, 2.0, 4.0])
    policy.end_epoch()
    np.testing.assert_allclose(policy.theta, [[1.0, 2.0], [2.0, 4.0]], atol=1e-6)
    assert policy.decide(ask([[1.0, 0.0], [0.0, 1.0], [3.0, -1.0]])).index.tolist() == [1, 1]


def delta_method(X, task, B, W, sigma):
    """Cov(vec θ̂) by brute force: the Jacobian of (B, w) ↦ B w_t, and the pseudo-inverse of X'X in it."""
    d, T = len(B), len(W)
    jacobian = np.zeros((T, d, d + T))
    for t in range(T):
        jacobian[t, :, :d] = W[t] * np.eye(d)
        jacobian[t, :, d + t] = B
    design = np.einsum("nd,ndp->np", X, jacobian[task])
    covariance = sigma**2 * np.linalg.pinv(design.T @ design, rcond=1e-9)
    return np.einsum("tip,pq,tjq->tij", jacobian, covariance, jacobian)


def test_low_rank_ucb_by_hand():
    """Estimate plus z standard errors of a rank-one fit in two dimensions, z = √(2 log(rows·K/δ))."""
    rng = np.random.default_rng(0)
    policy = started(bn.LowRankUCB(rank=1, noise=0.5, delta=0.1, schedule=EqualSchedule(6)))
    X, task = rng.standard_normal((12, 2)), np.arange(12) % 2
    told(policy, X @ [1.0, 2.0] * (1.0 + task), X, task)
    np.testing.assert_allclose(policy.theta, [[1.0, 2.0], [2.0, 4.0]], atol=1e-6)
    actions = rng.standard_normal((40, 5, 2))
    tasks = np.arange(40) % 2
    requests = Requests(tasks, actions, np.zeros(40, dtype=np.int64), np.zeros(40))
    covariance = delta_method(X, task, np.array([1.0, 2.0]), np.array([1.0, 2.0]), 0.5)
    std = np.sqrt(np.einsum("mki,mij,mkj->mk", actions, covariance[tasks], actions))
    upper = requests.scores(policy.theta) + np.sqrt(2 * np.log(12 * 5 / 0.1)) * std
    choices = policy.decide(requests)
    np.testing.assert_array_equal(choices.index, upper.argmax(axis=1))
    assert np.any(choices.index != requests.scores(policy.theta).argmax(axis=1))  # optimism made a difference


def test_low_rank_ucb_plays_at_random_until_the_rows_suffice():
    """d = T = 2, r = 1: three numbers are fitted, so six rows are needed; four say nothing."""
    policy = started(bn.LowRankUCB(rank=1, schedule=EqualSchedule(1)))
    told(policy, [1.0, 2.0, 2.0, 4.0])
    assert policy.theta is None
    assert set(policy.decide(ask([[1.0, 0.0]])).reason) == {"explore"}
    told(policy, [1.0, 2.0, 2.0, 4.0])
    np.testing.assert_allclose(policy.theta, [[1.0, 2.0], [2.0, 4.0]], atol=1e-6)


@pytest.mark.parametrize("cls", GREEDY)
def test_first_epoch_is_random_and_uniform(cls):
    policy = started(cls())
    requests = ask([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]], tasks=[0] * 4000)
    counts = np.bincount(policy.decide(requests).index, minlength=4)
    assert np.all(np.abs(counts - 1000) < 150)  # 5.5 standard deviations
    assert policy.block is None


@pytest.mark.parametrize("cls", GREEDY)
def test_online_refits_every_k_rounds(cls):
    policy = started(cls(online=4) if cls is not bn.MomentsGreedy else cls(rank=1, explore=1, online=4))
    assert policy.block == 4
    told(policy, [1.0, 2.0, 2.0, 4.0])
    assert policy.theta is None
    assert policy.block == 2
    told(policy, [1.0, 2.0, 2.0, 4.0])
    assert policy.theta is not None
    assert policy.block == 4
    before = policy.theta.copy()
    policy.end_epoch()  # no new rows: nothing changes
    np.testing.assert_array_equal(policy.theta, before)


@pytest.mark.parametrize("pool", [True, False])
def test_which_rows_are_used(pool, monkeypatch):
    policy, seen = started(bn.AltGDminGreedy(rank=1, pool=pool)), []
    estimate = policy._estimate

    def spy(data: TaskData):
        seen.append(data.n_rows)
        estimate(data)

    monkeypatch.setattr(policy, "_estimate", spy)
    for _ in range(3):
        told(policy, [1.0, 2.0, 2.0, 4.0])
        policy.end_epoch()
    assert seen == ([4, 8, 12] if pool else [4, 4, 4])


@pytest.mark.statistical
def test_online_refits_change_the_order_of_regret():
    """Epochwise the trace norm pays more than a good baseline's first epoch, online less, in 3 of 3 seeds."""
    env = bn.Synthetic(dim=20, rank=1, tasks=20, actions=5, baseline_rank=2)
    for seed in range(3):
        rivals = {"epochs": bn.TraceNormGreedy(), "online": bn.TraceNormGreedy(online=10)}
        results = one_trial(env, {**rivals, "ours": bn.BaselineOnly()}, epochs=2, rounds=30, seed=seed)
        ours = results["ours"].regret[0]
        assert results["online"].regret.sum() < ours < results["epochs"].regret.sum()


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: bn.TraceNormGreedy(online=0), "online"),
        (lambda: bn.TraceNormGreedy(online=5, pool=False), "pool"),
        (lambda: bn.TraceNormGreedy(lam="best"), "lam"),
        (lambda: bn.TraceNormGreedy(tol=0.0), "tol"),
        (lambda: bn.MomentsGreedy(rank=0), "rank"),
        (lambda: bn.MomentsGreedy(explore=0), "explore"),
        (lambda: bn.AltGDminGreedy(rank=1.5), "rank"),
        (lambda: bn.LowRankUCB(noise=0.0), "noise"),
        (lambda: bn.LowRankUCB(delta=0.0), "delta"),
    ],
)
def test_settings_are_checked(make, word):
    with pytest.raises(SettingError, match=word):
        make()


@pytest.mark.parametrize("cls", [bn.MomentsGreedy, bn.AltGDminGreedy, bn.LowRankUCB])
def test_a_rank_that_the_data_cannot_have_is_an_error(cls):
    policy = started(cls(rank=3))

    def epochs():
        for _ in range(10):
            told(policy, [1.0, 2.0, 2.0, 4.0])
            policy.end_epoch()

    with pytest.raises(SettingError, match="rank=3"):
        epochs()


@pytest.mark.parametrize("cls", [bn.AltGDminGreedy, bn.TraceNormGreedy, bn.LowRankUCB])
def test_labels_are_rows_of_the_fit(cls):
    """A label's row is kept as it is, and with rewards drowned in noise the error is smaller for it."""
    env = bn.Synthetic(dim=8, rank=1, tasks=12, actions=5, baseline_rank=3, noise_std=1.0)
    env.reset(np.random.default_rng(0))
    requests, policy = env.requests(2, np.random.default_rng(1)), cls(labels=True)
    policy.reset(12, np.random.default_rng(2))
    policy.decide(requests)
    wanted = (requests.task, requests.baseline_features(), requests.baseline_reward)
    for kept, given in zip(policy._rows.columns(), wanted, strict=True):
        np.testing.assert_array_equal(kept, given)
    errors = {on: bn.simulate(env, cls(labels=on), epochs=2, rounds=30).error[-1] for on in (False, True)}
    assert errors[True] < errors[False]


def test_an_unknown_baseline_is_no_label():
    env = bn.Synthetic(dim=8, rank=1, tasks=12, actions=5, baseline_rank=3, baseline_known=False)
    told, untold = (
        bn.simulate(env, bn.AltGDminGreedy(labels=on), epochs=2, rounds=20) for on in (True, False)
    )
    np.testing.assert_array_equal(told.regret, untold.regret)
