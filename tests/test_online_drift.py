"""The drift guard: a change half way shuts the gate, noise alone does not, and the task learns anew."""

from __future__ import annotations

import numpy as np
import pytest

from banister import SafeBandit
from banister.safety.gates import EVERY_TASK
from banister.safety.watch import Watch
from online_world import World, same, trained


def test_one_wild_reward_rings_nothing():
    world, bandit = trained(400)
    request = world.request(0)
    d = bandit.decide(**request)
    bandit.reward(d.id, 1e6)
    world.play(bandit, 3, 0)
    status = bandit.status()
    assert (status.drifts, status["shop-0"].gate) == (0, "open")


def change(world: World, task: int) -> None:
    world.theta = world.theta.copy()
    world.theta[task] *= -1.0


def play_unlabelled(world: World, bandit: SafeBandit, n: int, task: int) -> list[str]:
    reasons = []
    for _ in range(n):
        request = {**world.request(task), "baseline_reward": None}
        d = bandit.decide(**request)
        bandit.reward(d.id, world.earn(request, d.features))
        reasons.append(d.reason)
    return reasons


def test_a_change_half_way_shuts_the_gate_and_the_task_learns_anew(place):
    path = place
    world, bandit = trained(500, path=path)
    assert play_unlabelled(world, bandit, 20, 0)[-1] == "certified"
    change(world, 0)
    reasons = play_unlabelled(world, bandit, 30, 0)
    assert reasons.index("fallback:drift") <= 12
    assert reasons[-1] == "fallback:drift"
    status = bandit.status()
    assert status.drifts == 1
    assert status["shop-0"].gate == "drift"
    assert status["shop-1"].gate == "open"
    assert status["shop-0"].moved == 0  # what was gained before the change is no longer reported
    bandit.close()
    bandit = SafeBandit.load(path)
    assert bandit.status()["shop-0"].gate == "drift"
    assert bandit.audit().passed
    play_unlabelled(world, bandit, 40, 0)
    rows = bandit.status()["shop-0"].rows
    assert rows <= 40 + 30  # what was earned before the change no longer counts
    bandit.refit()
    requests = [world.request(0) for _ in range(30)]
    decisions = [bandit.decide(**{**r, "baseline_reward": None}) for r in requests]
    for request, d in zip(requests, decisions, strict=True):
        assert world.truth(request, d.features) >= request["baseline_reward"] - 0.1 * abs(
            request["baseline_reward"]
        )
    assert sum(d.certified for d in decisions) > 10
    assert bandit.audit().passed
    bandit.close()


def test_the_guard_can_be_left_out():
    world, bandit = trained(500, drift_guard=False)
    change(world, 0)
    play_unlabelled(world, bandit, 30, 0)
    assert bandit.status().drifts == 0


def change_all(world: World, bandit: SafeBandit) -> int:
    """Every task changes; the number of rewards until all gates are shut."""
    world.theta = -world.theta
    for i in range(200):
        request = {**world.request(), "baseline_reward": None}
        d = bandit.decide(**request)
        bandit.reward(d.id, world.earn(request, d.features))
        if EVERY_TASK in bandit._engine.store.memory.since:
            return i + 1
    raise AssertionError("no alarm")


def test_a_change_that_all_tasks_share_shuts_every_gate_and_all_learn_anew(place):
    path = place
    world, bandit = trained(600, path=path)
    assert change_all(world, bandit) <= 30
    since = dict(bandit._engine.store.memory.since)
    assert 600 <= since[EVERY_TASK] <= 630
    assert {t.gate for t in bandit.status().tasks} == {"drift"}
    rows = sum(t.rows for t in bandit.status().tasks)
    assert rows <= 30
    bandit.close()
    with SafeBandit.load(path) as again:
        assert again._engine.store.memory.since == since
        assert {t.gate for t in again.status().tasks} == {"drift"}
        for _ in range(200):
            request = {**world.request(), "baseline_reward": None}
            d = again.decide(**request)
            assert d.reason == "fallback:drift"
            again.reward(d.id, world.earn(request, d.features))
        again.refit()
        requests = [world.request() for _ in range(60)]
        left = 0
        for request in requests:
            d = again.decide(**{**request, "baseline_reward": None})
            left += d.certified
            r = request["baseline_reward"]
            assert world.truth(request, d.features) >= r - 0.1 * abs(r)
        assert left > 15
        assert again.audit().passed


def contradict(world: World, bandit: SafeBandit, tasks: int) -> list[str]:
    """Wrong baseline rewards for some tasks, one after the other."""
    reasons = []
    for t in range(tasks):
        request = world.request(t)
        wrong = {**request, "baseline_reward": request["baseline_reward"] + 5.0}
        reasons.append(bandit.decide(**wrong).reason)
    return reasons


def test_contradicted_baselines_of_many_tasks_are_a_drift():
    world, bandit = trained(600)
    contradict(world, bandit, 2)
    assert bandit.status().drifts == 2
    assert contradict(world, bandit, 3) == ["fallback:drift"] * 2 + ["fallback:baseline-disagrees"]
    assert bandit.status().drifts == 3
    assert bandit._engine.store.memory.since[EVERY_TASK] == bandit._engine.store.decisions + 1
    gates = {t.task: t.gate for t in bandit.status().tasks}
    assert {t for t, gate in gates.items() if gate == "baseline-disagrees"} == {"shop-2"}
    assert set(gates.values()) == {"baseline-disagrees", "drift"}
    assert bandit.audit().passed


@pytest.mark.parametrize("wrong", [5.0, -5.0, 0.3])
def test_a_wrong_baseline_reward_is_not_learned_from(wrong):
    """The task begins anew behind it; what other requests say of it is right, and enough."""
    for seed in range(3):
        world, bandit = trained(400, seed=seed)
        request = world.request(0)
        claimed = {**request, "baseline_reward": request["baseline_reward"] + wrong}
        d = bandit.decide(**claimed)
        assert d.reason == "fallback:baseline-disagrees"
        bandit.reward(d.id, world.earn(request, d.features))
        world.play(bandit, 300)
        bandit.refit()
        assert {d.reason for d in world.play(bandit, 60, task=0)} == {"certified"}
        assert bandit.audit().passed


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_gates_are_shut_for_the_same_reason_when_reopened(place, copy_place, tasks):
    path = place
    world, bandit = trained(600, path=path)
    contradict(world, bandit, tasks)
    world.play(bandit, 20)
    gates, drifts = [t.gate for t in bandit.status().tasks], bandit.status().drifts
    bandit.save(copy_place)
    bandit.close()
    with SafeBandit.load(path) as again, SafeBandit.load(copy_place) as copy:
        assert [t.gate for t in again.status().tasks] == gates
        assert again.status().drifts == drifts
        for _ in range(20):
            request = world.request()
            a, b = again.decide(**request), copy.decide(**request)
            assert same(a, b)
        assert again.audit().passed, str(again.audit())


def test_a_batch_that_contradicts_many_baselines_can_be_judged_again(tmp_path):
    """The batch was judged before the alarm, so its last requests left the baseline; the next do not."""
    path = tmp_path / "store.banister"
    world, bandit = trained(600, path=path)
    requests = [world.request(t) for t in [*range(12), 6, 7, 8, 9]]
    rewards = [r["baseline_reward"] + 5.0 * (i < 5) for i, r in enumerate(requests)]
    out = bandit.decide_many(
        [r["task"] for r in requests],
        np.stack([r["actions"] for r in requests]),
        baselines=[r["baseline"] for r in requests],
        baseline_rewards=rewards,
    )
    assert [d.reason for d in out[:5]] == ["fallback:baseline-disagrees"] * 5
    assert any(d.certified for d in out[5:])
    assert bandit.status().drifts == 3  # two of single tasks, and then of all
    assert bandit.decide(**world.request(7)).reason == "fallback:drift"
    assert bandit.audit().passed, str(bandit.audit())
    gates = [t.gate for t in bandit.status().tasks]
    bandit.close()
    with SafeBandit.load(path) as again:
        assert [t.gate for t in again.status().tasks] == gates


def test_alarms_are_replayed_and_not_written_twice(place):
    path = place
    world, bandit = trained(500, path=path)
    change(world, 0)
    play_unlabelled(world, bandit, 30, 0)
    since, receipt = dict(bandit._engine.store.memory.since), bandit.receipt()
    assert since
    bandit.close()
    for _ in range(2):
        with SafeBandit.load(path) as again:
            assert again._engine.store.memory.since == since
            assert again.receipt() == receipt
            assert again.status()["shop-0"].gate == "drift"


def test_a_store_that_was_closed_half_way_to_an_alarm_rings_as_soon_as_one_that_was_not(place, copy_place):
    world, bandit = trained(500, path=place)
    change(world, 0)
    requests = [{**world.request(0), "baseline_reward": None} for _ in range(30)]

    def play(bandit: SafeBandit, requests: list[dict]) -> list[int]:
        """How many alarms there are after each reward, which has no noise."""
        drifts = []
        for request in requests:
            d = bandit.decide(**request)
            bandit.reward(d.id, world.truth(request, d.features))
            drifts.append(bandit.status().drifts)
        return drifts

    bandit.save(copy_place)
    with bandit:
        rang = play(bandit, requests).index(1)
    assert rang > 1
    with SafeBandit.load(copy_place) as half:
        assert play(half, requests[:rang])[-1] == 0
    with SafeBandit.load(copy_place) as again:
        assert play(again, requests[rang : rang + 1]) == [1]


def test_rewards_during_a_fit_are_shown_to_the_next_model(monkeypatch):
    """A task that changes while the fit runs is shut by the model that the fit makes."""
    from banister.online import refitter

    world, bandit = trained(500)
    whole = refitter.fit

    def slow(*given):
        change(world, 0)
        play_unlabelled(world, bandit, 30, 0)
        return whole(*given)

    monkeypatch.setattr(refitter, "fit", slow)
    assert bandit.refit() == 2
    versions = [a.version for a in bandit._engine.store.ledger.alarms()]
    assert versions == [1, 2]
    assert bandit.status().drifts == 2
    assert bandit.status()["shop-0"].gate == "drift"
    assert bandit.audit().passed


def test_rewards_that_were_taken_back_ring_for_no_later_model(place, monkeypatch):
    """Wrong rewards ring when they come; the model that follows is not blamed for them, nor at opening."""
    from banister.online import refitter

    world, bandit = trained(500, path=place)
    whole = refitter.fit

    def slow(*given):
        for _ in range(30):
            request = {**world.request(0), "baseline_reward": None}
            d = bandit.decide(**request)
            bandit.reward(d.id, world.earn(request, d.features) + 9.0)
            bandit.retract(d.id, "a test order")
        return whole(*given)

    monkeypatch.setattr(refitter, "fit", slow)
    assert bandit.refit() == 2
    assert [a.version for a in bandit._engine.store.ledger.alarms()] == [1]
    receipt = bandit.receipt()
    bandit.close()
    with SafeBandit.load(place) as again:
        assert again.receipt() == receipt
        assert again.audit().passed


def test_an_alarm_during_a_fit_holds_for_the_model_it_makes(monkeypatch):
    """The new model was fitted to rows from before the change, and no request has contradicted it yet."""
    from banister.online import refitter

    world, bandit = trained(500)
    whole = refitter.fit

    def slow(*given):
        contradict(world, bandit, 3)
        return whole(*given)

    monkeypatch.setattr(refitter, "fit", slow)
    assert bandit.refit() == 2
    assert {t.gate for t in bandit.status().tasks} == {"drift"}
    assert bandit.decide(**world.request(5)).reason == "fallback:drift"
    assert bandit.audit().passed


def test_a_swap_that_cannot_be_written_forgets_nothing(monkeypatch):
    """The new model rings an alarm as it is swapped in; if that is not written, no row is forgotten."""
    _, bandit = trained(500)
    engine, whole = bandit._engine, bandit._engine.use
    before, rows = engine.learner.state(), bandit.status()["shop-0"].rows

    def ringing(model):
        whole(model)
        engine.learner.forget(0, 490)
        raise OSError("the disk is full")

    monkeypatch.setattr(engine, "use", ringing)
    with pytest.raises(OSError, match="full"):
        bandit.refit()
    np.testing.assert_array_equal(engine.learner.state()[0], before[0])
    assert engine.learner.state()[1:] == before[1:]
    assert (bandit.version, bandit.status()["shop-0"].rows) == (1, rows)


@pytest.mark.statistical
def test_noise_alone_rings_rarely():
    """At most 1 alarm in 20 worlds of 600 rewards each after the fit; 0.05 are promised at most."""
    alarms = 0
    for seed in range(20):
        world, bandit = trained(400, seed=seed)
        belief = bandit._engine.model.belief
        watch, rng = Watch(belief), np.random.default_rng(seed)
        for i in range(600):
            t, x = int(rng.integers(belief.n_tasks)), rng.standard_normal(world.dim)
            truth = world.theta[int(bandit._engine.store.labels[t][5:])]
            alarms += len(watch.see(t, x, float(x @ truth + 0.1 * rng.standard_normal()), i + 1))
    assert alarms <= 1
