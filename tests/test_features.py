"""Arms, items, baselines and frames: hand-checked rows, one request as a whole log, JSON bit for bit."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import banister as bn
from banister.errors import DataFileError, InputError, ModelFileError, NotFittedError, SettingError
from banister.features.baseline import baseline_index, baselines
from banister.features.frames import read_frame
from banister.features.loading import load_features

LOG = pl.DataFrame(
    {
        "age": [30.0, 50.0, None, 40.0],
        "device": ["ios", "web", "ios", None],
        "vip": [True, False, True, True],
        "banner": ["spring", "bundle", "bundle", "spring"],
        "usual": ["bundle", "bundle", "spring", "spring"],
    }
)


def arms(**options):
    return bn.Arms(["spring", "bundle"], numeric=["age"], categorical=["device"], **options)


def contexts(frame):
    return frame.to_dicts()


def test_the_rows_of_arms_by_hand():
    learned = arms().learn(LOG)
    z = ["1", "age", "age: missing", "device=web", "device: missing", "device: other"]
    own = [f"{arm} × {name}" for arm in ("spring", "bundle") for name in z]
    assert learned.feature_names == [*z, *own]
    assert learned.dim == 18
    a = (30 - 40) / math.sqrt(200 / 3)
    zeros = [0.0] * 6
    first, second = [1, a, 0, 0, 0, 0], [1, -a, 0, 1, 0, 0]
    rows = learned.rows(LOG, "banner")
    np.testing.assert_allclose(rows[0], [*first, *first, *zeros])
    np.testing.assert_allclose(rows[1], [*second, *zeros, *second])
    assert rows[2].tolist() == [1, 0, 1, 0, 0, 0, *zeros, 1, 0, 1, 0, 0, 0]
    assert rows[3].tolist() == [1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, *zeros]


def test_own_columns_and_no_shared_part_by_hand():
    learned = arms(own=["age"]).learn(LOG)
    assert learned.feature_names[6:] == [
        f"{arm} × {name}" for arm in ("spring", "bundle") for name in ("1", "age", "age: missing")
    ]
    assert learned.rows(LOG, "banner")[2].tolist() == [1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1]
    alone = arms(shared=False, own=[]).learn(LOG)
    assert alone.rows(LOG, "banner").tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
    assert alone.dim == 2


@pytest.mark.parametrize("options", [{}, {"own": ["device"]}, {"shared": False}, {"own": []}])
def test_one_request_is_encoded_as_a_log_is(options):
    learned = arms(**options).learn(LOG)
    rows, every = learned.rows(LOG, "banner"), learned.tensor(LOG)
    for i, context in enumerate(contexts(LOG)):
        actions = learned.actions(context)
        assert actions.shape == (2, learned.dim)
        np.testing.assert_array_equal(actions[learned.names.index(LOG["banner"][i])], rows[i])
        np.testing.assert_array_equal(actions, every[i])
        np.testing.assert_array_equal(learned.actions(context, ["bundle"]), actions[[1]])
        np.testing.assert_array_equal(learned.actions(context, ["bundle", "spring"]), actions[::-1])
    np.testing.assert_array_equal(learned.stacked(contexts(LOG)), every)


def test_names_may_come_as_arrays():
    assert bn.Arms(np.array(["a", "b"]), numeric=pd.Index(["x"])) == bn.Arms(["a", "b"], numeric=["x"])


@pytest.mark.parametrize("options", [{}, {"shared": False}, {"shared": False, "own": []}])
def test_one_combination_of_features_is_always_one(options):
    learned = arms(**options).learn(LOG)
    np.testing.assert_array_equal(learned.rows(LOG, "banner") @ learned.constant, np.ones(4))
    made = items().learn(VISITS)
    np.testing.assert_array_equal(made.rows(VISITS, "bought") @ made.constant, np.ones(2))


def test_arms_without_context_are_arms():
    learned = bn.Arms(["a", "b", "c"]).learn({"x": [1]})
    assert learned.actions({}).tolist() == [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    assert learned.actions(None, ["c"]).tolist() == [[1, 0, 0, 1]]


def test_blocks_are_the_rows():
    rng = np.random.default_rng(0)
    log = {"age": rng.normal(size=50), "device": rng.choice(list("abc"), 50), "banner": ["spring"] * 50}
    learned = arms().learn(log)
    blocks = list(learned.blocks(log, "banner", size=7))
    assert [where.stop - where.start for where, _ in blocks] == [7] * 7 + [1]
    np.testing.assert_array_equal(np.concatenate([X for _, X in blocks]), learned.rows(log, "banner"))


def test_a_long_log_is_encoded_row_by_row_the_same():
    """More rows than are encoded at once, in a row order that mixes the arms."""
    rng = np.random.default_rng(0)
    n = 20_000
    log = pl.DataFrame({"age": rng.normal(size=n), "device": rng.choice(list("abc"), n)})
    played = rng.choice(["spring", "bundle"], n)
    learned = arms().learn(log)
    rows = learned.rows(log, played)
    for i in (0, 8191, 8192, 16_384, n - 1):
        np.testing.assert_array_equal(rows[i], learned.actions(log.row(i, named=True), [str(played[i])])[0])


def test_the_arm_is_read_off_its_features():
    learned = arms(own=["device"]).learn(LOG)
    assert learned.named(learned.rows(LOG, "banner")) == LOG["banner"].to_list()


def test_nothing_is_known_before_a_log_was_seen():
    for ask in (lambda a: a.dim, lambda a: a.actions({}), lambda a: a.rows(LOG, "banner")):
        with pytest.raises(NotFittedError, match="has not seen a log yet"):
            ask(arms())
    assert repr(arms()) == (
        "<Arms: 2 arms (spring, bundle); numeric: age; categorical: device; not learned yet>"
    )
    assert repr(arms().learn(LOG)).endswith("18 features>")


def test_what_was_learned_is_frozen():
    learned = arms().learn(LOG)
    before = learned.to_json()
    with pytest.raises(InputError, match="they are frozen"):
        learned.learn(LOG)
    learned.rows(LOG.with_columns(age=pl.lit(1e6)), "banner")
    learned.actions({"age": 1e9, "device": "never seen"})
    assert learned.to_json() == before


def test_too_many_features_are_refused_with_advice():
    log = {"age": range(100), "device": [f"d{i}" for i in range(100)]}
    with pytest.raises(
        SettingError, match=r"make 66 features; 60 are allowed.*device \(20\), age \(1\).*own="
    ):
        arms(max_features=60).learn(log)
    small = arms(max_features=60, max_categories=10).learn(log)  # each piece of advice helps
    assert small.dim == 36
    assert arms(max_features=60, own=["age"]).learn(log).dim == 26


def test_a_refused_log_leaves_nothing_learned():
    refused = arms(max_features=1)
    with pytest.raises(SettingError):
        refused.learn(LOG)
    assert not refused.learned


BAD_ARMS = [
    (lambda: bn.Arms([]), "at least one arm"),
    (lambda: bn.Arms("spring"), "must be a list of names"),
    (lambda: bn.Arms(["a", "a"]), r"\['a'\] are named twice"),
    (lambda: bn.Arms(["a", ""]), "text that is not empty"),
    (lambda: bn.Arms(["a"], numeric="age"), r"numeric='age' must be a list"),
    (lambda: bn.Arms(["a"], numeric=["x"], categorical=["x"]), r"\['x'\] are named twice"),
    (lambda: bn.Arms(["a"], numeric=["x"], own=["y"]), r"own names \['y'\].*those are x"),
    (lambda: bn.Arms(["a"], max_categories=0), "max_categories=0"),
    (lambda: bn.Arms(["a"], max_features=True), "max_features=True"),
]


@pytest.mark.parametrize(("make", "message"), BAD_ARMS)
def test_bad_settings_are_named(make, message):
    with pytest.raises(SettingError, match=message):
        make()


BAD_USES = [
    (lambda a: a.learn({"age": [], "device": []}), "no rows"),
    (lambda a: a.learn({"age": [1]}), "no column 'device' for the context; it has age"),
    (lambda a: a.learn(LOG).rows(LOG, "shown"), "no column 'shown' for arm; it has age, device, vip, banner"),
    (lambda a: a.learn(LOG).rows(LOG, ["spring"]), "4 contexts and 1 arms"),
    (
        lambda a: a.learn(LOG).rows(LOG, ["spring", "x", None, "y"]),
        "'x' at row 1; the arms are spring, bundle",
    ),
    (lambda a: a.learn(LOG).rows(LOG, ["spring", None] * 2), "empty at row 1; .*the arms are spring"),
    (lambda a: a.learn(LOG).actions({"age": 1, "device": None}, ["x"]), "offered holds 'x'; the arms are"),
    (lambda a: a.learn(LOG).actions({"age": 1, "device": None}, []), "not empty"),
    (lambda a: a.learn(LOG).actions({"age": 1, "device": None}, "spring"), "must be a list of arms"),
    (lambda a: a.learn(LOG).actions({"age": 1, "device": None}, ["spring"] * 2), "names one arm twice"),
]


@pytest.mark.parametrize(("use", "message"), BAD_USES)
def test_bad_uses_are_named(use, message):
    with pytest.raises(InputError, match=message):
        use(arms())


def test_arms_as_a_log_shows_them():
    log = LOG.with_columns(
        when=pl.datetime_range(datetime(2024, 1, 1), datetime(2024, 1, 4), "1d", eager=True)
    )
    found = bn.Arms.of_log(log, arm="banner", context=["age", "device", "vip", "when"])
    assert found.names == ["bundle", "spring"]
    assert (found.spec.numeric, found.spec.categorical) == (("age",), ("device", "vip"))
    assert found.spec.dates == ("when",)
    forced = bn.Arms.of_log(log, arm="banner", context=["age"], categorical=["age"], shared=False)
    assert (forced.spec.categorical, forced.shared) == (("age",), False)
    with pytest.raises(InputError, match="not among the context"):
        bn.Arms.of_log(log, arm="banner", context=["age"], categorical=["vip"])
    with pytest.raises(InputError, match="no column 'city'"):
        bn.Arms.of_log(log, arm="banner", context=["city"])


# --- items ----------------------------------------------------------------------------------------

WINES = {"item": ["red", "white", "rosé"], "price": [10.0, 30.0, 20.0], "land": ["fr", "it", "fr"]}


def items(**options):
    settings = {
        "numeric": ["price"], "categorical": ["land"], "context_numeric": ["age"],
        "context_categorical": ["device"], "cross": [("price", "age"), ("land", "device")], **options,
    }  # fmt: skip
    return bn.Items(WINES, **settings)


VISITS = pl.DataFrame({"age": [30.0, 50.0], "device": ["ios", "web"], "bought": ["white", "red"]})


def test_the_rows_of_items_by_hand():
    learned = items().learn(VISITS)
    assert learned.feature_names == [
        "1", "price", "land=it", "land: other", "age", "device=web", "device: other", "price × age",
        "land=it × device=web", "land=it × device: other", "land: other × device=web",
        "land: other × device: other",
    ]  # fmt: skip
    p = 10 / math.sqrt(200 / 3)
    rows = learned.rows(VISITS, "bought")
    np.testing.assert_allclose(rows[0], [1, p, 1, 0, -1, 0, 0, -p, 0, 0, 0, 0])
    np.testing.assert_allclose(rows[1], [1, -p, 0, 0, 1, 1, 0, -p, 0, 0, 0, 0])
    for i, context in enumerate(contexts(VISITS)):
        actions = learned.actions(context)
        np.testing.assert_array_equal(actions[learned.names.index(VISITS["bought"][i])], rows[i])


def test_an_item_that_nobody_has_seen_is_described():
    learned = items().learn(VISITS)
    context = {"age": 50.0, "device": "web"}
    new = {"item": "port", "price": 30.0, "land": "it"}
    assert learned.offered_names(["red", new]) == ["red", "port"]
    np.testing.assert_array_equal(
        learned.actions(context, ["white", new])[0], learned.actions(context, ["white", new])[1]
    )
    for bad, message in (
        ([{"price": 1.0, "land": "fr"}], "describe it with 'item'"),
        ([new, "beer"], "offered holds 'beer'"),
        (["beer"], "offered holds 'beer'; the items are red, white, rosé"),
        ([{"item": "port", "price": 1.0}], "context lacks 'land'"),
    ):
        with pytest.raises(InputError, match=message):
            learned.actions(context, bad)


def test_a_catalogue_changes_and_scales_stay():
    learned = items().learn(VISITS)
    context = {"age": 30.0, "device": "ios"}
    before = learned.actions(context, ["white"])
    learned.update({"item": ["white", "port"], "price": [30.0, 1e6], "land": ["it", "pt"]})
    assert learned.names == ["white", "port"]
    np.testing.assert_array_equal(learned.actions(context, ["white"]), before)
    assert learned.actions(context)[1, 3] == 1.0  # a land never seen: other


def test_bad_catalogues_and_crossings_are_named():
    with pytest.raises(InputError, match="holds 'a' at row 1; every item needs a name"):
        bn.Items({"item": ["a", "a"], "price": [1, 2]}, numeric=["price"])
    with pytest.raises(InputError, match="no rows"):
        bn.Items({"item": [], "price": []}, numeric=["price"])
    with pytest.raises(InputError, match=r"no column 'sku' for the items' names; it has item, price"):
        bn.Items({"item": ["a"], "price": [1]}, id="sku", numeric=["price"])
    with pytest.raises(SettingError, match=r"cross holds \('age', 'price'\)"):
        items(cross=[("age", "price")])
    with pytest.raises(SettingError, match="cross holds 'price'"):
        items(cross=["price"])
    with pytest.raises(SettingError, match="one pair twice"):
        items(cross=[("price", "age")] * 2)
    with pytest.raises(SettingError, match=r"make 12 features; 5 are allowed.*Cross fewer"):
        items(max_features=5).learn(VISITS)
    assert repr(items().learn(VISITS)) == (
        "<Items: 3 items; price × age, land × device crossed; 12 features>"
    )


# --- JSON -----------------------------------------------------------------------------------------

names = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=4, unique=True)
cells = st.one_of(st.none(), st.text(max_size=3))
numbers = st.one_of(st.none(), st.floats(allow_nan=False, min_value=-1e12, max_value=1e12))


@settings(max_examples=60, deadline=None)
@given(names, st.lists(st.tuples(numbers, cells), min_size=1), st.booleans(), st.integers(1, 5))
def test_arms_load_bit_for_bit(arm_names, rows, shared, most):
    log = pl.DataFrame(rows, schema={"n": pl.Float64, "c": pl.String}, orient="row")
    made = bn.Arms(arm_names, numeric=["n"], categorical=["c"], shared=shared, max_categories=most)
    loaded = bn.Arms.from_json(made.to_json())
    assert loaded == made
    assert not loaded.learned
    if log["n"].is_null().all() or not any(log["c"]):
        return
    made.learn(log)
    loaded = load_features(made.to_json())
    assert loaded == made
    assert loaded.feature_names == made.feature_names
    for context in log.to_dicts():
        np.testing.assert_array_equal(loaded.actions(context), made.actions(context))
    np.testing.assert_array_equal(
        loaded.rows(log, [arm_names[0]] * len(log)), made.rows(log, [arm_names[0]] * len(log))
    )


def test_items_and_dates_load_bit_for_bit():
    days = [datetime(2024, 1, 1) + timedelta(days=i, hours=i) for i in range(400)]
    visits = {"age": np.linspace(0.1, 0.7, 400), "device": ["a", "b"] * 200, "when": days}
    made = items(context_dates=["when"]).learn(visits)
    loaded = load_features(made.to_json())
    assert loaded == made
    context = {"age": 0.3, "device": "c", "when": datetime(2025, 6, 7, 8)}
    np.testing.assert_array_equal(loaded.actions(context), made.actions(context))
    assert loaded.update(WINES).names == made.names


def test_damaged_json_is_refused():
    text = arms().learn(LOG).to_json()
    state = json.loads(text)
    for bad, message in (
        ("{", "not JSON"),
        ("[]", "holds no arms"),
        (items().to_json(), "holds no arms"),
        (json.dumps({**state, "schema": 99}), "schema 99"),
        (json.dumps({k: v for k, v in state.items() if k != "columns"}), "cannot be read"),
        (json.dumps({**state, "columns": [{"kind": "magic"}]}), "cannot be read"),
        (json.dumps({**state, "extra": 1}), "cannot be read"),
    ):
        with pytest.raises(ModelFileError, match=message):
            bn.Arms.from_json(bad)
    with pytest.raises(ModelFileError, match="known kind"):
        load_features('{"kind": "magic"}')


# --- baselines ------------------------------------------------------------------------------------


def test_every_way_to_name_a_baseline():
    known = arms()
    assert baselines("bundle", known, LOG).tolist() == [1, 1, 1, 1]
    assert baselines(0, known, LOG).tolist() == [0, 0, 0, 0]
    assert baselines("usual", known, LOG).tolist() == [1, 1, 0, 0]
    numbered = LOG.with_columns(number=pl.Series([1, 0, 0, 1]))
    assert baselines("number", known, numbered).tolist() == [1, 0, 0, 1]
    rule = lambda row: "spring" if row["vip"] else 1  # noqa: E731
    assert baselines(rule, known, LOG).tolist() == [0, 1, 0, 0]
    assert baseline_index(rule, ["bundle", "spring"], {"vip": True}) == 1
    assert baseline_index("spring", ["bundle", "spring"], {}) == 1


BAD_BASELINES = [
    ("x", "neither an arm nor a column; the arms are spring, bundle, the columns age, device"),
    (2, "baseline=2 names no action; there are 2"),
    (-1, "names no action"),
    (True, "must be an action's name"),
    (1.0, "must be an action's name"),
    ("age", "'30.0' at row 0; the arms are"),
    (lambda row: "x" if row["device"] is None else 0, "row 3: baseline='x' is not on offer"),
    (lambda row: None, "row 0: baseline=None must be"),
]


@pytest.mark.parametrize(("spec", "message"), BAD_BASELINES)
def test_bad_baselines_are_named(spec, message):
    with pytest.raises(InputError, match=message):
        baselines(spec, arms(), LOG)


def test_a_baseline_that_is_arm_and_column_is_refused():
    with pytest.raises(InputError, match="is an arm and a column"):
        baselines("bundle", arms(), LOG.with_columns(bundle=pl.lit(1)))
    for wrong in ([0, 2, 0, 0], [0, None, 1, 1], [0, -1, 0, 0]):
        with pytest.raises(InputError, match="at row 1; indices run from 0 to 1"):
            baselines("i", arms(), LOG.with_columns(i=pl.Series(wrong)))


def test_rows_of_arms_differ_whatever_the_context():
    rows = arms().learn(LOG).actions({"age": 1, "device": None})
    assert len(np.unique(rows, axis=0)) == len(rows)


# --- frames ---------------------------------------------------------------------------------------


def test_every_kind_of_table_reads_the_same(tmp_path):
    table = LOG.with_columns(when=pl.lit(datetime(2024, 5, 1, 12)))
    table.write_parquet(tmp_path / "log.parquet")
    table.drop("when").write_csv(tmp_path / "log.csv")
    ways = [
        table, table.lazy(), table.to_pandas(), table.to_arrow(), table.to_dict(as_series=False),
        table.to_dict(), table.to_dicts(), tmp_path / "log.parquet", str(tmp_path / "log.parquet"),
        table.to_pandas().astype({"device": "category", "vip": "boolean"}),
        {k: np.array(v, dtype=object) for k, v in table.to_dict(as_series=False).items()},
    ]  # fmt: skip
    for way in ways:
        found = read_frame(way)
        assert found.columns == table.columns
        assert found.fill_nan(None).to_dicts() == table.to_dicts(), type(way)
    assert read_frame(tmp_path / "log.csv").to_dicts() == LOG.to_dicts()


def test_columns_of_lists_come_through():
    lists = {"x": [[1.0, 2.0], [3.0, 4.0]]}
    ways = (lists, pd.DataFrame(lists), pl.DataFrame(lists), pa.table(lists))
    arrays = pd.DataFrame({"x": [np.array([1.0, 2.0]), np.array([3.0, 4.0])]})
    for way in (*ways, arrays):
        assert read_frame(way)["x"].to_list() == lists["x"]


def test_a_fraction_may_come_late_in_a_csv(tmp_path):
    (tmp_path / "log.csv").write_text("x\n" + "1\n" * 2000 + "0.5\n")
    assert read_frame(tmp_path / "log.csv")["x"][2000] == 0.5


def test_a_csv_shows_its_dates(tmp_path):
    (tmp_path / "log.csv").write_text("when,arm\n2024-05-01T12:00:00,a\n2024-05-02T12:00:00,b\n")
    found = bn.Arms.of_log(tmp_path / "log.csv", arm="arm", context=["when"])
    assert found.spec.dates == ("when",)


def test_pandas_without_pyarrow(monkeypatch):
    def refuse(*_, **__):
        raise ImportError("pyarrow is required")

    monkeypatch.setattr(pl, "from_pandas", refuse)
    frame = pd.DataFrame({"a": [1.5, None], "b": ["x", None], "c": [True, False]})
    assert read_frame(frame).to_dicts() == [
        {"a": 1.5, "b": "x", "c": True},
        {"a": None, "b": None, "c": False},
    ]


def test_whole_numbers_with_gaps_and_odd_names():
    frame = pd.DataFrame({0: pd.array([1, None], dtype="Int64"), "o": [1, None], "m": [1, "a"]})
    found = read_frame(frame)
    assert found.columns == ["0", "o", "m"]
    assert found["0"].to_list() == [1, None]
    assert found["m"].to_list() == ["1", "a"]


def test_what_is_no_table_is_refused(tmp_path):
    for bad in (5, {"a": [1], "b": [1, 2]}, object(), [1, 2]):
        with pytest.raises(InputError, match="cannot be read"):
            read_frame(bad)
    (tmp_path / "bad.parquet").write_text("no parquet")
    with pytest.raises(DataFileError, match="cannot be read"):
        read_frame(tmp_path / "bad.parquet")
    with pytest.raises(DataFileError, match="neither"):
        read_frame("log.txt")
    with pytest.raises(DataFileError, match="does not exist"):
        read_frame(tmp_path / "none.csv")
