"""The study: panels as data, the workload, evidence and verdicts by hand, the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import ttest_1samp
from typer.testing import CliRunner

from banister.cli import data, study  # noqa: F401  (they register their commands)
from banister.cli.app import app
from banister.errors import BanisterError, SettingError
from banister.report.intervals import mean_interval, ratio_interval, share_interval
from banister.report.summary import panel_table, per_trial
from banister.simulation.point import KNOWS, Point
from banister.simulation.store import Job, Store
from banister.studies import contraction, manifest, quick
from banister.studies.claims import CLAIMS, judge
from banister.studies.competitors import COMPETITORS, EVERYONE, PAPERS
from banister.studies.costs import job_seconds, measured, shipped
from banister.studies.evidence import Estimate, Evidence
from banister.studies.panels import DEFAULT, PANELS, SWEPT, chosen
from banister.studies.play import play
from banister.studies.verdicts import (
    DEPENDS,
    FAILS,
    HOLDS,
    MISSING,
    UNDECIDED,
    above,
    aside,
    below,
    contradicting,
    never,
    overall,
    within,
)
from banister.studies.workload import workload_for

POINT = Point.of("synthetic", dim=6, rank=1, tasks=5, actions=4, baseline_rank=2, epochs=2, rounds=6)


def rows_of(values: dict[str, list[float]], point: str = "synthetic") -> pl.DataFrame:
    """Rows with the given regrets: one epoch, one trial per value."""
    return pl.DataFrame(
        [
            {
                "point": point, "trial": trial, "policy": policy, "epoch": 1, "decisions": 10,
                "regret": regret, "violations": int(regret > 5), "literal_violations": 0,
                "cumulative_violations": 3, "relative_shortfall": 0.25,
                "certified": 0.5, "error": regret / 100,
                "seconds": 1.0, "wall": 2.0, "warnings": 0,
            }
            for policy, regrets in values.items()
            for trial, regret in enumerate(regrets)
        ]
    )  # fmt: skip


# ---- panels and workload -----------------------------------------------------------------------------------


def test_the_papers_sixteen_panels_and_ours_are_there() -> None:
    ours = ("3abcde", "4abc", "5abc", "6abcdef", "7ab")
    assert list(PANELS) == [
        *(f"1{c}" for c in "abcdefghijklmno"),
        "2",
        *(f"{each[0]}{c}" for each in ours for c in each[1:]),
    ]
    assert all(len(panel.xs) == len(panel.points) for panel in PANELS.values() if panel.kind == "sweep")


def test_panels_share_the_default_point() -> None:
    assert all(
        DEFAULT in PANELS[name].points
        for name in ("1a", "1d", "1g", "1j", "3d", "4a", "5a", "6a", "6b", "6d", "6e")
    )


def test_panels_are_chosen_by_name_or_by_figure() -> None:
    assert [panel.id for panel in chosen(("1a", "3"))] == ["1a", "3a", "3b", "3c", "3d", "3e"]
    assert [panel.id for panel in chosen(("2",))] == ["2"]
    with pytest.raises(SettingError, match="no panel '9z'"):
        chosen(("9z",))


def test_every_policy_of_every_panel_is_known_and_has_trials() -> None:
    work = workload_for(PANELS.values(), trials=100)
    for panel in PANELS.values():
        for point in panel.points:
            for name in panel.policies:
                assert name in COMPETITORS or panel.id == "3e"
                slow = panel.id in ("4a", "4b", "4c", "6d", "6e", "6f")
                assert work.trials[point, name] >= (100 if panel.id[0] in "12" else 5 if slow else 20)
    film, own = PANELS["1l"].points[0], PANELS["4b"].points[0]
    assert work.trials[film, "trace-norm"] == work.trials[film, "paper-short-step"] == 100
    assert work.trials[own, "thompson"] == 5


def test_each_policy_plays_each_trial_of_a_point_in_one_job() -> None:
    work = workload_for(PANELS.values(), trials=3)
    jobs = work.jobs()
    keys = [(job.point, job.trial, name) for job in jobs for name in job.policies]
    assert len(keys) == len(set(keys)) == sum(work.trials.values())
    assert max(len(job.policies) for job in jobs) == 12
    assert [job.trial for job in jobs] == sorted(job.trial for job in jobs)


def test_policies_and_environments_can_be_left_out() -> None:
    work = workload_for(PANELS.values(), trials=3, policies=("paper",), ratings=False)
    assert {name for _, name in work.trials} - {*contraction.DESIGNS, *contraction.PROMISES} == {"paper"}
    assert not any(point.needs_ratings for point in work.points)


@pytest.mark.parametrize("name", sorted(COMPETITORS))
def test_every_competitor_plays(name: str) -> None:
    rows = play(Job(point=replace(POINT, rounds=30), trial=0, policies=(name,), seed=0))
    assert rows["decisions"].sum() == 300
    assert np.isfinite(rows["regret"].to_numpy()).all()


def test_quick_jobs_cover_the_workload_once() -> None:
    work = quick.workload(2)
    found = [(job.trial, name) for job in quick.jobs(work) for name in job.policies]
    assert sorted(found) == sorted((trial, name) for trial in range(2) for name in EVERYONE)


def test_measured_distances_fall_as_fast_as_promised_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction, "STEPS", 8)
    point = Point.of(contraction.ENVIRONMENT)
    rows = contraction.measure(Job(point=point, trial=0, policies=("noiseless", "T5", "T11"), seed=0))
    paths = {
        name: rows.filter(policy=name)["subspace_distance"].to_numpy() for name in ("noiseless", "T5", "T11")
    }
    assert paths["T5"][1] / paths["T5"][0] == pytest.approx(1 - 0.23 * 0.5 / 1.04**2)
    assert (paths["noiseless"] <= paths["T11"] * (1 + 1e-9)).all()


# ---- numbers by hand ---------------------------------------------------------------------------------------


def test_intervals() -> None:
    assert mean_interval([1.0]) == pytest.approx((1.0, np.nan, np.nan), nan_ok=True)
    mean, low, high = mean_interval(np.arange(100.0))
    assert mean == 49.5
    reach = 1.98422 * np.std(np.arange(100), ddof=1) / 10  # t with 99 degrees of freedom
    assert (low, high) == pytest.approx((49.5 - reach, 49.5 + reach), abs=1e-4)
    assert share_interval(0, 59)[2] == pytest.approx(1 - 0.025 ** (1 / 59))


def test_fiellers_interval_is_the_ratios_that_a_paired_t_test_does_not_reject() -> None:
    rng = np.random.default_rng(0)
    under = rng.normal(5.0, 1.0, 12)
    over = 2.0 * under + rng.normal(0.0, 1.0, 12)
    value, low, high = ratio_interval(over, under)
    assert value == pytest.approx(over.mean() / under.mean())
    assert low < value < high
    for edge in (low, high):
        assert ttest_1samp(over - edge * under, 0.0).pvalue == pytest.approx(0.05, abs=1e-9)
    nothing = ratio_interval(over, rng.normal(0.0, 1.0, 12))
    assert nothing[1:] == (-np.inf, np.inf)  # a denominator that may be zero
    assert np.isnan(ratio_interval(over, np.zeros(12))).all()
    assert ratio_interval(over[:1], under[:1])[0] == pytest.approx(over[0] / under[0])


def test_five_trials_do_not_decide_what_a_percentile_bootstrap_would() -> None:
    """Ratios 1.1, 1.2, 1.05, 1.5, 1.02: all above 1, yet a t interval of five values reaches below."""
    over = np.array([1.1, 1.2, 1.05, 1.5, 1.02])
    _, low, _ = ratio_interval(over, np.ones(5) + 1e-9 * np.arange(5))
    assert low < 1.0 < over.min()


def test_a_trial_is_summed_over_its_epochs() -> None:
    rows = play(Job(point=POINT, trial=0, policies=("moments",), seed=0))
    trial = per_trial(rows).row(0, named=True)
    assert trial["regret"] == pytest.approx(rows["regret"].sum())
    assert trial["error"] == pytest.approx(100 * rows["error"][-1])


def test_a_panels_table_has_means_of_trials() -> None:
    table = panel_table(rows_of({"paper": [2.0, 4.0], "moments": [6.0, 6.0]}), PANELS["1b"])
    assert table.select("policy", "x", "trials", "mean").rows() == [
        ("paper", 100.0, 2, 3.0),
        ("moments", 100.0, 2, 6.0),
    ]
    assert table["in_total"].to_list() == [3.0, 3.0]


def test_a_panel_shows_the_trials_that_all_its_policies_played() -> None:
    table = panel_table(rows_of({"paper": [2.0, 4.0, 99.0], "moments": [6.0, 8.0]}), PANELS["1b"])
    assert table.select("policy", "trials", "mean").rows() == [("paper", 2, 3.0), ("moments", 2, 7.0)]


def test_ratios_are_paired_by_trial() -> None:
    evidence = Evidence(rows_of({"paper": [3.0, 4.0, 5.0], "thompson": [6.0, 8.0, 10.0, 99.0]}))
    found = evidence.ratio(DEFAULT, "thompson", "paper", "regret")
    assert found is not None
    assert found[:4] == (2.0, pytest.approx(2.0), pytest.approx(2.0), 3)
    assert evidence.ratio(DEFAULT, "ucb", "paper", "regret") is None


def test_an_exponent_is_the_slope_of_logarithms() -> None:
    points = [Point.of("synthetic", tasks=t) for t in (10, 20, 40)]
    frames = [
        rows_of({"paper": [c * t**0.5 for c in (1.0, 2.0)]}, point.name)
        for t, point in zip((10, 20, 40), points, strict=True)
    ]
    found = Evidence(pl.concat(frames)).exponent(points, (10, 20, 40), "paper", "regret")
    assert found is not None
    assert found[:3] == pytest.approx((0.5, 0.5, 0.5))


def test_violations_are_counted_by_trial() -> None:
    found = Evidence(rows_of({"paper": [1.0, 9.0, 9.0]})).any_violation([DEFAULT], "paper", "violations")
    assert found is not None
    assert (found.value, found.trials) == (pytest.approx(2 / 3), 3)
    assert found.where == "2/3 at synthetic (mean 0.667, up to 25 % of the floor)"


def test_what_was_not_run_is_not_left_out_in_silence() -> None:
    evidence = Evidence(rows_of({"paper": [1.0, 2.0], "thompson": [2.0, 4.0]}))
    elsewhere = Point.of("synthetic", tasks=7)
    assert len(evidence.ratios([DEFAULT], ("thompson",), "paper", "regret")) == 1
    assert evidence.ratios([DEFAULT, elsewhere], ("thompson",), "paper", "regret") == []
    assert evidence.means([DEFAULT], ("paper", "nobody"), "regret") == []
    assert evidence.any_violation([DEFAULT, elsewhere], "paper", "violations") is None


def test_verdicts() -> None:
    sure, low, wide = Estimate(2, 1.5, 3, 20), Estimate(0.5, 0.4, 0.6, 20), Estimate(1, 0.5, 2, 20)
    few = Estimate(2, 1.5, 3, 19)
    assert above("", "", [sure], 1).verdict == HOLDS
    assert above("", "", [sure, low], 1).verdict == FAILS
    assert above("", "", [sure, wide], 1).verdict == UNDECIDED
    assert above("", "", [few], 1).verdict == UNDECIDED
    assert above("", "", [], 1).verdict == MISSING
    assert above("", "", [sure, low], 1).estimate is low
    assert below("", "", [low], 1).verdict == HOLDS
    assert within("", "", [Estimate(1, 0.95, 1.05, 20)], 0.9, 1.1).verdict == HOLDS
    assert within("", "", [low], 0.9, 1.1).verdict == FAILS
    assert never("", "", Estimate(0, 0, 0.03, 99)).verdict == HOLDS
    assert never("", "", Estimate(0.01, 0, 0.05, 99)).verdict == FAILS
    assert never("", "", Estimate(0, 0, 0.2, 19)).verdict == UNDECIDED
    assert never("", "", Estimate(0.2, 0, 0.5, 5)).verdict == FAILS  # one counterexample is enough
    assert above("", "", [Estimate(np.nan, np.nan, np.nan, 20)], 1).verdict == UNDECIDED


def test_readings_that_disagree_make_it_depend() -> None:
    given = ((2, 1.5, 3), (0.5, 0.4, 0.6), (1, 0.5, 2))
    holds, fails, open_ = (above("", "", [Estimate(*e, 20)], 1) for e in given)
    missing = above("", "", [], 1)
    assert overall([holds, fails]) == DEPENDS
    assert overall([holds, fails, open_]) == DEPENDS
    assert overall([holds, open_]) == UNDECIDED
    assert overall([holds, missing]) == MISSING  # a verdict needs all its readings
    assert overall([missing]) == MISSING
    assert overall([holds, aside(fails)]) == HOLDS
    assert overall([holds, contradicting(fails, "the text")]) == HOLDS
    assert overall([holds, contradicting(missing, "the text")]) == HOLDS
    assert overall([aside(holds)]) == MISSING


def test_every_claim_is_judged_and_none_without_rows_holds() -> None:
    judged = judge(Evidence(rows_of({"paper": [1.0]}, "elsewhere")))
    assert [each.claim.id for each in judged] == [claim.id for claim in CLAIMS]
    assert {each.verdict for each in judged} == {MISSING}
    assert all(panel in PANELS for claim in CLAIMS for panel in claim.panels)
    assert sum(not claim.ours for claim in CLAIMS) == 14
    assert [each.claim.id for each in judge(Evidence(rows_of({"paper": [1.0]})), ("2",))] == [
        "regret-sublinear-epochs"
    ]


def test_every_reading_of_a_claim_names_what_it_contradicts_or_decides() -> None:
    judged = judge(Evidence(rows_of({"paper": [1.0]})))
    for each in judged:
        assert any(check.decides for check in each.checks)
        readings = [check.reading for check in each.checks]
        assert len(readings) == len(set(readings))


def test_a_claim_of_the_printed_algorithm_by_made_up_rows() -> None:
    """Regret 1 for either c and 2 for Thompson, everywhere: it holds; one policy short, it is not run."""
    values = {name: [x] * 20 for name, x in (("paper", 1.0), ("paper-short-step", 1.1), ("thompson", 2.0))}
    full = pl.concat([rows_of(values, point.name) for point in SWEPT])
    claim = {each.claim.id: each for each in judge(Evidence(full))}["thompson-higher-regret"]
    assert claim.verdict == HOLDS
    part = full.filter(~((pl.col("policy") == "paper") & (pl.col("point") == "synthetic")))
    claim = {each.claim.id: each for each in judge(Evidence(part))}["thompson-higher-regret"]
    assert claim.verdict == MISSING


# ---- costs and manifest ------------------------------------------------------------------------------------


def test_costs_are_means_of_seconds_and_the_rest_of_a_trial() -> None:
    costs = measured(rows_of({"paper": [1.0, 2.0]}))
    assert costs == {"synthetic": {"paper": 1.0, "": 1.0}}
    job = Job(point=DEFAULT, trial=0, policies=("paper",), seed=0)
    assert job_seconds(job, costs) == 2.0


def test_a_policy_never_measured_at_a_point_costs_what_it_does_elsewhere() -> None:
    costs = {"synthetic": {"paper": 1.0, "": 0.5}, "synthetic,dim=50": {"paper": 3.0, "": 0.1}}
    job = Job(point=Point.of("synthetic", dim=7), trial=0, policies=("paper",), seed=0)
    assert job_seconds(job, costs) == pytest.approx(0.3 + 2.0)
    assert job_seconds(replace(job, policies=("nobody",)), costs) == pytest.approx(0.3 + 2.0)
    assert job_seconds(replace(job, point=DEFAULT), costs) == pytest.approx(1.5)
    assert shipped()["synthetic"]["certified"] > 0


def test_results_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = manifest.describe(quick.workload(1, seed=1), kind="run", panels=[], command="")
    store.write_manifest(first)
    assert manifest.resume(store, first)["seed"] == 1
    other = manifest.describe(quick.workload(1, seed=2), kind="run", panels=[], command="")
    with pytest.raises(SettingError, match="must not mix"):
        manifest.resume(store, other)


# ---- the command line --------------------------------------------------------------------------------------


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.output


def test_list_shows_panels_and_claims() -> None:
    text = invoke("reproduce", "--list")
    assert all(claim.id in text for claim in CLAIMS)
    assert "Distance per iteration" in text


def test_dry_run_runs_nothing(tmp_path: Path) -> None:
    text = invoke("reproduce", "--dry-run", "--only", "2", "--out", str(tmp_path / "x"))
    assert "0 of 100 jobs are done" in text
    assert not (tmp_path / "x").exists()


def test_bad_words_are_refused(tmp_path: Path) -> None:
    for words in (("--policies", "nobody"), ("--only", "8")):
        with pytest.raises(BanisterError, match=r"nobody|'8'"):
            invoke("reproduce", *words, "--out", str(tmp_path))
    with pytest.raises(BanisterError, match="not the folder of a run"):
        invoke("report", str(tmp_path))


def test_reproduce_resumes_and_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PANELS, "2", replace(PANELS["2"], points=(POINT,)))
    words = ("reproduce", "--only", "2", "--policies", "paper", "--jobs", "1", "--out", str(tmp_path))
    invoke(*words, "--trials", "1")
    text = invoke(*words, "--trials", "2", "--publish", str(tmp_path / "public"))
    assert "Resuming: 1 jobs are done, 1 are left" in text
    record = json.loads((tmp_path / "manifest.json").read_text())
    assert [session["jobs"] for session in record["sessions"]] == [1, 1]
    assert record["trials"][POINT.name]["paper"] == 2
    assert {p.name for p in (tmp_path / "public").iterdir()} == {
        *("report.html", "claims.csv", "claims.md", "results.parquet", "manifest.json", "figures")
    }
    assert (tmp_path / "figures" / "2.pdf").read_bytes().startswith(b"%PDF")


def test_data_lists_what_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANISTER_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = invoke("data")
    assert "movielens-100k" in text
    assert "not here" in text


def test_papers_policies_are_compared_in_every_panel_of_figure_one() -> None:
    assert all(PANELS[f"1{c}"].policies == PAPERS for c in "abcdefghi")
    assert all(PANELS[f"1{c}"].policies == (*PAPERS, "pooled-ucb") for c in "lmno")


# ---- what is known -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("knows", list(KNOWS))
@pytest.mark.parametrize("name", sorted(COMPETITORS))
def test_everyone_can_be_told_at_every_level(name: str, knows: str) -> None:
    point = replace(POINT, knows=knows)
    env = point.build()
    policy = COMPETITORS[name].build(point, env)
    env.reset(np.random.default_rng(0))
    policy.reset(env.n_tasks, np.random.default_rng(1))
    assert len(policy.decide(env.requests(1, np.random.default_rng(2)))) == 5


def test_what_thompson_is_told() -> None:
    found = {}
    for knows in KNOWS:
        point = replace(POINT, knows=knows)
        env = point.build()
        policy = COMPETITORS["thompson"].build(point, env)
        env.reset(np.random.default_rng(0))
        policy.reset(env.n_tasks, np.random.default_rng(1))
        found[knows] = (policy.noise, policy.norm_bound, policy.labels)  # type: ignore[attr-defined]
    largest = np.linalg.norm(env.theta, axis=0).max()
    assert found == {
        "nothing": (None, None, False),
        "scales": (1e-3, largest, False),
        "labels": (None, None, True),
        "source": (1e-3, largest, False),
        "all": (1e-3, largest, True),
    }


def test_the_certified_policy_is_told_nothing() -> None:
    assert {COMPETITORS["certified"].told(knows) for knows in KNOWS} == {()}


def test_a_level_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingError, match="knows='much'"):
        Point.of("synthetic", knows="much")


def test_tuning_reaches_the_printed_algorithm_alone() -> None:
    point = replace(POINT, tuning=(("c", 0.1), ("iterations", 7), ("rho", 0.2)))
    assert "c=0.1" in point.name
    env = point.build()
    tuned = COMPETITORS["paper"].build(point, env)
    assert (tuned.solver.c, tuned.solver.iterations, tuned.rho) == (0.1, 7, 0.2)  # type: ignore[attr-defined]
    other = COMPETITORS["converged"].build(point, env)
    assert (other.solver, other.rho) == (None, None)  # type: ignore[attr-defined]
