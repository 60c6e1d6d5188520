"""The store of results and the running of many jobs: nothing lost, nothing repeated, the same rows always."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from banister.environments.movielens import MovieLens
from banister.environments.synthetic import Synthetic
from banister.errors import DataFileError, SettingError
from banister.simulation.many import run_jobs
from banister.simulation.point import Point
from banister.simulation.store import CLOCKS, Job, Store
from banister.studies.play import play

SMALL = {"dim": 6, "rank": 1, "tasks": 5, "actions": 4, "baseline_rank": 2}
POINT = Point.of("synthetic", epochs=2, rounds=6, **SMALL)
OTHER = Point.of("synthetic", epochs=2, rounds=6, **{**SMALL, "tasks": 7})


def job(trial: int = 0, *policies: str, point: Point = POINT) -> Job:
    return Job(point=point, trial=trial, policies=policies or ("baseline", "moments"), seed=3)


def jobs(trials: int) -> list[Job]:
    return [job(trial, point=point) for trial in range(trials) for point in (POINT, OTHER)]


def timeless(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.drop(CLOCKS)


def test_a_points_name_is_its_settings_and_defaults_are_left_out() -> None:
    assert Point.of("synthetic").name == "synthetic"
    assert Point.of("synthetic", alpha=0.3, tasks=5, dim=9).name == "synthetic,dim=9,tasks=5,alpha=0.3"
    assert isinstance(Point.of("synthetic", **SMALL).build(), Synthetic)
    with pytest.raises(SettingError, match="no environment 'films'"):
        Point.of("films").build()


def test_rows_of_a_job_are_the_trials_of_its_policies(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep(job(), play(job()))
    rows = store.rows()
    assert rows["policy"].to_list() == ["baseline"] * 2 + ["moments"] * 2
    assert rows["epoch"].to_list() == [1, 2, 1, 2]
    assert rows["decisions"].to_list() == [30] * 4
    assert store.finished() == {(POINT.name, 0): {"baseline", "moments"}}


def test_a_job_partly_done_leaves_only_the_rest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep(job(0, "baseline"), play(job(0, "baseline")))
    assert store.missing([job(0), job(1)]) == [job(0, "moments"), job(1)]


def test_policies_play_the_same_trial_whoever_else_takes_part() -> None:
    together = play(job(0, "baseline", "moments")).filter(pl.col("policy") == "moments")
    assert_frame_equal(timeless(together), timeless(play(job(0, "moments"))))


def test_a_finished_job_is_never_written_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep(job(), play(job()))
    path = store.cells / job().path
    before = path.stat().st_mtime_ns
    store.keep(job(), play(job()))
    assert path.stat().st_mtime_ns == before


def test_files_being_written_are_not_results(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.keep(job(), play(job()))
    (store.cells / POINT.name / ".00001.baseline.parquet.x1").write_bytes(b"half a file")
    assert len(store.rows()) == 4
    assert store.missing([job(1)]) == [job(1)]


def test_one_file_holds_what_the_cells_hold(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for each in jobs(2):
        store.keep(each, play(each))
    rows = store.consolidate()
    store.clear()
    assert_frame_equal(store.rows(), rows)


def test_a_folder_without_results_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match="holds no results"):
        Store(tmp_path).rows()
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DataFileError, match="not readable JSON"):
        Store(tmp_path).manifest()


def test_one_worker_or_two_give_the_same_rows(tmp_path: Path) -> None:
    finished = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        finished.append(len(list(run_jobs(jobs(2), play, folder, workers=workers))))
    assert finished == [4, 4]
    one, two = (timeless(Store(tmp_path / name).rows()) for name in ("1", "2"))
    assert_frame_equal(one, two)


def test_workers_below_zero_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="jobs=-1"):
        list(run_jobs([job()], play, tmp_path, workers=-1))


def test_environments_travel_without_what_they_remember() -> None:
    for env in (Synthetic(**SMALL), MovieLens.example()):
        env.reset(np.random.default_rng(0))
        env.requests(2, np.random.default_rng(1))
        copy = pickle.loads(pickle.dumps(env))
        first, second = (e.requests(3, np.random.default_rng(2)) for e in (env, copy))
        np.testing.assert_array_equal(first.actions, second.actions)
        np.testing.assert_array_equal(env.best(first), copy.best(second))


KILLED = """
import sys
from banister.simulation.many import run_jobs
from banister.simulation.store import Store
sys.path.insert(0, {tests!r})
from test_store import jobs, play
for _ in run_jobs(Store({folder!r}).missing(jobs(20)), play, {folder!r}, workers={workers}):
    print("done", flush=True)
"""


def start(folder: Path, workers: int) -> subprocess.Popen[bytes]:
    code = KILLED.format(tests=str(Path(__file__).parent), folder=str(folder), workers=workers)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True)


def states(folder: Path) -> dict[str, int]:
    return {str(p): p.stat().st_mtime_ns for p in folder.rglob("[!.]*.parquet")}


def test_killed_twice_and_resumed_the_rows_are_those_of_an_unbroken_run(tmp_path: Path) -> None:
    kept: dict[str, int] = {}
    for _ in range(2):
        process = start(tmp_path / "broken", workers=1)
        assert process.stdout is not None
        process.stdout.readline()  # at least one job has finished
        time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        now = states(tmp_path / "broken")
        assert kept.items() <= now.items()  # nothing lost, nothing written again
        kept = now
    assert len(kept) < 40
    assert start(tmp_path / "broken", workers=1).wait() == 0
    assert kept.items() <= states(tmp_path / "broken").items()
    list(run_jobs(jobs(20), play, tmp_path / "whole", workers=1))
    broken, whole = (timeless(Store(tmp_path / name).rows()) for name in ("broken", "whole"))
    assert_frame_equal(broken, whole)
