"""The certificate's judgement: by hand in two dimensions, and the kernel against a plain numpy twin."""

from dataclasses import replace

import numpy as np
import pytest
from banister.safety.certificate import Certificate
from banister.safety.scales import Scales

from banister.contract import Outcomes, Requests
from banister.safety import _kernels, checks
from banister.safety.constraint import Constraint

KINDS = ("known", "unknown", "noisy", "some")


def random_certificate(rng, T, d, *, inflation=1.0, size=0.3):
    root = size * rng.normal(size=(T, d, d)) / np.sqrt(d)
    return Certificate(
        rng.normal(size=(T, d)),
        root @ root.transpose(0, 2, 1),
        rng.uniform(1.5, 3.0, T),
        np.where(rng.random(T) < 0.15, rng.integers(1, len(checks.REASONS), T), 0),
        Scales(rng.uniform(0.5, 1.5, T), inflation=inflation),
        slack=2.0,
        rank=2,
        surprises=np.array([0, 3]),
    )


def random_requests(rng, certificate, m, K, kind, *, vectors=False, wild=0.1):
    """Requests whose baseline rewards mostly agree with the estimates, and now and then contradict them."""
    T, d = certificate.theta.shape
    task, actions = rng.integers(T, size=m), rng.normal(size=(m, K, d))
    baseline = rng.normal(size=(m, d)) if vectors else rng.integers(K, size=m)
    features = baseline if vectors else actions[np.arange(m), baseline]
    reward = np.einsum("md,md->m", features, certificate.theta[task]) + 0.1 * rng.normal(size=m)
    reward += np.where(rng.random(m) < wild, 20.0, 0.0)
    unknown = rng.random(m) < {"unknown": 1.0, "some": 0.5}.get(kind, 0.0)
    std = rng.uniform(0.0, 0.3, m) * (rng.random(m) < 0.7) if kind in ("noisy", "some") else 0.0
    return Requests(task, actions, baseline, np.where(unknown, np.nan, reward), std)


def twin(certificate, requests, constraint):
    """The judgement without shortcuts: condition the whole posterior of θ_t, then try all actions in turn."""
    c, shut, surprised = certificate, certificate.shut.copy(), int(certificate.surprises[0])
    out = []
    for i in range(len(requests)):
        t, r, xb = requests.task[i], requests.baseline_reward[i], requests.baseline_features()[i]
        claimed = requests.baseline_reward_std[i]
        known = not np.isnan(r)
        error = c.scales.inflation * max(claimed, 0.01 * np.median(c.scales.play))
        slack = 0.0 if claimed == 0 and c.scales.inflation == 1.0 else c.slack * error
        floor = float(constraint.floor(r + slack))
        if shut[t] != checks.OPEN:
            out.append((-1, np.nan, floor, shut[t]))
            continue
        mean, V = c.theta[t], c.V[t]
        if known:
            total, surprise = xb @ V @ xb + error**2, r - xb @ mean
            if abs(surprise) > c.z[t] * np.sqrt(total):
                shut[t], surprised = checks.BASELINES, surprised + 1
                if surprised >= c.surprises[1]:
                    shut[:] = checks.DRIFT
                out.append((-1, np.nan, floor, checks.BASELINES))
                continue
            mean, V = mean + V @ xb * surprise / total, V - np.outer(V @ xb, V @ xb) / total
        out.append(_try_all(c.z[t], requests, constraint, i, mean, V, floor, slack))
    return [np.array(column) for column in zip(*out, strict=True)], shut, surprised


def _lower(z, x, mean, V):
    return x @ mean - z * np.sqrt(max(x @ V @ x, 0.0))


def _try_all(z, requests, constraint, i, mean, V, floor, slack):
    actions, xb, r = requests.actions[i], requests.baseline_features()[i], requests.baseline_reward[i]
    for k in np.argsort(-(actions @ mean)):
        x = actions[k]
        if k == requests.baseline_index()[i] and not constraint.literal:
            return (
                (k, 0.0, 0.0, checks.OPEN) if np.isnan(r) else (k, r, float(constraint.floor(r)), checks.OPEN)
            )
        if not np.isnan(r) and (bound := _lower(z, x, mean, V)) >= floor:
            return k, bound, floor, checks.OPEN
        if np.isnan(r) or slack > 0:
            bound = max(_lower(z, x - f * xb, mean, V) for f in constraint.factors)
            if bound >= 0:
                return k, bound, 0.0, checks.OPEN
    return -1, np.nan, floor, _kernels.NOT_CLEARED


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_its_plain_twin(kind, literal, vectors):
    codes = set()
    for seed in range(12):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        c = random_certificate(rng, 6, 5, inflation=1.0 if seed % 3 else 2.5, size=(0.1, 0.3, 1.0)[seed % 3])
        requests = random_requests(rng, c, 25, 4, kind, vectors=vectors, wild=0.15 * (seed % 2))
        constraint = Constraint(float(rng.uniform(0.05, 0.6)), literal)
        (chosen, bound, floor, code), shut, surprised = twin(c, requests, constraint)
        got = c._run(requests, constraint)
        np.testing.assert_array_equal(got[0], chosen)
        np.testing.assert_allclose(got[1], bound, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(got[2], floor, rtol=1e-10, atol=1e-10)
        np.testing.assert_array_equal(got[3], code)
        np.testing.assert_array_equal(c.shut, shut)
        assert c.surprises[0] == surprised
        codes |= set(code.tolist())
    # A listed baseline clears every floor but the literal one, so there nothing remains uncleared.
    expected = {checks.OPEN} | ({_kernels.NOT_CLEARED} if literal or vectors else set())
    assert expected | (set() if kind == "unknown" else {checks.BASELINES, checks.DRIFT}) <= codes
    assert literal or vectors or _kernels.NOT_CLEARED not in codes


def hand(actions, reward, *, std=0.0, literal=False, V=None, **options):
    """One request, α = 0.5, of a task whose θ̂ is (1, 0) with V = diag(0, 0.01) and z = 2; action 0 is x_b."""
    c = Certificate(
        np.array([[1.0, 0.0]]),
        np.array([np.diag([0.0, 0.01]) if V is None else V]),
        np.array([2.0]),
        np.zeros(1, dtype=np.int64),
        Scales(np.ones(1)),
        slack=3.0,
        **options,
    )
    zero = np.zeros(1, dtype=np.int64)
    requests = Requests(zero, np.array([actions], dtype=float), zero, np.array([reward]), std)
    return c.judge(requests, Constraint(0.5, literal)), c


def test_known_reward_by_hand():
    # x_b = (1, 0) earns 1, the floor is 0.5. (2, 1): 2 − 2·0.1 = 1.8. (3, 13): 3 − 2·1.3 = 0.4 is too little.
    choices, _ = hand([[1, 0], [2, 1], [3, 13]], 1.0)
    assert choices.index.tolist() == [1]
    assert choices.reason.tolist() == ["certified"]
    np.testing.assert_allclose(choices.lower_bound, 1.8)
    np.testing.assert_allclose(choices.floor, 0.5)
    np.testing.assert_array_equal(choices.features, [[2.0, 1.0]])


def test_unknown_reward_by_hand():
    # (2, 1) − 0.5·(1, 0) = (1.5, 1): 1.5 − 0.2 = 1.3 against 0; (3, 13) − …: 2.5 − 2.6 < 0.
    choices, _ = hand([[1, 0], [2, 1], [3, 13]], np.nan)
    assert choices.index.tolist() == [1]
    np.testing.assert_allclose(choices.lower_bound, 1.3)
    np.testing.assert_allclose(choices.floor, 0.0)


def test_the_reward_of_this_very_baseline_sharpens_the_estimate():
    # V = I/100. x_b = (0, 1) is reported as 0.1 ± 0.01 (a hundredth of the noise), so θ_2 moves to 0.099 and
    # its variance falls to 0.01·0.0001/0.0101. Then (0, 2): 0.198 − 2·2·√(that) ≥ 0.05.
    choices, _ = hand([[0, 1], [0, 2]], 0.1, V=0.01 * np.eye(2))
    total = 0.01 + 0.01**2
    mean, variance = 0.01 / total * 0.1, 0.01 - 0.01**2 / total
    np.testing.assert_allclose(choices.lower_bound, 2 * mean - 2 * 2 * np.sqrt(variance))
    assert choices.index.tolist() == [1]


def test_a_doubtful_reward_raises_the_floor_unless_the_difference_is_sure():
    # 1 ± 0.2 with three deviations of slack: the floor is half of 1.6. (1.1, 5): 1.1 − 1 = 0.1 < 0.8, and
    # (1.1, 5) − 0.5·x_b: 0.6 − 1 < 0. (0.9, 0) is below the baseline, so the baseline is played as certified.
    choices, _ = hand([[1, 0], [1.1, 5], [0.9, 0]], 1.0, std=0.2)
    assert choices.index.tolist() == [0]
    assert choices.certified.tolist() == [True]
    np.testing.assert_allclose([choices.lower_bound[0], choices.floor[0]], [1.0, 0.5])
    # (1.1, 1): 1.1 − 0.2 = 0.9 clears 0.8.
    choices, _ = hand([[1, 0], [1.1, 1], [0.9, 0]], 1.0, std=0.2)
    np.testing.assert_allclose([choices.lower_bound[0], choices.floor[0]], [0.9, 0.8])
    # With ± 0.5 the floor is 1.25; 0.9 does not clear it, but 1.1 − 0.5 − 0.2 = 0.4 ≥ 0 does without r_b.
    choices, _ = hand([[1, 0], [1.1, 1], [0.9, 0]], 1.0, std=0.5)
    np.testing.assert_allclose([choices.lower_bound[0], choices.floor[0]], [0.4, 0.0])


def test_a_losing_baseline_under_either_floor():
    # r_b = −1. Floor −1.5: the baseline is its own certificate. The literal floor is −0.5: it is not.
    own, _ = hand([[-1, 0], [-2, 0]], -1.0)
    assert own.reason.tolist() == ["certified"]
    assert own.lower_bound[0] >= own.floor[0]
    literal, _ = hand([[-1, 0], [-2, 0]], -1.0, literal=True)
    assert literal.reason.tolist() == ["fallback:no-action-clears"]
    assert not literal.certified[0]
    unknown, _ = hand([[-1, 0], [-2, 0]], np.nan, literal=True)
    assert not unknown.certified[0]
    gains, _ = hand([[1, 0], [0.5, 0]], 1.0, literal=True)
    assert gains.certified.tolist() == [True]
    np.testing.assert_allclose([gains.lower_bound[0], gains.floor[0]], [1.0, 0.5])


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_certified_clears_its_floor(kind, literal):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        c = random_certificate(rng, 6, 5)
        requests = random_requests(rng, c, 60, 4, kind)
        choices = c.judge(requests, Constraint(0.3, literal))
        assert np.all(choices.lower_bound[choices.certified] >= choices.floor[choices.certified])
        assert np.isnan(choices.lower_bound[~choices.certified]).all()
        played = requests.actions[np.arange(60), choices.index]
        np.testing.assert_array_equal(choices.features, played)
        np.testing.assert_array_equal(
            choices.index[~choices.certified], requests.baseline[~choices.certified]
        )


def test_a_contradiction_shuts_its_task_and_many_shut_all():
    choices, c = hand([[1, 0], [2, 1]], 5.0, surprises=np.array([0, 9]))
    assert choices.reason.tolist() == ["fallback:baseline-disagrees"]
    assert not c.opened
    assert not c.drifted
    rng = np.random.default_rng(0)
    c = random_certificate(rng, 5, 3)
    c.shut[:] = 0
    requests = random_requests(rng, c, 5, 3, "known", wild=0.0)
    requests = Requests(np.arange(5), requests.actions, requests.baseline, requests.baseline_reward + 50.0)
    codes = c.judge(requests, Constraint(0.2)).reason.tolist()
    assert codes == ["fallback:baseline-disagrees"] * 3 + ["fallback:drift"] * 2
    assert c.drifted


def test_new_tasks_are_told_from_known_ones_in_any_order():
    rng = np.random.default_rng(1)
    c = random_certificate(rng, 3, 4)
    c.shut[:] = [0, checks.FEW_ROWS, 0]
    requests = random_requests(rng, c, 8, 3, "unknown")
    task = np.array([5, 0, 1, 3, 2, 0, 9, 2])
    requests = Requests(task, requests.actions, requests.baseline, requests.baseline_reward)
    choices = c.judge(requests, Constraint(0.3))
    alone = [c.judge(requests[i : i + 1], Constraint(0.3)) for i in range(8)]
    assert choices.reason.tolist() == [a.reason[0] for a in alone]
    assert choices.index.tolist() == [a.index[0] for a in alone]
    assert [choices.reason[i] for i in (0, 3, 6)] == ["fallback:new-task"] * 3
    assert choices.reason[2] == "fallback:few-rows"
    only_new = c.judge(requests[np.array([0, 3])], Constraint(0.3))
    assert only_new.reason.tolist() == ["fallback:new-task"] * 2


def test_no_requests_no_choices():
    c = random_certificate(np.random.default_rng(2), 3, 4)
    none = Requests(
        np.zeros(0, dtype=np.int64), np.zeros((0, 2, 4)), np.zeros(0, dtype=np.int64), np.zeros(0)
    )
    assert len(c.judge(none, Constraint(0.3))) == 0


@pytest.mark.parametrize("code", range(1, len(checks.REASONS)))
def test_every_code_shuts_and_is_told(code):
    rng = np.random.default_rng(3)
    c = random_certificate(rng, 2, 3)
    c.shut[:] = [0, code]
    requests = random_requests(rng, c, 20, 3, "known", wild=0.0)
    reasons = c.judge(requests, Constraint(0.3)).reason
    assert set(reasons[requests.task == 1]) == {checks.REASONS[code]}
    closed = Certificate.closed(2, 3, code)
    assert set(closed.judge(requests, Constraint(0.3)).reason) == {checks.REASONS[code]}
    assert not closed.opened


def test_a_closed_certificate_knows_each_tasks_reason():
    shut = np.array([checks.MISFIT, checks.FEW_ROWS])
    closed = Certificate.closed(2, 3, shut)
    shut[:] = 0
    requests = random_requests(
        np.random.default_rng(4), random_certificate(np.random.default_rng(4), 2, 3), 9, 3, "known"
    )
    told = closed.judge(requests, Constraint(0.3)).reason
    names = np.array(["fallback:task-misfit", "fallback:few-rows"])
    assert told.tolist() == names[requests.task].tolist()
    assert not closed.undecided
    assert Certificate.closed(2, 3, checks.UNDECIDED).undecided


def watched(batches, *, shift=0.0, seed=0):
    """A certificate that has seen rewards in batches, with residuals of unit size shifted by some."""
    rng = np.random.default_rng(seed)
    c = replace(random_certificate(rng, 4, 3), usual=2.5)
    c.shut[:] = 0
    for n in batches:
        task, X = rng.integers(4, size=n), rng.normal(size=(n, 3))
        mean = np.einsum("nd,nd->n", X, c.theta[task])
        c.watch(Outcomes(task, X, mean + c.scales.play[task] * (rng.normal(size=n) + shift)))
    return c


@pytest.mark.parametrize("batches", [[40], [1] * 40, [7] * 6, [19, 1, 20]])
def test_unusual_rewards_are_a_drift_however_they_come(batches):
    assert watched(batches, shift=4.0).drifted
    assert not watched(batches).drifted


@pytest.mark.statistical
def test_usual_rewards_ring_no_alarm():
    # 200 batches of 20: an alarm needs 10 of 20 beyond 2.5 deviations.
    assert not any(watched([20] * 20, seed=s).drifted for s in range(10))


def test_errors_of_the_estimate_are_no_drift():
    c = watched([])
    X, task = np.full((40, 3), 30.0), np.arange(40) % 4
    spread = np.sqrt(np.einsum("nd,nde,ne->n", X, c.V[task], X))
    mean = np.einsum("nd,nd->n", X, c.theta[task])
    assert np.all(spread > 2.5 * c.scales.play[task])
    c.watch(Outcomes(task, X, mean + 2.0 * spread))
    assert not c.drifted
    c.watch(Outcomes(task, X, mean + 4.0 * spread))
    assert c.drifted


def test_what_comes_after_a_drift_has_not_drifted():
    assert not Certificate.closed(2, 3, checks.DRIFT).drifted


def test_few_rewards_new_tasks_and_shut_gates_are_no_drift():
    assert not watched([19], shift=50.0).drifted
    c = watched([])
    new = Outcomes(np.full(30, 7), np.ones((30, 3)), np.full(30, 1e6))
    c.watch(new)
    assert not c.drifted
    shut = Certificate.closed(4, 3)
    shut.watch(Outcomes(np.zeros(30, dtype=np.int64), np.ones((30, 3)), np.full(30, 1e6)))
    assert not shut.drifted
