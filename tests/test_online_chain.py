"""The chain: what was removed, changed or swapped is found, by an audit, at opening, by a receipt."""

from __future__ import annotations

import json
from hashlib import blake2b, sha256

import numpy as np
import pytest

from banister import SafeBandit
from banister.errors import DataFileError, InputError, ModelFileError, StoreError
from banister.online.head import Head
from banister.online.record import RewardRecord, TaskRecord, leaf
from online_world import World, trained
from places import tamper


@pytest.fixture
def lived(place):
    world, bandit = trained(60, path=place)
    world.play(bandit, 20)
    bandit.retract(70, "the till was broken")
    yield bandit
    bandit.close()


HARM = [
    "DELETE FROM rewards WHERE id = (SELECT MAX(id) FROM rewards)",
    "DELETE FROM decisions WHERE id = (SELECT MAX(id) FROM decisions)",
    "UPDATE rewards SET value = -value WHERE id = 80",
    "UPDATE rewards SET value = -value WHERE id = 3",
    "UPDATE decisions SET high = high + 1e-12 WHERE id = 5",
    "UPDATE decisions SET probability = 0.5 WHERE id = 5",
    "UPDATE decisions SET promise = 'x' WHERE id = 5",
    "UPDATE decisions SET time = time + 1 WHERE id = 5",
    "UPDATE tasks SET label = 'mine' WHERE code = 1",
    "DELETE FROM retractions",
    "UPDATE retractions SET why = 'no reason'",
    "UPDATE retractions SET link = link + 7",  # the last record; no hash says where it stands
    "UPDATE models SET size = size",  # harmless
    "UPDATE models SET decisions = decisions - 1",
    "UPDATE model_parts SET bytes = zeroblob(length(bytes))",
    "INSERT INTO refusals VALUES (1, 0.0, 1.0, 'duplicate', 9999, zeroblob(32))",
    "UPDATE head SET links = links - 1, decisions = decisions - 1",
]


@pytest.mark.parametrize("statement", HARM)
def test_what_was_done_to_the_ledger_is_found(lived, place, statement):
    tamper(place, statement)
    harmless = statement.endswith("size = size")
    assert lived.audit().passed == harmless, statement
    lived.close()
    if harmless:
        SafeBandit.load(place).close()
        return
    with pytest.raises((DataFileError, ModelFileError), match="was altered"):
        SafeBandit.load(place)
    if "model_parts" not in statement:
        with SafeBandit.open_read_only(place) as view:
            assert not view.audit().passed


def test_two_rows_that_change_places_are_found(lived, place):
    for now, then in ((10, -1), (11, 10), (-1, 11)):
        tamper(place, f"UPDATE rewards SET id = {then} WHERE id = {now}")
    assert not lived.audit().passed


def test_a_tail_removed_with_its_head_is_found_by_a_receipt(lived, place):
    """Whoever can write can also write a shorter chain that holds; only what is kept elsewhere shows it."""
    ledger = lived._engine.store.ledger
    receipt = json.loads(json.dumps(lived.receipt().to_dict()))
    *_, before, _ = ((link, head) for link, head, _ in ledger.entries())
    tamper(place, "DELETE FROM retractions")
    tamper(place, f"UPDATE head SET links = {before[0]}, hash = x'{before[1].hex()}', retractions = 0")
    assert not lived.audit().passed  # this process remembers
    if "://" in place:  # and does not serve on
        for call in (lived.receipt, lambda: lived.reward(1, 0.0), lambda: World().play(lived, 1)):
            with pytest.raises(StoreError, match="no longer begins with"):
                call()
    lived.close()
    with SafeBandit.load(place) as again:
        assert again.audit().passed
        found = again.audit(receipt=receipt)
        assert not found.passed
        assert "what came last was removed" in str(found)


def test_an_old_receipt_holds_for_a_ledger_that_went_on(lived):
    receipt = lived.receipt()
    World().play(lived, 5)
    assert lived.audit(receipt=receipt).passed
    other = SafeBandit(refits="manual")
    World().play(other, 200)
    found = other.audit(receipt=receipt)
    assert "not those that a receipt was given for" in str(found)


@pytest.mark.parametrize("receipt", [{}, "x", {"hash": "00"}, 5])
def test_what_is_no_receipt_is_refused(receipt):
    with pytest.raises(InputError, match="no receipt"):
        SafeBandit().audit(receipt=receipt)


def test_the_chain_by_hand():
    """Two links, hashed here from their bytes."""
    head = Head(b"s" * 32)
    head.add(TaskRecord(0, "a"))
    leaf = blake2b(
        b"task" + (0).to_bytes(8, "little") + (1).to_bytes(8, "little") + b"a", digest_size=32
    ).digest()
    first = sha256(b"s" * 32 + leaf).digest()
    assert head.hash == first
    head.add(RewardRecord(7, 2.0, -0.0, None))
    numbers = (7).to_bytes(8, "little") + np.array([2.0, 0.0]).tobytes()
    none = (-1).to_bytes(8, "little", signed=True)
    leaf = blake2b(b"reward" + numbers + none, digest_size=32).digest()
    assert head.hash == sha256(first + leaf).digest()
    assert (head.links, head.tasks, head.rewards) == (2, 1, 1)


def test_no_text_moves_from_one_field_to_the_next():
    a = leaf(RewardRecord(1, 0.0, 1.0, "x"))
    assert a != leaf(RewardRecord(1, 0.0, 1.0, None))
    assert a != leaf(RewardRecord(1, 0.0, 1.0, ""))


def test_models_carry_the_counts_of_their_time(lived):
    record = lived._engine.store.ledger.models()[-1]
    assert (record.decisions, record.rewards, record.drifts) == (60, 60, 0)


@pytest.mark.parametrize("m", [1, 24, 25, 26, 60])
def test_many_rows_are_written_as_one_by_one(tmp_path, m):
    """Whole statements of several rows, and what is left over: the same rows either way."""
    rng = np.random.default_rng(m)
    actions, tasks = rng.normal(size=(m, 3, 2)), [f"shop-{i % 3}" for i in range(m)]
    found = []
    for name in ("many", "single"):
        with SafeBandit(path=tmp_path / name, refits="manual", seed=1) as bandit:
            if name == "many":
                made = bandit.decide_many(tasks, actions, baselines=[1] * m)
            else:
                made = [bandit.decide(t, a, baseline=1) for t, a in zip(tasks, actions, strict=True)]
            bandit.reward_many([d.id for d in made], [float(d.id) for d in made])
            assert bandit.audit().passed
            kept = [record for _, _, record in bandit._engine.store.ledger.entries()]
        timeless = (r._replace(time=0.0) if "time" in r._fields else r for r in kept)
        found.append(sorted(r.content() for r in timeless))
    assert found[0] == found[1]
    assert len(found[0]) == 2 * m + min(m, 3)
