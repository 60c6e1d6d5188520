"""Ray on this machine with two workers: the same fit, workers that die, and refusals instead of waiting."""

from __future__ import annotations

import doctest
import os
import signal
import time

import numpy as np
import pytest

import banister as bn
from banister.errors import PoolError, SettingError
from banister.estimators.altgdmin import AltGDmin
from banister.safety import believer
from banister.safety.believer import Believer
from banister.simulation.many import run_jobs
from banister.simulation.point import Point as Point_
from banister.simulation.store import CLOCKS, KEY, Job, Store
from banister.solver import LocalPool, Point, RayPool, RayWorkers, block, cluster
from banister.solver.pack import pack_rows
from banister.solver.work import HERE
from banister.studies.play import play
from belief_world import World
from problems import problem

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'banister[ray]'")


@pytest.fixture(scope="module")
def data():
    return problem(d=8, T=60, n=12, seed=3)[0]


@pytest.fixture(scope="module", autouse=True)
def many_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block, "_SMALL", 500)
        yield


@pytest.fixture(scope="module")
def machine():
    ray.init(address="local", num_cpus=5, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def pool(data, many_blocks, machine):
    """Two of the five processors."""
    with RayPool(data, shards=2, timeout=120) as opened:
        yield opened


def test_a_fit_is_that_of_one_process_bit_for_bit(pool, data):
    here = AltGDmin(rank=2, threads=1).fit_data(data)
    there = AltGDmin(rank=2).fit_data(pool)
    assert pool.shards == 2
    np.testing.assert_array_equal(there.theta_, here.theta_)
    rows = data.X[:5], data.codes[:5]
    np.testing.assert_array_equal(
        there.predict(*rows, return_std=True)[1], here.predict(*rows, return_std=True)[1]
    )


def test_workers_that_die_during_a_fit_change_nothing(pool, data):
    expected, rng = AltGDmin(rank=2, threads=1).fit_data(data).theta_, np.random.default_rng(0)
    trips = [0]

    def kill_some(trip):
        trips[0] += 1
        if trips[0] in (3, 9):
            ray.kill(pool._workers[int(rng.integers(2))], no_restart=False)

    before = list(pool.processes)
    pool.watch = kill_some
    try:
        found = AltGDmin(rank=2).fit_data(pool).theta_
    finally:
        pool.watch = None
    assert trips[0] > 9
    asked = [w.process.remote(sent) for w, sent in zip(pool._workers, pool._sent, strict=True)]
    assert ray.get(asked, timeout=60) != before
    np.testing.assert_array_equal(found, expected)


def test_weights_travel_once_and_are_used(pool, data):
    B = np.linalg.qr(np.random.default_rng(0).standard_normal((8, 2)))[0]
    weights = np.linspace(0.5, 2.0, 60)
    found = pool.gradient(Point(B, 0.1, weights))
    stored = pool._weights[1]
    pool.hessian(Point(B, 0.1, weights), B)
    assert pool._weights[1] is stored
    here = LocalPool(data, threads=1).gradient(Point(B, 0.1, weights))
    for a, b in zip(found, here, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_packed_folder_is_read_by_the_workers(pool, data, tmp_path):
    folder = pack_rows(data, tmp_path / "p").path
    with RayPool(folder, shards=1) as other:
        there = AltGDmin(rank=2).fit_data(other).theta_
    np.testing.assert_array_equal(there, AltGDmin(rank=2, threads=1).fit_data(data).theta_)
    assert ray.is_initialized()  # a pool ends only a cluster that it started


def test_an_estimator_may_make_its_own_pool_and_leaves_no_worker_behind(pool, data):
    wait_for_a_processor()
    made = AltGDmin(rank=2, pool="ray").fit_data(data)
    np.testing.assert_array_equal(made.theta_, AltGDmin(rank=2, threads=1).fit_data(data).theta_)
    wait_for_a_processor()


def test_a_failed_fit_leaves_no_worker_behind(pool, data, monkeypatch):
    """As Ctrl-C does: whatever ends the fit, the pool is closed."""
    wait_for_a_processor()
    monkeypatch.setattr(RayPool, "gradient", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        AltGDmin(rank=2, pool="ray").fit_data(data)
    wait_for_a_processor()


def wait_for_a_processor(seconds=60.0):
    """Ray counts a dead worker's processor as free a little later."""
    until = time.monotonic() + seconds
    while ray.available_resources().get("CPU", 0) < 1:
        assert time.monotonic() < until, "a worker still holds its processor"
        time.sleep(0.1)


def test_too_many_workers_are_refused_at_once(pool, data):
    with pytest.raises(PoolError, match=r"9 worker\(s\) need one processor each"):
        RayPool(data, shards=9)


def test_a_worker_that_does_not_answer_is_an_error(pool, monkeypatch):
    monkeypatch.setattr(pool, "timeout", 0.2)
    halted = pool.processes[0]
    os.kill(halted, signal.SIGSTOP)
    try:
        with pytest.raises(PoolError, match=r"of 2 workers did not answer 'energy' within 0\.2 s"):
            pool.energy()
    finally:
        os.kill(halted, signal.SIGCONT)


def test_no_workers_are_asked_for():
    with pytest.raises(SettingError, match="at least 1"):
        RayPool(problem()[0], shards=0)


def test_an_address_without_a_cluster_is_said(monkeypatch):
    class Away:
        @staticmethod
        def is_initialized():
            return False

        @staticmethod
        def init(**_):
            raise ConnectionError("nobody is there")

    with pytest.raises(PoolError, match="nobody is there"):
        cluster.connect(Away, "127.0.0.1:1", None)


def test_trials_on_ray_give_the_rows_of_processes_here(machine, tmp_path):
    """But for the clocks; and every job is told as it is finished."""
    small = {"dim": 6, "rank": 1, "tasks": 5, "actions": 4, "baseline_rank": 2}
    point = Point_.of("synthetic", epochs=2, rounds=6, **small)
    jobs = [Job(point=point, trial=i, policies=("baseline", "moments"), seed=3) for i in range(3)]
    wait_for_a_processor()
    for name, workers in (("processes", None), ("ray", RayWorkers(shards=2))):
        finished = list(run_jobs(jobs, play, tmp_path / name, workers=2, ray=workers))
        assert sorted(job.trial for job in finished) == [0, 1, 2]
    here, there = (Store(tmp_path / name).rows().drop(CLOCKS).sort(KEY) for name in ("processes", "ray"))
    assert len(here) == 12
    assert here.equals(there, null_equal=True)


def test_trials_that_are_stopped_leave_nothing_running(machine, tmp_path):
    wait_for_a_processor()
    before = ray.available_resources()["CPU"]
    running = RayWorkers(shards=2).each(time.sleep, [(0.1,), (600.0,), (600.0,)])
    assert next(running)[0] == 0
    running.close()  # as Ctrl-C does
    until = time.monotonic() + 60
    while ray.available_resources().get("CPU", 0) < before:
        assert time.monotonic() < until, "a stopped piece still holds its processor"
        time.sleep(0.1)


def test_pieces_keep_their_order_fail_as_they_would_here_and_are_not_waited_for_for_ever(machine):
    wait_for_a_processor()
    workers = RayWorkers(shards=1)
    assert workers.map(divmod, [(7, 2), (9, 4)]) == [(3, 1), (2, 1)]
    with pytest.raises(ZeroDivisionError):
        workers.map(divmod, [(1, 0)])
    with pytest.raises(PoolError, match=r"9 worker\(s\) need one processor each"):
        RayWorkers(shards=9).map(divmod, [(7, 2)])
    with pytest.raises(PoolError, match=r"finished within 0\.5 s"):
        RayWorkers(shards=1, timeout=0.5).map(time.sleep, [(600.0,)])


def test_a_belief_made_on_ray_is_that_of_one_process_bit_for_bit(machine):
    seen = World(T=300, d=4, noise=0.5).seen(10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(believer, "DENSE", 0)
        wait_for_a_processor()
        here, there = (Believer(workers=w).believe(seen, 300, 1000) for w in (HERE, RayWorkers(shards=2)))
    np.testing.assert_array_equal(there.mean, here.mean)
    for t in (0, 150, 299):
        np.testing.assert_array_equal(there.V[t], here.V[t])


@pytest.mark.parametrize("name", ["RayPool", "RayWorkers"])
def test_the_examples_of_the_reference_run_on_a_cluster(name, data, machine, tmp_path, monkeypatch):
    """Doctests leave them out, since they have no cluster."""
    monkeypatch.chdir(tmp_path)
    text = getattr(bn, name).__doc__.replace("# doctest: +SKIP", "")
    names = {each: getattr(bn, each) for each in ("RayPool", "RayWorkers", "AltGDmin", "SafeBandit")}
    examples = doctest.DocTestParser().get_doctest(text, {**names, "data": data}, name, None, 0)
    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0
