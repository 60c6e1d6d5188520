"""The judgement of requests: a plain twin of the whole path, and one hand case a guard."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.learner.learner import Learner
from banister.learner.memory import Memory
from banister.safety import _kernels
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.frame import Frame
from banister.safety.reasons import (
    BASELINE_BEST,
    CERTIFIED,
    DISAGREES,
    DRIFT,
    IDENTICAL,
    NEW_TASK,
    REASONS,
    TOO_UNCERTAIN,
)
from belief_world import UNKNOWN, World, belief


def allowance(b, t, g):
    """Variance for not knowing the left-over's own."""
    return 2 * np.sqrt(((b.away[t].T @ g) ** 4 * b.left**2).sum())


def below(mean, variance, z):
    return mean - z * np.sqrt(max(variance, 0.0))


def plain(b, constraint, gates, t, A, xb, index, low, high, std):
    """One request: (chosen, bound, floor, code); dense matrices, the conditioned belief written out."""
    unit, z = b.frame.reward, b.z[t]
    X, x0 = b.frame.rows(A), b.frame.rows(xb[None])[0]
    given, number = not np.isnan(high), low == high
    r, error = high / unit, std / unit
    floor = float(constraint.floor(r + z * error if number else r))
    told = floor * unit if given else np.nan
    if gates[t] != CERTIFIED:
        return -1, np.nan, float(constraint.floor(high)), gates[t]
    mean, V = b.mean[t], b.V[t]
    beta_of, to_beat = np.zeros(len(mean)), x0 @ mean
    label = number and b.labelled[t]
    if label:
        total = x0 @ V @ x0 + max(error, b.label_error) ** 2
        if (r - x0 @ mean) ** 2 > z**2 * (total + allowance(b, t, x0)):
            gates[t] = DISAGREES
            return -1, np.nan, told, DISAGREES
        beta_of = V @ x0 / total
        mean, V = mean + beta_of * (r - x0 @ mean), V - np.outer(beta_of, beta_of) * total
        to_beat = r
    code = BASELINE_BEST
    twins = np.isclose(A, xb, rtol=1e-12, atol=0).all(axis=1)
    if twins.all() and len(A) > 1:
        return -1, np.nan, told, IDENTICAL
    for k in np.argsort(-(X @ mean), kind="stable"):
        x, m = X[k], X[k] @ mean
        if not m > to_beat:
            break
        if k == index or twins[k]:
            continue
        code = TOO_UNCERTAIN
        ahead = max(
            below((x - f * x0) @ mean, (x - f * x0) @ V @ (x - f * x0) + allowance(b, t, x - f * x0), z)
            for f in constraint.factors
        )
        misfit = b.label_error**2 if label else 0.0
        lower = below(m, x @ V @ x + misfit + allowance(b, t, x - (x @ beta_of) * x0), z)
        if label and lower >= floor:
            return k, lower * unit, told, CERTIFIED
        if label and error > 0 and ahead >= 0 and m >= floor:
            return k, ahead * unit, 0.0, CERTIFIED
        if not label and given and lower >= floor and ahead >= 0:
            return k, lower * unit, told, CERTIFIED
        if not given and ahead >= 0:
            return k, ahead * unit, 0.0, CERTIFIED
    return -1, np.nan, told, code


def agree(learner, task, A, index, xb, low, high, std):
    """Verdicts of the learner, after they were found equal to the twin's; the counts of each code."""
    gates = learner.gates.codes.copy()
    out = learner.decide(task, A, index, xb, low, high, std)
    for i, t in enumerate(task):
        chosen, bound, floor, code = plain(
            learner.belief, learner.constraint, gates, t, A[i], xb[i], index[i], low[i], high[i], std[i]
        )
        assert (out.chosen[i], out.code[i]) == (chosen, code)
        size = learner.belief.frame.reward * (1 + np.abs(learner.belief.mean).max())
        np.testing.assert_allclose(
            [out.bound[i], out.floor[i]], [bound, floor], rtol=1e-10, atol=1e-10 * size
        )
    np.testing.assert_array_equal(learner.gates.codes, gates)
    return np.bincount(out.code, minlength=len(REASONS))


def serving(b, alpha=0.2, *, literal=False):
    learner = Learner(Constraint(alpha, literal), Believer(), Memory(len(b.frame.scale)))
    learner.use(b)
    return learner


def random_belief(seed, T=3, d=3):
    rng = np.random.default_rng(seed)
    intercept = bool(seed % 2)
    p = d + intercept
    A = 0.15 * rng.normal(size=(T, p, p))
    return belief(
        rng.normal(size=(T, p)), A @ np.swapaxes(A, 1, 2),
        frame=Frame(rng.uniform(0.5, 2.0, size=d), intercept, 3.0), left=0.01 * rng.random(p),
        away=np.eye(p) + 0.3 * rng.normal(size=(T, p, p)), z=rng.uniform(1.0, 3.0, size=T),
        labelled=rng.random(T) < 0.6, label_error=0.02,
    )  # fmt: skip


@settings(deadline=None, max_examples=120)
@given(st.integers(0, 10**6), st.booleans(), st.booleans())
def test_every_request_is_judged_as_the_plain_twin_does(seed, literal, vector):
    rng = np.random.default_rng(seed)
    b = random_belief(seed)
    m, K = 25, 4
    task, A = rng.integers(3, size=m), rng.normal(size=(m, K, 3))
    index = rng.integers(K, size=m)
    A[rng.random(m) < 0.2, :2] = A[0, 0]  # some requests with twins, and below some of nothing else
    A[:3] = A[:3, :1]
    xb = A[np.arange(m), index]
    if vector:
        index, xb = np.full(m, -1), rng.normal(size=(m, 3))
    expected = 3.0 * np.einsum("mp,mp->m", b.frame.rows(xb), b.mean[task])
    high = np.where(rng.random(m) < 0.3, UNKNOWN, expected + 0.5 * rng.normal(size=m))
    low = np.where(rng.random(m) < 0.3, high - rng.random(m), high)
    std = np.where(rng.random(m) < 0.5, 0.0, 0.3 * rng.random(m))
    agree(serving(b, float(rng.uniform(0.05, 0.9)), literal=literal), task, A, index, xb, low, high, std)


@pytest.mark.parametrize("claims", [True, False])
@pytest.mark.parametrize("literal", [True, False])
def test_from_rows_to_choices(claims, literal):
    world = World(noise=0.05, T=8, level=2.0)
    world.level[0] = -6.0  # where the literal floor and the other differ
    learner = serving(Believer().believe(world.seen(15, claims=claims), 8, 500), literal=literal)
    task, A, index, expected = world.ask(200)
    r = expected[np.arange(200), index] if claims else np.full(200, UNKNOWN)
    counts = agree(learner, task, A, index, A[np.arange(200), index], r, r, np.zeros(200))
    assert counts[CERTIFIED] > 100
    assert (
        bool(counts[TOO_UNCERTAIN]) == literal
    )  # the paper's floor forbids what is near a negative baseline


def test_claims_that_are_not_believed_bind_all_the_same():
    world = World(noise=0.05, T=8)
    learner = serving(Believer().believe(world.seen(15, exact=False), 8, 500))
    assert not learner.belief.labelled.any()
    task, A, index, expected = world.ask(200)
    base = expected[np.arange(200), index]
    r = world.level[task] + 0.5
    counts = agree(learner, task, A, index, A[np.arange(200), index], r, r, np.zeros(200))
    assert counts[CERTIFIED] > 20
    unbound = serving(learner.belief)
    free = agree(
        unbound, task, A, index, A[np.arange(200), index], base * UNKNOWN, base * UNKNOWN, np.zeros(200)
    )
    assert free[CERTIFIED] >= counts[CERTIFIED]


# --- by hand: one feature a coordinate, θ̂ = (1, 2), no doubt unless it is given --------------------------

EYE = np.eye(2)


def one(
    V,
    *,
    high=UNKNOWN,
    low=None,
    std=0.0,
    actions=EYE,
    baseline=0,
    alpha=0.2,
    literal=False,
    mean=(1.0, 2.0),
    **b,
):
    """The verdict on one request of task 0; baseline x_b = (1, 0), the other action x = (0, 1)."""
    learner = serving(belief([mean], [V], **b), alpha, literal=literal)
    low = high if low is None else low
    return learner.decide_one(0, np.asarray(actions, dtype=float), baseline, low, high, std), learner


def test_a_better_action_without_doubt_is_played():
    (chosen, bound, floor, code), _ = one(np.zeros((2, 2)))
    # x − 0.8 x_b: 2 − 0.8; x − 1.2 x_b: 2 − 1.2
    assert (chosen, bound, floor, code) == (1, pytest.approx(1.2), 0.0, CERTIFIED)


def test_the_bound_is_z_standard_deviations_below():
    # unknown r_b: (x − 0.8 x_b)'θ = 1.2 ± 2 √(v + 0.64 w)
    for v, code in ((0.35, CERTIFIED), (0.37, TOO_UNCERTAIN)):
        assert one(np.diag([0.0, v]))[0][3] == code
    for w, code in ((0.55, CERTIFIED), (0.57, TOO_UNCERTAIN)):
        assert one(np.diag([w, 0.0]))[0][3] == code
    assert one(np.diag([0.0, 0.04]))[0][1] == pytest.approx(1.2 - 0.4)
    # a correlated error cancels: variance (1 − 0.8)²
    assert one(np.ones((2, 2)))[0][1] == pytest.approx(1.2 - 2 * 0.2)


def test_what_is_open_of_the_left_over_widens():
    # 2 √(1⁴ l₂² + 0.8⁴ l₁²) more variance, through away
    left = np.array([0.03, 0.04])
    wanted = 1.2 - 2 * np.sqrt(2 * np.sqrt(0.04**2 + 0.8**4 * 0.03**2))
    assert one(np.zeros((2, 2)), left=left)[0][1] == pytest.approx(wanted)
    away = np.array([[[0.0, 0.5], [0.0, 0.0]]])  # away'g = (0, 0.5 g₁), g₁ = −0.8
    wanted = 1.2 - 2 * np.sqrt(2 * np.sqrt(0.4**4 * 0.04**2))
    assert one(np.zeros((2, 2)), left=left, away=away)[0][1] == pytest.approx(wanted)


def test_an_action_must_be_better_than_the_baseline():
    for second, code in ((1.0 - 1e-9, BASELINE_BEST), (1.0, BASELINE_BEST), (1.0 + 1e-9, CERTIFIED)):
        assert one(np.zeros((2, 2)), mean=(1.0, second))[0][3] == code
    # with a label: better than the label says
    for r, code in ((1.9, CERTIFIED), (2.0, BASELINE_BEST), (2.1, BASELINE_BEST)):
        assert one(np.diag([9.0, 0.0]), high=r, labelled=np.array([True]))[0][3] == code
    # with a claim that is no label: better than the estimate
    assert one(np.diag([9.0, 0.0]), high=2.1, mean=(2.05, 2.0))[0][3] == BASELINE_BEST


def test_the_next_best_is_tried():
    actions = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.75]]
    V = np.diag([0.0, 0.33])
    # 2 − 0.8 − 2 · 0.574 clears; make the best too uncertain and the second is not: 1.5 − .8 − 1.5 · 0.574
    assert one(V, actions=actions)[0][0] == 1
    V3 = np.diag([0.0, 1.0, 0.01])
    verdict, _ = one(V3, actions=np.eye(3), mean=(1.0, 2.0, 1.5))
    assert verdict[0] == 2
    assert verdict[1] == pytest.approx(0.7 - 0.2)


def test_actions_that_cannot_be_told_from_the_baseline_are_never_certified():
    alike = [[1.0, 0.0], [1.0, 0.0], [1.0 + 1e-15, 0.0]]
    # the label says less than the estimate, which the baseline's twins would seem to beat
    told = {"high": 0.95, "labelled": np.array([True]), "label_error": 1.0}
    for extra in ({}, told):
        assert one(np.diag([1e-9, 0.0]), actions=alike, **extra)[0][::3] == (-1, IDENTICAL)
    assert one(np.zeros((2, 2)), actions=alike[:1])[0][3] == BASELINE_BEST  # one action alone is no choice
    # a twin beside a real alternative: only that one counts
    worse = [*alike, [0.0, 0.1]]
    assert one(np.diag([1e-9, 0.0]), actions=worse, **told)[0][::3] == (-1, BASELINE_BEST)
    assert one(np.zeros((2, 2)), actions=[*alike, [0.0, 1.0]])[0][::3] == (3, CERTIFIED)
    # a difference in a feature that the baseline has not is none of rounding
    assert one(np.zeros((2, 2)), actions=[[1.0, 0.0], [1.0, 1e-9]])[0][3] == CERTIFIED


def test_the_baseline_in_the_list_is_never_certified():
    # its own estimate stands above what its label says, so it is a candidate, and skipped
    verdict, _ = one(
        np.diag([1e-9, 0.0]), high=0.95, mean=(1.0, 0.5), labelled=np.array([True]), label_error=1.0
    )
    assert verdict[0] == -1


def test_a_label_narrows_what_is_correlated_with_it():
    # V of ones, label r = 1 known to 0.01: x_b'θ is known, and so x'θ with it; floor 0.8
    V = np.ones((2, 2))
    (chosen, bound, floor, code), _ = one(V, high=1.0, labelled=np.array([True]))
    gain = 1 / 1.0001
    assert (chosen, floor, code) == (1, pytest.approx(0.8), CERTIFIED)
    # what labels leave unexplained, 0.01², is left unexplained of the action too
    assert bound == pytest.approx(2.0 - 2 * np.sqrt(1 - gain + 1e-4))
    # and moves it: r = 1.5 says that x'θ is 2.5 too
    assert one(V, high=1.5, labelled=np.array([True]))[0][1] == pytest.approx(
        2 + 0.5 * gain - 2 * np.sqrt(1 - gain + 1e-4)
    )
    # the allowance for the left-over is that of x − β x_b
    left = np.array([0.05, 0.0])
    bound = one(V, high=1.0, labelled=np.array([True]), left=left)[0][1]
    assert bound == pytest.approx(2.0 - 2 * np.sqrt(1 - gain + 1e-4 + 2 * gain**2 * 0.05))


def test_a_labels_own_error_counts():
    V = np.ones((2, 2))
    gain = 1 / (1 + 0.25)
    # floor for r = 1 with standard error 0.5: 0.8 (1 + 2 · 0.5); 2 − 2 √(1 − gain) < 1.6: only differences
    (chosen, bound, floor, code), _ = one(V, high=1.0, std=0.5, labelled=np.array([True]))
    variance = (1 - 0.8) ** 2 * (1 - gain)
    assert (chosen, floor, code) == (1, 0.0, CERTIFIED)
    assert bound == pytest.approx(1.2 - 2 * np.sqrt(variance))
    # an exact label leaves no second way
    (chosen, _, floor, code), _ = one(np.diag([1.0, 0.5]), high=1.0, labelled=np.array([True]))
    assert (chosen, floor, code) == (-1, pytest.approx(0.8), TOO_UNCERTAIN)


def test_a_label_that_contradicts_the_belief_shuts_the_task():
    # surprise² against z² (var_b + 0.01² + allowance): 4 · (0.25 + 0.0001)
    V = np.diag([0.25, 0.0])
    for r, code in ((1.99, CERTIFIED), (0.01, CERTIFIED), (2.01, DISAGREES), (-0.01, DISAGREES)):
        verdict, learner = one(V, high=r, labelled=np.array([True]))
        assert verdict[3] == code
        assert learner.gates.codes.tolist() == [code if code == DISAGREES else CERTIFIED]
    verdict, learner = one(V, high=2.01, labelled=np.array([True]))
    assert verdict[:2] == (-1, pytest.approx(np.nan, nan_ok=True))
    assert verdict[2] == pytest.approx(0.8 * 2.01)
    # and it stays shut, label or not
    assert learner.decide_one(0, EYE, 0, UNKNOWN, UNKNOWN, 0.0)[3] == DISAGREES
    # the left-over's allowance: 4 (0.25 + 0.0001 + 2 · 0.5)
    left = np.array([0.5, 0.0])
    assert one(V, high=3.2, labelled=np.array([True]), left=left)[0][3] != DISAGREES
    assert one(V, high=3.3, labelled=np.array([True]), left=left)[0][3] == DISAGREES
    # a label with an error may be off by that much more
    assert one(V, high=2.9, std=1.0, labelled=np.array([True]))[0][3] != DISAGREES
    # a claim that is no label contradicts nothing
    assert one(V, high=2.01)[0][3] != DISAGREES


def test_from_that_request_on_in_a_batch():
    b = belief([[1.0, 2.0]] * 2, [np.zeros((2, 2))] * 2, labelled=np.array([True, True]), label_error=0.01)
    learner = serving(b)
    r = np.array([1.0, 1.5, 1.0, 1.0])
    task = np.array([0, 0, 0, 1])
    A = np.repeat(EYE[None], 4, axis=0)
    out = learner.decide(task, A, np.zeros(4, int), A[:, 0], r, r, np.zeros(4))
    assert out.code.tolist() == [CERTIFIED, DISAGREES, DISAGREES, CERTIFIED]


def test_an_interval_must_be_cleared_at_its_upper_end_and_in_difference():
    V = np.diag([0.0, 0.04])  # bound of x: 2 − 0.4 = 1.6
    # floor of the upper end: 0.8 · 2 = 1.6 − rounding
    for high, code in ((1.99, CERTIFIED), (2.01, TOO_UNCERTAIN)):
        (_, bound, floor, found), _ = one(V, low=0.0, high=high, labelled=np.array([True]))
        assert found == code
        assert floor == pytest.approx(0.8 * high)
        if code == CERTIFIED:
            assert bound == pytest.approx(1.6)
    # a low claim does not help where the baseline of this request is uncertain: (x − 0.8 x_b) ± 2 · 0.8 · 1
    assert one(np.diag([1.0, 0.0]), low=-5.0, high=-4.0)[0][3] == TOO_UNCERTAIN
    assert (
        one(np.diag([1.0, 0.0]), high=-4.0)[0][3] == TOO_UNCERTAIN
    )  # nor does a number that is not believed
    assert one(np.diag([1.0, 0.0]), high=1.0, labelled=np.array([True]))[0][3] == CERTIFIED


def test_negative_baselines_and_the_literal_floor():
    # x_b'θ = −1, x'θ = −0.9 ± 2 · 0.1: floor −1.2, the paper's −0.8
    V, mean = np.diag([0.0, 0.01]), (-1.0, -0.9)
    (_, bound, floor, code), _ = one(V, mean=mean, high=-1.0, labelled=np.array([True]))
    assert (code, floor) == (CERTIFIED, pytest.approx(-1.2))
    assert bound == pytest.approx(-0.9 - 2 * np.sqrt(0.01 + 1e-4))
    (_, _, floor, code), _ = one(V, mean=mean, high=-1.0, labelled=np.array([True]), literal=True)
    assert (code, floor) == (TOO_UNCERTAIN, pytest.approx(-0.8))
    # unknown: x − 1.2 x_b is 0.3 ± 0.2 above; x − 0.8 x_b is below
    (_, bound, _, code), _ = one(V, mean=mean)
    assert (code, bound) == (CERTIFIED, pytest.approx(0.1))
    assert one(V, mean=mean, literal=True)[0][3] == TOO_UNCERTAIN


def test_a_variance_that_is_none_bounds_nothing():
    for v in (np.nan, -1.0, np.inf):
        assert one(np.diag([0.0, v]))[0][0] == -1
        assert one(np.diag([0.0, v]), high=1.0)[0][0] == -1
    # rounding below zero is zero
    assert one(np.diag([0.0, -1e-12]))[0][1] == pytest.approx(1.2)
    assert one(np.zeros((2, 2)), mean=(1.0, np.nan))[0][0] == -1


def test_a_vector_baseline_is_none_of_the_actions():
    learner = serving(belief([[1.0, 2.0]], [np.zeros((2, 2))]))
    nobody, r = np.array([-1]), np.array([UNKNOWN])
    out = learner.decide(np.zeros(1, int), EYE[None], nobody, np.array([[0.5, 0.5]]), r, r, np.zeros(1))
    assert out.chosen.tolist() == [1]
    np.testing.assert_allclose(out.bound, 2 - 0.8 * 1.5)


def test_units_of_the_frame():
    frame = Frame(np.array([2.0, 4.0]), True, 10.0)
    b = belief([[1.0, 2.0, 0.5]], [np.zeros((3, 3))], frame=frame, labelled=np.array([True]), label_error=0.1)
    # x = (0, 4): 10 (2 + 0.5); x_b = (2, 0): 10 (1 + 0.5); r_b is said to be 15; labels err by 1
    learner = serving(b)
    chosen, bound, floor, code = learner.decide_one(0, np.array([[2.0, 0.0], [0.0, 4.0]]), 0, 15.0, 15.0, 0.0)
    assert (chosen, code) == (1, CERTIFIED)
    assert (bound, floor) == (pytest.approx(25.0 - 2 * 1.0), pytest.approx(12.0))
    # a feature that hardly varies around 100 is centred: the same request, 100 higher in its first feature
    shifted = Frame(np.array([2.0, 4.0]), True, 10.0, np.array([100.0, 0.0]))
    b = belief(
        [[1.0, 2.0, 0.5]], [np.zeros((3, 3))], frame=shifted, labelled=np.array([True]), label_error=0.1
    )
    actions = np.array([[102.0, 0.0], [100.0, 4.0]])
    assert serving(b).decide_one(0, actions, 0, 15.0, 15.0, 0.0) == (1, pytest.approx(23.0), 12.0, CERTIFIED)


def test_shut_and_unknown_tasks_stay_at_the_baseline():
    b = belief([[1.0, 2.0]] * 3, [np.zeros((2, 2))] * 3, known=np.array([True, False, True]))
    learner = serving(b)
    learner.gates.shut(2, DRIFT)
    A = np.repeat(EYE[None], 4, axis=0)
    r = np.full(4, 5.0)
    out = learner.decide(
        np.arange(4), A, np.zeros(4, int), A[:, 0], np.full(4, UNKNOWN), np.full(4, UNKNOWN), np.zeros(4)
    )
    assert out.code.tolist() == [CERTIFIED, NEW_TASK, DRIFT, NEW_TASK]
    assert out.chosen.tolist() == [1, -1, -1, -1]
    out = learner.decide(np.arange(4), A, np.zeros(4, int), A[:, 0], r, r, np.zeros(4))
    np.testing.assert_allclose(out.floor, 4.0)


@pytest.mark.parametrize(("error", "hopeless"), [(0.0, True), (10.0, False)])
def test_a_label_that_is_unsure_does_not_end_what_a_comparison_could_certify(error, hopeless):
    base = _kernels.Base(mean=1.0, variance=0.01, noise=0.0, gain=0.0, moved=0.0)
    claim = _kernels.Claim(given=True, label=True, r=1.0, error=error, least=100.0)
    rule = _kernels.Rule(alpha=0.1, literal=False, left=np.zeros(2), z=3.0, label_error=0.0)
    assert _kernels._hopeless(0.01, 5.0, 0.0, base, claim, rule) is hopeless
