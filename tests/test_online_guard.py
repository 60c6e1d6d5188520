"""Who may write: a forked child, a second process, a lost lock, a lost file; all before an answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from banister import SafeBandit
from banister.errors import BanisterError, DataFileError, StoreError
from banister.online.sqlite import folding
from online_world import World, trained


@pytest.fixture
def store(tmp_path) -> Path:
    return tmp_path / "store.banister"


def decide(bandit: SafeBandit):
    return bandit.decide("a", np.eye(2), baseline=0)


def in_child(work) -> str:
    """What `work` says in a forked child: its result, or the name of the error it met."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(work())
        except BaseException as failure:
            said = f"{type(failure).__name__}: {failure}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as file:
        return file.read()


def test_a_forked_child_is_refused_and_harms_nobody(store):
    bandit = SafeBandit(path=store, refits="manual")
    first = decide(bandit)
    assert "StoreError" in in_child(lambda: decide(bandit))
    assert "after the fork" in in_child(lambda: bandit.reward(first.id, 1.0))
    in_child(bandit.close)
    assert [decide(bandit).id for _ in range(3)] == [2, 3, 4]
    assert bandit.reward(first.id, 1.0) == "accepted"
    bandit.close()
    with SafeBandit.load(store) as again:
        assert (again.status().decisions, again.status().rewards) == (4, 1)
        assert again.audit().passed


def test_a_child_that_lives_on_does_not_keep_the_lock(store):
    bandit = SafeBandit(path=store, refits="manual")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(0)
    bandit.close()
    SafeBandit.load(store).close()
    os.write(writer, b"x")
    os.waitpid(child, 0)


OUTLIVED = """
import os, sys
from banister import SafeBandit
bandit = SafeBandit(path=sys.argv[1], refits="manual")
bandit.decide("a", [[1.0, 0.0], [0.0, 1.0]], baseline=0)
print("forked", flush=True)
if os.fork():
    os._exit(1)  # as a crash would: nothing is closed
sys.stdin.read()
"""


def test_a_child_that_outlives_a_crashed_parent_does_not_keep_the_lock(store):
    parent = subprocess.Popen(
        [sys.executable, "-c", OUTLIVED, str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout.readline() == b"forked\n"
    parent.wait()
    with SafeBandit.load(store) as again:
        assert again.status().decisions == 1
    parent.stdin.close()  # only now does the child end
    parent.stdout.read()
    parent.stdout.close()


OPEN = "import sys; from banister import SafeBandit; SafeBandit.load(sys.argv[1])"


def test_reading_the_ledger_as_a_file_does_not_let_another_process_in(store):
    bandit = SafeBandit(path=store, refits="manual")
    decide(bandit)
    for name in store.parent.iterdir():
        name.read_bytes()  # a close drops every POSIX lock that the process has on the file
    other = subprocess.run(
        [sys.executable, "-c", OPEN, str(store)], capture_output=True, text=True, check=False
    )
    assert "another process serves from it" in other.stderr
    assert decide(bandit).id == 2


def test_a_second_bandit_in_the_same_process_is_refused(store):
    with SafeBandit(path=store), pytest.raises(DataFileError, match="another process"):
        SafeBandit.load(store)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda ledger: ledger.unlink(), "is gone"),
        (lambda ledger: Path(f"{ledger}-wal").unlink(), "is gone"),
        (lambda ledger: Path(f"{ledger}-tail").unlink(), "is gone"),
        (lambda ledger: ledger.rename(ledger.with_name("elsewhere")), "is gone"),
        (
            lambda ledger: ledger.parent.rename(ledger.parent.with_name(f"{ledger.parent.name}-elsewhere")),
            "is gone",
        ),
        (lambda ledger: os.truncate(ledger, 0), "was cut"),
        (lambda ledger: os.truncate(f"{ledger}-tail", 0), "was cut"),
        (lambda ledger: os.truncate(f"{ledger}-wal", 0), "was cut"),
        (lambda ledger: os.replace(_copy(ledger), ledger), "replaced"),
        (lambda ledger: os.replace(_copy(Path(f"{ledger}-tail")), f"{ledger}-tail"), "replaced"),
        (lambda ledger: Path(f"{ledger}-lock").unlink(), "lock"),
        (lambda ledger: os.replace(_copy(Path(f"{ledger}-lock")), f"{ledger}-lock"), "lock"),
    ],
)
@pytest.mark.parametrize("settled", [False, True])
def test_what_happens_to_the_files_is_seen_before_anything_is_acknowledged(store, harm, says, settled):
    """Also when the folder has not changed for long, and no file is looked for by its name any more."""
    bandit = SafeBandit(path=store, refits="manual")
    d = decide(bandit)
    if settled:
        time.sleep(0.3)
        decide(bandit)
        assert bandit._engine.store.ledger._guard._seen
    harm(Path(f"{store}.ledger"))
    with pytest.raises(StoreError, match=says):
        decide(bandit)
    with pytest.raises(StoreError, match=says):
        bandit.reward(d.id, 1.0)
    with pytest.raises(StoreError, match=says):
        bandit.status()


def test_a_file_that_goes_within_a_tick_of_the_clock_is_missed(store, monkeypatch):
    """The folder's time may stay as it was then, so it is not believed before it is long past."""
    with SafeBandit(path=store, refits="manual") as bandit:
        decide(bandit)
        folder, stat = os.stat(store.parent), os.stat
        monkeypatch.setattr(
            os, "stat", lambda path, **k: folder if path == str(store.parent) else stat(path, **k)
        )
        monkeypatch.setattr(time, "time_ns", lambda: folder.st_ctime_ns + 5_000_000)
        decide(bandit)
        Path(f"{store}.ledger").rename(f"{store}.elsewhere")
        with pytest.raises(StoreError, match="is gone"):
            decide(bandit)
        Path(f"{store}.elsewhere").rename(f"{store}.ledger")


def _copy(path: Path) -> Path:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    return other


def test_the_lock_file_goes_with_the_bandit(store):
    bandit = SafeBandit(path=store, refits="manual")
    assert Path(f"{store}.ledger-lock").exists()
    bandit.close()
    assert not Path(f"{store}.ledger-lock").exists()


def test_files_are_their_owners_alone(store):
    world, bandit = trained(60, path=store)
    world.play(bandit, 1)
    modes = {p.name: p.stat().st_mode & 0o777 for p in store.parent.iterdir()}
    assert len(modes) == 6
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize(
    "name",
    [
        "store.banister.tmp",
        "store.banister.ledger",
        "store.banister.ledger-lock",
        "store.banister.ledger-tail",
    ],
)
def test_a_planted_link_is_not_followed(store, name):
    victim = store.parent / "victim"
    victim.write_text("precious")
    (store.parent / name).symlink_to(victim if name.endswith("tmp") else store.parent / "nowhere")
    if name.endswith("tmp"):
        trained(60, path=store)[1].close()
        assert victim.read_text() == "precious"
    else:
        with pytest.raises(BanisterError):
            SafeBandit(path=store)
        assert not (store.parent / "nowhere").exists()


def test_a_store_is_looked_at_while_another_process_serves(store):
    world = World()
    with SafeBandit(path=store, refits="manual", seed=1) as bandit:
        world.play(bandit, 30)
        look = (
            "import sys; from banister import SafeBandit; b = SafeBandit.open_read_only(sys.argv[1]); "
            "print(b.status().decisions, b.audit().passed, b.receipt().links)"
        )
        seen = subprocess.run(
            [sys.executable, "-c", look, str(store)], capture_output=True, text=True, check=True
        )
        assert seen.stdout.split() == ["30", "True", str(bandit.receipt().links)]
        world.play(bandit, 5)
        assert bandit.audit().passed


def test_reading_only_writes_nothing(store):
    world, bandit = trained(40, path=store)
    with SafeBandit.open_read_only(store) as view:
        world.play(bandit, 5)
        assert view.status().decisions == 40  # the moment of opening
        calls = [
            lambda: view.decide(**world.request()),
            lambda: view.reward(1, 1.0),
            lambda: view.retract(1, "x"),
            view.refit,
        ]
        for call in calls:
            with pytest.raises(BanisterError, match="reading only"):
                call()
    bandit.close()
    SafeBandit.load(store).close()


def test_an_audit_does_not_stop_decisions(store, monkeypatch):
    """While the chain is followed, a decision is made; the audit speaks of the moment it began."""
    world, bandit = trained(40, path=store)
    from banister.online import audit as module

    original = module.problems

    def slowly(ledger, receipts):
        yield from original(ledger, receipts)
        world.play(bandit, 3)

    monkeypatch.setattr(module, "problems", slowly)
    found = bandit.audit()
    assert (found.passed, found.decisions, bandit.status().decisions) == (True, 40, 43)
    bandit.close()


def test_the_log_of_a_busy_store_is_folded_in_beside_its_calls_and_begins_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(folding, "LOG_BYTES", 1 << 18)
    monkeypatch.setattr(folding, "_LOOK", 1)
    path, rng = tmp_path / "a.banister", np.random.default_rng(0)
    file, log = (Path(f"{path}.ledger{end}") for end in ("", "-wal"))
    with SafeBandit(path=path, refits="manual") as bandit:
        made = 0
        while made < 200_000 and file.stat().st_size < max(2 * log.stat().st_size, 1 << 22):
            bandit.decide_many(["a"] * 50, rng.standard_normal((50, 2, 40)), baselines=[0] * 50)
            made += 50
        assert made < 200_000, "the log was never folded in, or it never began anew"
        assert bandit.audit().passed
    assert not (tmp_path / "a.banister.ledger-wal").exists()
    with SafeBandit.load(path) as bandit:
        assert bandit.status().decisions == made
