"""The watch: bets that are fair, alarms that come when something changed and seldom else."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from banister.safety._matrix_kernels import Dense
from banister.safety.gates import EVERY_TASK
from banister.safety.loudness import EVEN
from banister.safety.watch import TAIL, Watch, _over, bet_on_size, standardised, step
from belief_world import belief

ALARM = math.log(3 / 1e-6)


def of_tasks(T, *, usual=None, V=0.0, noise=1.0, known=None):
    """A belief in θ = 0 of one feature, with errors as usual as 999 normal quantiles."""
    usual = norm.ppf(np.arange(1, 1000) / 1000) if usual is None else usual
    return belief(
        np.zeros((T, 1)), np.full((T, 1, 1), V), usual=usual, noise=np.full(T, noise),
        known=np.ones(T, dtype=bool) if known is None else known,
    )  # fmt: skip


ONE = np.ones(1)


def show(watch, errors, task, first=0, x=ONE):
    """All alarms of rewards that differ from what is expected by `errors`, one decision each."""
    alarms = []
    for i, (t, e) in enumerate(zip(np.broadcast_to(task, len(errors)), errors, strict=True)):
        alarms += watch.see(int(t), x, float(e), first + i)
    return alarms


# --- the bets -------------------------------------------------------------------------------------------


def test_a_bet_on_size_is_fair():
    # in s = −log p; below 1 − 0.999 the bet is at its limit
    mass = quad(lambda s: math.exp(bet_on_size(math.exp(-s)) - s), 0.0011, 700, limit=500)[0] + 0.5 * 0.001
    assert mass == pytest.approx(1.0, abs=2e-3)
    assert mass <= 1.0
    # by hand: p = e⁻¹: (1 − e⁻¹ − e⁻¹)/e⁻¹ = e − 2
    assert bet_on_size(math.exp(-1)) == pytest.approx(math.log(math.e - 2))
    assert bet_on_size(1.0) == math.log(0.5)
    assert bet_on_size(0.9989) == pytest.approx(math.log(0.5), abs=1e-3)


def test_bets_on_ranks_are_fair():
    n = 200
    p = np.arange(1, n + 2) / (n + 1)
    assert np.mean([math.exp(bet_on_size(q)) for q in p]) <= 1.0
    assert np.mean(1 + 0.3 * (1 - 2 * p)) <= 1.0


def gains(u, lean=0.0, usual=None):
    usual = norm.ppf(np.arange(1, 1000) / 1000) if usual is None else usual
    logs, starts = np.zeros(3), np.zeros(3, dtype=np.int64)
    step(u, lean, usual, np.sort(np.abs(usual)), logs, starts, 0)
    return logs


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
def test_bets_of_a_step_are_fair_whatever_the_noise_looks_like(scale):
    rng = np.random.default_rng(0)
    draws = scale * rng.laplace(size=6000)
    usual = np.sort(draws[:300])
    gained = np.array([np.exp(gains(u, usual=usual)) for u in draws[300:]])
    # 5700 bets with standard deviation below 2 · 1: three standard errors
    assert np.all(gained.mean(axis=0) <= 1 + 3 * gained.std(axis=0) / np.sqrt(5700) + 0.02)


def test_gains_by_hand():
    # u = 0 among 999 symmetric: p = 1 of |u|, and the ranks of u and −u are 500.5/1000 at most
    size, up, down = gains(0.0)
    assert size == math.log(0.5)
    assert up == pytest.approx(math.log(1 + 0.3 * (1 - 2 * 501 / 1000)), abs=2e-3)
    assert down == pytest.approx(up, abs=2e-3)
    # u = 10 is beyond all of 999: p = 1/1000 by rank, less by the normal law; the larger counts
    size, up, down = gains(10.0)
    assert size == pytest.approx(bet_on_size(1e-3))
    assert up == pytest.approx(math.log(1 + 0.3 * (1 - 2e-3)))
    assert down == pytest.approx(math.log(1 + 0.3 * (1 - 2)))
    assert gains(-10.0)[1] == pytest.approx(down)
    assert gains(-10.0)[2] == pytest.approx(up)
    # where usual errors are tiny beside the belief's own doubt the normal law counts
    tiny = 1e-3 * norm.ppf(np.arange(1, 1000) / 1000)
    assert gains(1.0, usual=tiny)[0] == pytest.approx(bet_on_size(2 * norm.sf(1.0)))
    assert gains(1.0, usual=tiny)[1] == pytest.approx(math.log(1 + 0.3 * (1 - 2 * norm.sf(1.0))))
    # a lean takes that much off both shifts and nothing off the size
    assert gains(1.5, lean=1.5)[1] == pytest.approx(gains(0.0)[1], abs=1e-12)
    assert gains(-1.5, lean=1.5)[2] == pytest.approx(gains(0.0)[2], abs=1e-12)
    assert gains(1.5, lean=1.5)[0] == gains(1.5)[0]


def test_over_is_the_normal_tail():
    for u in (-2.0, 0.0, 1.0, 6.0):
        assert _over(u) == pytest.approx(norm.sf(u), rel=1e-12)


def test_runs_start_again_when_they_fall_below_one():
    usual = norm.ppf(np.arange(1, 1000) / 1000)
    sizes, logs, starts = np.sort(np.abs(usual)), np.zeros(3), np.zeros(3, dtype=np.int64)
    step(-3.0, 0.0, usual, sizes, logs, starts, 5)
    assert logs[1] < 0 < logs[2]
    assert starts.tolist() == [5, 5, 5]
    most, since = step(3.0, 0.0, usual, sizes, logs, starts, 6)
    assert starts.tolist() == [5, 6, 5]  # the bet upwards begins anew, from nothing
    assert logs[1] == pytest.approx(gains(3.0)[1])
    assert most == logs[0]
    assert since == 5


def test_standardised_by_hand():
    # x = (2, 4) in scales (2, 2) with an intercept: z = (1, 2, 1); V = diag(1, 0.5, 1): 4; noise 1: √5
    mean, V = np.array([1.0, 1.0, 0.5]), np.diag([1.0, 0.5, 1.0])
    u, own = standardised(
        np.array([2.0, 4.0]), 15.0, np.zeros(2), np.full(2, 2.0), 2.0, mean, Dense(V, V), 1.0, EVEN
    )
    assert u == pytest.approx((7.5 - 3.5) / np.sqrt(5))
    assert own == pytest.approx(np.sqrt(4 / 5))
    # the second feature six times as loud: noise of (1 · 1 + 4 · 6)/5 = 5
    loud = np.array([1.0, 6.0])
    u, own = standardised(
        np.array([2.0, 4.0]), 15.0, np.zeros(2), np.full(2, 2.0), 2.0, mean, Dense(V, V), 1.0, loud
    )
    assert u == pytest.approx((7.5 - 3.5) / np.sqrt(9))
    assert own == pytest.approx(np.sqrt(4 / 9))
    zero, one = np.zeros(1), np.ones(1)
    none = Dense(np.zeros((1, 1)), np.zeros((1, 1)))
    assert standardised(zero, 1.0, zero, one, 1.0, zero, none, 0.0, EVEN) == (0.0, 0.0)


# --- alarms ---------------------------------------------------------------------------------------------


def test_the_rate_that_is_promised():
    assert TAIL == 1e-6
    watch = Watch(of_tasks(1))
    # a shift of one standard error up: alarm at 3 / TAIL exactly when the sum of gains passes it
    logs, starts = np.zeros(3), np.zeros(3, dtype=np.int64)
    usual = watch._belief.usual
    for i in range(1000):
        most, _ = step(1.0, 0.0, usual, np.sort(np.abs(usual)), logs, starts, i)
        alarms = watch.see(0, ONE, 1.0, i)
        assert bool(alarms) == (most > ALARM)
        if alarms:
            assert alarms[0].excess == pytest.approx(most - ALARM)
            break
    assert 60 < i < 100  # log(3e6) / log(1 + 0.3 (1 − 2 · 0.16)) = 80


def test_a_shift_is_noticed_with_its_beginning():
    rng = np.random.default_rng(0)
    watch = Watch(of_tasks(2))
    assert show(watch, rng.normal(size=400), 0) == []
    alarms = show(watch, rng.normal(size=300) + 1.5, 0, first=400)
    assert [a.task for a in alarms] == [0]  # each once a belief
    assert 395 <= alarms[0].since <= 415
    assert alarms[0].excess > 0


def test_a_shift_downwards_and_a_jump_of_variance_are_noticed():
    rng = np.random.default_rng(1)
    for errors in (rng.normal(size=300) - 1.5, 4 * rng.normal(size=300)):
        watch = Watch(of_tasks(1))
        show(watch, rng.normal(size=100), 0)
        assert len(show(watch, errors, 0, first=100)) == 1


def test_a_change_of_one_task_is_its_own():
    rng = np.random.default_rng(2)
    watch = Watch(of_tasks(20))
    task = np.tile(np.arange(20), 100)
    alarms = show(watch, rng.normal(size=2000) + 3 * (task == 7), task)
    assert [a.task for a in alarms] == [7]


def test_a_change_of_all_tasks_is_noticed_in_all_before_any_could_alone():
    rng = np.random.default_rng(3)
    watch = Watch(of_tasks(40))
    task = np.tile(np.arange(40), 8)
    alarms = show(watch, rng.normal(size=320) + 1.0, task)
    assert [a.task for a in alarms] == [EVERY_TASK]
    few = Watch(of_tasks(9))  # nine cannot be told from one
    assert EVERY_TASK not in [a.task for a in show(few, rng.normal(size=2000) + 1.0, np.arange(2000) % 9)]
    ten = Watch(of_tasks(10))
    assert EVERY_TASK in [a.task for a in show(ten, rng.normal(size=2000) + 1.0, np.arange(2000) % 10)]


def test_many_rewards_of_one_task_are_not_all_tasks():
    # One task of forty changes and sends most of the traffic: it enters the stream of all once in twenty.
    rng = np.random.default_rng(4)
    watch = Watch(of_tasks(40))
    task = np.where(np.arange(3000) % 2 == 0, 0, rng.integers(1, 40, size=3000))
    alarms = show(watch, rng.normal(size=3000) + 3.0 * (task == 0), task)
    assert [a.task for a in alarms] == [0]


def test_a_lean_that_selection_makes_is_no_shift():
    # The estimate's own error is as large as the noise; chosen actions err by one of it, on one side.
    rng = np.random.default_rng(5)
    watch = Watch(of_tasks(1, V=1.0))
    assert show(watch, rng.normal(size=500) - 1.0, 0) == []
    plain = Watch(of_tasks(1, V=0.0, noise=np.sqrt(2)))
    assert show(plain, rng.normal(size=500) - 1.0, 0) != []


def test_replay_gives_the_same_alarms():
    rng = np.random.default_rng(6)
    errors = rng.normal(size=1500) + 1.2 * (np.arange(1500) > 700)
    task = rng.integers(12, size=1500)
    one, two = (show(Watch(of_tasks(12)), errors, task) for _ in range(2))
    assert one
    assert one == two


def test_who_is_not_known_is_not_watched():
    known = np.array([True, False])
    for watch, task in (
        (Watch(of_tasks(2, known=known)), 1),
        (Watch(of_tasks(2)), 5),
        (Watch(of_tasks(2, usual=np.linspace(-2, 2, 99))), 0),  # too few residuals to know what is usual
    ):
        assert show(watch, np.full(500, 9.0), task) == []
    assert show(Watch(of_tasks(2, usual=np.linspace(-2, 2, 100))), np.full(500, 9.0), 0) != []


def revenue(rng, n):
    """Nine times of ten nothing, else an exponential amount, centred and of variance one."""
    paid = np.where(rng.random(n) < 0.1, rng.exponential(size=n), 0.0)
    return (paid - 0.1) / np.sqrt(0.19)


LAWS = {"student": lambda rng, n: rng.standard_t(4, size=n), "revenue": revenue}


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("residuals", [100, 1000])
def test_false_alarms_are_no_more_than_promised(law, residuals):
    # A stream restarted at each crossing of 3 / 0.01 may cross at most once in a hundred rewards, on average
    # over the residuals that it ranks errors among: ten samples of them. Bets that lose leave it far below.
    rng, crossings, n = np.random.default_rng(0), 0, 6_000
    for _ in range(10):
        usual = np.sort(LAWS[law](rng, residuals))
        sizes, logs, starts = np.sort(np.abs(usual)), np.zeros(3), np.zeros(3, dtype=np.int64)
        for i, u in enumerate(LAWS[law](rng, n)):
            if step(u, 0.0, usual, sizes, logs, starts, i)[0] > math.log(300):
                crossings += 1
                logs[:] = 0.0
    assert crossings <= 0.01 * 10 * n


@pytest.mark.statistical
def test_twenty_quiet_tasks_ring_no_alarm():
    quiet = Watch(of_tasks(20))
    errors = np.random.default_rng(0).normal(size=60_000)
    assert show(quiet, errors, np.tile(np.arange(20), 3000)) == []


def test_a_state_put_back_is_as_if_nothing_had_been_seen():
    rng = np.random.default_rng(7)
    one, two = Watch(of_tasks(12)), Watch(of_tasks(12))
    errors, task = rng.normal(size=600) + 1.0, rng.integers(12, size=600)
    for i in range(600):
        if i % 50 == 0:
            kept = two.state([3, 5, 99])
            two.see(3, ONE, 9.0, i)
            two.see(5, ONE, -9.0, i)
            two.put_back(kept)
        assert one.see(int(task[i]), ONE, float(errors[i]), i) == two.see(
            int(task[i]), ONE, float(errors[i]), i
        )
    np.testing.assert_array_equal(one._rows, two._rows)


def test_rewards_seen_together_ring_as_one_after_the_other():
    rng = np.random.default_rng(3)
    one, many = Watch(of_tasks(12)), Watch(of_tasks(12))
    task, errors = rng.integers(14, size=900), rng.normal(size=900)  # tasks 12 and 13 are not known
    errors[400:] += np.where(task[400:] < 6, 2.0, 0.0)
    X, number = np.tile(ONE, (900, 1)), np.arange(900)
    alarms = [a for i in range(900) for a in one.see(int(task[i]), ONE, float(errors[i]), i)]
    parts = [slice(i, i + 30) for i in range(0, 900, 30)]
    found = [a for part in parts for a in many.see_many(task[part], X[part], errors[part], number[part])]
    assert len(alarms) > 3
    assert found == alarms
    np.testing.assert_array_equal(one._rows, many._rows)
