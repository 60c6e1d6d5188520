"""Faults that users met, each held by a test."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import banister as bn
from banister.cli import main
from banister.contract import Outcomes
from banister.errors import InputError, NotFittedError, SettingError
from banister.studies.competitors import COMPETITORS, parse_names


def command_line(monkeypatch, capsys, *words):
    """Exit code and last words on stderr."""
    monkeypatch.setattr(sys, "argv", ["banister", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    "policy",
    [bn.AltGDminGreedy(), bn.LowRankUCB(), bn.TraceNormGreedy(), bn.MomentsGreedy()],
    ids=lambda p: type(p).__name__,
)
def test_a_whole_first_reward_leaves_later_ones_their_fractions(policy):
    policy.reset(2, np.random.default_rng(0))
    task, rows = np.array([0, 1]), np.array([[1, 0], [0, 1]])
    policy.learn(Outcomes(task, rows, np.array([1, 0])))
    policy.learn(Outcomes(task, rows + 0.5, np.array([0.6, 0.9])))
    _, X, y = policy._rows.columns()
    assert y.tolist() == [1.0, 0.0, 0.6, 0.9]
    assert X[2:].tolist() == [[1.5, 0.5], [0.5, 1.5]]


@pytest.mark.parametrize(
    "policy",
    [
        bn.SafeAltGDmin(),
        bn.SafeAltGDmin(safety="paper"),
        bn.ConservativeUCB(),
        bn.ConservativeThompson(),
        bn.PooledConservativeUCB(),
        bn.LowRankUCB(),
        bn.AltGDminGreedy(online=2),
    ],
    ids=lambda p: type(p).__name__,
)
def test_a_policy_asked_before_reset_says_so(policy):
    env = bn.Synthetic.example()
    env.reset(np.random.default_rng(0))
    requests = env.requests(2, np.random.default_rng(0))
    with pytest.raises(NotFittedError, match=r"has not begun a trial; call reset\(n_tasks, rng\) first"):
        policy.decide(requests)
    with pytest.raises(NotFittedError, match="has not begun a trial"):
        policy.learn(Outcomes(requests.task, requests.baseline_features(), requests.baseline_reward))
    with pytest.raises(NotFittedError, match="has not begun a trial"):
        _ = policy.theta
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = policy.nonsense


def test_results_cannot_go_where_a_file_is(tmp_path, monkeypatch, capsys):
    taken = tmp_path / "taken"
    taken.write_text("not a folder")
    for words in (["run", "--trials", 1], ["reproduce", "--only", "2", "--policies", "paper"]):
        code, said = command_line(monkeypatch, capsys, *words, "--jobs", 1, "--out", taken)
        assert code == 2
        assert said.startswith("banister: ")
        assert str(taken) in said.replace("\n", "")
        assert "Traceback" not in said


def test_a_full_disk_is_one_line(tmp_path):
    """No file of this child may grow past 200 bytes, so that the manifest does not fit."""
    resource = pytest.importorskip("resource", reason="Windows cannot limit the size of files")
    code = "from banister.cli import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "run", "--trials", "1", "--jobs", "1", "--out", tmp_path / "results"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)),
    )
    assert shown.returncode == 2, shown
    assert "manifest.json cannot be written (File too large)" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_policies_are_known_by_name_and_by_what_tables_show():
    assert parse_names("paper,certified") == ("paper", "certified")
    assert parse_names(", ".join(c.label for c in COMPETITORS.values())) == tuple(COMPETITORS)
    assert parse_names("THOMPSON sampling ,moments,Method of Moments") == ("thompson", "moments")
    assert parse_names(" ") == ()
    with pytest.raises(SettingError, match="no policy called 'nobody'; known are certified, paper"):
        parse_names("paper, nobody")


def test_a_missing_column_lists_every_column():
    names = [f"f{i}" for i in range(30)]
    log = {"shop": ["a", "b"], "won": [0.0, 1.0], **{name: [1.0, 2.0] for name in names}}
    with pytest.raises(InputError) as error:
        bn.SafeBandit().warm_start(log, reward="won")
    assert all(f" {name}" in str(error.value) for name in ["shop,", "won,", *names])


def test_a_missing_column_of_a_wide_log_lists_the_nearest_and_counts_the_rest():
    log = {"store": ["a"], "reward": [1.0], **{f"f{i}": [1.0] for i in range(500)}}
    with pytest.raises(InputError, match=r"it has store, .* and 452 others"):
        bn.SafeBandit().warm_start(log, task="stores")
    with pytest.raises(InputError, match=r"No column matches features='g\*'; .* and 452 others"):
        bn.SafeBandit().warm_start(log, task="store", features="g*")
