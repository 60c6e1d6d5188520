"""The account of draws: what waits, what expires, what a change or a mistake takes away; exact undoing."""

import numpy as np
import pytest

from banister.errors import SettingError
from banister.learner.account import Account
from banister.safety.betting import Budget
from banister.safety.gates import EVERY_TASK
from banister.safety.promise import Promise, Terms
from banister.safety.uplift import Uplift


def terms(promise="task", **more):
    given = {"alpha": 0.1, "confidence": 0.95, "reward_range": (0.0, 1.0), "holdout": 0.1, "seed": 0}
    return Terms(promise=Promise(promise), **{**given, **more})


def played(account, n, *, tasks=2, p=0.1, rate=0.3, rest=0.3, seed=0, first=1):
    """n draws of clicks, rewarded at once."""
    rng = np.random.default_rng(seed)
    for i in range(first, first + n):
        base = rng.random() >= p
        account.decided(i, float(i), i % tasks, 1.0 - p, base)
        account.rewarded(i, float(i), float(rng.random() < (rate if base else rest)))


def test_it_counts_what_a_budget_and_an_uplift_count():
    account = Account(terms())
    budget, uplift = Budget(4, account.terms.budget()), Uplift(4, low=0.0, high=1.0)
    rng = np.random.default_rng(1)
    for i in range(300):
        base, y = rng.random() < 0.8, float(rng.random() < 0.4)
        account.decided(i, 0.0, i % 3, 0.8, base)
        account.rewarded(i, 0.0, y)
        uplift.update(i % 3, base, y, 0.8, k=uplift.centre(i % 3))
        budget.update(i % 3, base, y, 0.8, free=0.1)
    for t in range(3):
        assert account.allowance(t).savings == max(0.0, budget.bound(t))
        assert account.gain(t) == uplift.interval(t)
    assert account.gain(EVERY_TASK).rows == 300


def test_tasks_may_come_one_by_one():
    """Rows that grow as tasks appear hold the same numbers as rows that were there from the start."""
    grown, roomy = Account(terms()), Account(terms())
    roomy.make_room(40)
    for account in (grown, roomy):
        for task in range(40):
            for i in range(20):
                number = 20 * task + i
                account.decided(number, 0.0, task, 0.9, i % 10 > 0)
                account.rewarded(number, 0.0, float(i % 3 == 0))
    for task in (0, 7, 39, EVERY_TASK):
        assert grown.gain(task) == roomy.gain(task)
    assert [grown.allowance(t) for t in range(40)] == [roomy.allowance(t) for t in range(40)]


@pytest.mark.parametrize("promise", ["task", "fleet"])
def test_what_waits_is_paid_for(promise):
    account = Account(terms(promise))
    played(account, 3000)
    before = account.allowance(0).p
    assert before > 0.2
    for i in range(600):
        account.decided(10_000 + i, 3001.0, 0, 0.2, False)
    assert account.allowance(0).p < before
    assert account.allowance(0).p == 0.0


def test_draws_at_the_free_share_cost_nothing_while_they_wait():
    account = Account(terms())
    played(account, 2000)
    before = account.allowance(0)
    for i in range(100):
        account.decided(10_000 + i, 3001.0, 0, 0.9, False)
    assert account.allowance(0) == before


def test_what_never_comes_is_the_worst_for_what_left_and_the_usual_for_the_baseline():
    account, by_hand = Account(terms(expire_after=10.0)), Account(terms())
    played(account, 500)
    played(by_hand, 500)
    for other in (account, by_hand):
        other.decided(1001, 501.0, 0, 0.5, False)
        other.decided(1002, 502.0, 0, 0.5, True)
        other.decided(1003, 509.0, 0, 0.5, True)
    account.decided(1004, 512.5, 1, 0.9, True)  # by now the first two have waited too long, the third has not
    by_hand.rewarded(1001, 512.5, 0.0)
    by_hand.rewarded(1002, 512.5, by_hand.usual(0))
    assert list(account.waiting) == [1003, 1004]
    assert account.gain(0) == by_hand.gain(0)
    assert account.allowance(0) == by_hand.allowance(0)


def test_without_a_limit_a_reward_is_waited_for():
    account = Account(terms())
    account.decided(1, 0.0, 0, 0.5, False)
    account.decided(2, 1e9, 0, 0.5, False)
    assert list(account.waiting) == [1, 2]


def test_a_reward_of_no_draw_tells_nothing():
    account = Account(terms())
    account.rewarded(5, 0.0, 1.0)
    assert account.gain(EVERY_TASK).rows == 0


@pytest.mark.parametrize("event", ["changed", "corrected"])
def test_savings_of_before_are_not_spent(event):
    account = Account(terms())
    played(account, 3000)
    assert account.allowance(0).p > 0.0
    other = account.allowance(1)
    getattr(account, event)(0)
    assert account.allowance(0).p == 0.0
    assert account.allowance(1) == other


def test_a_change_of_all_spends_nothing_anywhere_and_one_of_a_task_leaves_the_fleet():
    account = Account(terms("fleet"))
    played(account, 3000)
    account.changed(0)
    assert account.allowance(0).p > 0.0
    account.changed(EVERY_TASK)
    assert account.allowance(0).p == account.allowance(1).p == 0.0


def test_a_mistake_takes_the_fleet_s_savings_too():
    account = Account(terms("fleet"))
    played(account, 3000)
    account.corrected(0)
    assert account.allowance(1).p == 0.0


def harmed(on_harm):
    account = Account(terms(on_harm=on_harm))
    played(account, 2000, tasks=1)
    played(account, 3000, tasks=1, p=0.6, rate=0.5, rest=0.05, first=2001)
    return account


def test_harm_stops_a_task_until_the_next_model():
    account = harmed("stop")
    assert account.harm(0) > 0
    assert account.stopped(0)
    account.renewed()
    assert not account.stopped(0)


def test_harm_leaves_the_free_share_by_default():
    account = harmed("free")
    assert account.harm(0) > 0
    assert not account.stopped(0)


def test_draws_that_were_not_written_leave_no_trace():
    account = Account(terms())
    played(account, 1000)
    state, waiting = account.budget.state(), dict(account.waiting)
    before = account.exposed()
    for i in range(7):
        account.decided(5000 + i, 1001.0, i % 5, 1 / 3, False)
    account.undecide(range(5000, 5007), before)
    assert account.waiting == waiting
    for name, value in state.items():
        now = account.budget.state()[name]
        if value.ndim > 1:
            now = np.concatenate([now[: len(value) - 1], now[-1:]])
        if name != "alarms":
            np.testing.assert_array_equal(now, value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"reward_range": None}, "needs reward_range"),
        ({"reward_range": (1.0, 0.0)}, "two finite numbers"),
        ({"reward_range": (0.0, np.inf)}, "two finite numbers"),
        ({"holdout": 0.0}, "at least 0.01"),
        ({"holdout": 1.0}, "below 1"),
        ({"on_harm": "panic"}, "'free' or 'stop'"),
    ],
)
def test_terms_that_cannot_be_kept(given, says):
    with pytest.raises(SettingError, match=says):
        terms(**given)


def test_the_sentences_say_whose_total_is_meant():
    assert "each task" in terms("task").sentence()
    assert "fleet" in terms("fleet").sentence()
    assert terms("fleet").budget().pending == "mean"  # an assumption, which the sentence must name
    assert "no more on average" in terms("fleet").sentence()
    assert terms("task").budget().pending == "range"  # a theorem
    assert "on average" not in terms("task").sentence()
    assert "linear" in terms("decision").sentence()
    assert "90%" in terms("task").sentence()
    assert "95%" in terms("task").sentence()


def test_the_share_grows_no_faster_than_the_comparison_can_bear():
    account = Account(terms())
    played(account, 3000)
    paid, grown = account.budget.cap_budget(0), account.budget.cap_grow(0, 0.1)
    assert grown < paid
    assert account.allowance(0)[:2] == (grown, "growth")


def test_a_task_on_its_own_searches_more_widely_than_it_leaves():
    assert [Promise(p).search for p in ("decision", "task", "fleet")] == [0.2, 0.5, 0.2]
