"""The planner: bounds by hand, answers that move the right way, simulated trials, logs, the command."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import banister as bn
from banister import TaskData, theory
from banister.cli.app import main
from banister.errors import DataFileError, InputError, SettingError
from banister.studies.plan_bounds import Population, model_population, paper_bounds
from banister.studies.plan_logs import _interval, read_logs, study_logs
from banister.studies.plan_setting import PlanSetting
from banister.studies.plan_trials import Group, Spread, Trial
from banister.studies.planner import Plan, plan
from raw_world import Shop

PAPER = PlanSetting()
SMALL = PlanSetting(dim=12, rank=1, tasks=12, actions=5, baseline_rank=3, rows_per_epoch=20, epochs=2)


@pytest.fixture(scope="module")
def small_plan() -> Plan:
    return plan(SMALL, trials=2, seconds=300.0)


# --- the setting ----------------------------------------------------------------------------------


def test_the_papers_scale_has_sigma_max_one():
    setting = PlanSetting(rank=2, tasks=50, kappa=2.0)
    assert setting.sigma_max == pytest.approx(1.0)
    assert setting.sigma_min == pytest.approx(0.5)
    assert setting.task_norm == pytest.approx(math.sqrt(1.25 / 50))


def test_a_given_signal_scales_theta():
    setting = PlanSetting(rank=2, tasks=50, signal=3.0)
    assert setting.sigma_max == pytest.approx(3.0 * math.sqrt(50 / 2))


def test_the_environment_is_the_setting_in_units_of_its_tasks():
    setting = PlanSetting(dim=9, rank=2, tasks=7, noise=0.5, kappa=3.0, signal=2.0)
    env = setting.environment()
    env.reset(np.random.default_rng(0))
    values = np.linalg.svd(setting.task_norm * env.theta, compute_uv=False)
    assert values[:2] == pytest.approx([setting.sigma_max, setting.sigma_min])
    assert env.noise_std * setting.task_norm == pytest.approx(0.5)


def test_fewer_tasks_keep_their_size():
    few = PlanSetting(rank=3, tasks=60, kappa=2.0).with_tasks(1)
    assert (few.tasks, few.rank, few.kappa) == (1, 1, 1.0)
    assert few.task_norm == PlanSetting(rank=3, tasks=60, kappa=2.0).task_norm


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rank": 101}, "at most 100"),
        ({"tasks": 1}, "at most 1"),
        ({"dim": 0}, "dim=0"),
        ({"noise": -0.1}, "noise=-0.1"),
        ({"noise": math.nan}, "noise=nan"),
        ({"alpha": 1.0}, "strictly between 0 and 1"),
        ({"delta": 0.0}, "delta=0.0"),
        ({"actions": 1}, "actions=1"),
        ({"baseline_rank": 11}, "10 actions"),
        ({"kappa": 0.5}, "kappa=0.5"),
        ({"rank": 1, "kappa": 2.0}, "rank=1"),
        ({"signal": 0.0}, "signal=0.0"),
        ({"baseline_range": (0.0, 1.0)}, "unknown-baseline"),
        ({"baseline_range": (2.0, 1.0), "known_baseline": False}, "lower end first"),
    ],
)
def test_impossible_settings_are_named(settings, words):
    with pytest.raises(SettingError, match=words):
        PlanSetting(**settings)


def test_a_setting_too_large_to_simulate_is_refused_but_not_its_bounds():
    large = PlanSetting(dim=2000, tasks=2000)
    with pytest.raises(SettingError, match="trials=0"):
        plan(large)
    assert plan(large, trials=0).groups == []


# --- the bounds -----------------------------------------------------------------------------------


def _bounds(reward: float = 0.5, gap: float = 0.3, **changes):
    """Bounds for one baseline reward, so that numbers can be worked out by hand."""
    population = Population(1.5, np.full(100, 0.14), np.full(10, reward), np.full(10, gap))
    return paper_bounds(replace(PAPER, **changes), population)


def test_lemma_l8_by_hand():
    rho = _bounds()["rho"]
    z = math.sqrt(2 * math.log(50 * 100 / 0.05))
    norm = 1.5 * math.sqrt(2 / 100)
    assert rho["constants"] == {"z": pytest.approx(z), "theta_norm": pytest.approx(norm), "delta": 0.05}
    assert rho["median"] == pytest.approx(0.2 * 0.5 / (0.5 + z * norm))


def test_the_safe_error_by_hand():
    steps = _bounds()["iterations"]
    z = math.sqrt(2 * math.log(2 * 200 * 100 * 10 / 0.05))
    assert steps["margin_median"] == pytest.approx(0.3 + 0.2 * 0.5)
    assert steps["largest_safe_error"] == pytest.approx(0.4 / (2 * z))


def test_bytes_and_noise_to_signal_by_hand():
    bounds = _bounds(noise=0.1)
    assert bounds["communication"]["bytes_per_task_and_iteration"] == 2 * 100 * 2 * 8
    assert bounds["scale"]["nsr"] == pytest.approx(100 * 0.1**2)


def test_an_unknown_baseline_that_may_be_zero_allows_no_exploration():
    assert plan(replace(PAPER, known_baseline=False), trials=0).bounds["rho"]["median"] == 0.0
    ranged = replace(PAPER, known_baseline=False, baseline_range=(0.2, 0.5))
    z = math.sqrt(2 * math.log(5000 / 0.05))
    bounds = plan(ranged, trials=0).bounds
    reach = z * bounds["scale"]["theta_norm_bound"]
    assert bounds["rho"]["median"] == pytest.approx(0.2 * 0.2 / (0.2 + reach))


def test_the_models_incoherence_is_that_of_its_tasks():
    setting = PlanSetting(dim=9, rank=2, tasks=20, kappa=2.0)
    env, rng, mus = setting.environment(), np.random.default_rng(3), []
    for _ in range(9):
        env.reset(rng)
        mus.append(theory.incoherence(env.theta, rank=2))
    assert model_population(setting, np.random.default_rng(3)).mu == pytest.approx(np.median(mus))


def test_never_learning_costs_what_the_baseline_costs():
    bounds = plan(PAPER, trials=0).bounds["regret"]
    population = model_population(PAPER, np.random.default_rng(0))
    gap = population.gap.mean() / population.norms.mean()
    assert gap == pytest.approx(1.539 - 0.123, rel=0.03)
    assert bounds["baseline_per_round"] == pytest.approx((1.5388 - 0.1227) * population.norms.sum(), rel=1e-3)


@pytest.mark.parametrize(
    ("change", "path", "sign"),
    [
        ({"alpha": 0.4}, ("rho", "median"), 1),
        ({"delta": 0.001}, ("rho", "median"), -1),
        ({"gap": 3.0}, ("iterations", "safety_median"), -1),
        ({"kappa": 2.0}, ("iterations", "safety_median"), 1),
        ({"noise": 0.3}, ("rows", "later_epoch", "total"), 1),
        ({"dim": 200}, ("rows", "later_epoch", "total"), 1),
        ({"rank": 4}, ("communication", "bytes_per_iteration"), 1),
        ({"noise": 0.3}, ("sharing", "value"), 1),
        ({"epochs": 8}, ("regret", "baseline_only"), 1),
    ],
)
def test_bounds_move_the_right_way(change, path, sign):
    def at(bounds):
        for name in path:
            bounds = bounds[name]
        return bounds

    before = at(_bounds(noise=0.1))
    after = at(_bounds(**{"noise": 0.1, **change}))
    assert sign * (after - before) > 0


# --- the simulation -------------------------------------------------------------------------------


def test_a_spread_covers_the_median():
    assert Spread.of([2.0, 1.0]).coverage == 0.5
    assert Spread.of([1.0, math.inf, math.inf]).as_dict()["median"] is None
    rng = np.random.default_rng(1)
    held = [s.low <= 0 <= s.high for s in (Spread.of(list(rng.standard_normal(4))) for _ in range(4000))]
    assert np.mean(held) == pytest.approx(1 - 2**-3, abs=0.02)  # 4 standard errors


def test_rounds_are_counted_before_the_one_that_leaves_the_baseline():
    trial = Trial(np.array([0.0, 0.2, 0.6, 1.0]), np.ones(2), 0, 4)
    group = Group("shared", SMALL, [trial])
    assert (group.opening().median, group.serving().median) == (1.0, 2.0)
    assert Trial(np.zeros(3), np.ones(1), 0, 3).reached(0.5) == math.inf


def test_sharing_pays_where_all_larger_numbers_do():
    def group(name: str, tasks: int, regret: float) -> Group:
        trial = Trial(np.zeros(4), np.array([regret, 0.0]), 0, 4)
        return Group(name, replace(SMALL, tasks=tasks), [trial])

    groups = [group("shared", 12, 1.0), group("alone", 1, 10.0), group("fewer tasks", 4, 8.0)]
    assert Plan(SMALL, {}, groups).sharing_pays_from() == 4
    assert Plan(SMALL, {}, [*groups, group("fewer tasks", 6, 9.5)]).sharing_pays_from() == 12
    assert Plan(SMALL, {}, [group("shared", 12, 9.9), *groups[1:]]).sharing_pays_from() is None


def test_the_answer_is_plain_json_with_every_part(small_plan):
    answer = json.loads(json.dumps(small_plan.as_dict(), allow_nan=False))
    assert set(answer) == {"schema", "banister", "setting", "bounds", "simulated", "logs", "notes"}
    assert answer["setting"]["rounds"] == 40
    assert {"scale", "rho", "iterations", "rows", "regret", "rates", "sharing", "communication"} == set(
        answer["bounds"]
    )
    shared = answer["simulated"]["shared"]
    assert (shared["tasks"], shared["trials"], shared["decisions"]) == (12, 2, 2 * 40 * 12)
    assert shared["opens_after_rounds"]["median"] <= shared["half_leave_after_rounds"]["median"] < 40
    assert sum(shared["regret_per_task_by_epoch"]) == pytest.approx(
        np.mean([t.regret.sum() for t in small_plan.groups[0].trials])
    )
    assert [g["tasks"] for g in answer["simulated"]["by_tasks"]] == [1, 2, 3, 5, 12]
    assert answer["simulated"]["conservative_thompson"]["tasks"] == 8


def test_sharing_beats_learning_alone_and_keeps_the_floor(small_plan):
    regret = {g.tasks: g.regret().median for g in small_plan.by_tasks()}
    never = small_plan.bounds["regret"]["baseline_only"] / SMALL.tasks
    assert regret[12] < 0.7 * regret[1]
    assert regret[12] < 0.7 * never
    assert sum(t.violations for g in small_plan.groups for t in g.trials) == 0
    assert small_plan.sharing_pays_from() is not None


def test_a_certified_baseline_is_no_step_off_it():
    best = replace(SMALL, baseline_rank=1, epochs=1)
    answer = plan(best, trials=1)
    assert answer.groups[0].opening().median == math.inf
    assert answer.groups[0].regret().median == pytest.approx(0.0, abs=1e-9)
    assert any("nothing to gain" in note for note in answer.notes())


def test_the_same_seed_gives_the_same_plan(small_plan):
    assert plan(SMALL, trials=2, seconds=300.0).as_dict() == small_plan.as_dict()


def test_rewards_scale_the_regret_and_nothing_else(small_plan):
    scaled = replace(SMALL, signal=7.0 * SMALL.task_norm, noise=7.0 * SMALL.noise)
    again = plan(scaled, trials=1, seconds=300.0)
    first, second = small_plan.groups[0].trials[0], again.groups[0].trials[0]
    assert np.array_equal(first.share, second.share)
    assert second.regret == pytest.approx(7.0 * first.regret)


@pytest.mark.statistical
def test_noise_delays_the_certificate_where_baselines_are_unknown():
    quiet = replace(SMALL, known_baseline=False, signal=1.0, noise=0.01)
    opened = [
        plan(s, trials=1, seconds=1e-9).groups[0].serving().median for s in (quiet, replace(quiet, noise=1.0))
    ]
    assert opened[0] < opened[1]


@pytest.mark.parametrize(("trials", "seconds"), [(-1, 1.0), (1, 0.0), (1, math.nan)])
def test_a_budget_that_buys_nothing_is_refused(trials, seconds):
    with pytest.raises(SettingError, match="trials"):
        plan(SMALL, trials=trials, seconds=seconds)


# --- logs -----------------------------------------------------------------------------------------


def _logs(seed: int = 0, *, dim=10, tasks=30, rows=30, noise=0.3, level=0.0) -> tuple[TaskData, np.ndarray]:
    """Rows of rank 2 with singular values 3 : 1 and features of very different units, and Θ for unit ones."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((dim, 2)))[0]
    W = np.linalg.qr(rng.standard_normal((tasks, 2)))[0].T
    theta = math.sqrt(tasks) * B @ np.diag([3.0, 1.0]) @ W
    X, codes = rng.standard_normal((rows * tasks, dim)), np.tile(np.arange(tasks), rows)
    y = np.einsum("ij,ji->i", X, theta[:, codes]) + noise * rng.standard_normal(len(X)) + level
    return TaskData.from_rows(X * np.geomspace(0.1, 10.0, dim), y, codes), theta


def test_logs_give_back_what_they_were_made_from():
    data, theta = _logs()
    found = study_logs(data)
    assert (found.rank, found.rows, found.dim, found.tasks) == (2, 900, 10, 30)
    assert found.weakest > 3
    # 900 rows in 10 dimensions: the pooled second moment is off by up to some 20 %, and with it κ and size.
    assert found.kappa.value == pytest.approx(3.0, rel=0.15)
    assert found.signal.value == pytest.approx(math.sqrt(10.0), rel=0.1)
    assert found.mu.value == pytest.approx(
        np.linalg.norm(theta, axis=0).max() * math.sqrt(30 / 2) / (3 * math.sqrt(30)), rel=0.15
    )
    assert found.noise.low <= 0.3 <= found.noise.high
    assert found.open_tasks == 1.0
    assert found.notes == []


@pytest.mark.statistical
def test_intervals_hold_the_truth_nine_times_in_ten():
    held = np.zeros(4)
    for seed in range(15):
        data, theta = _logs(seed, dim=6, tasks=12, rows=20)
        found = study_logs(data)
        truth = (0.3, 3.0, theory.incoherence(theta, rank=2), math.sqrt(10.0))
        figures = (found.noise, found.kappa, found.mu, found.signal)
        held += [e.low <= t <= e.high for e, t in zip(figures, truth, strict=True)]
    # Binomial(15, 0.86), the least measured on 180 other logs: fewer than 10 has probability 1.2 %.
    assert held.min() >= 10


def test_logs_that_say_little_say_so():
    assert any("Too few rows" in note for note in study_logs(_logs(rows=3, noise=0.1)[0]).notes)
    assert any("column of ones" in note for note in study_logs(_logs(level=2.0)[0]).notes)


def test_logs_of_noise_are_refused():
    data, _ = _logs()
    noise = np.random.default_rng(1).standard_normal(data.n_rows)
    with pytest.raises(InputError, match="No shared direction stands out"):
        study_logs(data.replace_y(noise))


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    data, _ = _logs()
    frame = pl.DataFrame({f"f{j}": data.X[:, j] for j in range(data.dim)})
    frame.with_columns(store=pl.Series(data.codes).cast(pl.String), y=pl.Series(data.y)).write_parquet(
        tmp_path / "logs.parquet"
    )
    return tmp_path / "logs.parquet"


def test_reading_logs(log_file: Path, tmp_path: Path):
    data = read_logs(log_file, task="store", reward="y", features="f*")
    assert (data.n_rows, data.dim, data.n_tasks) == (900, 10, 30)
    with pytest.raises(InputError, match="no column 'shop'"):
        read_logs(log_file, task="shop", reward="y", features="f*")
    with pytest.raises(InputError, match=r"No column matches features='g\*'; the log has f0"):
        read_logs(log_file, task="store", reward="y", features="g*")
    with pytest.raises(DataFileError, match="does not exist"):
        read_logs(tmp_path / "none.csv", task="store", reward="y", features="f*")
    with pytest.raises(DataFileError, match=r"neither \.parquet nor \.csv"):
        read_logs(tmp_path / "logs.txt", task="store", reward="y", features="f*")
    (tmp_path / "bad.parquet").write_text("not parquet")
    with pytest.raises(DataFileError, match="cannot be read"):
        read_logs(tmp_path / "bad.parquet", task="store", reward="y", features="f*")


def test_every_interval_holds_its_estimate():
    """A bias that refits show moves the interval; it must not move it past the estimate itself."""
    assert _interval(1.0, np.array([2.0, 2.0, 2.1])).high == 1.0
    assert _interval(1.0, np.array([0.4, 0.5, 0.5])).low == 1.0
    for seed in range(3):
        found = study_logs(_logs(seed, dim=6, tasks=12, rows=12, noise=1.0)[0])
        for e in (found.noise, found.kappa, found.mu, found.signal):
            assert e.low <= e.value <= e.high


def test_a_raw_log_is_read_with_its_arms(tmp_path, monkeypatch, capsys):
    log = Shop(noise=0.3).log(2500)
    log.write_csv(tmp_path / "log.csv")
    made = bn.Arms.of_log(log, arm="banner", context=["age", "device"], shared=False)
    data = read_logs(tmp_path / "log.csv", task="store", reward="revenue", arms=made, arm="banner")
    assert (data.n_rows, data.n_tasks) == (2500, 8)
    # 3 arms × (1, age, its gaps, two of three devices); "other", which never came, is left out
    assert data.dim == 15
    columns = ["--task", "store", "--arm", "banner", "--reward", "revenue", "--trials", "0", "--json"]
    raw = ["--logs", str(tmp_path / "log.csv"), *columns]
    assert _run(monkeypatch, *raw, "--context", "age,device") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["logs"]["dim"] == answer["setting"]["dim"] == 15
    assert (answer["setting"]["actions"], answer["setting"]["baseline_rank"]) == (3, 2)
    assert answer["setting"]["known_baseline"] is False
    assert _run(monkeypatch, *raw, "--context", "age,shoe", "--categorical", "age") == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "no column 'shoe'" in error
    assert "store, age, device, banner, usual, p, revenue" in error


# --- the command ----------------------------------------------------------------------------------


def _run(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["banister", "plan", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_the_command_prints_a_table_and_writes_a_picture(monkeypatch, capsys, tmp_path):
    sizes = ["--dim", "12", "--rank", "1", "--tasks", "12", "--rows-per-epoch", "20", "--epochs", "1"]
    picture = tmp_path / "plan.svg"
    assert _run(monkeypatch, *sizes, "--trials", "1", "--figure", str(picture)) == 0
    plain = capsys.readouterr().out
    assert _run(monkeypatch, *sizes, "--trials", "1", "--bounds") == 0
    printed = capsys.readouterr().out
    for words in ("rows a task", "sharing pays", "below the", "never learning"):
        assert words in printed
        assert words in plain
    for constant in ("largest safe ρ", "iterations", "communication", "by the bound", "κ=", "by rates"):
        assert constant in printed
        assert constant not in plain  # constants of the theory only where they are asked for
    assert picture.read_text().count("<svg") == 1


def test_the_command_reads_logs_and_prints_json(monkeypatch, capsys, log_file):
    columns = ["--task", "store", "--reward", "y", "--features", "f*"]
    assert _run(monkeypatch, "--logs", str(log_file), *columns, "--trials", "0", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["setting"]["dim"] == 10
    assert answer["setting"]["rank"] == answer["logs"]["rank"] == 2
    assert answer["setting"]["noise"] == answer["logs"]["noise"]["value"] == pytest.approx(0.3, rel=0.1)
    assert answer["simulated"]["shared"] is None
    assert "bounds" not in answer
    assert _run(monkeypatch, "--logs", str(log_file), *columns, "--trials", "0", "--json", "--bounds") == 0
    assert json.loads(capsys.readouterr().out)["bounds"]["rho"]["median"] > 0


def test_the_table_says_what_the_logs_hold(monkeypatch, capsys, log_file):
    columns = ["--task", "store", "--reward", "y", "--trials", "0"]
    assert _run(monkeypatch, "--logs", str(log_file), *columns, "--bounds") == 0
    printed = capsys.readouterr().out
    assert "900 rows" in printed
    assert "…kappa" in printed


def test_what_is_given_overrules_the_logs(monkeypatch, capsys, log_file):
    columns = ["--task", "store", "--reward", "y", "--trials", "0", "--json"]
    assert _run(monkeypatch, "--logs", str(log_file), *columns, "--rank", "3", "--tasks", "90") == 0
    setting = json.loads(capsys.readouterr().out)["setting"]
    assert (setting["rank"], setting["tasks"], setting["kappa"]) == (3, 90, 1.0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rank", "200"], "rank=200"),
        (["--alpha", "1.5"], "alpha=1.5"),
        (["--figure", "plan.gif"], ".png"),
        (["--figure", "/nowhere/plan.png"], "/nowhere"),
        (["--figure", "plan.png", "--trials", "0"], "--trials"),
        (["--logs", "missing.parquet"], "missing.parquet"),
        (["--logs", "missing.parquet", "--alpha", "0"], "alpha=0"),
        (["--arm", "banner"], "give it with --logs"),
        (["--logs", "missing.parquet", "--context", "age"], "--context needs --arm"),
    ],
)
def test_errors_are_one_line_and_exit_code_two(monkeypatch, capsys, arguments, words):
    assert _run(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_a_dimension_that_contradicts_the_logs_is_refused(monkeypatch, capsys, log_file):
    assert _run(monkeypatch, "--logs", str(log_file), "--task", "store", "--reward", "y", "--dim", "9") == 2
    assert "10 features" in capsys.readouterr().err
