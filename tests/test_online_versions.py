"""Versions: a store of the first release is brought up to date; newer ones are refused with advice."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from dataclasses import fields, make_dataclass
from pathlib import Path

import pytest

from banister import SafeBandit
from banister.errors import BanisterError, ModelFileError
from banister.online.model import FORMAT
from banister.online.settings import Settings
from online_world import World, trained
from places import tamper

FIXTURE = Path(__file__).parent / "fixtures" / "store-0.1.zip"


def unpacked(kept: Path, folder: Path) -> Path:
    with zipfile.ZipFile(kept) as archive:
        archive.extractall(folder)
    return folder / "store.banister"


@pytest.fixture
def old(tmp_path) -> Path:
    """A store as the first release left it: 40 logged rows, 133 decisions, a drift, two models."""
    return unpacked(FIXTURE, tmp_path)


def test_a_store_of_the_first_release_lives_on(old):
    expected = json.loads((old.parent / "expected.json").read_text())
    with SafeBandit.load(old) as bandit:
        status = bandit.status().to_dict()
        for name in ("decisions", "rewards", "pending", "duplicates", "drifts"):
            assert status[name] == expected[name]
        rows = [(t["task"], t["rows"], t["decisions"]) for t in status["tasks"]]
        assert rows == [(t["task"], t["rows"], t["decisions"]) for t in expected["tasks"]]
        assert bandit.version == 3  # fitted when it was opened: this version cannot read the last model
        assert [m.format for m in bandit._engine.store.ledger.models()] == [1, 1, FORMAT]
        gates = {t["task"]: t["gate"] for t in status["tasks"]}
        assert "no-data" not in gates.values()
        found = bandit.audit()
        assert found.passed, str(found)
        assert found.repeated + found.older == 133
        assert found.older > 0
        world = World(tasks=4, dim=3, rank=1, actions=3)
        assert world.play(bandit, 5)[0].id == 134
        assert bandit.refit() == 4
        receipt = bandit.receipt()
    with SafeBandit.load(old) as again:
        assert again.audit(receipt).passed
        assert again.status().decisions == 138


def test_nothing_of_the_old_rows_is_lost(old):
    db = sqlite3.connect(f"{old}.ledger")
    decisions = db.execute("SELECT id, task, action, bound, features FROM decisions ORDER BY id").fetchall()
    rewards = db.execute("SELECT id, value FROM rewards ORDER BY seq").fetchall()
    db.close()
    SafeBandit.load(old).close()
    db = sqlite3.connect(f"{old}.ledger")
    assert (
        decisions
        == db.execute("SELECT id, task, action, bound, features FROM decisions ORDER BY id").fetchall()
    )
    assert rewards == db.execute("SELECT id, value FROM rewards ORDER BY link").fetchall()
    db.close()


def test_a_migration_that_fails_changes_nothing(old, monkeypatch):
    monkeypatch.setattr("banister.online.sqlite.migrate._model", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        SafeBandit.load(old)
    monkeypatch.undo()
    with SafeBandit.load(old) as bandit:
        assert bandit.audit().passed


def test_an_old_store_is_not_migrated_by_looking(old):
    with pytest.raises(ModelFileError, match=r"SafeBandit\.load"):
        SafeBandit.open_read_only(old)


def test_a_model_of_an_older_format_is_fitted_again(tmp_path, monkeypatch):
    path = tmp_path / "s.banister"
    world, bandit = trained(300, path=path)
    world.play(bandit, 20)
    bandit.close()
    for module in ("model", "waking", "audit", "refitter"):
        monkeypatch.setattr(f"banister.online.{module}.FORMAT", FORMAT + 1)
    with SafeBandit.load(path) as again:
        assert again.version == 2
        assert {t.gate for t in again.status().tasks} == {"open"}
        world.play(again, 10)
        found = again.audit()
        assert (found.passed, found.older, found.repeated) == (True, 20, 310)
        assert "20 decisions of an older model format: chain checked, choice not repeated" in str(found)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="pip install -U banister"):
        SafeBandit.load(path)


def test_new_settings_take_their_defaults_in_old_stores():
    own = Settings.from_dict(_settings(), "x")
    younger = make_dataclass(
        "Younger", [("caution", float, 0.5)], bases=(Settings,), frozen=True, kw_only=True
    )
    assert younger.from_dict(own.to_dict(), "x").caution == 0.5


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 3}, "pip install"),
        ({"weather": 1}, "weather"),
        ({"alpha": None}, "alpha"),
        ({"version": "x"}, "version"),
    ],
)
def test_settings_that_cannot_be_read(change, says):
    with pytest.raises(BanisterError, match=says):
        Settings.from_dict({**_settings(), **change}, "x")


def test_settings_that_lack_what_has_no_default():
    values = _settings()
    del values["alpha"]
    with pytest.raises(ModelFileError, match="alpha"):
        Settings.from_dict(values, "x")


def _settings() -> dict:
    return SafeBandit(refits="manual", seed=0).settings.to_dict()


def test_settings_say_their_version():
    assert set(_settings()) == {"version", *(f.name for f in fields(Settings))}


CHAINED = FIXTURE.with_name("store-first-chain.zip")


@pytest.fixture
def chained(tmp_path) -> Path:
    """A store whose chain has the first rule: logs, keys, a retraction, a refusal, a drift, three models."""
    return unpacked(CHAINED, tmp_path)


def test_links_of_the_first_rule_prove_what_they_proved(chained):
    expected = json.loads((chained.parent / "expected.json").read_text())
    with SafeBandit.load(chained) as bandit:
        assert bandit.receipt().to_dict() == expected["last"]
        assert bandit.version == expected["version"]
        status = bandit.status().to_dict()
        tasks = expected["status"].pop("tasks")
        assert {name: status[name] for name in expected["status"]} == expected["status"]
        tasks[2]["rows"] -= 1  # its drift began with a claim, which was learned from then
        assert [{name: found[name] for name in tasks[0]} for found in status["tasks"]] == tasks
        World(tasks=4, dim=3, rank=1, actions=3).play(bandit, 5)
        later = bandit.receipt()
    with SafeBandit.load(chained) as again:
        assert again.status().decisions == 167
        for receipt in (expected["receipt"], expected["last"], later):
            found = again.audit(receipt)
            assert found.passed, str(found)
        assert found.repeated == 167


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE rewards SET value = -value WHERE id = 20",
        "UPDATE decisions SET action = baseline WHERE id = (SELECT MAX(id) FROM decisions WHERE certified)",
        "DELETE FROM rewards WHERE link = (SELECT MAX(link) FROM rewards)",
        "UPDATE meta SET value = '0' WHERE key = 'first_links'",
        "UPDATE meta SET value = '1000' WHERE key = 'first_links'",
        "DELETE FROM meta WHERE key = 'first_links'",
    ],
)
def test_a_change_of_links_of_the_first_rule_is_noticed(chained, change):
    with SafeBandit.load(chained) as bandit:
        World(tasks=4, dim=3, rank=1, actions=3).play(bandit, 5)
    tamper(chained, change)
    with pytest.raises(BanisterError, match="was altered"):
        SafeBandit.load(chained)


def test_links_of_the_first_rule_are_checked_before_they_are_believed(chained):
    tamper(chained, "UPDATE rewards SET value = value + 1 WHERE id = 20")
    with pytest.raises(BanisterError, match="a reward for decision 20, is not what was written"):
        SafeBandit.load(chained)


def test_links_of_the_first_rule_move_with_the_store(chained, copy_place):
    expected = json.loads((chained.parent / "expected.json").read_text())
    with SafeBandit.load(chained) as bandit:
        bandit.save(copy_place)
    with SafeBandit.load(copy_place) as moved:
        World(tasks=4, dim=3, rank=1, actions=3).play(moved, 3)
        assert moved.audit(expected["last"]).passed
