"""Pools: the same sums and the same fit wherever the rows are, and honest refusals."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import polars as pl
import pytest

from banister.data import TaskData
from banister.errors import ConvergenceWarning, DataFileError, InputError, NonFiniteError, SettingError
from banister.estimators import search
from banister.estimators.altgdmin import AltGDmin
from banister.solver import DiskPool, LocalPool, Passes, Point, Trip, block
from banister.solver.folder import Folder, Writer
from banister.solver.pack import pack, pack_rows
from banister.solver.pool import _total
from problems import problem

COUNTS = [0, 3, 12, 7, 30, 1, 9, 13, 0, 25, 6, 6]


@pytest.fixture
def data():
    return problem(d=6, T=len(COUNTS), counts=COUNTS, seed=1)[0]


@pytest.fixture
def many_blocks(monkeypatch):
    monkeypatch.setattr(block, "_SMALL", 60)


def packed(data, tmp_path):
    return DiskPool(pack_rows(data, tmp_path / "packed").path, threads=2)


def answers(pool, data):
    """Every question that a pool answers."""
    rng = np.random.default_rng(0)
    B, D = np.linalg.qr(rng.standard_normal((6, 2)))[0], rng.standard_normal((6, 2))
    weights = rng.uniform(0.5, 2.0, data.n_tasks)
    point = Point(B, 0.3, weights)
    found = [*pool.gradient(point), pool.hessian(point, D), pool.hessian(point, D, exact=True)]
    found += [pool.residual_moment(point), pool.coefficients(point), *pool.moments(B)]
    found += [*pool.correlations(D[:, 0]), pool.second_moment(3), pool.energy(), pool.energy(weights)]
    return [*found, *pool.information(np.eye(6), B, pool.coefficients(point), weights)]


def test_sums_are_those_of_numpy(data, many_blocks):
    pool = LocalPool(data, threads=2)
    assert len(pool.each("energy", None)) > 4
    p = np.arange(6.0)
    h = np.stack([X.T @ (y - X @ p) for X, y in data])
    moment, total = pool.correlations(p)
    np.testing.assert_allclose(total, h.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(moment, (h.T / np.maximum(data.counts, 1)) @ h, rtol=1e-12)
    np.testing.assert_allclose(pool.second_moment(3), data.X[::3].T @ data.X[::3] / len(data.X[::3]))
    assert pool.energy() == pytest.approx(float(data.y @ data.y), rel=1e-14)
    weights = np.arange(12.0)
    assert pool.energy(weights) == pytest.approx(float(weights[data.codes] @ data.y**2), rel=1e-14)


def test_residual_moment_by_definition(data, many_blocks):
    B, weights = np.linalg.qr(np.random.default_rng(2).standard_normal((6, 2)))[0], np.linspace(1, 2, 12)
    expected = np.zeros((6, 6))
    for t, (X, y) in enumerate(data):
        v = X.T @ (y - X @ B @ np.linalg.pinv(X @ B) @ y)
        expected += weights[t] * np.outer(v, v) / max(len(y), 1)
    found = LocalPool(data, threads=1).residual_moment(Point(B, 0.0, weights))
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_disk_gives_the_sums_of_memory_bit_for_bit(dtype, many_blocks, tmp_path):
    data = problem(d=6, T=len(COUNTS), counts=COUNTS, seed=1, dtype=dtype)[0]
    for here, there in zip(
        answers(LocalPool(data, threads=1), data), answers(packed(data, tmp_path), data), strict=True
    ):
        np.testing.assert_array_equal(here, there)


def test_every_question_carries_its_point(data, many_blocks):
    """Blocks that have lost their workspaces, or hold those of another point, answer the same."""
    rng = np.random.default_rng(0)
    B, other, D = (np.linalg.qr(rng.standard_normal((6, 2)))[0] for _ in range(3))
    pool, point = LocalPool(data, threads=1), Point(B)
    pool.gradient(point)
    first = pool.hessian(point, D), pool.coefficients(point), pool.residual_moment(point)
    for disturb in (pool.release, lambda: pool.gradient(Point(other)), lambda: pool.gradient(Point(B, 0.5))):
        disturb()
        np.testing.assert_array_equal(pool.hessian(point, D), first[0])
        disturb()
        np.testing.assert_array_equal(pool.coefficients(point), first[1])
        disturb()
        np.testing.assert_array_equal(pool.residual_moment(point), first[2])
    pool.gradient(Point(B, 0.0, np.full(12, 2.0)))
    np.testing.assert_array_equal(pool.hessian(point, D), first[0])


def test_coefficients_are_the_callers_own(data):
    passes = Passes(data, 2, threads=1)
    B, other = (np.linalg.qr(np.random.default_rng(s).standard_normal((6, 2)))[0] for s in (0, 1))
    passes.gradient(B)
    W = passes.coefficients(B)
    before = W.copy()
    passes.gradient(other)
    np.testing.assert_array_equal(W, before)


def test_going_back_to_an_earlier_point_is_a_pass_and_counted(data):
    passes = Passes(data, 2, threads=1)
    B, other = (np.linalg.qr(np.random.default_rng(s).standard_normal((6, 2)))[0] for s in (0, 1))
    passes.gradient(B)
    here = passes.hessian(other, at=B)
    passes.gradient(other)
    assert passes.count == 3
    np.testing.assert_array_equal(passes.hessian(other, at=B), here)
    assert passes.count == 5


def test_taking_tasks_brings_their_rows(data, many_blocks):
    few = LocalPool(data, threads=1).take(np.array([0, 2, 9]))
    assert few.counts.tolist() == [0, 12, 25]
    assert few.labels.tolist() == [0, 2, 9]
    for t, (X, y) in zip([0, 2, 9], few, strict=True):
        np.testing.assert_array_equal(X, data.rows_of(t)[0])
        np.testing.assert_array_equal(y, data.rows_of(t)[1])


def test_constant_columns_are_found_across_blocks(data, many_blocks):
    X = data.X.copy()
    X[:, 3] = 2.0
    X[:, 4] = 1.0
    X[40, 4] = 0.5  # one row differs
    warped = TaskData(X, data.y, data.offsets, data.labels)
    assert LocalPool(warped, threads=2).constant_columns() == {3: 2.0}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_fit_from_disk_is_the_fit_from_memory(threads, many_blocks, tmp_path):
    data = problem(d=8, T=60, n=12, seed=3)[0]
    here = AltGDmin(rank=2, threads=1).fit_data(data)
    there = AltGDmin(rank=2).fit_data(DiskPool(pack_rows(data, tmp_path / "p").path, threads=threads))
    np.testing.assert_array_equal(there.theta_, here.theta_)
    rows = data.X[:5], data.codes[:5]
    np.testing.assert_array_equal(
        there.predict(*rows, return_std=True)[1], here.predict(*rows, return_std=True)[1]
    )


def test_the_number_of_blocks_changes_nothing_but_rounding(monkeypatch):
    data, fits = problem(d=8, T=60, n=12, seed=3)[0], []
    for small in (10**9, 2000, 200):
        monkeypatch.setattr(block, "_SMALL", small)
        fits.append(AltGDmin(rank=2, threads=1).fit_data(data).theta_)
    for theta in fits[1:]:
        np.testing.assert_allclose(theta, fits[0], atol=1e-10)


def test_a_large_block_is_cut_even_where_no_thread_asks_for_it(monkeypatch):
    monkeypatch.setattr(block, "_BLOCKS", 2)
    monkeypatch.setattr(block, "_LARGE", 100)
    cuts = block.block_bounds(np.arange(0, 110, 10), 10)
    assert len(cuts) == 11


def many_tasks(seed=0, r=2, T=300, noise=0.1, n=10):
    return problem(d=6, T=T, r=r, n=n, noise=noise, seed=seed)


@pytest.fixture
def sampled(monkeypatch):
    monkeypatch.setattr(search, "MANY", 200)
    monkeypatch.setattr(search, "_SAMPLE", 60)


@pytest.mark.parametrize("rank", [2, "auto"])
def test_a_sample_then_a_polish_reach_the_fit_over_all(rank, monkeypatch):
    data, _ = many_tasks()
    whole = AltGDmin(rank=rank, threads=1, tol=1e-12).fit_data(data)
    monkeypatch.setattr(search, "MANY", 200)
    monkeypatch.setattr(search, "_SAMPLE", 60)
    polished = AltGDmin(rank=rank, threads=1, tol=1e-12).fit_data(data)
    assert polished.rank_ == whole.rank_ == 2
    assert polished.converged_
    assert polished.starts_agree_
    assert polished.objective_ == pytest.approx(whole.objective_, rel=1e-10)
    np.testing.assert_allclose(polished.theta_, whole.theta_, atol=1e-5)


def test_a_direction_that_the_sample_missed_is_found_in_all(sampled, monkeypatch):
    """A tenth of the tasks hold a second direction, and the sample has none of them."""
    rng = np.random.default_rng(5)
    data, _ = many_tasks(r=1, T=400)
    extra = np.zeros((6, 400))
    extra[:, 360:] = 3.0 * np.outer(
        np.linalg.qr(rng.standard_normal((6, 2)))[0][:, 1], rng.standard_normal(40)
    )
    data = data.replace_y(data.y + data.fitted(extra))
    monkeypatch.setattr(search, "sample_tasks", lambda pool, rng: np.arange(0, 360, 4))
    assert AltGDmin(threads=1).fit_data(data).rank_ == 2
    monkeypatch.setattr(search, "explains", lambda *_: False)
    with pytest.warns(ConvergenceWarning):  # the sample cannot vouch for a direction that it never saw
        assert not AltGDmin(threads=1).fit_data(data).starts_agree_


def test_a_direction_that_all_tasks_add_must_help_to_predict(sampled, monkeypatch):
    data, _ = problem(d=6, T=300, r=2, n=20, noise=0.1)
    monkeypatch.setattr(search, "_first", lambda sample, *_: (np.eye(6)[:, :1], True, True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert AltGDmin(threads=1).fit_data(data).rank_ == 2
        monkeypatch.setattr(search, "predictive_score", lambda pool, whitening, B, **_: -B.shape[1])
        assert AltGDmin(threads=1).fit_data(data).rank_ == 1


def test_a_direction_that_only_the_sample_has_is_dropped(sampled, monkeypatch):
    rng = np.random.default_rng(5)
    data, _ = many_tasks(r=1, T=2000, noise=0.3)
    extra = np.zeros((6, 2000))
    extra[:, :70] = np.outer(np.linalg.qr(rng.standard_normal((6, 2)))[0][:, 1], rng.standard_normal(70)) / 2
    data = data.replace_y(data.y + data.fitted(extra))
    monkeypatch.setattr(search, "sample_tasks", lambda pool, rng: np.arange(70))
    whole = TaskData(data.X[:700], data.y[:700], data.offsets[:71], data.labels[:70])
    assert AltGDmin(threads=1).fit_data(whole).rank_ == 2
    assert AltGDmin(threads=1).fit_data(data).rank_ == 1


def test_a_sample_has_rows_and_no_task_twice():
    data = problem(d=3, T=50, counts=[0, 4] * 25)[0]
    tasks = search.sample_tasks(LocalPool(data, threads=1), np.random.default_rng(0))
    assert tasks.tolist() == list(range(1, 50, 2))


@pytest.mark.parametrize("offsets", [[0, 40, 80, 80, 80], [0, 0, 0, 40, 80], [0, 0, 80, 80]])
def test_blocks_cover_every_task_also_those_without_rows(offsets, many_blocks):
    bounds = block.block_bounds(np.array(offsets), 3)
    assert (bounds[0], bounds[-1]) == (0, len(offsets) - 1)
    assert (np.diff(bounds) > 0).all()


def test_sums_leave_what_blocks_answered_alone():
    """Workers on other machines hand out arrays that cannot be written to."""
    parts = [np.ones(2), np.full(2, 3.0)]
    for part in parts:
        part.flags.writeable = False
    np.testing.assert_array_equal(_total(parts), [4.0, 4.0])
    np.testing.assert_array_equal(parts[0], [1.0, 1.0])


def test_those_who_watch_are_told(data):
    pool, seen = LocalPool(data, threads=1), []
    pool.watch = seen.append
    AltGDmin(rank=1).fit_data(pool)
    assert {"gradient", "hessian", "moments"} <= {trip.method for trip in seen}
    assert all(isinstance(trip, Trip) and trip.rows == data.n_rows and trip.seconds >= 0 for trip in seen)


def table(seed=0):
    rng = np.random.default_rng(seed)
    names = rng.choice(["b", "a", "c"], 50)
    columns = {
        "shop": names,
        "sold": rng.standard_normal(50),
        "f0": rng.standard_normal(50),
        "f1": np.arange(50),
    }
    return pl.DataFrame(columns)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_packing_a_file_keeps_rows_in_their_order(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("banister.solver.pack._ROWS", 7)
    rows, source = table(), tmp_path / f"rows.{kind}"
    rows.write_parquet(source) if kind == "parquet" else rows.write_csv(source)
    folder = pack(source, tmp_path / "packed", task="shop", reward="sold")
    assert folder.labels.tolist() == ["a", "b", "c"]
    assert folder.features == ["f0", "f1"]
    expected = TaskData.from_rows(rows.select("f0", "f1"), rows["sold"], rows["shop"].to_numpy())
    with folder.rows(0, 3) as found:
        np.testing.assert_array_equal(found.X, expected.X)
        np.testing.assert_array_equal(found.y, expected.y)
        np.testing.assert_array_equal(found.offsets, expected.offsets)
    with folder.rows(1, 2) as found:
        np.testing.assert_array_equal(found.X, expected.rows_of(1)[0])


def test_packing_refuses_what_it_cannot_use(tmp_path):
    source = tmp_path / "rows.parquet"
    table().write_parquet(source)
    with pytest.raises(InputError, match="no column 'store'"):
        pack(source, tmp_path / "a", task="store", reward="sold")
    with pytest.raises(InputError, match="float16"):
        pack(source, tmp_path / "a", task="shop", reward="sold", dtype="float16")
    with pytest.raises(DataFileError, match="does not exist"):
        pack(tmp_path / "no.csv", tmp_path / "a", task="shop", reward="sold")
    with pytest.raises(DataFileError, match=r"\.parquet or \.csv"):
        pack(tmp_path / "rows.json", tmp_path / "a", task="shop", reward="sold")
    with pytest.raises(InputError, match="no feature columns"):
        pack(source, tmp_path / "a", task="shop", reward="sold", features=[])
    table().with_columns(sold=pl.lit(float("nan"))).write_parquet(source)
    with pytest.raises(NonFiniteError, match="rows from 0"):
        pack(source, tmp_path / "a", task="shop", reward="sold")
    with pytest.raises(DataFileError, match="not a packed folder"):
        Folder(tmp_path / "a")
    table().write_parquet(source)
    pack(source, tmp_path / "a", task="shop", reward="sold")  # what failed is not in the way
    with pytest.raises(DataFileError, match="not empty"):
        pack(source, tmp_path / "a", task="shop", reward="sold")
    table().with_columns(shop=pl.lit(None, pl.String)).write_parquet(source)
    with pytest.raises(InputError, match="without a label"):
        pack(source, tmp_path / "b", task="shop", reward="sold")
    table().head(0).write_parquet(source)
    with pytest.raises(InputError, match="no rows"):
        pack(source, tmp_path / "c", task="shop", reward="sold")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_packing_a_damaged_file_is_an_error_of_the_package(name, tmp_path):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(DataFileError, match="cannot be read"):
        pack(tmp_path / name, tmp_path / "a", task="shop", reward="sold")
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(DataFileError, match="is a folder"):
        pack(tmp_path / name, tmp_path / "a", task="shop", reward="sold")


def test_labels_that_would_become_one_are_refused(tmp_path):
    data = TaskData.from_rows(np.eye(2), [1.0, 2.0], [1, "1"])
    with pytest.raises(InputError, match="differ only in kind"):
        pack_rows(data, tmp_path / "p")


def test_a_damaged_folder_is_noticed(data, tmp_path):
    whole = pack_rows(data, tmp_path / "p").path
    for name, change, words in (
        ("X.bin", lambda f: f.write_bytes(f.read_bytes()[:-8]), "X.bin has"),
        ("y.bin", lambda f: f.unlink(), "y.bin has 0 bytes"),
        ("facts.json", lambda f: f.write_text(json.dumps({"format": 99})), "format 99"),
        ("labels.npy", lambda f: np.save(f, np.arange(3)), "disagree"),
    ):
        copy = tmp_path / f"copy of {name}"
        shutil.copytree(whole, copy)
        change(copy / name)
        with pytest.raises(DataFileError, match=words):
            DiskPool(copy)


def test_a_writer_that_fails_leaves_no_folder_that_opens(tmp_path):
    def fail():
        with Writer(tmp_path / "p", np.arange(2), np.array([1, 1]), ["a"], float) as writer:
            writer.write(np.ones((1, 1)), np.ones(1), np.array([0]))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with pytest.raises(DataFileError, match="not a packed folder"):
        Folder(tmp_path / "p")
    assert list((tmp_path / "p").iterdir()) == []  # nothing is in the way of another attempt


def test_what_a_pool_cannot_do_is_said(data, tmp_path):
    pool = packed(data, tmp_path)
    with pytest.raises(SettingError, match="rows in memory"):
        AltGDmin(rank=1, fit_intercept=True).fit_data(pool)
    with pytest.raises(SettingError, match="rows in memory"):
        AltGDmin(rank=1, solver="paper").fit_data(pool)
    with pytest.raises(SettingError, match="DiskPool"):
        AltGDmin(rank=1, pool="disk").fit_data(data)


def test_a_pool_may_be_made_by_a_function(data, tmp_path):
    made = AltGDmin(rank=1, pool=lambda rows: packed(rows, tmp_path)).fit_data(data)
    np.testing.assert_array_equal(made.theta_, AltGDmin(rank=1, threads=1).fit_data(data).theta_)


def test_a_polish_that_is_cut_short_says_so(sampled):
    data, _ = many_tasks(noise=1.0)
    with pytest.warns(ConvergenceWarning):
        model = AltGDmin(rank=2, threads=1, max_passes=1).fit_data(data)
    assert not model.converged_


def test_tasks_that_the_sample_cannot_vouch_for_are_asked(sampled, monkeypatch):
    """Without agreement on the sample, all tasks' residuals decide."""
    data, _ = many_tasks()
    monkeypatch.setattr(search, "_first", lambda sample, *_: (np.eye(6)[:, :2], False, True))
    assert AltGDmin(rank=2, threads=1).fit_data(data).starts_agree_
    monkeypatch.setattr(search, "explains", lambda *_: False)
    with pytest.warns(ConvergenceWarning):
        assert not AltGDmin(rank=2, threads=1).fit_data(data).starts_agree_
