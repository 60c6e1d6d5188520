"""`banister fit` with a promise, and `banister promises`."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import banister as bn
import banister.cli.online
import banister.cli.promises
from banister.cli.app import app
from banister.errors import InputError, SettingError

runner = CliRunner()


def run(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments), env={"COLUMNS": "160"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def logs(tmp_path):
    rng = np.random.default_rng(0)
    rows = {"task": rng.choice(["a", "b"], 60), "banner": rng.choice(["x", "y", "z"], 60)}
    path = tmp_path / "log.csv"
    pl.DataFrame({**rows, "reward": rng.integers(0, 2, 60)}).write_csv(path)
    return str(path)


def fit(logs, out, *more):
    return json.loads(run("fit", logs, "--json", "--arm", "banner", "--seed", "1", "--out", str(out), *more))


def test_fit_makes_a_store_that_keeps_a_promise(logs, tmp_path):
    out = tmp_path / "m.banister"
    options = ("--promise", "fleet", "--holdout", "0.3", "--on-harm", "stop")
    status = fit(logs, out, "--reward-range", "0,1", *options)
    assert "the fleet of all tasks together" in status["promise"]
    with bn.SafeBandit.load(out) as bandit:
        s = bandit.settings
        assert (s.promise, s.reward_range, s.holdout, s.on_harm) == ("fleet", (0.0, 1.0), 0.3, "stop")
        assert s.randomise
    answer = json.loads(run("decide", str(out), '{"task": "a", "context": {}, "baseline": "y"}'))
    assert answer["promise"] == "fleet"
    assert sum(answer["probabilities"]) == pytest.approx(1.0)


def test_a_range_alone_asks_for_the_promise_about_tasks(logs, tmp_path):
    fit(logs, tmp_path / "m.banister", "--reward-range", "0,1")
    with bn.SafeBandit.load(tmp_path / "m.banister") as bandit:
        assert (bandit.settings.promise, bandit.settings.holdout) == ("task", 0.1)


def test_without_a_range_nothing_is_drawn(logs, tmp_path):
    fit(logs, tmp_path / "m.banister")
    with bn.SafeBandit.load(tmp_path / "m.banister") as bandit:
        assert (bandit.settings.promise, bandit.settings.randomise) == ("decision", False)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (("--reward-range", "1"), InputError, "two numbers with a comma"),
        (("--reward-range", "0,1,2"), InputError, "two numbers with a comma"),
        (("--reward-range", "zero,1"), InputError, "two numbers with a comma"),
        (("--reward-range", "1,0"), SettingError, "the lowest and the highest"),
        (("--promise", "task"), SettingError, "needs reward_range"),
        (("--reward-range", "0,1", "--promise", "all"), SettingError, "'decision', 'task', 'fleet'"),
        (("--reward-range", "0,1", "--on-harm", "cry"), SettingError, "on_harm"),
        (("--reward-range", "0,1", "--holdout", "0"), SettingError, "holdout"),
    ],
    ids=str,
)
def test_a_promise_that_cannot_be_leaves_nothing_behind(logs, tmp_path, options, error, text):
    with pytest.raises(error, match=text):
        fit(logs, tmp_path / "m.banister", *options)
    assert not list(tmp_path.glob("m.banister*"))


def test_the_help_teaches_what_is_promised():
    text = re.sub(r"[\s│]+", " ", run("fit", "--help"))
    for words in ("0,1 for clicks", "at all times, without a model", "so that the gain can be measured"):
        assert words in text


# --- the study --------------------------------------------------------------------------------------------

SMALL = ("--tasks", "4", "--decisions", "400", "--worlds", "items,harmful", "--policies", "fleet,oracle")


def test_promises_prints_a_table_and_draws_a_picture(tmp_path):
    out = tmp_path / "p.svg"
    shown = run("promises", *SMALL, "--out", str(out))
    assert shown.count("promise: fleet") == 2
    assert "1.00" in shown  # the oracle captures everything
    text = out.read_text()
    assert "Tasks below their floor, of 4" in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--out", "p.txt"), "must end in"),
        (("--out", "no-such-folder/p.svg"), "no folder"),
        (("--worlds", "mars"), "'mars' is not known"),
        (("--policies", "best"), "'best' is not known"),
        (("--decisions", "20"), "decisions=20"),
    ],
    ids=str,
)
def test_promises_refuses_what_cannot_be(options, text):
    with pytest.raises(SettingError, match=text):
        run("promises", *options)
