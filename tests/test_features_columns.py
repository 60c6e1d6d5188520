"""Columns of a context: hand-checked numbers, gaps, unseen categories, dates; one value as a whole column."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from banister.errors import InputError
from banister.features.category import Category
from banister.features.context import Spec
from banister.features.date import Moment
from banister.features.numeric import Numeric


def series(values, name="x"):
    return pl.Series(name, values, strict=False)


def filled(column, values, first=0):
    out = np.full((len(values), len(column.labels)), 7.0)
    column.fill(series(values), out, first)
    return out


def one(column, value):
    out = [0.0] * len(column.labels)
    column.writer(0)(value, out)
    return out


def test_numbers_are_shifted_and_scaled_by_hand():
    column = Numeric.learn(series([2.0, 4.0, 6.0]))
    assert (column.mean, column.flag) == (4.0, False)
    assert column.scale == pytest.approx(math.sqrt(8 / 3), rel=1e-15)
    assert one(column, 4 + 2 * column.scale) == pytest.approx([2.0])
    assert column.labels == ["x"]


def test_numbers_as_scikit_learn_scales_them():
    values = np.random.default_rng(0).normal(50, 9, 300)
    np.testing.assert_array_equal(
        filled(Numeric.learn(series(values)), values), StandardScaler().fit_transform(values[:, None])
    )


def test_a_gap_in_numbers_counts_as_the_mean_and_raises_the_flag():
    column = Numeric.learn(series([1.0, None, 3.0, float("nan")]))
    assert (column.mean, column.scale, column.flag) == (2.0, 1.0, True)
    assert filled(column, [3.0, None, float("nan")]).tolist() == [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    for gap in (None, float("nan"), np.float32("nan"), pd.NA, pd.NaT):
        assert one(column, gap) == [0.0, 1.0]
    assert Numeric.learn(series([1.0, 2.0])).labels == ["x"]


def test_a_gap_where_the_log_had_none_is_filled_without_a_flag():
    column = Numeric.learn(series([1.0, 3.0]))
    assert one(column, None) == [0.0]
    assert filled(column, [None, 3.0]).tolist() == [[0.0], [1.0]]


def test_a_constant_column_keeps_its_unit():
    assert Numeric.learn(series([5, 5, 5])).scale == 1.0


def test_booleans_and_numpy_numbers_are_numbers():
    column = Numeric.learn(series([True, False]))
    assert (column.mean, column.scale) == (0.5, 0.5)
    assert one(column, True) == one(column, np.int8(1)) == one(column, 1.0) == [1.0]


def test_categories_by_frequency_then_name():
    column = Category.learn(series(["b", "c", "c", "a", "b", "d"]), most=3)
    assert column.levels == ("b", "c", "a")
    assert column.labels == ["x=c", "x=a", "x: other"]
    assert filled(column, ["b", "c", "a", "d", "new", None]).tolist() == [
        [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1],
    ]  # fmt: skip


def test_a_gap_in_categories_has_its_own_feature_where_the_log_had_gaps():
    column = Category.learn(series(["a", None, "a", "b", ""]), most=9)
    assert column.labels == ["x=b", "x: missing", "x: other"]
    expected = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert filled(column, ["a", "b", None, "", "z"]).tolist() == expected
    assert [one(column, v) for v in ("a", "b", None, "", "z")] == expected


def test_categories_agree_with_scikit_learns_encoder():
    rng = np.random.default_rng(1)
    values = np.array(list("abcdef"))[rng.choice(6, size=400, p=[0.3, 0.25, 0.2, 0.15, 0.05, 0.05])]
    column = Category.learn(series(values), most=4)
    theirs = OneHotEncoder(max_categories=5, handle_unknown="infrequent_if_exist", sparse_output=False)
    theirs.fit(values[:, None])
    names = [str(n).removeprefix("x0_") for n in theirs.get_feature_names_out()]
    ours = dict(zip([*column.levels[1:], "infrequent_sklearn"], filled(column, values).T, strict=True))
    for name, wanted in zip(names, theirs.transform(values[:, None]).T, strict=True):
        if name != column.levels[0]:
            np.testing.assert_array_equal(ours[name], wanted)


def test_whole_numbers_booleans_and_fractions_are_categories():
    """pandas turns 3 into 3.0 where a column has gaps; a request says 3."""
    column = Category.learn(pl.from_pandas(pd.Series([3, 3, None, 4], name="x")), most=9)
    assert column.levels == ("3", "4")
    assert one(column, 4) == one(column, 4.0) == one(column, np.int64(4)) == one(column, "4") == [1, 0, 0]
    assert one(column, float("nan")) == [0, 1, 0]
    assert Category.learn(series([True, True, False]), most=9).levels == ("true", "false")
    assert one(Category.learn(series([True, True, False]), most=9), np.bool_(False)) == [1, 0]
    assert Category.learn(series([0.5, 0.5, 1e-7]), most=9).levels == ("0.5", "1e-07")


cells = st.one_of(st.none(), st.text(max_size=3), st.sampled_from(["a", "b"]))


@settings(deadline=None)
@given(st.lists(cells, min_size=1), st.lists(cells, min_size=1), st.integers(1, 4))
def test_one_category_is_encoded_as_a_column_is(log, asked, most):
    if not any(log):
        with pytest.raises(InputError, match="empty in every row"):
            Category.learn(pl.Series("x", log, dtype=pl.String), most=most)
        return
    column = Category.learn(pl.Series("x", log, dtype=pl.String), most=most)
    out = np.empty((len(asked), len(column.labels)))
    column.fill(pl.Series("x", asked, dtype=pl.String), out, 0)
    assert [one(column, v) for v in asked] == out.tolist()
    assert (out.sum(axis=1) <= 1).all()


numbers = st.one_of(st.none(), st.floats(-1e9, 1e9), st.just(float("nan")))


@settings(deadline=None)
@given(st.lists(numbers, min_size=1), st.lists(numbers, min_size=1))
def test_one_number_is_encoded_as_a_column_is(log, asked):
    known = [v for v in log if v is not None and v == v]
    if not known:
        with pytest.raises(InputError, match="empty in every row"):
            Numeric.learn(pl.Series("x", log, dtype=pl.Float64))
        return
    column = Numeric.learn(pl.Series("x", log, dtype=pl.Float64))
    out = np.empty((len(asked), len(column.labels)))
    column.fill(pl.Series("x", asked, dtype=pl.Float64), out, 0)
    assert [one(column, v) for v in asked] == out.tolist()
    assert np.isfinite(out).all()


def days(n, *, hours=0.0):
    return [datetime(2024, 1, 1) + timedelta(days=i, hours=i * hours) for i in range(n)]


def test_a_date_is_placed_in_the_cycles_that_the_log_shows():
    assert Moment.learn(series(days(15))).cycles == ("week",)
    assert Moment.learn(series(days(15, hours=5))).cycles == ("day", "week")
    assert Moment.learn(series(days(400))).cycles == ("week", "year")
    assert Moment.learn(series([d.date() for d in days(20)])).cycles == ("week",)
    with pytest.raises(InputError, match=r"spans 3\.0 days: too short"):
        Moment.learn(series(days(4)))


def test_dates_by_hand():
    column = Moment.learn(series(days(20, hours=6)))
    assert column.labels[0] == "x: sine of the day"
    monday = datetime(2024, 1, 1)
    np.testing.assert_allclose(one(column, monday), [0, 1, 0, 1], atol=1e-9)
    six = monday + timedelta(hours=6)
    angle = 2 * math.pi * 6 / (7 * 24)
    np.testing.assert_allclose(one(column, six), [1, 0, math.sin(angle), math.cos(angle)], atol=1e-9)


def test_every_way_to_write_a_moment_is_one():
    column = Moment.learn(series(days(20, hours=6)))
    moment = datetime(2024, 3, 5, 14, 30)
    ways = [
        moment, moment.isoformat(), np.datetime64(moment), pd.Timestamp(moment), moment.replace(tzinfo=UTC),
        moment.replace(tzinfo=timezone(timedelta(hours=2))) + timedelta(hours=2),
    ]  # fmt: skip
    for way in ways:
        np.testing.assert_allclose(one(column, way), filled(column, [moment])[0], atol=1e-12)
    np.testing.assert_allclose(
        one(column, date(2024, 3, 5)), filled(column, [datetime(2024, 3, 5)])[0], atol=1e-12
    )
    texts = np.empty((1, 4))
    column.fill(series(["2024-03-05T14:30:00"]), texts, 0)
    np.testing.assert_allclose(texts, filled(column, [moment]))


def test_times_with_a_zone_are_taken_at_utc():
    column = Moment.learn(series(days(20, hours=6)))
    berlin = series([datetime(2024, 3, 5, 14, 30)]).dt.replace_time_zone("Europe/Berlin")
    for way in (berlin, series(["2024-03-05T14:30:00+01:00"])):
        out = np.empty((1, 4))
        column.fill(way, out, 0)
        np.testing.assert_allclose(out[0], one(column, datetime(2024, 3, 5, 13, 30)), atol=1e-12)


def test_days_are_categories_if_asked():
    column = Category.learn(series([date(2024, 1, 1), date(2024, 1, 1), date(2024, 1, 2)]), most=9)
    assert one(column, date(2024, 1, 2)) == one(column, "2024-01-02") == [1, 0]


def test_a_gap_in_dates_raises_the_flag():
    column = Moment.learn(series([*days(20), None]))
    assert one(column, None) == one(column, pd.NaT) == [0.0, 0.0, 1.0]
    assert filled(column, [None, datetime(2024, 1, 1)])[0].tolist() == [0.0, 0.0, 1.0]
    assert filled(column, [None, datetime(2024, 1, 1)])[1, 2] == 0.0


BAD_COLUMNS = [
    ({"numeric": ("x",)}, ["1", "two"], r"'x' holds String, not numbers: 'two' at row 1; .*categorical="),
    ({"numeric": ("x",)}, [1.0, math.inf], r"'x' holds infinity at row 1"),
    ({"numeric": ("x",)}, [None, None], r"'x' is empty in every row"),
    ({"numeric": ("x",)}, [date(2024, 1, 1)] * 2, r"holds Date, not numbers; name it in dates="),
    ({"categorical": ("x",)}, [[1], [2]], r"'x' holds List\(Int64\), not categories"),
    ({"categorical": ("x",)}, [datetime(2024, 1, 1)] * 2, r"'x' holds Datetime.*name it in dates="),
    ({"dates": ("x",)}, ["soon", "later"], r"'x' holds 'soon' at row 0, which is no date"),
    ({"categorical": ("x",)}, [None, None], r"'x' is empty in every row"),
    ({"dates": ("x",)}, [1, 2], r"'x' holds Int64, not dates"),
    ({"dates": ("x",)}, ["2024-01-01", "soon"], r"'x' holds 'soon' at row 1, which is no date"),
    ({"dates": ("x",)}, [None, None], r"'x' is empty in every row"),
    ({"numeric": ("z",)}, [1, 2], r"no column 'z' for the context; it has x, y"),
]


@pytest.mark.parametrize(("spec", "values", "message"), BAD_COLUMNS)
def test_a_bad_column_is_named_with_its_row(spec, values, message):
    with pytest.raises(InputError, match=message):
        Spec(**spec).learn(pl.DataFrame({"x": values, "y": [1, 2]}, strict=False))


def test_a_row_is_counted_from_the_top_of_the_log():
    column = Numeric.learn(series([1.0, 2.0]))
    with pytest.raises(InputError, match="at row 101"):
        column.fill(series([1.0, math.inf]), np.empty((2, 1)), 100)


LOG = pl.DataFrame({"age": [30, 50], "device": ["ios", "web"], "when": [date(2024, 1, 1), date(2024, 2, 1)]})
BAD_CONTEXTS = [
    ({"age": 1, "device": "ios"}, r"context lacks 'when'; it needs age, device, when"),
    ({"device": "ios"}, r"context lacks 'age', 'when'"),
    (None, r"context=None must map columns to values"),
    ("age", r"context='age' must map columns"),
    ({"age": "41", "device": "ios", "when": None}, r"context\['age'\]='41' must be a number, or None"),
    ({"age": [41], "device": "ios", "when": None}, r"context\['age'\]=\[41\] must be a number"),
    ({"age": math.inf, "device": "ios", "when": None}, r"context\['age'\]=inf is too large"),
    ({"age": 10**400, "device": "ios", "when": None}, r"context\['age'\] is too large for a float"),
    ({"age": 1, "device": ["ios"], "when": None}, r"context\['device'\]=\['ios'\] must be one category"),
    ({"age": 1, "device": datetime(2024, 1, 1), "when": None}, r"must be one category"),
    ({"age": 1, "device": "ios", "when": "soon"}, r"context\['when'\]='soon' is no date; write"),
    ({"age": 1, "device": "ios", "when": 3}, r"context\['when'\]=3 must be a date"),
]


@pytest.mark.parametrize(("context", "message"), BAD_CONTEXTS)
def test_a_bad_context_is_named(context, message):
    learned = Spec(("age",), ("device",), ("when",)).learn(LOG)
    with pytest.raises(InputError, match=message):
        learned.vector(context)


def test_a_context_may_hold_more_than_is_asked():
    learned = Spec(("age",)).learn(LOG)
    assert learned.vector({"age": 60, "else": object()}) == [2.0]
