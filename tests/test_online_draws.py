"""Draws as an application meets them: probabilities, promises, replay, audits, failures."""

import math
import sqlite3
from types import SimpleNamespace

import numpy as np
import pytest

import banister as bn
from banister.errors import InputError, SettingError
from banister.learner.account import Account
from banister.learner.drawer import Drawn
from banister.online.posting import account_of
from banister.online.redraw import other_draw
from banister.safety.draw import Committee, pick, uniform
from banister.safety.reasons import DRAWN, REASONS
from online_world import same

TASKS, ARMS = 5, 4
RATES = np.random.default_rng(7).uniform(0.1, 0.6, (TASKS, ARMS))


def clicks(bandit, n, seed=0, rates=RATES, rewarded=1.0):
    """n decisions with fixed arms and clicks as rewards."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(n):
        t = int(rng.integers(TASKS))
        d = bandit.decide(f"store {t}", np.eye(ARMS), baseline=1)
        if rng.random() < rewarded:
            bandit.reward(d.id, float(rng.random() < rates[t, d.action]))
        made.append(d)
    return made


def drawn(promise="task", **more):
    return bn.SafeBandit(alpha=0.1, promise=promise, reward_range=(0, 1), seed=3, refits="inline", **more)


@pytest.mark.parametrize("promise", ["decision", "task", "fleet"])
def test_every_decision_says_how_it_was_drawn(promise):
    bandit = drawn(promise)
    for d in clicks(bandit, 400):
        assert d.promise == promise
        assert d.probabilities.sum() == pytest.approx(1.0)
        assert d.probability == d.probabilities[d.action]
        assert d.action == pick(d.probabilities, uniform(3, str(d.id)))
        assert d.limited_by in (
            "committee", "free share", "budget", "growth", "decision", "holdout", "harm", "gate",
        )  # fmt: skip
    assert bandit.audit().passed


def test_before_anything_is_known_the_free_share_is_spread_evenly():
    d = drawn().decide("a", np.eye(4), baseline=1)
    np.testing.assert_allclose(d.probabilities, [0.1 / 3, 0.9, 0.1 / 3, 0.1 / 3])
    assert (d.reason, d.limited_by, d.floor) == ("drawn", "free share", 0.0)


def test_a_range_below_zero_makes_nothing_free():
    bandit = bn.SafeBandit(alpha=0.1, reward_range=(-1, 1), seed=3, refits="manual")
    assert bandit.decide("a", np.eye(4), baseline=1).probabilities[1] == 1.0


def test_one_action_is_played():
    d = drawn().decide("a", np.eye(4)[:1], baseline=0)
    assert (d.action, d.probability) == (0, 1.0)


def test_draws_learn_to_leave_and_keep_their_holdout():
    bandit = drawn("fleet", holdout=0.2)
    late = clicks(bandit, 3000)[-500:]
    assert np.mean([1 - d.probabilities[1] for d in late]) > 0.3
    assert min(d.probabilities[1] for d in late) == pytest.approx(0.2)
    assert any(d.limited_by == "holdout" for d in late)
    status = bandit.status()
    assert status.gain_low < status.gain < status.gain_high
    assert "in total at least 90%" in str(status)


@pytest.mark.parametrize("promise", ["decision", "task", "fleet"])
def test_a_store_that_is_opened_again_draws_the_same(tmp_path, promise):
    kept, path = drawn(promise), tmp_path / "s.banister"
    clicks(kept, 700, rewarded=0.8)
    with drawn(promise, path=path) as stored:
        clicks(stored, 700, rewarded=0.8)
    with bn.SafeBandit.load(path) as again:
        for a, b in zip(clicks(kept, 200, seed=1), clicks(again, 200, seed=1), strict=True):
            assert same(a, b)
        assert kept.status().gain == again.status().gain


def test_the_account_follows_from_the_ledger_alone():
    bandit = drawn(expire_after=1e-3, keep_actions=True)
    clicks(bandit, 600, rewarded=0.7)
    rewarded = [r.id for r in bandit._engine.store.ledger.rewards()]
    bandit.retract(rewarded[5], "a test order")
    bandit.refit()
    clicks(bandit, 200, seed=1)
    fresh = Account(bandit._engine.terms)
    account_of(bandit._engine.store.ledger, fresh)
    for name, value in bandit._engine.account.budget.state().items():
        np.testing.assert_array_equal(fresh.budget.state()[name], value)
    assert fresh.waiting == bandit._engine.account.waiting
    found = bandit.audit()
    assert found.passed, str(found)
    assert found.whole == 800


@pytest.mark.parametrize("promise", ["decision", "task", "fleet"])
def test_many_requests_are_single_ones(promise):
    one, many = drawn(promise), drawn(promise)
    clicks(one, 600)
    clicks(many, 600)
    tasks = [f"store {t % (TASKS + 2)}" for t in range(300)]
    single = [one.decide(t, np.eye(ARMS), baseline=1) for t in tasks]
    whole = many.decide_many(tasks, np.tile(np.eye(ARMS), (300, 1, 1)), baselines=[1] * 300)
    for a, b in zip(single, whole, strict=True):
        assert same(a, b)
    assert one._engine.account is None or one._engine.account.waiting.keys() == {d.id for d in whole}


def test_a_batch_that_cannot_be_written_leaves_no_trace(monkeypatch):
    bandit, twin = drawn(), drawn()
    clicks(bandit, 500)
    clicks(twin, 500)
    ledger = bandit._engine.store.ledger

    def full(records):
        raise sqlite3.OperationalError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(ledger, "add_decisions", full)
        with pytest.raises(Exception, match="disk full"):
            bandit.decide_many(["new"] * 50, np.tile(np.eye(ARMS), (50, 1, 1)), baselines=[1] * 50)
    for a, b in zip(clicks(bandit, 50, seed=2), clicks(twin, 50, seed=2), strict=True):
        assert same(a, b)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE decisions SET action = (action + 1) % 4 WHERE id = 300", "its draw falls on"),
        ("UPDATE decisions SET probability = 0.99 WHERE id = 300", "its probability is not that of"),
        ("UPDATE decisions SET probabilities = x'00' WHERE id = 300", "cannot be judged again"),
        ("UPDATE decisions SET promise = 'fleet' WHERE id = 300", "the store's promise is another"),
    ],
)
def test_a_draw_that_was_altered_is_found(statement, says):
    bandit = drawn()
    clicks(bandit, 400)
    bandit._engine.store.ledger._db.execute(statement)
    found = bandit.audit()
    assert any(says in problem for problem in found.problems), found.problems


@pytest.mark.parametrize("whole", [False, True])
def test_a_draw_that_nothing_paid_for_is_found(monkeypatch, whole):
    """The caps are lifted while it serves, and in place again when it is audited."""
    bandit = drawn(keep_actions=whole)
    with monkeypatch.context() as patch:
        generous = Account.allowance
        patch.setattr(Account, "allowance", lambda self, task: generous(self, task)._replace(p=0.9))
        clicks(bandit, 300)
        assert bandit.audit().passed
    found = bandit.audit()
    assert any("which nothing paid for" in problem for problem in found.problems)


def test_whole_sets_find_other_probabilities(monkeypatch):
    from banister.learner import drawer

    bandit = drawn(keep_actions=True)
    with monkeypatch.context() as patch:
        alike = np.zeros((64, ARMS))
        patch.setattr(drawer, "members", lambda mean, root, **key: Committee.of(mean, alike))
        clicks(bandit, 400)
    assert any("do not follow from its model" in problem for problem in bandit.audit().problems)


def test_other_probabilities_are_found_where_all_else_agrees():
    made = Drawn(np.array([0.25, 0.75]), -1, math.nan, math.nan, DRAWN, "savings")
    record = SimpleNamespace(
        id=3, task=0, baseline=1, low=0.0, high=1.0, std=0.0, action=0, limited_by="savings",
        reason=REASONS[made.code_of(0)], bound=math.nan, floor=math.nan,
    )  # fmt: skip
    drawer = SimpleNamespace(draw=lambda *_: made)
    assert list(other_draw(record, made.probabilities, np.eye(2), drawer)) == []
    (problem,) = other_draw(record, np.array([0.2, 0.8]), np.eye(2), drawer)
    assert "do not follow from its model" in problem


def test_harm_stops_draws_and_says_so():
    bandit = drawn("fleet", on_harm="stop", growth=100.0)
    clicks(bandit, 2500)
    bandit.refit()
    flipped = RATES.copy()
    flipped[:, 1], rest = 0.9, [0, 2, 3]
    flipped[:, rest] = 0.0
    late = clicks(bandit, 2500, seed=5, rates=flipped)
    stopped = [d for d in late if d.reason == "fallback:harm"]
    assert stopped
    assert all(d.probabilities[1] == 1.0 and d.limited_by == "harm" for d in stopped)
    assert bandit.status().harmed > 0
    assert bandit.audit().passed


def test_rewards_outside_the_range_are_refused_and_change_nothing():
    bandit = drawn()
    d = bandit.decide("a", np.eye(4), baseline=1)
    before = bandit.receipt()
    for wrong in (1.5, -0.01):
        with pytest.raises(InputError, match="outside reward_range"):
            bandit.reward(d.id, wrong)
        with pytest.raises(InputError, match="entry 0"):
            bandit.reward_many([d.id], [wrong])
    assert bandit.receipt() == before
    assert bandit.reward(d.id, 1.0) == "accepted"


def test_without_a_range_decisions_are_what_they_were():
    d = bn.SafeBandit(alpha=0.1, refits="manual").decide("a", np.eye(4), baseline=1)
    assert (d.probability, d.probabilities, d.promise, d.limited_by) == (1.0, None, "decision", None)


def test_a_certificate_s_choice_leaves_room_for_the_holdout():
    from online_world import World

    bandit = bn.SafeBandit(
        alpha=0.1, promise="decision", randomise=True, holdout=0.3, seed=1, refits="manual"
    )
    world = World()
    world.play(bandit, 400)
    bandit.refit()
    sure = [d for d in world.play(bandit, 300) if d.reason in ("certified", "kept:holdout")]
    assert len(sure) > 100
    kept = [d for d in sure if d.reason == "kept:holdout"]
    assert 0.2 < len(kept) / len(sure) < 0.4
    assert not any(d.certified for d in kept)
    assert all(d.probability == pytest.approx(0.7) for d in sure if d.certified)
    assert bandit.audit().passed


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"promise": "task"}, "needs reward_range"),
        ({"promise": "always"}, "must be one of"),
        ({"reward_range": (1, 0)}, "two finite numbers"),
        ({"reward_range": 3}, "two finite numbers"),
        ({"reward_range": "01"}, "two finite numbers"),
        ({"reward_range": (0, 1), "holdout": 0.0}, "at least 0.01"),
        ({"reward_range": (0, 1), "holdout": 2}, "below 1"),
        ({"reward_range": (0, 1), "promise": "task", "randomise": False}, "is kept by draws"),
        ({"reward_range": (0, 1), "on_harm": "panic"}, "on_harm"),
        ({"reward_range": (0, 1), "mixing": True, "norm_bound": 1.0}, "choose one"),
    ],
)
def test_settings_that_cannot_be_kept(given, says):
    with pytest.raises((SettingError, InputError), match=says):
        bn.SafeBandit(alpha=0.1, **given)


def test_a_store_keeps_its_promise_for_life(tmp_path):
    path = tmp_path / "s.banister"
    drawn(path=path).close()
    for other in ({"promise": "fleet"}, {"reward_range": (0, 2)}, {"holdout": 0.3}, {"expire_after": 5.0}):
        with pytest.raises(SettingError, match="was made with"):
            bn.SafeBandit(**{"alpha": 0.1, "reward_range": (0, 1), "path": path, **other})
    with bn.SafeBandit(alpha=0.1, reward_range=(0, 1), path=path) as again:
        assert again.settings.promise == "task"
