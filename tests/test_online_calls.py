"""One transaction a call: keys that make a retry safe, rewards taken back, alarms that go with theirs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from banister import SafeBandit
from banister.errors import InputError, UnknownDecisionError
from banister.online.sqlite.ledger import SqliteLedger
from online_world import World, same, trained
from places import break_once


def test_a_repeated_key_gives_the_decision_that_was_made(place):
    world, bandit = trained(400, path=place)
    request = world.request(0)
    first = bandit.decide(**request, key="order-17")
    assert same(first, bandit.decide(**request, key="order-17"))
    bandit.refit()
    bandit.close()
    with SafeBandit.load(place) as again:
        assert same(first, again.decide(**request, key="order-17"))
        assert again.status().decisions == 401
        with pytest.raises(InputError, match="another request before"):
            again.decide(**world.request(0), key="order-17")
        assert again.decide(**request, key="order-18").id == 402
        assert again.audit().passed


def test_a_repeated_reward_with_its_key_is_accepted_again():
    bandit = SafeBandit(refits="manual")
    d = bandit.decide("a", np.eye(2), baseline=0)
    assert [bandit.reward(d.id, 1.0, key="r") for _ in range(2)] == ["accepted", "accepted"]
    assert bandit.reward(d.id, 1.0, key="s") == "duplicate"
    assert bandit.reward(d.id, 1.0) == "duplicate"
    with pytest.raises(InputError, match="came with the reward"):
        bandit.reward(d.id, 2.0, key="r")
    assert bandit.status().rewards == 1


@pytest.mark.parametrize("key", ["", 5, b"x", "\ud800", "a\0b"])
def test_keys_are_text(key):
    bandit = SafeBandit(refits="manual")
    with pytest.raises(InputError, match="key"):
        bandit.decide("a", np.eye(2), baseline=0, key=key)
    d = bandit.decide("a", np.eye(2), baseline=0)
    with pytest.raises(InputError, match="key"):
        bandit.reward(d.id, 1.0, key=key)


@pytest.mark.parametrize("task", ["\ud800", "a\0b"])
def test_tasks_are_text_that_can_be_kept(task):
    with pytest.raises(InputError, match="no text"):
        SafeBandit(refits="manual").decide(task, np.eye(2), baseline=0)


def test_a_reward_taken_back_is_left_out_of_the_next_fit(place, tmp_path):
    """A wild reward, retracted: the fit is the one of a store that had one reward less."""
    world, bandit = trained(300, path=place)
    wild = bandit.decide(**world.request(0))
    bandit.reward(wild.id, 1e6)
    assert bandit.retract(wild.id, "typing error") == "retracted"
    assert bandit.retract(wild.id, "typing error") == "duplicate"
    assert bandit.reward(wild.id, 1.0) == "retracted"
    status = bandit.status()
    assert (status.retracted, status.rewards) == (1, 301)
    assert sum(t.rows for t in status.tasks) == 300
    snapshot = bandit._engine.store.memory.snapshot()
    assert snapshot.rows()[2].max() < 100
    assert len(snapshot.seen().label) == 301  # its baseline reward was right
    bandit.refit()
    bandit.close()
    with SafeBandit.load(place) as again:
        assert sum(t.rows for t in again.status().tasks) == 300
        assert again.status().retracted == 1
        assert again.audit().passed
        again.export(tmp_path / "out.parquet")
        frame = pl.read_parquet(tmp_path / "out.parquet")
        assert frame.filter("retracted")["id"].to_list() == [wild.id]
        assert frame["propensity"].to_list() == [1.0] * 301


def test_only_a_reward_can_be_taken_back():
    bandit = SafeBandit(refits="manual")
    d = bandit.decide("a", np.eye(2), baseline=0)
    with pytest.raises(InputError, match="no reward"):
        bandit.retract(d.id, "x")
    with pytest.raises(UnknownDecisionError):
        bandit.retract(9, "x")
    for why in ("", None, 5, " "):
        with pytest.raises(InputError, match="why"):
            bandit.retract(d.id, why)


def drifting(world, bandit, n):
    """Rewards of one task that no longer fit, until something happens."""
    for _ in range(n):
        request = world.request(0)
        d = bandit.decide(**request)
        bandit.reward(d.id, -5.0 * float(d.features @ world.theta[0]) - 7.0)


@pytest.mark.parametrize("many", [False, True])
def test_a_gate_that_a_failed_call_shut_is_open_again(place, many):
    world, bandit = trained(400, path=place)
    request = world.request(0)
    wrong = request["baseline_reward"] + 5.0
    several = {"tasks": [request["task"]], "actions": request["actions"][None], "baseline_rewards": [wrong]}
    broken = break_once(bandit, "INSERT INTO drifts")
    with pytest.raises(OSError, match=r"full|No space"):  # noqa: PT012 - one call of two
        if many:
            bandit.decide_many(**several, baselines=[request["baseline"]])
        else:
            bandit.decide(**{**request, "baseline_reward": wrong})
    assert broken.failed
    assert bandit.status()["shop-0"].gate == "open"
    assert bandit.status().drifts == 0
    assert bandit.audit().passed


@pytest.mark.parametrize("beginning", ["INSERT INTO drifts", "COMMIT", "INSERT INTO rewards"])
def test_an_alarm_stands_or_falls_with_its_reward(place, beginning):
    world, bandit = trained(400, path=place)
    if beginning != "INSERT INTO rewards":  # a reward without an alarm is one statement
        broken = break_once(bandit, beginning)
        with pytest.raises(OSError, match=r"full|No space"):
            drifting(world, bandit, 40)
        assert broken.failed
    else:
        d = bandit.decide(**world.request(0))
        break_once(bandit, beginning)
        with pytest.raises(OSError, match=r"full|No space"):
            bandit.reward(d.id, 1.0)
    status = bandit.status()
    assert status.drifts == 0
    assert status.pending == 1  # the reward whose alarm failed was not taken in
    assert bandit.status()["shop-0"].gate == "open"
    assert bandit.audit().passed
    drifting(world, bandit, 40)
    assert bandit.status().drifts == len(bandit._engine.store.ledger.alarms()) >= 1
    assert bandit.status()["shop-0"].gate == "drift"
    assert bandit.audit().passed
    receipt = bandit.receipt()
    bandit.close()
    with SafeBandit.load(place) as again:
        assert again.receipt() == receipt
        assert again.audit(receipt).passed


def test_a_transaction_sees_its_own_records():
    ledger = SqliteLedger(None)
    with ledger.transaction():
        assert ledger.add_task("a") == 0
        assert ledger.tasks() == ["a"]
        assert ledger.add_task("b") == 1
        assert ledger.tasks() == ["a", "b"]
    assert (ledger.tasks(), ledger.head.links) == (["a", "b"], 2)

    def fail() -> None:
        with ledger.transaction():
            ledger.add_task("c")
            assert ledger.tasks() == ["a", "b", "c"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (ledger.tasks(), ledger.head.links) == (["a", "b"], 2)


def test_a_swap_that_cannot_be_written_leaves_the_old_model(place):
    world, bandit = trained(300, path=place)
    world.play(bandit, 50)
    model = bandit._engine.model
    break_once(bandit, "INSERT INTO models")
    with pytest.raises(OSError, match=r"full|No space"):
        bandit.refit()
    assert bandit._engine.model is model
    world.play(bandit, 5)
    assert bandit.audit().passed
    assert bandit.refit() == 2
    assert bandit.audit().passed
    bandit.close()


def test_a_batch_that_cannot_be_written_changes_nothing(place):
    _, bandit = trained(300, path=place)
    receipt, labels = bandit.receipt(), list(bandit._engine.store.labels)
    break_once(bandit, "COMMIT")
    with pytest.raises(OSError, match=r"full|No space"):
        bandit.decide_many(["new"] * 3, np.ones((3, 2, 8)), baselines=[0, 0, 0])
    assert bandit.receipt() == receipt
    assert bandit._engine.store.labels == labels
    assert bandit.decide("new", np.ones((2, 8)), baseline=0).id == 301
    assert bandit.audit().passed
    bandit.close()


def test_a_warm_start_that_is_repeated_counts_once(place):
    world = World()
    X = world.rng.standard_normal((240, 8))
    task = np.arange(240) % 12
    logs = {
        "task": [f"shop-{t}" for t in task],
        "reward": np.einsum("nd,nd->n", X, world.theta[task]) + 0.1 * world.rng.standard_normal(240),
        **{f"f{i}": X[:, i] for i in range(8)},
    }
    with SafeBandit(path=place, refits="manual", seed=0) as bandit:
        for _ in range(2):
            assert bandit.warm_start(logs, refit=False) == 240
        assert sum(t.rows for t in bandit.status().tasks) == 240
        other = {**logs, "reward": logs["reward"] + 1.0}
        bandit.warm_start(other, refit=False)
    with SafeBandit.load(place) as again:
        assert sum(t.rows for t in again.status().tasks) == 480
        assert again.audit().passed


def test_a_reward_counts_once_whichever_call_brings_it(place):
    world, bandit = trained(20, path=place)
    one, two, three = (bandit.decide(**world.request()).id for _ in range(3))
    assert bandit.reward_many([one, two], [1.0, 2.0]) == ["accepted"] * 2
    assert [bandit.reward(i, 3.0) for i in (one, two)] == ["duplicate"] * 2
    assert [bandit.reward(three, 3.0) for _ in range(2)] == ["accepted", "duplicate"]
    assert bandit.reward_many([three], [4.0]) == ["duplicate"]
    assert bandit.retract(two, "a typing error") == "retracted"
    assert bandit.reward(two, 2.5) == "retracted"
    bandit.close()
    with SafeBandit.load(place) as again:
        kept = {r.id: r.value for r in again._engine.store.ledger.rewards()}
        assert (kept[one], kept[two], kept[three]) == (1.0, 2.0, 3.0)
        assert again.audit().passed


def test_a_reward_that_could_not_be_written_can_come_again(place):
    world, bandit = trained(20, path=place)
    number = bandit.decide(**world.request()).id
    break_once(bandit, "INSERT INTO rewards")
    with pytest.raises(OSError, match=r"full|No space"):
        bandit.reward(number, 1.0)
    assert bandit.reward(number, 1.0) == "accepted"
    assert bandit.reward(number, 1.0) == "duplicate"
    assert bandit.audit().passed


def test_what_is_known_of_a_decision_is_what_the_database_says(place):
    """A decision made here is rewarded without a look; what is learned is the same."""
    world, bandit = trained(200, path=place)
    ledger = bandit._engine.store.ledger
    for kind in (lambda r: r, lambda r: None, lambda r: (r - 1.0, r + 1.0)):
        request = world.request()
        d = bandit.decide(**{**request, "baseline_reward": kind(request["baseline_reward"])})
        known, found = ledger._fresh.take(d.id), ledger.find(d.id)
        for a, b in zip(known, found, strict=True):
            np.testing.assert_array_equal(a, b)
