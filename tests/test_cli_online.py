"""The online commands: fit, decide, evaluate, status, from a shell's point of view."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import banister.cli.online  # noqa: F401  (adds its commands)
from banister.cli.app import app
from banister.errors import InputError, ModelFileError
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
        ('{"task": "a"}', "missing"),
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
