"""A small version of `benchmarks/fuzz.py`: each kind of damaged or crafted store, three times."""

import sys
from pathlib import Path

import pytest

from banister import SafeBandit
from banister.errors import ModelFileError, SettingError

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from crafted import KINDS, craft, make
from fuzz import in_child, verdict
from places import tamper


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    return make(tmp_path_factory.mktemp("good"))


def test_the_store_itself_loads(good, tmp_path):
    for suffix in ("", ".ledger"):
        (tmp_path / f"s{suffix}").write_bytes(Path(f"{good}{suffix}").read_bytes())
    assert in_child(lambda: verdict(tmp_path / "s", "untouched")) == "loaded"


@pytest.mark.parametrize("seed", [*range(3 * len(KINDS)), 7025])  # the last overflows what rows would show
def test_a_crafted_store_is_refused_or_right(good, tmp_path, seed):
    kind, path = craft(good, tmp_path, seed)
    assert in_child(lambda: verdict(path, kind)) in ("refused", "loaded")


def copied(store, folder) -> Path:
    path = folder / "s"
    for suffix in ("", ".ledger"):
        Path(f"{path}{suffix}").write_bytes(Path(f"{store}{suffix}").read_bytes())
    return path


def test_an_old_model_that_was_altered_is_found_at_opening(good, tmp_path):
    path = copied(good, tmp_path)
    tamper(path, "UPDATE model_parts SET bytes = zeroblob(length(bytes)) WHERE version = 1")
    with pytest.raises(ModelFileError, match="model 1 was altered"):
        SafeBandit.load(path)


def test_settings_that_were_edited_are_found_at_opening(good, tmp_path):
    path = copied(good, tmp_path)
    edit = """replace(value, '"literal_floor": false', '"literal_floor": true')"""
    tamper(path, f"UPDATE meta SET value = {edit} WHERE key = 'settings'")
    with pytest.raises(SettingError, match="made with literal_floor=False"):
        SafeBandit.load(path)


def test_the_limits_are_limits(monkeypatch):
    """A child that takes too much memory, or too long, or raises what is no error of ours, is found out."""
    assert "MemoryError" in in_child(lambda: _tried(lambda: bytearray(400_000_000)))
    monkeypatch.setattr("fuzz.SECONDS", 1)
    assert in_child(_for_ever).split()[0] in ("DIED", "HANG")  # a busy machine may not give it a second


def _tried(work):
    try:
        work()
    except MemoryError:
        return "MemoryError"
    return "nothing"


def _for_ever():
    while True:
        pass
