"""`SafeBandit`: what a decision says, what rewards do, what survives, and threads."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import polars as pl
import pytest

from banister import SafeBandit
from banister.errors import BanisterWarning, FitError, InputError, SettingError, UnknownDecisionError
from banister.safety.reasons import REASONS
from online_world import World, same, trained
from places import tamper


def test_before_the_first_fit_the_baseline_is_played():
    bandit = SafeBandit(alpha=0.25, refits="manual")
    d = bandit.decide("a", np.eye(3), baseline=2, baseline_reward=4.0)
    assert (d.id, d.task, d.action, d.certified, d.floor, d.reason) == (
        1,
        "a",
        2,
        False,
        3.0,
        "fallback:no-data",
    )
    assert d.features.tolist() == [0.0, 0.0, 1.0]
    assert d.model_version == 0
    assert np.isnan(d.lower_bound)
    assert json.dumps(d.to_dict())


def test_the_floor_of_a_negative_baseline_reward_lies_below_it():
    bandit = SafeBandit(alpha=0.25, refits="manual")
    assert bandit.decide("a", np.eye(3), baseline=0, baseline_reward=-4.0).floor == -5.0
    literal = SafeBandit(alpha=0.25, refits="manual", literal_floor=True)
    assert literal.decide("a", np.eye(3), baseline=0, baseline_reward=-4.0).floor == -3.0


def test_it_learns_and_stays_above_the_floor():
    world, bandit = trained(400)
    gained, certified = 0.0, 0
    for _ in range(200):
        request = world.request()
        d = bandit.decide(**request)
        floor = request["baseline_reward"] - 0.1 * abs(request["baseline_reward"])
        assert world.truth(request, d.features) >= floor
        gained += world.truth(request, d.features) - request["baseline_reward"]
        certified += d.certified
        if d.certified:
            assert d.lower_bound >= d.floor
            np.testing.assert_array_equal(d.features, request["actions"][d.action])
    assert certified > 150
    assert gained > 20


def test_one_many_and_the_belief_itself_agree():
    world, bandit = trained(400)
    requests = [world.request() for _ in range(40)]
    for r in requests[::4]:  # nothing is better than these baselines
        means = r["actions"] @ world.theta[int(r["task"][5:])]
        r.update(baseline=int(means.argmax()), baseline_reward=float(means.max()))
    columns = {
        "tasks": [r["task"] for r in requests],
        "actions": np.stack([r["actions"] for r in requests]),
        "baselines": [r["baseline"] for r in requests],
        "baseline_rewards": [r["baseline_reward"] for r in requests],
    }
    many = bandit.decide_many(**columns)
    one = [bandit.decide(**r) for r in requests]
    ragged = bandit.decide_many(**{**columns, "actions": list(columns["actions"])})
    learner, tasks = bandit._engine.learner, bandit._engine.store.tasks
    index, r = np.array(columns["baselines"]), np.array(columns["baseline_rewards"])
    plain = learner.decide(
        np.array([tasks[t] for t in columns["tasks"]]), columns["actions"], index,
        columns["actions"][np.arange(40), index], r, r, np.zeros(40),
    )  # fmt: skip
    assert 20 < (plain.chosen >= 0).sum() <= 30
    for i, (a, b, c) in enumerate(zip(one, many, ragged, strict=True)):
        assert same(a[1:], b[1:])
        assert same(a[1:], c[1:])
        left = plain.chosen[i] >= 0
        assert (a.action, a.certified) == (plain.chosen[i] if left else index[i], left)
        assert (a.reason, a.floor) == (REASONS[plain.code[i]], plain.floor[i])
        assert a.lower_bound == plain.bound[i] if left else np.isnan(a.lower_bound)


def test_action_sets_may_differ_in_size_within_a_batch():
    world, bandit = trained(400)
    sets = [world.rng.standard_normal((k, world.dim)) for k in (3, 3, 1, 5)]
    out = bandit.decide_many(["shop-0"] * 4, sets, baselines=[0, 1, 0, 4])
    assert [d.id for d in out] == list(range(out[0].id, out[0].id + 4))
    assert bandit.audit().passed


def test_a_new_task_is_not_certified_before_the_next_refit():
    world, bandit = trained(400)
    d = bandit.decide("newcomer", np.ones((2, world.dim)), baseline=0, baseline_reward=1.0)
    assert (d.reason, d.action) == ("fallback:new-task", 0)
    assert bandit.status()["newcomer"].gate == "new-task"


def test_bounds_on_the_baseline_reward_certify_against_the_upper_floor():
    world, bandit = trained(400)
    tight = loose = 0
    for _ in range(60):
        r = world.request()
        low, high = r["baseline_reward"] - 0.2, r["baseline_reward"] + 0.2
        bounded = bandit.decide(**{**r, "baseline_reward": (low, high)})
        np.testing.assert_allclose(bounded.floor, high - 0.1 * abs(high))
        if bounded.certified and bounded.action != r["baseline"]:
            assert bounded.lower_bound >= bounded.floor
            loose += 1
        tight += bandit.decide(**r).certified
    assert 0 < loose < tight


def test_an_unknown_baseline_reward_is_enough():
    world, bandit = trained(400)
    moved = 0
    for _ in range(60):
        request = world.request()
        d = bandit.decide(**{**request, "baseline_reward": None})
        floor = request["baseline_reward"] - 0.1 * abs(request["baseline_reward"])
        assert world.truth(request, d.features) >= floor
        moved += d.certified and d.action != request["baseline"]
    assert moved > 30


def test_rewards_come_late_out_of_order_and_twice():
    world, bandit = trained(100)
    requests = [world.request() for _ in range(5)]
    ids = [bandit.decide(**r).id for r in requests]
    assert [bandit.reward(i, 1.0) for i in reversed(ids)] == ["accepted"] * 5
    assert bandit.reward(ids[2], 9.0) == "duplicate"
    assert bandit.reward_many([ids[0], ids[1]], [1.0, 2.0]) == ["duplicate", "duplicate"]
    status = bandit.status()
    assert (status.duplicates, status.pending, status.rewards) == (3, 0, 105)


def test_rewards_are_read_back_in_the_order_in_which_they_came(place):
    world, bandit = trained(60, path=place)
    made = [bandit.decide(**world.request()) for _ in range(20)]
    late = [made[i] for i in world.rng.permutation(20)]
    for i, d in enumerate(late):
        bandit.reward(d.id, float(i))
    bandit.close()
    with SafeBandit.load(place) as again:
        *_, y, _, _, number = again._engine.store.memory.plays.view().rows()
    assert number[-20:].tolist() == [d.id for d in late]
    assert y[-20:].tolist() == list(range(20))


def test_a_batch_of_rewards_may_name_a_decision_twice():
    world, bandit = trained(50)
    d = bandit.decide(**world.request())
    assert bandit.reward_many([d.id, d.id], [1.0, 2.0]) == ["accepted", "duplicate"]
    assert bandit.status().rewards == 51


def test_unknown_ids_refuse_the_whole_batch():
    world, bandit = trained(50)
    d = bandit.decide(**world.request())
    with pytest.raises(UnknownDecisionError, match="No decision has id 999"):
        bandit.reward_many([d.id, 999], [1.0, 2.0])
    assert bandit.status().rewards == 50
    assert bandit.reward(d.id, 1.0) == "accepted"


def test_rewards_expire():
    bandit = SafeBandit(refits="manual", expire_after=0.01)
    first = bandit.decide("a", np.eye(2), baseline=0)
    bandit.decide("a", np.eye(2), baseline=0)
    time.sleep(0.03)
    assert bandit.reward(first.id, 1.0) == "expired"
    status = bandit.status()
    assert (status.expired, status.late, status.pending, status.rewards) == (2, 1, 0, 0)


@pytest.mark.parametrize("by", ["load", "reopen", "save"])
def test_a_store_continues_bit_for_bit(place, copy_place, by):
    world, bandit = trained(300, path=None if by == "save" else place)
    if by == "save":
        bandit.save(place)
        other = SafeBandit.load(place)
    else:
        bandit.save(copy_place)
        bandit.close()
        bandit = SafeBandit.load(copy_place)
        other = SafeBandit.load(place) if by == "load" else SafeBandit(alpha=0.1, path=place, refits="manual")
    mine, its = (b._engine.store.memory.snapshot() for b in (bandit, other))
    assert len(mine.offered) == 300
    np.testing.assert_array_equal(mine.offered, its.offered)
    requests = [world.request() for _ in range(60)]
    rewards = world.rng.standard_normal(60)
    for request, reward in zip(requests, rewards, strict=True):
        a, b = bandit.decide(**request), other.decide(**request)
        assert same(a, b)
        bandit.reward(a.id, float(a.features @ world.theta[0] + 0.1 * reward))
        other.reward(b.id, float(b.features @ world.theta[0] + 0.1 * reward))
    assert bandit.refit() == other.refit()
    assert bandit._engine.store.drifts == other._engine.store.drifts
    for request in requests:
        assert same(bandit.decide(**request), other.decide(**request))


def test_gates_that_requests_shut_stay_shut_when_reopened(place):
    world, bandit = trained(400, path=place)
    request = world.request(0)
    wrong = bandit.decide(**{**request, "baseline_reward": request["baseline_reward"] + 5.0})
    assert wrong.reason == "fallback:baseline-disagrees"
    bandit.close()
    with SafeBandit.load(place) as again:
        assert again.decide(**request).reason == "fallback:drift"
        assert again.audit().passed


def test_other_settings_are_refused_for_a_store_that_exists(place):
    SafeBandit(alpha=0.1, path=place).close()
    with pytest.raises(SettingError, match=r"alpha=0\.1"):
        SafeBandit(alpha=0.2, path=place)
    with SafeBandit(alpha=0.1, path=place, durability="full", refits="manual") as bandit:
        assert bandit.settings.durability == "full"
    with SafeBandit.load(place) as bandit:
        assert (bandit.settings.durability, bandit.settings.refits) == ("full", "manual")


@pytest.mark.parametrize("refits", ["inline", "background"])
def test_refits_follow_the_schedule_inline_and_in_the_background(place, refits):
    world = World()
    bandit = SafeBandit(alpha=0.1, refits=refits, seed=0, path=place)
    for _ in range(3):
        world.play(bandit, 100)
        bandit._refitter.wait()  # calls may be quicker than a fit in a thread
    bandit.close()
    assert bandit.version >= 2


def test_decisions_go_on_during_a_refit_and_from_many_threads(place):
    world, bandit = trained(300, path=place)
    requests = [world.request() for _ in range(200)]
    failures: list[BaseException] = []

    def work(part: int) -> None:
        try:
            for request in requests[part::4]:
                d = bandit.decide(**request)
                bandit.reward(d.id, float(d.features @ world.theta[int(d.task[5:])]))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    bandit.refit(wait=False)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bandit.refit()
    assert not failures
    assert bandit.status().rewards == 500
    assert bandit.version >= 2
    assert bandit.audit().passed


def test_mixtures_are_played_only_when_asked_for():
    bandit = SafeBandit(alpha=0.3, refits="manual", mixing=True, norm_bound=0.5, seed=3)
    d = bandit.decide("a", np.eye(4), baseline=1, baseline_reward=1.0)
    assert d.action == -1
    assert not d.certified
    assert d.lower_bound >= d.floor
    assert not any(np.array_equal(d.features, row) for row in np.eye(4))
    again = SafeBandit(alpha=0.3, refits="manual", mixing=True, norm_bound=0.5, seed=3)
    many = again.decide_many(["a"], np.eye(4)[None], baselines=[1], baseline_rewards=[1.0])
    np.testing.assert_array_equal(many[0].features, d.features)
    assert bandit.decide("a", np.eye(4), baseline=1).action == 1  # nothing known of the reward: ρ is 0
    assert bandit.audit().passed


def test_no_more_mixtures_are_played_than_were_allowed(place):
    settings = {"alpha": 0.3, "refits": "manual", "mixing": True, "norm_bound": 0.5, "max_mixtures": 3}
    request = {"task": "a", "actions": np.eye(4), "baseline": 1, "baseline_reward": 1.0}
    with SafeBandit(path=place, seed=3, **settings) as bandit:
        assert [bandit.decide(**request).action for _ in range(2)] == [-1, -1]
    with SafeBandit.load(place) as bandit:
        assert [bandit.decide(**request).action for _ in range(2)] == [-1, 1]


def test_a_reopened_store_does_not_fit_before_it_is_due(place):
    world, bandit = trained(300, path=place)
    bandit.close()
    with SafeBandit(alpha=0.1, path=place, refits="inline") as again:
        world.play(again, 1)
        assert again.version == 1


def test_status_reports_uplift_margin_and_gate():
    world, bandit = trained(400)
    world.play(bandit, 100)
    status = bandit.status()
    shop = status["shop-0"]
    assert shop.gate == "open"
    assert shop.uplift_low < shop.uplift < shop.uplift_high
    assert shop.worst_margin >= 0
    assert 0 < shop.left < 1
    assert 0 < status.left < 1
    assert sum(t.rows for t in status.tasks) == 500
    assert "shop-0" in str(status)
    assert json.dumps(status.to_dict())


def test_uplift_interval_covers_the_truth():
    world, bandit = trained(400)
    total, n = 0.0, 0
    for _ in range(100):
        request = world.request(3)
        d = bandit.decide(**request)
        if d.certified and d.action != request["baseline"]:
            total += world.truth(request, d.features) - request["baseline_reward"]
            n += 1
    shop = bandit.status()["shop-3"]
    assert shop.moved == n
    assert shop.uplift_low <= total / n <= shop.uplift_high


def test_export_writes_every_decision(tmp_path):
    world, bandit = trained(40)
    bandit.decide(**world.request())
    assert bandit.export(tmp_path / "out.parquet") == 41
    frame = pl.read_parquet(tmp_path / "out.parquet")
    assert frame["reward"].null_count() == 1
    assert frame["reason"][0] == "fallback:no-data"
    assert frame["task"][0].startswith("shop-")


def test_a_closed_bandit_says_so():
    _, bandit = trained(10)
    bandit.close()
    bandit.close()
    with pytest.raises(InputError, match="closed"):
        bandit.decide("a", np.ones((1, 8)), baseline=0)


def test_a_decision_that_cannot_be_written_changes_nothing(place):
    world, bandit = trained(400, path=place)
    request = world.request(0)
    tamper(place, "DROP TABLE decisions")
    before = bandit._engine.learner.state()
    with pytest.raises(OSError, match="cannot be used"):
        bandit.decide(**{**request, "baseline_reward": request["baseline_reward"] + 5.0})
    for was, now in zip(before, bandit._engine.learner.state(), strict=True):
        np.testing.assert_array_equal(was, now)
    assert bandit._engine.store.decisions == 400


def test_bounds_are_no_label():
    """A number that far off contradicts the belief and shuts the gate; bounds as far off are just bounds."""
    world, bandit = trained(400)
    r = world.request(0)
    off = r["baseline_reward"] + 5.0
    assert bandit.decide(**{**r, "baseline_reward": (off - 0.1, off + 0.1)}).reason == "kept:too-uncertain"
    assert bandit.decide(**{**r, "baseline_reward": off}).reason == "fallback:baseline-disagrees"


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_a_single_task_learns_too(dim):
    bandit, rng = SafeBandit(refits="inline", seed=0), np.random.default_rng(0)
    for _ in range(120):
        A = rng.standard_normal((3, dim))
        d = bandit.decide("only", A, baseline=0, baseline_reward=float(A[0].sum()))
        assert d.features.sum() >= A[0].sum() - 0.1 * abs(A[0].sum()) - 1e-9
        bandit.reward(d.id, float(d.features.sum() + 0.1 * rng.standard_normal()))
    assert bandit.status()["only"].gate == "open"


def test_features_that_are_all_zero_certify_nothing():
    bandit = SafeBandit(refits="inline", seed=0)
    for i in range(60):
        d = bandit.decide(f"t{i % 4}", np.zeros((3, 4)), baseline=1, baseline_reward=0.0)
        bandit.reward(d.id, 0.0)
    assert (bandit.version > 0, d.action) == (True, 1)


def test_tasks_without_rewards_do_not_disturb_a_fit():
    world, bandit = trained(400)
    bandit.decide("silent", np.ones((2, world.dim)), baseline=0)
    bandit.refit()
    gates = {t.task: t.gate for t in bandit.status().tasks}
    assert gates.pop("silent") == "new-task"
    assert set(gates.values()) == {"open"}


def test_a_refit_that_fails_by_itself_is_a_warning(monkeypatch):
    world = World()
    bandit = SafeBandit(refits="inline", seed=0)
    monkeypatch.setattr("banister.online.refitter.fit", lambda *_: 1 / 0)
    with pytest.warns(BanisterWarning, match="the last model serves on"):
        world.play(bandit, 80)
    assert bandit.status().rewards == 80
    with pytest.raises(FitError, match="ZeroDivisionError"):
        bandit.refit()
