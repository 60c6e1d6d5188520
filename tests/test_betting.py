"""Budgets by betting: hand arithmetic, plain twins, what the theorem says, replay, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from banister.errors import InputError, SettingError, ShapeError
from banister.safety import _betting_kernels as k
from banister.safety import _budget_kernels as b
from banister.safety.betting import Budget, BudgetSettings

CLICKS = BudgetSettings(alpha=0.1, low=0.0, high=1.0)


def filled(settings=CLICKS, tasks=3, rows=400, seed=0, p=0.3, rate=0.3):
    """A budget after some rewards, and the rewards."""
    rng = np.random.default_rng(seed)
    task = rng.integers(tasks, size=rows)
    played = rng.random(rows) > p
    y = (rng.random(rows) < rate).astype(float)
    budget = Budget(tasks, settings)
    log = (task, played, y, np.full(rows, 1 - p), np.full(rows, np.nan), np.full(rows, 0.1))
    budget.update_many(*log)
    return budget, log


# --- by hand ----------------------------------------------------------------------------------------------


def test_the_saving_by_hand():
    # 0.9 · (0.2 + (1 − 0.2)/0.5) = 1.62; the reward of something else meets 0.9 · 0.2 alone
    assert k.saving(1.0, True, 0.5, 0.2, 0.9) == pytest.approx(1.0 - 1.62)
    assert k.saving(1.0, False, 0.5, 0.2, 0.9) == pytest.approx(0.82)


def test_the_saving_has_the_right_mean_whatever_k_is():
    # baseline 0.3 at probability 0.6, the rest 0.5: 0.6·0.3 + 0.4·0.5 − 0.9·0.3 = 0.11
    for centre in (0.0, 0.2, 0.9):
        of = {(y, a): k.saving(y, a, 0.6, centre, 0.9) for y in (0.0, 1.0) for a in (True, False)}
        mean = 0.6 * (0.3 * of[1.0, True] + 0.7 * of[0.0, True]) + 0.4 * 0.5 * (
            of[1.0, False] + of[0.0, False]
        )
        assert mean == pytest.approx(0.11)


def test_one_rate_by_hand():
    # e^{C − ηs} = 1/δ at s = (C − log 1/δ)/η
    low = k.lower_bound(np.array([5.0]), np.array([2.0]), np.array([0.0]), np.log(20.0))
    assert low == pytest.approx((5.0 - np.log(20.0)) / 2.0)


def test_a_large_rate_bets_less_and_settles_the_rest_with_what_is_certain():
    wealth = np.zeros(2)
    k.bet(wealth, np.array([0.1, 10.0]), 0.5, 0.2, -0.8, -0.3, 1.0)
    assert wealth[0] == pytest.approx(np.log1p(0.1 * 0.3) + 0.1 * 0.2)
    assert wealth[1] == pytest.approx(np.log1p(0.9 * 0.3) + 0.9 * 0.2 + 9.1 * -0.3)  # λ = 0.9/(0.2 + 0.8)


def test_the_share_that_lets_the_bound_grow_by_hand():
    # p + (p − 0.1)²/(1 − p) at p = 0.5 is 0.82
    assert b.largest_share(0.82, 0.1, 0.9) == pytest.approx(0.5)
    assert b.largest_share(1e9, 0.1, 0.9) == 0.9
    assert b.largest_share(1e-9, 0.1, 0.9) == 0.1


def test_what_is_affordable_by_hand():
    # a baseline worth at most 0.5: leaving with p costs at most 0.5 p − 0.05
    assert b.affordable(0.2, 0.5, 0.1, 0.0) == pytest.approx(0.5)
    assert b.affordable(0.0, 0.5, 0.1, 0.0) == 0.0
    assert b.affordable(9.0, 0.5, 0.1, 0.0) == 1.0
    assert b.cost(2.0, 1.2, 0.5, 0.1, 0.0) == pytest.approx(0.5)


# --- plain twins ------------------------------------------------------------------------------------------


def plain_bet(wealth, rates, x, centre, least, certain, keep):
    size = np.minimum(rates, 0.9 / (centre - least))
    return keep * wealth + np.log(1.0 + size * (x - centre)) + size * centre + (rates - size) * certain


def plain_bound(wealth, rates, weights, odds):
    def excess(s):
        return np.logaddexp.reduce(wealth + weights - rates * s) - odds

    far = 1e3 * (np.abs(wealth).max() + odds + 10.0) / rates.min()
    return brentq(excess, -far, far, xtol=1e-13, rtol=1e-15)


def plain_wealth(log, settings, tasks):
    """All of `update` again, in plain Python, for the evidence of every row."""
    rates, wealth = np.zeros(b.RATES), np.zeros((tasks + 1, b.RATES))
    plays, earned, e2, e4, n = np.zeros(tasks + 1), np.zeros(tasks + 1), 0.0, 0.0, 0
    a, lo, hi = settings.alpha, settings.low, settings.high
    for t, played, y, pi_b, control, free in zip(*log, strict=True):
        fleet = earned[-1] / plays[-1] if plays[-1] else lo
        mid = (earned[t] + 20.0 * fleet) / (plays[t] + 20.0) if np.isnan(control) else control
        mid = np.clip(mid, lo, hi)
        f = 1 - a if mid >= 0 else 1 + a
        ends = [v - f * (mid + (v - mid) / pi_b) for v in (lo, hi)]
        ends += [lo - f * mid] if pi_b < 1 else []
        w = y - f * (mid + (played and (y - mid) / pi_b))
        certain = 0.0 if 1 - pi_b <= free else min(a * abs(hi) - (1 - pi_b) * (hi - lo), 0.0)
        if rates[0] > 0:
            for row in (t, tasks):
                wealth[row] = plain_bet(wealth[row], rates, w, a * abs(mid), min(ends), certain, 1.0)
        n, e2, e4 = n + 1, e2 + (y - mid) ** 2, e4 + (y - mid) ** 4
        for row in (t, tasks):
            plays[row] += played
            earned[row] += y * played
        if rates[0] == 0 and e4 > 0 and e2**2 / e4 >= 10:
            mean = earned[-1] / plays[-1] if plays[-1] else lo
            rates = max(4 * abs(mean) / (e2 / n), 0.5 / np.sqrt(e2 / n)) * 0.5 ** np.arange(b.RATES)
    return rates, wealth


@pytest.mark.parametrize(
    "options",
    [CLICKS, BudgetSettings(alpha=0.2, low=-3.0, high=5.0), BudgetSettings(alpha=0.1, low=-9.0, high=0.0)],
    ids=str,
)
@pytest.mark.parametrize("p", [0.1, 0.6])
def test_updates_agree_with_plain_python(options, p):
    rng = np.random.default_rng(3)
    rows, span = 300, options.high - options.low
    task, played = rng.integers(3, size=rows), rng.random(rows) > p
    y = options.low + span * (rng.random(rows) < 0.4)
    control = np.where(rng.random(rows) < 0.5, np.nan, options.low + span * rng.random(rows))
    log = (task, played, y, np.full(rows, 1 - p), control, np.full(rows, 0.1))
    budget = Budget(3, options)
    budget.update_many(*log)
    rates, wealth = plain_wealth(log, options, 3)
    np.testing.assert_allclose(budget.rates, rates, rtol=1e-10)
    np.testing.assert_allclose(budget.wealth, wealth, rtol=1e-10, atol=1e-10)
    for row in range(4):
        twin = plain_bound(wealth[row], rates, b.LOG_WEIGHTS, np.log(20.0))
        assert budget.bound(row) == pytest.approx(twin, rel=1e-10, abs=1e-10 * span)
        assert budget.bounds()[row] == budget.bound(row)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=b.RATES, max_size=b.RATES), st.floats(1e-3, 1e3))
def test_the_bound_solves_its_equation(wealth, top):
    rates = top * 0.5 ** np.arange(b.RATES)
    low = k.lower_bound(np.array(wealth), rates, b.LOG_WEIGHTS, np.log(20.0))
    at = np.logaddexp.reduce(np.array(wealth) + b.LOG_WEIGHTS - rates * low)
    assert at == pytest.approx(np.log(20.0), abs=1e-8)


# --- properties -------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-4, 1e4), st.integers(0, 100))
def test_units_cancel(unit, seed):
    one, log = filled(seed=seed)
    other = Budget(3, BudgetSettings(alpha=0.1, low=0.0, high=unit))
    task, played, y, pi_b, control, free = log
    other.update_many(task, played, y * unit, pi_b, control, free)
    np.testing.assert_allclose(other.bounds(), unit * one.bounds(), rtol=1e-7, atol=1e-7 * unit)
    assert other.cap_grow(0, 0.1) == pytest.approx(one.cap_grow(0, 0.1))
    assert other.cap_budget(3) == pytest.approx(one.cap_budget(3))


def test_one_by_one_is_all_at_once():
    whole, log = filled()
    parts = Budget(3, CLICKS)
    for t, played, y, pi_b, _, free in zip(*log, strict=True):
        parts.update(int(t), bool(played), float(y), float(pi_b), free=float(free))
    for name, value in whole.state().items():
        np.testing.assert_array_equal(value, parts.state()[name], err_msg=name)


def test_a_state_comes_back_bit_for_bit_and_goes_on_alike():
    budget, log = filled()
    again = Budget.from_state(CLICKS, {name: value.tolist() for name, value in budget.state().items()})
    for each in (budget, again):
        each.update_many(*log)
    for name, value in budget.state().items():
        np.testing.assert_array_equal(value, again.state()[name], err_msg=name)


def test_new_tasks_come_before_the_fleet():
    budget, _ = filled()
    before = budget.bounds()
    budget.grow_to(5)
    after = budget.bounds()
    np.testing.assert_array_equal(after[[0, 1, 2, 5]], before)
    assert budget.fleet == 5
    assert budget.usable(3) == 0.0


def test_nothing_counts_before_the_rates_are_set():
    budget, _ = filled(rows=5)
    assert not budget.ready
    assert budget.bound(0) == budget.usable(0) == budget.cap_budget(0) == budget.cap_grow(0, 0.1) == 0.0


def test_a_better_control_narrows_and_a_wrong_one_stays_valid():
    rng = np.random.default_rng(0)
    level = np.where(rng.random(3000) < 0.5, 0.1, 0.9)  # the baseline's value differs from request to request
    played = rng.random(3000) < 0.5
    y = np.clip(level + 0.05 * rng.standard_normal(3000), 0, 1)
    fixed = (np.zeros(3000, dtype=np.int64), played, y, np.full(3000, 0.5))
    bounds = []
    for control in (level, np.full(3000, np.nan), 1 - level):
        budget = Budget(1, CLICKS)
        budget.update_many(*fixed, control, np.full(3000, 0.1))
        bounds.append(budget.bound(0))
    assert bounds[0] > bounds[1] > bounds[2]
    assert bounds[0] < 0.1 * level.sum()


# --- pending, missing, harm -------------------------------------------------------------------------------


def test_what_is_pending_cannot_be_spent_twice():
    budget, _ = filled(rows=3000, p=0.1)
    most = budget.cap_budget(0)
    assert most == 1.0
    for _ in range(200):
        budget.expose(0, 0.1, 0.1)
    assert budget.cap_budget(0) == 0.0
    assert budget.exposure[budget.fleet] == pytest.approx([200, 200 * 0.9])  # the fleet waits with its tasks
    for _ in range(200):
        budget.settle(0, 0.1, 0.1)
    assert budget.cap_budget(0) == pytest.approx(most)
    budget.expose(0, 0.95, 0.1)  # within the free share: nothing is owed
    assert budget.cap_budget(0) == pytest.approx(most)


def test_the_bound_on_waiting_baselines():
    by_range, log = filled(rows=3000, p=0.1)
    by_mean = Budget(3, BudgetSettings(alpha=0.1, low=0.0, high=1.0, pending="mean"))
    by_mean.update_many(*log)
    assert by_range.most(0) == 1.0
    assert 0.3 < by_mean.most(3) < 0.36  # the truth is 0.3, and 2,700 rewards know it well
    assert by_mean.most(3) < by_mean.most(0) < 0.5


def harmful_after_good(options):
    """3,000 good rewards, then 600 at 0 while the baseline still earns."""
    rng = np.random.default_rng(0)
    budget = Budget(1, options)
    for rate, rows in ((0.8, 3000), (0.0, 600)):
        played = rng.random(rows) < 0.5
        y = (rng.random(rows) < np.where(played, 0.3, rate)).astype(float)
        fixed = (np.zeros(rows, dtype=np.int64), played, y, np.full(rows, 0.5))
        budget.update_many(*fixed, np.full(rows, np.nan), np.full(rows, 0.1))
    return budget


def test_an_alarm_locks_the_savings_of_the_old_world():
    silent = harmful_after_good(BudgetSettings(alpha=0.1, low=0.0, high=1.0, alarm=0.0))
    alarmed = harmful_after_good(CLICKS)
    assert silent.usable(0) > 100.0
    assert silent.alarms[0] == 0
    assert alarmed.alarms[0] >= 1
    assert alarmed.usable(0) == 0.0
    assert alarmed.bound(0) == silent.bound(0)  # what was saved is still true; it may not be spent


def test_a_window_forgets():
    windowed = harmful_after_good(BudgetSettings(alpha=0.1, low=0.0, high=1.0, alarm=0.0, window=200))
    assert windowed.usable(0) == 0.0


def test_a_reset_locks_savings_until_they_are_earned_again():
    budget, log = filled(rows=3000, p=0.1)
    assert budget.usable(0) > 0.0
    budget.reset(0)
    assert budget.usable(0) == 0.0
    assert budget.usable(1) > 0.0
    budget.update_many(*log)
    assert budget.usable(0) > 0.0


def test_draws_that_keep_their_floor_seldom_alarm():
    budget, _ = filled(rows=5000, p=0.1)
    assert budget.alarms.sum() == 0
    assert budget.harmed(0) < np.log(100.0)


# --- coverage ---------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_claims_are_false_seldom_but_not_never():
    """1,000 paths in which all is worth the same: from a fifth of 5 %, less two and a half errors, to 5 %."""
    paths, rng = 1000, np.random.default_rng(5)
    budget = Budget(paths, BudgetSettings(alpha=0.1, low=0.0, high=1.0, alarm=0.0))
    fixed = np.full(paths, 0.9), np.full(paths, np.nan), np.full(paths, 0.1)
    false = np.zeros(paths, dtype=bool)
    for _ in range(700):
        played, y = rng.random(paths) < 0.9, (rng.random(paths) < 0.15).astype(float)
        budget.update_many(np.arange(paths), played, y, *fixed)
        false |= budget.bounds()[:-1] > 0.1 * 0.15 * budget.sums[:-1, b.COUNTED] + 1e-9
    assert 0.002 <= false.mean() <= 0.05


# --- bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.0}, {"alpha": 1.0}, {"delta": 0.0}, {"alarm": 1.0}, {"low": 1.0}, {"high": np.inf},
        {"low": np.nan}, {"pending": "hope"}, {"window": 0.5},
    ],
    ids=str,
)  # fmt: skip
def test_settings_outside_their_domain(options):
    with pytest.raises(SettingError):
        BudgetSettings(**{"alpha": 0.1, "low": 0.0, "high": 1.0, **options})


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ((0, True, 1.5, 0.9), "outside the range"),
        ((0, True, np.nan, 0.9), "outside the range"),
        ((0, True, 1.0, 0.0), "probability"),
        ((0, True, 1.0, 1.1), "probability"),
        ((3, True, 1.0, 0.9), "Task rows"),
        ((-1, True, 1.0, 0.9), "Task rows"),
    ],
    ids=str,
)
def test_rewards_that_cannot_be(args, what):
    with pytest.raises(InputError, match=what):
        filled()[0].update(*args)


def test_a_state_of_another_shape():
    budget, _ = filled()
    state = budget.state()
    state["harm"] = state["harm"][:2]
    with pytest.raises(ShapeError, match="harm"):
        Budget.from_state(CLICKS, state)
