"""Raw contexts and named arms through `SafeBandit`: the same decisions as with hand-made features."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from typer.testing import CliRunner

import banister as bn
from banister.cli import online as _commands  # noqa: F401  (adds the commands)
from banister.cli.app import app
from banister.errors import InputError, NotFittedError, SettingError
from banister.online import raw
from banister.online.raw import offers, read_raw_logs
from online_world import same
from raw_world import BANNERS, COLUMNS, Shop, arms


@pytest.fixture(scope="module")
def log() -> pl.DataFrame:
    return Shop().log(3000)


def started(log, **options):
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), refits="manual", seed=0, **options)
    assert bandit.warm_start(log, **COLUMNS, baseline="bundle") == len(log)
    return bandit


@pytest.fixture(scope="module")
def bandit(log):
    return started(log)


def requests(n, seed=1):
    shop = Shop(seed=seed)
    return [(f"store-{i % 8}", shop.context()) for i in range(n)]


def test_from_a_raw_log_to_better_banners(bandit):
    """On the shop of the log: banners are left where it pays, and no decision falls below its floor."""
    shop, gains = Shop(), []
    for i in range(300):
        context = shop.context()
        d = bandit.decide(f"store-{i % 8}", context=context, baseline="bundle")
        usual = shop.worth(i % 8, context, "bundle")
        gains.append(shop.worth(i % 8, context, d.arm) - usual)
        assert gains[-1] >= -0.1 * usual
    assert np.mean(np.array(gains) != 0) > 0.3
    assert np.mean(gains) > 0.05


def test_raw_and_hand_made_features_decide_alike(log):
    """Two routes to one answer: the bandit's own features, and the same rows handed in."""
    raw = started(log)
    made = arms().learn(log)
    X = made.rows(log, "banner")
    usual = made.rows(log, ["bundle"] * len(log))
    plain = bn.SafeBandit(alpha=0.1, refits="manual", seed=0)
    sets = [np.stack([x, b]) for x, b in zip(X, usual, strict=True)]
    ready = {
        "task": log["store"], "reward": log["revenue"], "x": X.tolist(), "b": [1] * len(log),
        "A": [s.tolist() for s in sets],
    }  # fmt: skip
    plain.warm_start(ready, features="x", actions="A", baseline="b")
    for task, context in requests(40):
        a = raw.decide(task, context=context, baseline="bundle")
        b = plain.decide(task, made.actions(context), baseline=1)
        assert same(a._replace(arm=None), b)
        assert a.arm == BANNERS[a.action]
        assert b.arm is None


def test_every_way_to_name_the_baseline(bandit):
    task, context = requests(1)[0]
    rule = lambda c: "bundle" if c["device"] else 0  # noqa: E731
    made = [bandit.decide(task, context=context, baseline=b) for b in ("bundle", 1, rule)]
    assert len({(d.arm, d.certified, str(d.lower_bound)) for d in made}) == 1


def test_only_some_arms_on_offer(bandit):
    for task, context in requests(20):
        d = bandit.decide(task, context=context, offered=["loyalty", "bundle"], baseline="bundle")
        assert d.arm in ("loyalty", "bundle")
        assert d.action == ["loyalty", "bundle"].index(d.arm)
        alone = bandit.decide(task, context=context, offered=["loyalty"], baseline=0)
        assert (alone.arm, alone.action) == ("loyalty", 0)


def test_a_frame_is_decided_as_its_rows_are(log):
    asked = requests(60)
    frame = pl.DataFrame([{"store": t, **c} for t, c in asked], infer_schema_length=None)
    one, many = started(log), started(log)
    by_row = [one.decide(t, context=c, baseline="bundle") for t, c in asked]
    found = many.decide_many(frame, task="store", baselines="bundle")
    assert found.columns == [
        "id", "task", "arm", "baseline", "certified", "probability", "probabilities", "reason",
        "lower_bound", "floor", "model_version",
    ]  # fmt: skip
    for name in ("id", "task", "arm", "certified", "probability", "reason", "model_version"):
        assert found[name].to_list() == [getattr(d, name) for d in by_row], name
    np.testing.assert_allclose(found["lower_bound"], [d.lower_bound for d in by_row], rtol=1e-9)
    assert many.reward_many(found["id"].to_list(), [1.0] * 60) == ["accepted"] * 60


def test_a_frame_of_draws_tells_all_chances(log):
    frame = pl.DataFrame([{"store": t, **c} for t, c in requests(20)], infer_schema_length=None)
    found = started(log, reward_range=(-9, 9)).decide_many(frame, task="store", baselines="bundle")
    assert (
        started(log).decide_many(frame, task="store", baselines="bundle")["probabilities"].null_count() == 20
    )
    for arm, chance, all_of_them in found.select("arm", "probability", "probabilities").iter_rows():
        assert sum(all_of_them) == pytest.approx(1.0)
        assert all_of_them[BANNERS.index(arm)] == chance


def test_a_pandas_frame_gives_one_with_its_index(bandit):
    frame = pd.DataFrame([{"store": t, **c, "usual": "spring"} for t, c in requests(3)], index=[7, 8, 9])
    found = bandit.decide_many(frame, task="store", baselines="usual")
    assert isinstance(found, pd.DataFrame)
    assert found.index.tolist() == [7, 8, 9]
    assert found["baseline"].tolist() == ["spring"] * 3


def test_known_baseline_rewards_of_a_frame(bandit):
    frame = pl.DataFrame([{"store": t, **c} for t, c in requests(2)], infer_schema_length=None)
    rewards = frame.with_columns(r=pl.Series([2.0, None]))
    found = bandit.decide_many(rewards, task="store", baselines="bundle", baseline_rewards="r")
    assert found["floor"][0] == pytest.approx(1.8)
    assert found["floor"][1] != pytest.approx(1.8)


def test_a_store_keeps_what_was_learned(log, tmp_path):
    path = tmp_path / "shop.banister"
    first = started(log, path=path)
    task, context = requests(1)[0]
    before, learned = first.decide(task, context=context, baseline="bundle"), first.features
    first.close()
    with bn.SafeBandit.load(path) as again:
        assert again.features == learned
        after = again.decide(task, context=context, baseline="bundle")
        assert same(before._replace(id=0), after._replace(id=0))
    with bn.SafeBandit(alpha=0.1, features=arms(), path=path) as again:  # the same choices, not yet learned
        assert again.features == learned
    with bn.SafeBandit(alpha=0.1, features=learned, path=path) as again:
        assert again.features == learned
    for other in (arms(shared=False), arms().learn(log.head(10)), bn.Arms(BANNERS)):
        with pytest.raises(SettingError, match="was made with other features"):
            bn.SafeBandit(alpha=0.1, features=other, path=path)
    with bn.SafeBandit.load(path):  # a refused opening gave the file back
        pass


def test_a_store_takes_a_new_catalogue_and_keeps_its_scales(tmp_path):
    path = tmp_path / "wine.banister"
    wines = {"item": ["red", "white"], "price": [10.0, 30.0]}
    visits = {"task": ["a"] * 4, "age": [20, 30, 40, 50], "arm": ["red", "white"] * 2, "reward": [1, 2, 3, 4]}

    def items(catalogue, **options):
        return bn.Items(catalogue, numeric=["price"], context_numeric=["age"], **options)

    with bn.SafeBandit(features=items(wines), path=path, refits="manual") as bandit:
        bandit.warm_start(visits, refit=False)
        before = bandit.features.actions({"age": 35}, ["white"])
    new = {"item": ["white", "port"], "price": [30.0, 99.0]}
    with bn.SafeBandit(features=items(new), path=path, refits="manual") as bandit:
        assert bandit.features.names == ["white", "port"]
        np.testing.assert_array_equal(bandit.features.actions({"age": 35}, ["white"]), before)
        assert bandit.decide("a", context={"age": 35}, baseline="port").arm == "port"
    with bn.SafeBandit.load(path) as bandit:
        assert bandit.features.names == ["white", "port"]
    others = (items(wines, cross=[("price", "age")]), bn.Items(wines, categorical=["price"]))
    for other in (*others, items(new).learn(visits)):
        with pytest.raises(SettingError, match="other features"):
            bn.SafeBandit(features=other, path=path)


def test_the_object_given_stays_as_it_is(log):
    mine = arms()
    for _ in range(2):  # and so can serve two bandits
        bandit = bn.SafeBandit(features=mine, refits="manual", seed=0)
        bandit.warm_start(log.head(100), **COLUMNS, refit=False)
        assert bandit.features.learned
    assert not mine.learned


def test_a_log_that_is_refused_teaches_nothing(log):
    bandit = bn.SafeBandit(features=arms(), refits="manual", seed=0)
    for bad, message in (
        (log.with_columns(banner=pl.lit("gone")), "'gone' at row 0; the arms are spring, bundle, loyalty"),
        (log.drop("age"), "no column 'age' for the context; it has store, device"),
        (log.with_columns(revenue=pl.lit(None, pl.Float64)), "'revenue' is empty at row 0"),
        (log.with_columns(store=pl.lit(None, pl.String)), "'store' has no task at row 0"),
        (log.head(0), "no rows"),
    ):
        with pytest.raises(InputError, match=message):
            bandit.warm_start(bad, **COLUMNS)
    assert not bandit.features.learned
    assert bandit.status().decisions == 0
    with pytest.raises(NotFittedError, match="has not seen a log"):
        bandit.decide("a", context={"age": 1, "device": "ios"}, baseline="bundle")


@pytest.mark.parametrize("column", ["revenue", "banner"])
def test_what_is_known_only_afterwards_is_no_context(log, column):
    features = bn.Arms.of_log(log, arm="banner", context=["age", column])
    bandit = bn.SafeBandit(alpha=0.1, features=features, refits="manual")
    with pytest.raises(InputError, match=f"'{column}'.*nobody knows it when a decision is made"):
        bandit.warm_start(log, **COLUMNS)


def test_mixed_up_requests_are_told_apart(bandit):
    plain = bn.SafeBandit(refits="manual", seed=0)
    context = {"age": 1, "device": "ios"}
    for call, message in (
        (lambda: plain.decide("a", context=context, baseline=0), "no features of its own"),
        (lambda: plain.decide("a", np.eye(2), offered=["x"], baseline=0), "no features of its own"),
        (lambda: plain.decide_many({"task": ["a"]}, baselines=0), "no features of its own"),
        (lambda: bandit.decide("a", np.eye(2), context=context, baseline=0), "not both"),
        (lambda: bandit.decide("a", context=context, baseline="gone"), "baseline='gone' is not on offer"),
        (lambda: bandit.decide("a", context=context, offered=["spring"], baseline="bundle"), "not on offer"),
        (lambda: bandit.decide("a", context={"age": 1}, baseline="bundle"), "context lacks 'device'"),
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_raw_rows_by_two_routes(log):
    made = arms().learn(log)
    rows = offers(made, log, **COLUMNS, baseline="usual", propensity="p")
    np.testing.assert_array_equal(rows.X, made.rows(log, "banner"))
    np.testing.assert_array_equal(rows.baseline, made.rows(log, "usual"))
    assert rows.propensity.tolist() == log["p"].to_list()
    assert rows.labels == log["store"].unique(maintain_order=True).to_list()
    assert [rows.labels[t] for t in rows.task] == log["store"].to_list()
    for i in (0, 17, 2999):
        np.testing.assert_array_equal(rows.actions[i], made.actions(log.row(i, named=True)))
    assert read_raw_logs(log, made, **COLUMNS).baseline is not None
    with pytest.raises(InputError, match="with propensities explores"):
        read_raw_logs(log, made, **COLUMNS, propensity="p")


def test_a_dry_run_on_a_raw_log(log):
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), seed=0)
    report = bandit.dry_run(log, **COLUMNS, baseline="bundle", propensity="p", share=0.6)
    assert (report.rows, report.requests, report.candidates) == (1800, 1200, "logged")
    assert report.left > 0.3
    assert all(e.value > 0 for e in report.gains)
    assert not bandit.features.learned  # nothing changes


PAGES = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/features.md"])
def test_the_sessions_of_the_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 600
    pl.DataFrame(
        {
            "store": [f"store-{i % 20}" for i in range(n)], "age": rng.normal(40, 9, n),
            "basket": [None if i % 7 == 0 else float(i) for i in range(n)],
            "device": rng.choice(["ios", "web"], n), "region": rng.choice(["n", "s"], n),
            "banner": rng.choice(BANNERS, n), "click": rng.random(n) < 0.1,
        }
    ).write_parquet("log.parquet")  # fmt: skip
    sessions = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(encoding="utf-8"), re.S)
    session = next(s for s in sessions if "bn.Arms(" in s).removeprefix("import banister as bn\n\n")
    assert session.index("decide(") < session.index("reward(d.id")
    assert len(session[: session.index("d.arm")].splitlines()) <= 6
    names = {"bn": bn}
    exec(session, names)
    assert names["d"].arm in BANNERS
    assert names["bandit"].status().decisions == 1
    names["bandit"].close()


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_one_command_from_a_csv_to_a_model(log, tmp_path):
    log.write_csv(tmp_path / "log.csv")
    model = str(tmp_path / "shop.banister")
    columns = ("--task", "store", "--arm", "banner", "--context", "age,device", "--reward", "revenue")
    fitted = json.loads(
        run("fit", str(tmp_path / "log.csv"), *columns, "--baseline", "bundle", "--out", model, "--json")
    )
    assert fitted["model_version"] == 1
    request = {"task": "store-1", "context": {"age": 41, "device": "ios"}, "baseline": "bundle"}
    answer = json.loads(run("decide", model, json.dumps(request)))
    assert answer["arm"] in BANNERS
    assert answer["arm"] == sorted(BANNERS)[answer["action"]]
    report = json.loads(
        run(
            "evaluate", str(tmp_path / "log.csv"), *columns, "--baseline", "usual", "--propensity", "p",
            "--json",
        )
    )  # fmt: skip
    assert report["left"] > 0.3
    with pytest.raises(InputError, match="no column 'shop' for task"):
        run("fit", str(tmp_path / "log.csv"), "--task", "shop", *columns[2:], "--out", str(tmp_path / "x"))
    assert not list(tmp_path.glob("x*"))  # a log that cannot be used leaves no store behind
    with pytest.raises(InputError, match="--context needs --arm"):
        run("fit", str(tmp_path / "log.csv"), "--context", "age", "--out", str(tmp_path / "x.banister"))


def test_actions_of_the_context_alone_are_never_certified(log):
    """A new user's slip: the same context columns for every action. Nothing can be chosen between equals."""
    made = arms().learn(log)
    plain = {"task": log["store"], "reward": log["revenue"], "x": made.rows(log, "banner").tolist()}
    bandit = bn.SafeBandit(alpha=0.1, refits="manual", seed=0, keep_actions=True)
    bandit.warm_start(plain, features="x")
    for task, context in requests(8):
        row = made.actions(context)[0]
        d = bandit.decide(task, np.stack([row] * 3), baseline=1, baseline_reward=1.9)
        assert (d.action, d.certified, d.reason) == (1, False, "kept:identical-features")
    assert bandit.status().left == 0.0
    assert bandit.audit().passed


def test_a_raw_log_is_kept_short_and_comes_back_bit_for_bit(tmp_path):
    """Contexts and two arms a row in place of two feature rows; more than one block, labels, gaps."""
    log = Shop(noise=0.3).log(5000).with_columns(r=pl.Series([2.0, None] * 2500))
    paths = [tmp_path / f"{name}.banister" for name in ("raw", "dense")]
    made = arms().learn(log)
    columns = {**COLUMNS, "baseline": "bundle", "baseline_reward": "r"}
    dense = read_raw_logs(log, made, **columns)
    bandits = [bn.SafeBandit(0.1, features=arms(), path=p, refits="manual", seed=0) for p in paths]
    bandits[0].warm_start(log, **columns)
    raw.keep(bandits[1]._engine.store.ledger, made)
    bandits[1].features = made
    bandits[1].warm_start(dense)
    short, whole = ([len(b.features) for b in x._engine.store.ledger.logs()] for x in bandits)
    assert len(short) == len(whole) == 2
    assert sum(short) * 4 == sum(whole)  # the shared part and three arms' own
    for b in bandits:
        b.close()
    bandits += [bn.SafeBandit.load(p) for p in paths]
    snapshots = [b._engine.store.memory.snapshot().seen() for b in bandits]
    for other in snapshots[1:]:
        for a, b in zip(snapshots[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    assert bandits[2].warm_start(log, **columns, refit=False) == 5000  # known: taken in once
    assert bandits[2].status().tasks[0].rows == bandits[3].status().tasks[0].rows
    assert bandits[2].audit().passed


def test_contexts_of_arms_alone_are_kept_as_rows(tmp_path):
    """Without a context there is nothing to shorten."""
    log = Shop().log(300)
    plain = bn.Arms(BANNERS)
    with bn.SafeBandit(0.1, features=plain, path=tmp_path / "s", refits="manual", seed=0) as bandit:
        bandit.warm_start(log, **COLUMNS, baseline="bundle")
        X = bandit._engine.store.memory.snapshot().seen().X
    np.testing.assert_array_equal(X, bandit.features.rows(log, "banner"))
    with bn.SafeBandit.load(tmp_path / "s") as again:
        np.testing.assert_array_equal(again._engine.store.memory.snapshot().seen().X, X)


def test_a_bad_value_late_in_a_log_leaves_nothing_behind(tmp_path):
    log = Shop().log(5000)
    bad = log.with_columns(
        age=pl.when(pl.int_range(pl.len()) == 4500).then(float("inf")).otherwise(pl.col("age"))
    )
    with bn.SafeBandit(0.1, features=arms(), path=tmp_path / "s", refits="manual", seed=0) as bandit:
        bandit.features = arms().learn(log)
        with pytest.raises(InputError, match=r"'age'.*row 4500"):
            bandit.warm_start(bad, **COLUMNS)
        assert list(bandit._engine.store.ledger.logs()) == []
        assert bandit.status().tasks == []


@pytest.mark.parametrize("options", [{}, {"shared": False}])
def test_an_export_has_what_off_policy_tools_ask_for(log, tmp_path, options):
    bandit = bn.SafeBandit(alpha=0.1, features=arms(**options), refits="manual", seed=0)
    bandit.warm_start(log, **COLUMNS, baseline="bundle")
    made = []
    for i, (task, context) in enumerate(requests(30)):
        d = bandit.decide(task, context=context, offered=["loyalty", "bundle", "spring"], baseline="bundle")
        made.append((d, context))
        if i % 3:
            bandit.reward(d.id, i / 10)
    bandit.retract(2, "wrong")
    assert bandit.export(tmp_path / "out.parquet") == 30
    frame = pl.read_parquet(tmp_path / "out.parquet")
    assert frame["arm"].to_list() == [d.arm for d, _ in made]
    assert [BANNERS[i] for i in frame["arm_index"]] == frame["arm"].to_list()
    assert len(set(frame["arm"])) > 1
    assert set(frame["baseline_arm"]) == {"bundle"}
    assert set(frame["propensity"]) == {1.0}
    learned = bandit.features
    wanted = [[1.0, *learned.context.vector(context)] for _, context in made]
    np.testing.assert_array_equal(np.array(frame["context"].to_list()), wanted)
    # obp: context (n, w), action (n,), reward (n,), pscore (n,)
    told = frame.filter(pl.col("reward").is_not_null() & ~pl.col("retracted"))
    assert (len(told), told["arm_index"].dtype) == (19, pl.Int64)

    assert bandit.export(tmp_path / "out.vw") == 19
    lines = (tmp_path / "out.vw").read_text().splitlines()
    first, (d, context) = lines[0], made[2]
    place = BANNERS.index(d.arm) + 1
    assert first.startswith(f"{place}:-0.2:1.0 |task {d.task} |context ")
    pairs = dict(pair.split(":") for pair in first.split("|context ")[1].split())
    shown = dict(zip(learned.context.labels, learned.context.vector(context), strict=True))
    assert {k: float(v) for k, v in pairs.items()} == {
        k.replace(": ", "__"): v for k, v in shown.items() if v
    }


def test_an_export_without_arms(tmp_path):
    bandit = bn.SafeBandit(alpha=0.1)
    bandit.decide("a", np.eye(2), baseline=0)
    assert bandit.export(tmp_path / "out.parquet") == 1
    assert "arm" not in pl.read_parquet(tmp_path / "out.parquet").columns
    with pytest.raises(InputError, match="for named arms"):
        bandit.export(tmp_path / "out.vw")
    with pytest.raises(InputError, match=r"must end in \.parquet, or in \.vw"):
        bandit.export(tmp_path / "out.csv")
    with pytest.raises(InputError, match="folder that does not exist"):
        bandit.export(tmp_path / "nowhere" / "out.parquet")
