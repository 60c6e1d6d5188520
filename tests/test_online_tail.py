"""The tail of a store in files: what was acknowledged is there after a crash, and nothing else ever is."""

from __future__ import annotations

import logging
import math
import os
import shutil
import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from banister import SafeBandit
from banister.errors import DataFileError, InputError, ModelFileError
from banister.online.record import REWARD, DecisionRecord, RewardRecord
from banister.online.sqlite import tail as module
from banister.online.sqlite.frames import frame_at, record_of
from banister.online.sqlite.schema import TRIGGERS
from banister.online.sqlite.waiting import Waiting
from online_world import World, trained

TOP = 64  # bytes before the first record


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "store.banister"


def killed(store: Path, name: str = "killed") -> Path:
    """The files as a kill at this moment leaves them, elsewhere."""
    folder = store.parent / name
    folder.mkdir()
    for end in ("", ".ledger", ".ledger-wal", ".ledger-tail"):
        if Path(f"{store}{end}").exists():
            shutil.copy(f"{store}{end}", folder)
    return folder / store.name


def tail_of(store: Path) -> Path:
    return Path(f"{store}.ledger-tail")


def places(data: bytes) -> list[int]:
    """Where each record of a tail begins, and where the last one ends."""
    found, last = [TOP], 0
    while (frame := frame_at(data, data[8:16], found[-1])) is not None and frame.link > last:
        found.append(frame.end)
        last = frame.link
    return found


def rows_in_tables(store: Path) -> int:
    db = sqlite3.connect(f"file:{store}.ledger?mode=ro", uri=True)
    try:
        return int(db.execute("SELECT COUNT(*) FROM rewards").fetchone()[0])
    finally:
        db.close()


def keep_in_tail(bandit):
    """Nothing is moved by itself from now on, nor by a thread that waits for its time."""
    ledger = bandit._engine.store.ledger
    ledger._lock = None
    if ledger._timer is not None:
        ledger._timer.cancel()


@pytest.fixture
def served(store):
    """A bandit with a model, whose last ten pairs stand in the tail and nowhere else; it is never closed."""
    world, bandit = trained(60, path=store)
    before = bandit.receipt()
    keep_in_tail(bandit)
    bandit._engine.store.ledger._tail.begin_anew()
    world.play(bandit, 10, task=0)
    assert rows_in_tables(store) == 60
    assert len(places(tail_of(store).read_bytes())) == 21
    yield bandit, before
    bandit.close()


def test_a_kill_loses_nothing(served, store):
    bandit, _ = served
    copy = killed(store)
    with SafeBandit.load(copy) as again:
        assert again.receipt() == bandit.receipt()
        assert again.audit().passed
        World(seed=5).play(again, 3)
    assert not tail_of(copy).exists()
    with SafeBandit.load(copy) as again:
        assert again.status().decisions == 73
        assert again.audit(bandit.receipt()).passed


def test_a_tail_begins_anew_only_once_the_disk_has_the_tables(served, monkeypatch):
    bandit, _ = served
    ledger, synced = bandit._engine.store.ledger, []

    def sync(handle):
        synced.append((handle, ledger._tail._place))
        if len(synced) == 1:
            raise OSError("the disk does not answer")

    monkeypatch.setattr(type(ledger._tail), "used", True)
    monkeypatch.setattr(os, "fsync", sync)
    before = ledger._tail._place
    ledger.move()
    assert ledger._tail._place == before  # what it holds may be all there is
    World(seed=5).play(bandit, 1)
    ledger.move()
    assert [handle for handle, _ in synced] == [ledger._log_handle] * 2
    assert ledger._tail._place < before <= synced[1][1]


def test_a_record_that_was_cut_short_was_never_acknowledged(served, store):
    bandit, _ = served
    for name, change in {"cut": lambda d: d[:-7], "zeros": lambda d: d[:-50] + bytes(50)}.items():
        copy = killed(store, name)
        data = tail_of(copy).read_bytes()
        end = places(data)[-1]
        tail_of(copy).write_bytes(change(data[:end]))
        with SafeBandit.load(copy) as again:
            assert again.receipt().links == bandit.receipt().links - 1
            assert (again.status().decisions, again.status().rewards) == (70, 69)
            assert again.audit().passed


@pytest.mark.parametrize("part", [0, 9, 12, 30, 60, 200])  # mark, size, link, head, content
def test_a_damaged_record_before_others_is_refused(served, store, part):
    copy = killed(store)
    data = bytearray(tail_of(copy).read_bytes())
    data[places(bytes(data))[6] + part] ^= 4
    tail_of(copy).write_bytes(data)
    with pytest.raises(DataFileError, match="lacks record"):
        SafeBandit.load(copy)


def test_what_a_crash_of_the_machine_lost_is_said_and_the_rest_is_whole(served, store, caplog):
    """Under `"normal"` a disk may have later pages and not earlier ones; what precedes them opens."""
    _, before = served
    copy = killed(store)
    data = bytearray(tail_of(copy).read_bytes())
    data[16:64] = b"another start of the machine".ljust(48, b"\0")
    begin, end = places(bytes(data))[4:6]
    data[begin:end] = bytes(end - begin)
    tail_of(copy).write_bytes(data)
    with caplog.at_level(logging.WARNING, "banister"), SafeBandit.load(copy) as again:
        assert "went down before its disk had records" in caplog.text
        assert again.receipt().links == before.links + 4
        assert again.audit(before).passed
        World(seed=5).play(again, 3)
        assert again.audit(before).passed


def test_a_ledger_that_was_not_closed_needs_its_own_tail(served, store, tmp_path):
    copy = killed(store)
    tail = tail_of(copy).read_bytes()
    tail_of(copy).unlink()
    with pytest.raises(DataFileError, match="is missing"):
        SafeBandit.load(copy)
    other = SafeBandit(path=tmp_path / "other", refits="manual")
    shutil.copy(tail_of(tmp_path / "other"), tail_of(copy))
    other.close()
    with pytest.raises(DataFileError, match="belongs to another one"):
        SafeBandit.load(copy)
    tail_of(copy).write_bytes(tail)
    SafeBandit.load(copy).close()


def test_an_older_ledger_beside_a_newer_tail_is_refused(served, store, tmp_path):
    bandit, _ = served
    bandit.save(tmp_path / "old")
    World(seed=3).play(bandit, 80)  # through the tables and on
    for name in ("", ".ledger"):
        shutil.copy(f"{tmp_path / 'old'}{name}", f"{tmp_path / 'mixed'}{name}")
    shutil.copy(tail_of(store), tail_of(tmp_path / "mixed"))
    with pytest.raises(DataFileError, match="lacks record"):
        SafeBandit.load(tmp_path / "mixed")


@pytest.mark.parametrize("way", ["noise", "fifo", "folder", "huge", "empty"])
def test_whatever_stands_in_the_tails_place_is_refused(store, way):
    World().play(bandit := SafeBandit(path=store, refits="manual"), 3)
    bandit.close()
    place = tail_of(store)
    {
        "noise": lambda: place.write_bytes(np.random.default_rng(0).bytes(9000)),
        "fifo": lambda: os.mkfifo(place),
        "folder": place.mkdir,
        "huge": lambda: place.write_bytes(bytes(1 << 23)),
        "empty": lambda: place.write_bytes(b""),
    }[way]()
    with pytest.raises(DataFileError, match="tail"):
        SafeBandit.load(store)
    with SafeBandit.open_read_only(store) as view:
        assert view.status().decisions == 3


def test_a_tail_begins_anew_in_the_same_file(store, monkeypatch):
    """Many times over, with other calls in between; after each the files of a kill hold everything."""
    monkeypatch.setattr(module, "SIZE", 40_000)
    monkeypatch.setattr(module, "LARGEST", 10_000)
    world, bandit = World(), SafeBandit(path=store, refits="manual", seed=1)
    keep_in_tail(bandit)
    for i in range(12):
        world.play(bandit, 37)
        if i % 3 == 0:
            d = bandit.decide_many(["shop-1"] * 3, world.rng.standard_normal((3, 6, 8)), baselines=[0] * 3)
            bandit.reward(d[0].id, 1.0)
        copy = killed(store, f"kill-{i}")
        with SafeBandit.load(copy) as again:
            assert again.receipt() == bandit.receipt()
    assert tail_of(store).stat().st_size <= module._STEP + 40_000
    bandit.close()


def test_a_record_too_large_for_the_tail_goes_to_the_tables(store, monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 900)
    with SafeBandit(path=store, refits="manual", keep_actions=True) as bandit:
        bandit.decide("a", np.ones((2, 2)), baseline=0)
        size = len(places(tail_of(store).read_bytes()))
        bandit.decide("a", np.ones((50, 2)), baseline=0)
        assert len(places(tail_of(store).read_bytes())) == size
        assert bandit.audit().passed


def test_a_closed_store_and_a_copy_have_no_tail(served, store, tmp_path):
    bandit, _ = served
    bandit.save(tmp_path / "copy")
    assert not tail_of(tmp_path / "copy").exists()
    with SafeBandit.load(tmp_path / "copy") as again:
        assert again.receipt() == bandit.receipt()
    bandit.close()
    assert not tail_of(store).exists()
    assert rows_in_tables(store) == 70


def test_a_store_that_cannot_be_settled_at_its_end_keeps_its_tail(served, store):
    bandit, _ = served
    receipt, other = bandit.receipt(), sqlite3.connect(f"{store}.ledger", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # somebody's shell
    bandit.close()
    other.execute("ROLLBACK")
    other.close()
    assert tail_of(store).exists()
    with SafeBandit.load(store) as again:
        assert again.receipt() == receipt
        assert again.audit().passed


def test_keys_are_known_before_they_are_in_the_tables(served):
    bandit, _ = served
    A = np.ones((2, 8))
    first = bandit.decide("shop-1", A, baseline=0, key="one")
    assert bandit.decide("shop-1", A, baseline=0, key="one").id == first.id
    second = bandit.decide("shop-1", A, baseline=0, key="two")
    assert [d.id for d in bandit.decide_many(["shop-1"], A[None], baselines=[0], keys=["two"])] == [second.id]
    with pytest.raises(InputError, match="another request"):
        bandit.decide("shop-2", A, baseline=0, key="two")
    assert [bandit.reward(first.id, 1.0, key="r"), bandit.reward(first.id, 1.0, key="r")] == ["accepted"] * 2
    assert bandit.reward(first.id, 1.0) == "duplicate"
    assert bandit.audit().passed


def test_a_full_disk_refuses_the_call_and_spoils_nothing(served, store):
    bandit, _ = served
    before, tail = bandit.receipt(), bandit._engine.store.ledger._tail
    own, tail.handle = tail.handle, os.open("/dev/full", os.O_RDWR)
    with pytest.raises(DataFileError, match="No space"):
        bandit.decide("shop-1", np.ones((2, 8)), baseline=0)
    os.close(tail.handle)
    tail.handle = own
    assert bandit.receipt() == before
    World(seed=3).play(bandit, 2)
    with SafeBandit.load(killed(store)) as again:
        assert again.receipt() == bandit.receipt()


def test_tables_that_cannot_be_written_refuse_calls_before_too_many_wait(served, store):
    bandit, _ = served
    other = sqlite3.connect(f"{store}.ledger", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    world = World(seed=4)
    with pytest.raises(DataFileError, match="locked"):
        world.play(bandit, 1000)
    waiting = bandit._engine.store.ledger._waiting
    assert 20 < len(waiting) < 200
    made = bandit._engine.store.ledger.head.decisions
    other.execute("ROLLBACK")
    other.close()
    bandit.decide(**world.request())
    assert bandit.status().decisions == made + 1
    assert bandit.audit().passed


def test_what_waits_is_moved_when_nobody_calls(store):
    with SafeBandit(path=store, refits="manual") as bandit:
        World().play(bandit, 5)
        end = time.monotonic() + 20
        while rows_in_tables(store) < 5 and time.monotonic() < end:
            time.sleep(0.05)
        assert rows_in_tables(store) == 5


def test_whoever_looks_sees_what_was_acknowledged_before(store):
    world = World()
    with SafeBandit(path=store, refits="manual") as bandit:
        for n in (3, 8, 20):
            world.play(bandit, n)
            with SafeBandit.open_read_only(store) as view:
                assert view.receipt() == bandit.receipt()


def test_whoever_looks_at_a_store_after_a_crash_sees_everything(served, store):
    bandit, _ = served
    copy = killed(store)
    with SafeBandit.open_read_only(copy) as view:
        assert view.receipt() == bandit.receipt()
        assert view.audit().passed


def test_a_view_of_a_process_that_is_stuck_says_so(served, store, caplog, monkeypatch):
    monkeypatch.setattr("banister.online.sqlite.catching_up._PATIENCE", 0.1)
    with caplog.at_level(logging.WARNING, "banister"), SafeBandit.open_read_only(store) as view:
        assert "wait in the tail" in caplog.text
        assert view.status().decisions == 60


def test_full_durability_syncs_each_record_and_normal_none(store, monkeypatch):
    count, sync = [], module._sync
    monkeypatch.setattr(module, "_sync", lambda handle: (count.append(1), sync(handle)))
    for durability, expected in (("normal", 0), ("full", 8)):
        with SafeBandit(path=f"{store}-{durability}", refits="manual", durability=durability) as bandit:
            World().play(bandit, 1, task=0)  # its task is new: a transaction of the tables
            count.clear()
            World().play(bandit, 4, task=0)
            assert len(count) == expected


def test_a_store_with_triggers_is_brought_up_to_date(store):
    world, bandit = trained(30, path=store)
    bandit.close()
    db = sqlite3.connect(f"{store}.ledger")
    for trigger in TRIGGERS:
        db.execute(trigger)
    db.execute("UPDATE meta SET value = '3' WHERE key = 'schema'")
    db.commit()
    db.close()
    with pytest.raises(ModelFileError, match="older version"):
        SafeBandit.open_read_only(store)
    receipt = bandit._engine.store.ledger.head.receipt()
    with SafeBandit.load(store) as again:
        assert again.receipt() == receipt
        world.play(again, 3)
        assert again.audit(receipt).passed


numbers = st.floats(allow_nan=False, width=64)
maybe = st.one_of(st.none(), st.text(min_size=1, max_size=5).filter(lambda t: t.isprintable()))
whole = st.integers(-(2**63), 2**63 - 1)


@given(
    st.tuples(whole, numbers, whole, whole, whole, whole, st.booleans(), st.sampled_from(["certified", "ä"])),
    st.lists(st.one_of(numbers, st.just(math.nan)), min_size=4, max_size=4),
    st.tuples(numbers, numbers, st.one_of(st.none(), st.binary(max_size=9)), maybe, maybe, whole, whole),
    st.binary(max_size=20),
    st.lists(st.one_of(st.none(), st.binary(max_size=9)), min_size=3, max_size=3),
    maybe,
)
def test_a_record_is_read_back_from_what_is_hashed_of_it(first, judged, more, baseline, rows, key):
    record = DecisionRecord._make((*first, *judged, *more, baseline, *rows, key))
    again = record_of(record.content())
    assert again.content() == record.content()
    assert [a == b or a != a for a, b in zip(again, record, strict=True)] == [True] * len(record)
    reward = RewardRecord(first[0], first[1], more[0], key)
    assert record_of(reward.content()) == reward
    for content in (record.content(), reward.content()):
        for broken in (content[:-1], content + b"x", b"", content[3:]):
            with pytest.raises(ValueError):
                record_of(broken)


@pytest.mark.parametrize("size", [-2, 1])
def test_a_reward_with_another_beginning_or_a_length_that_is_none_is_no_record(size):
    content = RewardRecord(7, 1.5, 2.0, None).content()
    assert record_of(content).value == 2.0
    with pytest.raises(ValueError, match="neither"):
        record_of(b"reworm" + content[6:])
    with pytest.raises(ValueError, match="a length that is none"):
        record_of(b"reward" + REWARD.pack(7, 1.5, 2.0, size))


def test_no_more_records_wait_than_are_moved_at_once():
    waiting, record = Waiting(), RewardRecord(7, 1.5, 2.0, None)
    while waiting.takes(record):
        waiting.add(record, tuple(record))
        assert len(waiting) <= 256
    assert len(waiting) == 256
    waiting.clear()
    assert waiting.takes(record)
