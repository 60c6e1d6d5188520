"""Bad input to `SafeBandit`: each a clear error that names the matter, and nothing has changed."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from banister import SafeBandit
from banister.errors import BanisterError, DataFileError, InputError, ModelFileError, SettingError
from banister.online.model import Model
from banister.online.model_file import pack, unpack
from online_world import trained
from places import tamper

A = np.ones((3, 8))

SETTINGS = [
    ({"alpha": 0.0}, "alpha"), ({"alpha": 1.0}, "alpha"), ({"alpha": -0.1}, "alpha"),
    ({"alpha": "0.1"}, "alpha"),
    ({"alpha": float("nan")}, "alpha"), ({"alpha": None}, "alpha"), ({"alpha": True}, "alpha"),
    ({"confidence": 1.0}, "confidence"), ({"confidence": 0}, "confidence"),
    ({"confidence": "x"}, "confidence"),
    ({"rank": 0}, "rank"), ({"rank": 1.5}, "rank"), ({"rank": True}, "rank"),
    ({"refits": "often"}, "refits"), ({"durability": "none"}, "durability"), ({"growth": 0.0}, "growth"),
    ({"growth": "fast"}, "growth"), ({"expire_after": 0}, "expire_after"),
    ({"expire_after": "1h"}, "expire_after"), ({"expire_after": 10**400}, "expire_after"),
    ({"growth": 10**400}, "growth"),
    ({"seed": -1}, "seed"), ({"seed": 0.5}, "seed"), ({"mixing": 1}, "mixing"),
    ({"mixing": True}, "norm_bound"),
    ({"mixing": True, "norm_bound": -1.0}, "norm_bound"), ({"max_mixtures": 0}, "max_mixtures"),
    ({"keep_actions": "yes"}, "keep_actions"), ({"keep_models": None}, "keep_models"),
    ({"literal_floor": 0}, "literal_floor"), ({"drift_guard": 2}, "drift_guard"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "says"), SETTINGS)
def test_settings(settings, says):
    with pytest.raises(SettingError, match=says):
        SafeBandit(**settings)


DECIDE = [
    ({"task": ""}, "task"), ({"task": 17}, "task"), ({"task": None}, "task"), ({"task": ["a"]}, "task"),
    ({"actions": np.ones(8)}, "two dimensions"), ({"actions": np.ones((3, 7))}, "7 features"),
    ({"actions": np.ones((0, 8))}, "no rows"), ({"actions": np.ones((2, 2, 8))}, "dimensions"),
    ({"actions": np.full((3, 8), np.nan)}, "nan"), ({"actions": np.full((3, 8), np.inf)}, "inf"),
    ({"actions": [["a"] * 8] * 3}, "numbers"), ({"actions": None}, "no features of its own"),
    ({"actions": [[1.0] * 8, [1.0]]}, "numbers"),
    ({"actions": np.full((3, 8), 1e200)}, "too large"),
    ({"actions": np.ones((3, 8), dtype=complex)}, "complex"),
    ({"baseline": 3}, "names no action"), ({"baseline": -1}, "names no action"), ({"baseline": 1.0}, "index"),
    ({"baseline": "1"}, "index"), ({"baseline": True}, "index"), ({"baseline": None}, "index"),
    ({"baseline": np.ones(8)}, "index"),
    ({"baseline_reward": "much"}, "baseline_reward"), ({"baseline_reward": float("nan")}, "finite"),
    ({"baseline_reward": float("inf")}, "finite"), ({"baseline_reward": (2.0, 1.0)}, "swap"),
    ({"baseline_reward": (1.0,)}, "low, high"), ({"baseline_reward": (1.0, float("nan"))}, "finite"),
    ({"baseline_reward": True}, "number"), ({"baseline_reward": 10**400}, "finite"),
    ({"baseline_reward_std": -1.0}, "negative"), ({"baseline_reward_std": float("nan")}, "finite"),
    ({"baseline_reward_std": "x"}, "number"),
    ({"baseline_reward": 1.0, "baseline_reward_std": None}, "number"),
]  # fmt: skip


@pytest.fixture(scope="module")
def lived():
    return trained(120)[1]


def fingerprint(bandit: SafeBandit) -> str:
    db = bandit._engine.store.ledger._db
    tables = ("tasks", "decisions", "rewards", "refusals", "logs", "drifts", "models")
    counts = [db.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in tables]
    gates = [np.asarray(part).tolist() for part in bandit._engine.learner.state()]
    return json.dumps([counts, gates, bandit.version, bandit.status().to_dict(), bandit._engine.store.labels])


@pytest.mark.parametrize(("change", "says"), DECIDE)
def test_decide(lived, change, says):
    before = fingerprint(lived)
    with pytest.raises(BanisterError, match=says):
        lived.decide(**{"task": "shop-0", "actions": A, "baseline": 0, **change})
    assert fingerprint(lived) == before


MANY = [
    ({"tasks": "shop-0"}, "one label per request"), ({"tasks": ["a", 1]}, "request 1: task"),
    ({"tasks": ["a", ""]}, "request 1: task"), ({"tasks": ["a", "b\0"]}, "request 1: task"),
    ({"tasks": ["ä", "\ud800"]}, "request 1: task"), ({"baselines": [0, -1]}, "request 1: baseline"),
    ({"baselines": [0, 10**30]}, "request 1: baseline"), ({"baselines": [0, True]}, "request 1: baseline"),
    ({"tasks": ["a"]}, "1 tasks"), ({"actions": np.ones((3, 3, 8))}, "3 action sets"),
    ({"actions": np.ones((2, 3, 9))}, "9 features"), ({"actions": [A, np.ones((3, 2))]}, "request 1"),
    ({"actions": np.full((2, 3, 8), np.nan)}, "nan"), ({"baselines": [0]}, "baselines"),
    ({"baselines": [0, 9]}, "request 1: baseline"), ({"baselines": [0, 0.5]}, "request 1: baseline"),
    ({"baseline_rewards": [1.0]}, "baseline_rewards"), ({"baseline_rewards": ["x", 1]}, "numbers"),
    ({"baseline_rewards": [np.inf, 1.0]}, "infinity"),
    ({"baseline_rewards": [[1.0, 0.0], [0.0, 1.0]]}, "low, high"),
    ({"baseline_reward_std": [-1.0, 0.0]}, "negative"), ({"baseline_reward_std": [0.0]}, "entries"),
    ({"baseline_rewards": [[1.0, np.nan], [0.0, 1.0]]}, "low, high"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), MANY)
def test_decide_many(lived, change, says):
    before = fingerprint(lived)
    good = {"tasks": ["new-1", "new-2"], "actions": np.ones((2, 3, 8)), "baselines": [0, 0]}
    with pytest.raises(BanisterError, match=says):
        lived.decide_many(**{**good, **change})
    assert fingerprint(lived) == before


REWARD = [
    ((0, 1.0), "No decision has id 0"), ((10**9, 1.0), "No decision"), ((-5, 1.0), "No decision"),
    ((2**70, 1.0), "No decision"), (("1", 1.0), "whole number"), ((1.0, 1.0), "whole number"),
    ((True, 1.0), "whole number"), ((None, 1.0), "whole number"), ((1, "x"), "number"), ((1, None), "number"),
    ((1, float("nan")), "finite"), ((1, float("inf")), "finite"), ((1, True), "number"),
    ((1, [1.0]), "number"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "says"), REWARD)
def test_reward(lived, arguments, says):
    before = fingerprint(lived)
    with pytest.raises(BanisterError, match=says):
        lived.reward(*arguments)
    assert fingerprint(lived) == before


def test_reward_many_of_unequal_lengths(lived):
    with pytest.raises(InputError, match="one reward per id"):
        lived.reward_many([1, 2], [1.0])


LOGS = [
    ({"task": ["a"], "f0": [1.0]}, {}, "no column 'reward'"),
    ({"reward": [1.0], "f0": [1.0]}, {}, "no column 'task'"),
    ({"task": ["a"], "reward": [1.0]}, {}, "No column matches"),
    ({"task": [None], "reward": [1.0], "f0": [1.0]}, {}, "no task"),
    ({"task": ["a"], "reward": [None], "f0": [1.0]}, {}, "not numbers|empty"),
    ({"task": ["a", "b"], "reward": [1.0, None], "f0": [1.0, 2.0]}, {}, "empty at row 1"),
    ({"task": ["a"], "reward": ["x"], "f0": [1.0]}, {}, "not numbers"),
    ({"task": ["a"], "reward": [1.0], "f0": [float("nan")]}, {}, "nan"),
    ({"task": ["a"], "reward": [1.0], "f0": ["x"]}, {}, "not numbers"),
    ({"task": [], "reward": [], "f0": []}, {}, "no rows"), (5, {}, "cannot be read"),
    ({"task": ["a"], "reward": [1.0, 2.0], "f0": [1.0]}, {}, "cannot be read"),
    ({"task": ["a"], "reward": [1.0], "f0": [1.0]}, {"baseline_reward": "b"}, "no column 'b'"),
    ({"task": ["a"], "reward": [1.0], "f0": [1.0]}, {"features": []}, "names no column"),
    ({"task": ["a"], "reward": [1.0], "f0": [1.0], "p": [0.0]}, {"propensity": "p"}, "baseline="),

    ({"task": ["a"], "reward": [1.0], "f0": [1.0], "A": [[[2.0]]]}, {"actions": "A"},
     "not among its actions"),

    ({"task": ["a", "a"], "reward": [1.0, 1.0], "f": [[1.0], [1.0, 2.0]]}, {"features": "f"},
     "different lengths"),
    ("nowhere.parquet", {}, "does not exist"), ("log.txt", {}, "neither"),
]  # fmt: skip


@pytest.mark.parametrize(("logs", "columns", "says"), LOGS)
def test_warm_start(logs, columns, says):
    bandit = SafeBandit(refits="manual", seed=0)
    before = fingerprint(bandit)
    with pytest.raises(BanisterError, match=says):
        bandit.warm_start(logs, **columns)
    assert fingerprint(bandit) == before


def test_a_damaged_log_file(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"not parquet")
    with pytest.raises(DataFileError, match="cannot be read"):
        SafeBandit().warm_start(tmp_path / "x.parquet")


def test_warm_start_after_decisions_and_of_another_width(lived):
    before = fingerprint(lived)
    rows = {"task": ["zz"], "reward": [1.0], **{f"f{i}": [1.0] for i in range(8)}}
    with pytest.raises(InputError, match="before the first decision"):
        lived.warm_start(rows)
    with pytest.raises(InputError, match="features"):
        lived.warm_start({k: v for k, v in rows.items() if k != "f7"})
    assert fingerprint(lived) == before


@pytest.mark.parametrize("share", [0, 1.0, "half", True])
def test_dry_run_share(share):
    with pytest.raises(InputError, match="share"):
        SafeBandit().dry_run({"task": ["a"], "reward": [1.0], "f0": [1.0]}, share=share)


@pytest.mark.parametrize(
    ("path", "says"), [("", "path"), (5, "path"), ("/", "folder"), ("/nowhere/x", "exist")]
)
def test_paths(path, says):
    with pytest.raises(InputError, match=says):
        SafeBandit(path=path)


@pytest.fixture
def store(tmp_path) -> Path:
    path = tmp_path / "store.banister"
    trained(200, path=path)[1].close()
    return path


def test_a_store_that_is_not_there(tmp_path):
    with pytest.raises(ModelFileError, match="no store"):
        SafeBandit.load(tmp_path / "x.banister")


def test_a_model_without_its_ledger(store):
    Path(f"{store}.ledger").unlink()
    with pytest.raises(ModelFileError, match="belong together"):
        SafeBandit.load(store)


def test_a_ledger_without_its_model_restores_it(store):
    kept = store.read_bytes()
    store.unlink()
    SafeBandit.load(store).close()
    assert store.read_bytes() == kept


def test_a_store_in_use(store):
    with SafeBandit.load(store), pytest.raises(DataFileError, match="another process"):
        SafeBandit.load(store)


def without(name):
    return lambda meta, arrays: pack(meta, {k: v for k, v in arrays.items() if k != name})


FILES = [
    (lambda meta, arrays: pack({**meta, "schema": 99}, arrays), "schema version 99"),
    (lambda meta, arrays: pack({**meta, "kind": "cake"}, arrays), "other than"),
    (lambda meta, arrays: pack(meta, {**arrays, "mean": arrays["mean"] * np.nan}), "NaN"),
    (lambda meta, arrays: pack(meta, {**arrays, "upper": arrays["upper"] * np.inf}), "NaN or infinity"),
    (lambda meta, arrays: pack(meta, {**arrays, "known": arrays["known"] * 1.0}), "'known' holds float64"),
    (lambda meta, arrays: pack(meta, {**arrays, "z": arrays["z"].astype("float32")}), "holds float32"),
    (lambda meta, arrays: pack(meta, {**arrays, "z": np.array([None])}), "not a whole model file"),
    (lambda meta, arrays: pack(meta, arrays).replace(b"'shape': (", b"'shape': (9"), "not a whole"),
    (without("mean"), "'mean'"), (without("z"), "'z'"), (without("upper"), "'upper'"),
    (lambda meta, arrays: pack(meta, {**arrays, "z": arrays["z"][:-1]}), "shape"),
    (lambda meta, arrays: pack(meta, {**arrays, "mean": arrays["mean"][:, :-1]}), "shape"),
    (lambda meta, arrays: pack({k: v for k, v in meta.items() if k != "marks"}, arrays), "marks"),
    (lambda meta, arrays: pack({**meta, "belief": {"weather": 1.0}}, arrays), "intercept"),
    (lambda meta, arrays: pack({**meta, "belief": {**meta["belief"], "claims": "WHIM"}}, arrays), "WHIM"),
    (without("away"), "'away'"), (without("left"), "'left'"), (without("usual"), "'usual'"),
    (without("start_L"), "start_L"),
    (lambda meta, arrays: pack(meta, {**arrays, "away": arrays["away"][:, :-1]}), "shape"),
    (lambda meta, arrays: pack(meta, {**arrays, "known": arrays["known"] * 0}), "'upper' has shape"),
    (lambda meta, arrays: pack(meta, arrays)[:-40], "not a whole model file"),
    (lambda meta, arrays: b"", "not a whole model file"),
    (lambda meta, arrays: b"PK garbage", "not a whole model file"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "says"), FILES)
def test_altered_models(store, change, says):
    meta, arrays = unpack(store.read_bytes(), "x")
    with pytest.raises(ModelFileError, match=says):
        Model.from_bytes(change(meta, arrays), "x")


@pytest.mark.parametrize("change", [lambda data: data[:-40], lambda data: b"", lambda data: data + b"x"])
def test_a_model_file_that_is_not_the_ledgers(store, change):
    store.write_bytes(change(store.read_bytes()))
    with pytest.raises(ModelFileError, match="do not belong together"):
        SafeBandit.load(store)


def test_pickles_are_not_read():
    buffer = io.BytesIO()
    np.savez(buffer, meta=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ModelFileError, match="not a whole model file"):
        Model.from_bytes(buffer.getvalue(), "x")


def test_a_model_that_would_swell_is_not_opened():
    """A megabyte of zip that unpacks to a gigabyte of zeros: refused before it is."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("meta.npy", bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="more than it has bytes for"):
        Model.from_bytes(buffer.getvalue(), "x")
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


LEDGERS = [
    ("UPDATE meta SET value = '7' WHERE key = 'schema'", "schema version '7'.*pip install -U banister"),
    ("UPDATE meta SET value = 'x' WHERE key = 'schema'", "which nobody has written"),
    ("UPDATE meta SET value = '[' WHERE key = 'settings'", "not JSON"),
    ("UPDATE meta SET value = replace(value, '0.1', '7') WHERE key = 'settings'", "settings that cannot be"),
    ("DELETE FROM head", "head is empty"),
    ("CREATE TRIGGER t AFTER INSERT ON decisions BEGIN DELETE FROM rewards; END", "did not make"),
    ("CREATE VIEW v AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c",
     "did not make"),
    ("DROP TABLE drifts", "lacks its own"),
    ("ALTER TABLE rewards ADD COLUMN more TEXT", "did not make"),
    ("UPDATE meta SET value = '{}' WHERE key = 'settings'", "settings"),
    ("DELETE FROM meta WHERE key = 'settings'", "no settings"),
    ("DELETE FROM model_parts", "lacks the bytes"),
    ("UPDATE model_parts SET bytes = zeroblob(length(bytes))", "was altered"),
    ("DELETE FROM tasks WHERE code = 0", "was altered"),
    ("DELETE FROM rewards WHERE id = 5", "was altered"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "says"), LEDGERS)
def test_altered_ledgers(store, statement, says):
    tamper(store, statement)
    with pytest.raises(BanisterError, match=says):
        SafeBandit.load(store)


def test_a_reader_does_not_serve_a_model_that_was_altered(store):
    """It does not read the whole chain first, so that it checks the model itself."""
    meta, arrays = unpack(store.read_bytes(), "x")
    data = pack(meta, {**arrays, "mean": 2.0 * arrays["mean"]})
    assert len(data) == store.stat().st_size
    tamper(store, "UPDATE model_parts SET bytes = ?", data)
    with pytest.raises(ModelFileError, match="model 1 was altered"):
        SafeBandit.open_read_only(store)


def test_a_ledger_that_is_no_database(store):
    Path(f"{store}.ledger").write_bytes(b"x" * 5000)
    Path(f"{store}.ledger-wal").unlink(missing_ok=True)
    with pytest.raises(DataFileError, match="no ledger"):
        SafeBandit.load(store)


def test_saving_over_a_store(store, lived):
    with pytest.raises(InputError, match="already"):
        lived.save(store)
    with SafeBandit.load(store) as bandit, pytest.raises(InputError, match="other than the store's own"):
        bandit.save(store)


def test_exporting_to_another_kind_of_file(lived, tmp_path):
    with pytest.raises(InputError, match=r"\.parquet"):
        lived.export(tmp_path / "x.csv")
