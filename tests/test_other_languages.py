"""The page for other languages: its commands for a shell, run word for word against a service."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import banister as bn
from serve_world import serving

PAGE = Path(__file__).parent.parent / "docs" / "howto" / "other-languages.md"
FENCES = dict(enumerate(re.findall(r"```(sh|json)\n(.*?)```", PAGE.read_text(), re.DOTALL)))
CALLS = [text for kind, text in FENCES.values() if kind == "sh" and "curl" in text]

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("plain") / "shop.banister"
    with serving(path, alpha=0.1) as (url, _):
        yield url


def said(call: str, url: str) -> Any:
    """What a command prints, as JSON; only the address differs from the page's."""
    text = call.replace("http://127.0.0.1:8080", url)
    assert text != call
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_the_first_decision_and_its_reward_are_those_of_the_page(plain: str) -> None:
    decide, reward = CALLS[:2]
    shown = next(json.loads(text) for kind, text in FENCES.values() if kind == "json")
    assert said(decide, plain) == shown
    assert said(decide, plain) == shown  # the same key: the same decision
    assert said(reward, plain)["outcome"] == "accepted"


def test_a_raw_context_is_answered_with_an_arm(tmp_path: Path) -> None:
    arms = bn.Arms(["spring", "bundle"], numeric=["age"], categorical=["device"])
    log = {"store": ["store-17"] * 4, "banner": ["spring", "bundle"] * 2, "click": [0, 1, 1, 0],
           "age": [20, 30, 40, 50], "device": ["ios", "web", "ios", "web"]}  # fmt: skip
    with bn.SafeBandit(0.1, features=arms, path=tmp_path / "raw.banister", refits="manual") as bandit:
        bandit.warm_start(pl.DataFrame(log), task="store", arm="banner", reward="click")
    (call,) = (text for text in CALLS if "context" in text)
    with serving(tmp_path / "raw.banister") as (url, _):
        made = said(call, url)
    assert (made["task"], made["arm"]) == ("store-17", "bundle")  # four rows tell too little to leave it


def test_batches_and_packed_numbers(plain: str) -> None:
    batch, packed = CALLS[-2:]
    assert [d["action"] for d in said(batch, plain)["decisions"]] == [1, 0]
    assert said(packed, plain)["action"] == 1
