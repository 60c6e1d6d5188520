"""The online commands: fit, decide, evaluate, status, from a shell's point of view."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import banister.cli.online  # noqa: F401  (adds its commands)
from banister import SafeBandit
from banister.cli.app import app, main
from banister.errors import DataFileError, InputError, ModelFileError
from online_world import World
from test_online_logs import log

runner = CliRunner()


def run(*arguments: str, stdin: str | None = None) -> str:
    result = runner.invoke(app, list(arguments), input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "logs.parquet"
    log(World(), 600, explore=0.3).rename({"task": "store", "reward": "revenue"}).write_parquet(path)
    return str(path)


COLUMNS = (
    "--task",
    "store",
    "--reward",
    "revenue",
    "--features",
    "f*",
    "--baseline-reward",
    "r_b",
    "--actions",
    "A",
    "--baseline",
    "b",
)


def test_fit_decide_status(logs, tmp_path):
    model = str(tmp_path / "model.banister")
    fitted = json.loads(run("fit", logs, *COLUMNS, "--alpha", "0.1", "--seed", "0", "--out", model, "--json"))
    assert fitted["model_version"] == 1
    assert {t["gate"] for t in fitted["tasks"]} == {"open"}
    world = World()
    requests = [world.request() for _ in range(20)]
    lines = [json.dumps({**r, "actions": r["actions"].tolist()}) for r in requests]
    decisions = [json.loads(line) for line in run("decide", model, stdin="\n".join(lines)).splitlines()]
    assert [d["id"] for d in decisions] == list(range(1, 21))
    assert sum(d["certified"] for d in decisions) > 10
    one = json.loads(run("decide", model, '{"id": 1, "reward": 0.5}'))
    assert one == {"id": 1, "outcome": "accepted"}
    assert json.loads(run("decide", model, '{"refit": true}')) == {"model_version": 2}
    report = json.loads(run("status", model, "--audit", "--json"))
    assert (report["decisions"], report["rewards"]) == (20, 1)
    assert report["audit"]["passed"]
    assert json.loads(run("status", model, "--json"))["pending"] == 19


def test_evaluate(logs):
    more = ("--propensity", "p", "--share", "0.6")
    report = json.loads(run("evaluate", logs, *COLUMNS, *more, "--json"))
    assert report["requests"] == 240
    assert {e["method"] for e in report["gains"]} >= {
        "inverse propensity",
        "self-normalised",
        "doubly robust",
    }


def test_requests_from_a_file(logs, tmp_path):
    model = str(tmp_path / "model.banister")
    run("fit", logs, *COLUMNS, "--out", model)
    (tmp_path / "requests.jsonl").write_text(
        '{"task": "x", "actions": [[1,0,0,0,0,0,0,0]], "baseline": 0, "baseline_reward": [0.1, 0.2]}\n\n'
    )
    answer = json.loads(run("decide", model, str(tmp_path / "requests.jsonl")))
    assert answer["reason"] == "fallback:new-task"
    assert answer["lower_bound"] is None


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{nonsense", "not JSON"),
        ('{"task": "a"}', "no 'baseline'"),
        ('{"task": "a", "actions": [[1]], "baseline": 0}', "1 features"),
        ('{"task": "a", "colour": 1}', "colour"),
        ("nowhere.jsonl", "neither JSON nor a file"),
    ],
)
def test_bad_requests(logs, tmp_path, line, says):
    model = str(tmp_path / "model.banister")
    run("fit", logs, *COLUMNS, "--out", model)
    with pytest.raises(InputError, match=says):
        run("decide", model, line)


def test_a_list_is_no_request(logs, tmp_path):
    model = str(tmp_path / "model.banister")
    run("fit", logs, *COLUMNS, "--out", model)
    with pytest.raises(InputError, match="JSON object"):
        run("decide", model, stdin="[1]\n")


def test_a_model_is_not_overwritten_or_missing(logs, tmp_path):
    model = str(tmp_path / "model.banister")
    run("fit", logs, *COLUMNS, "--out", model)
    with pytest.raises(InputError, match="already"):
        run("fit", logs, *COLUMNS, "--out", model)
    with pytest.raises(ModelFileError, match="no store"):
        run("status", str(tmp_path / "other.banister"))


@pytest.mark.parametrize("command", ["fit", "decide", "evaluate", "status"])
def test_help_teaches_with_an_example(command):
    assert "Example" in run(command, "--help")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{}", "Line 1 has no 'task', whose decision it is"),
        ('{"task": "a"}', "Line 1 has no 'baseline', what the policy in place would play"),
        ('{"refit": false}', "Line 1 has 'refit'; what a request may have is task, actions, baseline"),
    ],
)
def test_a_request_with_too_little_or_too_much_says_so(line, said, tmp_path):
    path = tmp_path / "model.banister"
    SafeBandit(0.1, path=path).close()
    with pytest.raises(InputError, match=re.escape(said)):
        run("decide", str(path), line)


def test_requests_in_another_encoding_are_an_error(tmp_path):
    path, requests = tmp_path / "model.banister", tmp_path / "requests.jsonl"
    SafeBandit(0.1, path=path).close()
    requests.write_bytes('{"task": "Café"}'.encode("latin-1"))
    with pytest.raises(DataFileError, match="UTF-8"):
        run("decide", str(path), str(requests))


def test_errors_name_options_and_an_interruption_is_one_line(monkeypatch, capsys):
    def ask(failure):
        def fail(_):
            raise failure

        monkeypatch.setattr(type(app), "__call__", fail)
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, capsys.readouterr().err

    said = "banister: Name it with --baseline-reward\n"
    assert ask(InputError("Name it with baseline_reward=...")) == (2, said)
    said = "banister: Name it with --baseline-reward\n"
    assert ask(InputError("Name it with baseline_reward=...")) == (2, said)
    assert ask(SystemExit(130)) == (130, "banister: interrupted.\n")
    assert ask(SystemExit(0)) == (0, "")


def test_an_interruption_ends_as_a_shell_expects(monkeypatch, capsys):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("banister.cli.online._receipt", interrupt)
    monkeypatch.setattr(sys, "argv", ["banister", "status", "model", "--receipt", "r.json"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 130
    assert "banister: interrupted." in capsys.readouterr().err


def test_help_flows_and_shows_what_is_left_out_of_options():
    shown = subprocess.run(
        [sys.executable, "-m", "banister", "plan", "--help"],
        capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "150"},
    ).stdout  # fmt: skip
    assert "with --bounds the paper's bounds beside it. Without options: the paper's experiments." in shown
    assert "Default: the paper's √(r/T)." in " ".join(shown.replace("│", " ").split())
