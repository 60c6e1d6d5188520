"""A log as people have it: every slip is named with its column and row, and what to do about it."""

from __future__ import annotations

import json
import logging

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import banister as bn
from banister.cli import online as _commands  # noqa: F401  (adds the commands)
from banister.cli.app import app
from banister.errors import BanisterError
from raw_world import COLUMNS, Shop, arms

CONTEXT = "age,device,vip,zip,day"
OPTIONS = ["--task", "store", "--arm", "banner", "--context", CONTEXT, "--reward", "click"]
ROW = 137


def log() -> list[dict[str, str]]:
    """Rows of text, as a CSV file holds them: gaps, a date, a boolean, codes with zeros in front."""
    rng = np.random.default_rng(3)
    rows = []
    for i in range(400):
        shown = rng.choice(["spring", "bundle", "loyalty"]) if rng.random() < 0.4 else "bundle"
        rows.append(
            {
                "store": f"s{rng.integers(4)}", "day": f"2024-05-{1 + i // 16:02d}",
                "age": "" if rng.random() < 0.1 else str(int(rng.normal(40, 12))),
                "device": str(rng.choice(["ios", "web", ""])), "vip": str(rng.choice(["true", "false"])),
                "zip": str(rng.choice(["01067", "80331"])), "banner": str(shown), "usual": "bundle",
                "p": "0.7" if shown == "bundle" else "0.15", "click": str(int(rng.random() < 0.3)),
            }
        )  # fmt: skip
    return rows


def write(path, **slip: str) -> str:
    """The log as a file, with a slip in one row."""
    rows = log()
    rows[ROW] |= slip
    lines = [",".join(rows[0])] + [",".join(row.values()) for row in rows]
    path.write_text("\n".join(lines))
    return str(path)


def run(*arguments: str):
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.mark.parametrize(
    ("slip", "says"),
    [
        ({"click": "yes"}, "'click' .*'yes' at row 137; write a number there"),
        ({"click": ""}, "'click' is empty at row 137; remove"),
        ({"click": "nan"}, "'click' .*'nan' at row 137"),
        ({"p": "high"}, "'p' .*'high' at row 137"),
        ({"p": "1.7"}, r"'p' is 1.7 at row 137; a propensity lies in"),
        ({"age": "forty"}, "'age' holds 'forty' at row 137 where nearly all others are numbers; mend"),
        ({"day": "May 5"}, "'day' holds 'May 5' at row 137 where nearly all others are dates; write it as"),
        ({"day": "31/05/2024"}, "'day' holds '31/05/2024' at row 137 where nearly all others are dates"),
        ({"banner": ""}, "'banner' is empty at row 137; fill it in or remove"),
        ({"usual": ""}, "'usual' is empty at row 137; fill it in or remove"),
        (
            {"usual": "bundel"},
            "'usual' holds 'bundel' at row 137; the arms are bundle.* Mend it",
        ),
        ({"store": ""}, "'store' has no task at row 137"),
    ],
)
def test_a_slip_is_named_with_column_and_row(tmp_path, slip, says):
    path = write(tmp_path / "log.csv", **slip)
    with pytest.raises(BanisterError, match=says):
        run("evaluate", path, *OPTIONS, "--baseline", "usual", "--propensity", "p")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"store,age,banner,click\n", "no rows"),
        (b"", "cannot be read"),
        (b"store;age;banner;click\na;1;x;0\n", "seems to have ';' between its columns.*separator=';'"),
        ("store,age,banner,click\nKöln,1,x,0\n".encode("latin-1"), "save it as UTF-8"),
    ],
)
def test_a_file_that_is_no_log(tmp_path, content, says):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    options = ["--task", "store", "--arm", "banner", "--context", "age", "--reward", "click"]
    with pytest.raises(BanisterError, match=says) as told:
        run("fit", str(path), *options, "--out", str(tmp_path / "m.banister"))
    assert str(told.value).count("cannot be read") <= 1


def test_an_arm_that_hardly_a_row_has_is_pointed_out(tmp_path):
    path = write(tmp_path / "log.csv", banner="sprnig")
    told = run("evaluate", path, *OPTIONS, "--baseline", "usual").stderr
    assert "the arm 'sprnig' was played in 1 of 400 rows, first at row 137" in told
    clean = run("evaluate", write(tmp_path / "log.csv"), *OPTIONS, "--baseline", "usual")
    assert clean.stderr == ""


def test_codes_with_zeros_in_front_stay_what_they_are(tmp_path):
    """As numbers they would lose their zeros, and a request's "01067" would be a category never seen."""
    path, model = write(tmp_path / "log.csv"), str(tmp_path / "m.banister")
    run("fit", path, *OPTIONS, "--baseline", "usual", "--out", model)
    context = {"age": 41, "device": "vr", "vip": True, "zip": "01067", "day": None}
    request = {"task": "s1", "context": context, "baseline": "bundle"}
    assert json.loads(run("decide", model, json.dumps(request)).stdout)["arm"] == "bundle"
    with bn.SafeBandit.load(model) as bandit:
        names = bandit.features.feature_names
        made = dict(zip(names, bandit.features.actions(context)[0], strict=True))
        assert bandit.features.spec.categorical == ("device", "vip", "zip")
    assert (made["zip: other"], made["device: other"]) == (0.0, 1.0)
    with pytest.raises(BanisterError, match="has no 'baseline', what the policy in place would play"):
        run("decide", model, json.dumps({"task": "s1", "context": context}))
    del context["day"]
    with pytest.raises(BanisterError, match="context lacks 'day'"):
        run("decide", model, json.dumps(request))


def test_text_that_is_text_is_no_slip():
    sizes = pl.DataFrame({"size": ["S", "M", "38", "40"] * 5, "arm": ["a", "b"] * 10})
    assert bn.Arms.of_log(sizes, arm="arm", context=["size"]).spec.categorical == ("size",)
    mixed = pl.DataFrame({"age": ["1", "2", "3", "4", "?"] * 4, "arm": ["a", "b"] * 10})
    assert bn.Arms.of_log(mixed, arm="arm", context=["age"], categorical=["age"]).spec.categorical == ("age",)
    with pytest.raises(BanisterError, match=r"holds '\?' at row 4"):
        bn.Arms.of_log(mixed, arm="arm", context=["age"])


# --- averages passed as if they were expectations of each request ---------------------------------


def averages(shop: Shop) -> list[float]:
    return [float(np.mean([shop.worth(s, shop.context(), "bundle") for _ in range(200)])) for s in range(4)]


def test_averages_are_told_within_a_hundred_decisions(caplog):
    """The log warns, the status says what to do; who leaves them out is told nothing any more."""
    shop = Shop(4, 0.5)
    means = averages(shop)

    def serve(claim):
        bandit = bn.SafeBandit(alpha=0.1, features=arms(), refits="inline", seed=0)
        bandit.warm_start(shop.log(60), **COLUMNS)
        for _ in range(100):
            store, context = int(shop.rng.integers(4)), shop.context()
            known = claim(store, context)
            d = bandit.decide(f"store-{store}", context=context, baseline="bundle", baseline_reward=known)
            bandit.reward(d.id, shop.earn(store, context, d.arm))
        return bandit.status()

    with caplog.at_level(logging.WARNING, "banister"):
        told = serve(lambda store, context: means[store])
    assert told.claims.startswith("averages")
    assert "they are averages" in " ".join(str(told).split())
    assert [r for r in caplog.records if "leave baseline_reward out" in r.getMessage()]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "banister"):
        assert "averages" not in str(serve(lambda store, context: None))
        assert "averages" not in str(serve(lambda store, context: shop.worth(store, context, "bundle")))
    assert not [r for r in caplog.records if "Claimed baseline rewards" in r.getMessage()]


def test_averages_in_a_log_are_told_by_the_dry_run():
    shop = Shop(4, 0.5)
    means = averages(shop)
    rows = shop.log(200)
    known = pl.col("store").replace_strict([f"store-{i}" for i in range(4)], means)
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), seed=0)
    columns = {**COLUMNS, "baseline": "bundle"}
    found = bandit.dry_run(rows.with_columns(known=known), **columns, baseline_reward="known")
    assert found.claims.startswith("averages")
    assert "leave baseline_reward out" in " ".join(str(found).split())
    assert "Claimed" not in str(bandit.dry_run(rows, **columns))
