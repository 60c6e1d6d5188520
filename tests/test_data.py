"""TaskData: sorting, offsets, labels, and what may come in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister.data import TaskData, encode_labels, joined_labels
from banister.errors import UnknownTaskError


def test_rows_are_grouped_by_task_in_their_order():
    data = TaskData.from_rows([[1.0], [2.0], [3.0], [4.0]], [10, 20, 30, 40], ["b", "a", "b", "a"])
    assert data.labels.tolist() == ["a", "b"]
    assert data.offsets.tolist() == [0, 2, 4]
    assert data.X[:, 0].tolist() == [2.0, 4.0, 1.0, 3.0]
    assert data.y.tolist() == [20.0, 40.0, 10.0, 30.0]
    assert data.codes.tolist() == [0, 0, 1, 1]
    assert (data.n_rows, data.n_tasks, data.dim) == (4, 2, 1)


def test_sorted_input_is_not_copied():
    X, y = np.random.default_rng(0).standard_normal((6, 3)), np.arange(6.0)
    data = TaskData.from_rows(X, y, [0, 0, 1, 1, 2, 2])
    assert np.shares_memory(data.X, X)
    assert np.shares_memory(data.y, y)
    assert not np.shares_memory(TaskData.from_rows(X, y, [1, 0, 0, 1, 2, 2]).X, X)


def test_labels_may_name_tasks_without_rows():
    data = TaskData.from_rows([[1.0], [2.0]], [1, 2], ["c", "a"], labels=["c", "b", "a"])
    assert data.labels.tolist() == ["c", "b", "a"]
    assert data.counts.tolist() == [1, 0, 1]
    assert len(data.rows_of(1)[1]) == 0


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_every_row_lands_in_its_task(tasks):
    X = np.arange(len(tasks), dtype=float)[:, None]
    data = TaskData.from_rows(X, X[:, 0], tasks)
    assert sorted(data.labels.tolist()) == sorted(set(tasks))
    for t, (rows, y) in enumerate(data):
        mine = [i for i, task in enumerate(tasks) if task == data.labels[t]]
        assert rows[:, 0].tolist() == y.tolist() == mine


def test_pandas_and_polars_read_as_numpy_does():
    table = {"a": [1.0, 2.0, 3.0], "b": [0, 1, 0]}
    stores, y = ["x", "y", "x"], [1.0, 2.0, 3.0]
    plain = TaskData.from_rows(np.array([table["a"], table["b"]]).T, y, stores)
    for frame, series in ((pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series)):
        data = TaskData.from_rows(frame(table), series(y), series(stores))
        np.testing.assert_array_equal(data.X, plain.X)
        np.testing.assert_array_equal(data.y, plain.y)
        assert data.labels.tolist() == plain.labels.tolist()


def test_pandas_categories_and_dates_are_labels():
    stores = pd.Series(["x", "y", "x"], dtype="category")
    assert TaskData.from_rows(np.ones((3, 1)), np.ones(3), stores).labels.tolist() == ["x", "y"]
    days = pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-02"])
    assert TaskData.from_rows(np.ones((3, 1)), np.ones(3), days).counts.tolist() == [1, 2]


def test_one_and_text_one_are_two_tasks():
    data = TaskData.from_rows(np.ones((4, 1)), np.ones(4), [1, "1", 1, "a"])
    assert data.labels.tolist() == [1, "1", "a"]
    assert data.counts.tolist() == [2, 1, 1]
    assert data.index([1, "1"]).tolist() == [0, 1]


def test_tuples_are_labels():
    data = TaskData.from_rows(np.ones((3, 1)), np.ones(3), [("nl", 2), ("de", 1), ("nl", 2)])
    assert data.labels.tolist() == [("de", 1), ("nl", 2)]
    assert data.index([("nl", 2)]).tolist() == [1]


def test_joined_labels_keep_their_kind():
    assert joined_labels(np.array([1, 2]), np.array(["1"])).tolist() == [1, 2, "1"]
    assert joined_labels(np.array(["a"]), np.array(["long"])).tolist() == ["a", "long"]


def test_unknown_task_names_row_and_label():
    data = TaskData.from_rows(np.ones((2, 1)), np.ones(2), ["a", "b"])
    with pytest.raises(UnknownTaskError, match=r"Row 1 names task 'z', which is unknown \(2 tasks"):
        data.index(["a", "z"])


def test_float32_is_kept_and_float64_made_from_integers():
    X = np.ones((2, 2), dtype=np.float32)
    data = TaskData.from_rows(X, [1, 2], [0, 1], dtype="float32")
    assert data.X.dtype == np.float32
    assert np.shares_memory(data.X, X)
    assert TaskData.from_rows(X.astype(int), [1, 2], [0, 1]).X.dtype == np.float64


def test_replace_y_keeps_the_design():
    data = TaskData.from_rows(np.ones((2, 1)), [1, 2], [0, 1])
    other = data.replace_y(np.array([5.0, 6.0]))
    assert other.X is data.X
    assert other.rows_of(1)[1].tolist() == [6.0]


def test_encode_labels_sorts_what_it_sees():
    codes, names = encode_labels(np.array([30, 10, 30]))
    assert codes.tolist() == [1, 0, 1]
    assert names.tolist() == [10, 30]
