"""Keys on batches: a batch may be sent again, whole or in part, and each request is decided once."""

from __future__ import annotations

import numpy as np
import pytest

from banister import SafeBandit
from banister.errors import BanisterError, DataFileError, InputError, ShapeError
from online_world import World, same, trained
from places import Failing


def asked(world, m):
    """Requests, and the arguments of one call for all of them."""
    return together([world.request() for _ in range(m)])


def together(requests):
    return {
        "tasks": [r["task"] for r in requests],
        "actions": np.array([r["actions"] for r in requests]),
        "baselines": [r["baseline"] for r in requests],
        "baseline_rewards": [r["baseline_reward"] for r in requests],
    }


def part(given, rows):
    return {name: [column[i] for i in rows] for name, column in given.items()}


KEYS = [f"k{i}" for i in range(6)]


@pytest.fixture
def lived(place):
    world, bandit = trained(60, path=place)
    yield world, bandit
    bandit.close()


def test_a_batch_that_is_sent_again_is_given_back(lived):
    world, bandit = lived
    given = asked(world, 6)
    first = bandit.decide_many(**given, keys=KEYS)
    before = bandit.receipt()
    again = bandit.decide_many(**given, keys=KEYS)
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert bandit.receipt() == before
    assert bandit.status().decisions == 66
    assert bandit.audit().passed


def test_with_and_without_keys_decide_alike(place):
    plain, keyed = (trained(60, path=p)[1] for p in (None, place))
    given = asked(World(seed=3), 6)
    for a, b in zip(plain.decide_many(**given), keyed.decide_many(**given, keys=KEYS), strict=True):
        assert same(a, b)
    keyed.close()


def test_some_of_a_batch_came_before(lived):
    world, bandit = lived
    given = asked(world, 6)
    old = {i: bandit.decide_many(**part(given, [i]), keys=[KEYS[i]])[0] for i in (1, 4)}
    found = bandit.decide_many(**given, keys=KEYS)
    assert all(same(found[i], d) for i, d in old.items())
    new = [found[i] for i in (0, 2, 3, 5)]
    assert [d.id for d in new] == [63, 64, 65, 66]
    assert [d.task for d in found] == given["tasks"]
    for i, d in enumerate(found):
        assert np.array_equal(d.features, given["actions"][i][d.action])
    rows = {r.key: r.id for r in bandit._engine.store.ledger.decisions() if r.key is not None}
    assert rows == {key: d.id for key, d in zip(KEYS, found, strict=True)}
    assert bandit.audit().passed


def test_single_calls_and_batches_share_keys(lived):
    world, bandit = lived
    request = world.request()
    one = bandit.decide(**request, key="k")
    assert same(one, bandit.decide_many(**together([request]), keys=["k"])[0])
    other = world.request()
    many = bandit.decide_many(**together([other]), keys=["l"])[0]
    assert same(many, bandit.decide(**other, key="l"))


def test_requests_without_a_key_are_decided_each_time(lived):
    world, bandit = lived
    given = asked(world, 3)
    first = bandit.decide_many(**given, keys=["a", None, "c"])
    again = bandit.decide_many(**given, keys=["a", None, "c"])
    assert [d.id for d in first] == [61, 62, 63]
    assert [d.id for d in again] == [61, 64, 63]


def test_sets_of_several_sizes(lived):
    world, bandit = lived
    given = asked(world, 4)
    sets = [actions[: 3 + i % 2] for i, actions in enumerate(given["actions"])]
    given |= {"actions": sets, "baselines": [0, 1, 2, 0]}
    old = bandit.decide_many(**part(given, [2]), keys=["k2"])[0]
    found = bandit.decide_many(**given, keys=KEYS[:4])
    assert same(found[2], old)
    assert [d.id for d in found] == [62, 63, 61, 64]


@pytest.mark.parametrize("change", ["tasks", "actions", "baselines"])
def test_a_key_of_another_request_refuses_the_whole_batch(lived, change):
    world, bandit = lived
    given = asked(world, 3)
    bandit.decide_many(**part(given, [1]), keys=["k1"])
    before = bandit.receipt()
    other = {name: list(column) for name, column in given.items()}
    other[change][1] = {
        "tasks": "shop-new", "actions": given["actions"][0],
        "baselines": (given["baselines"][1] + 1) % world.actions,
    }[change]  # fmt: skip
    with pytest.raises(InputError, match="key='k1' came with another request before"):
        bandit.decide_many(**other, keys=KEYS[:3])
    assert bandit.receipt() == before
    assert bandit.status().decisions == 61


def test_draws_of_a_batch_have_keys(place):
    world = World()
    with SafeBandit(path=place, refits="manual", seed=1, reward_range=(-9.0, 9.0)) as bandit:
        given = asked(world, 6)
        first = bandit.decide_many(**given, keys=KEYS)
        waiting = bandit._engine.account.exposed()
        assert all(same(a, b) for a, b in zip(first, bandit.decide_many(**given, keys=KEYS), strict=True))
        assert np.array_equal(bandit._engine.account.exposed(), waiting)
        assert bandit.audit().passed


def test_mixtures_have_keys():
    world = World()
    bandit = SafeBandit(refits="manual", seed=1, mixing=True, norm_bound=1.0)
    given = asked(world, 3)
    first = bandit.decide_many(**given, keys=KEYS[:3])
    assert [d.id for d in bandit.decide_many(**given, keys=KEYS[:3])] == [d.id for d in first] == [1, 2, 3]


def test_a_batch_that_fails_leaves_its_keys_free(tmp_path, monkeypatch):
    world, bandit = trained(60, path=tmp_path / "s.banister")
    given, ledger = asked(world, 6), bandit._engine.store.ledger
    before = bandit.receipt()
    failing = Failing(ledger._db, "COMMIT", __import__("sqlite3").OperationalError("disk is full"))
    monkeypatch.setattr(ledger, "_db", failing)
    with pytest.raises(DataFileError, match="full"):
        bandit.decide_many(**given, keys=KEYS)
    assert bandit.receipt() == before
    assert [d.id for d in bandit.decide_many(**given, keys=KEYS)] == list(range(61, 67))
    assert bandit.audit().passed


@pytest.mark.parametrize(
    ("keys", "error", "says"),
    [
        (["a", "a", "b"], InputError, "'a' twice"),
        (["a", "b"], ShapeError, "3 requests and 2 keys"),
        ("abc", InputError, "keys must be a list"),
        (["a", "", "b"], InputError, "key=''"),
        (["a", 7, "b"], InputError, "key=7"),
        (["a", "\ud800", "b"], InputError, "surrogate"),
        ({"a", "b", "c"}, InputError, "keys must be a list"),
    ],
)
def test_odd_keys_are_refused(keys, error, says):
    world = World()
    bandit = SafeBandit(refits="manual", seed=1)
    with pytest.raises(error, match=says):
        bandit.decide_many(**asked(world, 3), keys=keys)
    assert bandit.status().decisions == 0
    ids = [d.id for d in bandit.decide_many(**asked(world, 3))]
    if keys != ["a", "a", "b"]:  # rewards name their decisions: two may share a key, as two calls may
        with pytest.raises(error, match=says):
            bandit.reward_many(ids, [1.0] * 3, keys=keys)
    assert bandit.status().rewards == 0


def test_rewards_that_are_sent_again_are_accepted_again(lived):
    world, bandit = lived
    ids = [d.id for d in bandit.decide_many(**asked(world, 3))]
    assert bandit.reward_many(ids[:1], [0.1], keys=["r0"]) == ["accepted"]
    keys = ["r0", "r1", None]
    assert bandit.reward_many(ids, [0.1, 0.2, 0.3], keys=keys) == ["accepted"] * 3
    assert bandit.reward_many(ids, [0.1, 0.2, 0.3], keys=keys) == ["accepted", "accepted", "duplicate"]
    assert bandit.reward_many(ids, [0.1, 0.2, 0.3], keys=["x", "y", "z"]) == ["duplicate"] * 3
    assert bandit.reward(ids[1], 0.2, key="r1") == "accepted"
    assert bandit.status().rewards == 63
    assert bandit.status().duplicates == 4
    assert bandit.audit().passed


def test_another_reward_under_a_known_key_refuses_the_whole_batch(lived):
    world, bandit = lived
    ids = [d.id for d in bandit.decide_many(**asked(world, 3))]
    bandit.reward_many(ids[:1], [0.1], keys=["r0"])
    before = bandit.receipt()
    with pytest.raises(InputError, match=r"'r0' came with the reward 0\.1 before, and now with 0\.5"):
        bandit.reward_many(ids[::-1], [0.3, 0.2, 0.5], keys=["r2", "r1", "r0"])
    assert bandit.receipt() == before


def test_one_decision_twice_in_a_batch_of_rewards(lived):
    world, bandit = lived
    a, b = (d.id for d in bandit.decide_many(**asked(world, 2)))
    found = bandit.reward_many([a, a, a, b], [0.1, 0.1, 0.2, 0.1], keys=["r", "r", "other", "r"])
    assert found == ["accepted", "accepted", "duplicate", "accepted"]
    with pytest.raises(InputError, match=r"came with the reward 0\.7 before"):
        bandit.reward_many([c := bandit.decide(**world.request()).id, c], [0.7, 0.8], keys=["s", "s"])
    assert bandit.reward(c, 0.8) == "accepted"
    assert bandit.audit().passed


def test_an_unknown_id_refuses_the_whole_batch(lived):
    world, bandit = lived
    d = bandit.decide(**world.request())
    before = bandit.receipt()
    for wrong in (999, 0, -1, 1 << 70):
        with pytest.raises(BanisterError, match=f"No decision has id {wrong}"):
            bandit.reward_many([d.id, wrong], [1.0, 1.0], keys=["a", "b"])
    assert bandit.receipt() == before


def test_processes_share_the_keys_of_batches(place):
    if "://" not in str(place):
        pytest.skip("files have one process")
    world, one = trained(60, path=place)
    two = SafeBandit.load(place)
    given = asked(world, 6)
    first = one.decide_many(**part(given, [0, 1, 2]), keys=KEYS[:3])
    second = two.decide_many(**given, keys=KEYS)
    assert all(same(a, b) for a, b in zip(first, second[:3], strict=True))
    assert [d.id for d in one.decide_many(**given, keys=KEYS)] == [d.id for d in second]
    assert one.reward_many([second[5].id], [1.0], keys=["r"]) == ["accepted"]
    assert two.reward_many([second[5].id], [1.0], keys=["r"]) == ["accepted"]
    assert two.audit().passed
    assert one.status().decisions == two.status().decisions == 66
    one.close(), two.close()
