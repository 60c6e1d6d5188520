"""Reports that act: what is told first, tables of 80 columns, and every advice followed to where it leads."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import shlex
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import banister as bn
from banister.cli import online as _commands  # noqa: F401  (adds the commands)
from banister.cli.app import app
from banister.errors import InputError
from banister.online import advice
from banister.online.advice import Facts, advise
from banister.online.logs import rows_a_day
from banister.online.tables import WIDTH, folded, interval, percent, staying, table
from online_world import World, trained
from raw_world import BANNERS, COLUMNS, Shop, arms


class Street(Shop):
    """Shops where "spring" earns `gain` times what the usual "bundle" does, and "loyalty" half of it."""

    def __init__(self, gain: float = 1.6, noise: float = 0.5, stores: int = 6, seed: int = 0) -> None:
        super().__init__(stores, noise, seed)
        self.gain = gain

    def worth(self, store, context, banner):
        usual = self.level[store] + 0.2 * (context["device"] == "ios")
        return float(usual * {"spring": self.gain, "bundle": 1.0, "loyalty": 0.5}[banner])


def outlook(log, share=0.5, **options):
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), seed=0)
    return bandit.dry_run(log, **COLUMNS, baseline="bundle", propensity="p", share=share, **options)


def rows_in(words: str) -> int:
    return int(re.search(r"about ([\d,]+)", words)[1].replace(",", ""))


def joined(first: pl.DataFrame, *more: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([first, *more])


# --- every advice leads where it says ------------------------------------------------------------

FOLLOWED: dict[str, str] = {}  # how a sentence begins -> the test that does what it says


def follows(*sentences: str):
    """Marks a test that takes an advice at its word; every sentence there is must have one."""

    def mark(test):
        FOLLOWED.update(dict.fromkeys(sentences, test.__name__))
        return test

    return mark


def every_advice() -> list[str]:
    """All that `advise` says, over every kind of facts."""
    yes, shares, rows = (True, False), (0.0, 0.6), (None, 0, 9000)
    kinds = itertools.product(yes, shares, shares, shares, rows, rows, (None, 100.0), yes, (0, 1), yes)
    return [advise(Facts(*k[:7], live=k[7], asked=k[8], draws=k[9])).words for k in kinds]


def test_every_sentence_has_a_test_that_follows_it():
    said = {sentence for words in every_advice() for sentence in re.split(r"(?<=\.) ", words)}
    assert len(said) > 12
    assert not [s for s in said if not any(s.startswith(begin) for begin in FOLLOWED)]
    assert not [begin for begin in FOLLOWED if not any(s.startswith(begin) for s in said)]


def test_the_facts_above_bring_out_all_that_is_written():
    """Every piece of text in the functions that advise is part of something said."""
    said = " ".join(every_advice())
    for function in (advise, advice._wait, advice._explore, advice._range):
        tree = ast.parse(inspect.getsource(function)).body[0]
        texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        texts.remove(ast.get_docstring(tree, clean=False)) if ast.get_docstring(tree) else None
        assert not [text for text in texts if len(text) > 12 and text not in said]


@follows("Log about")
def test_more_rows_like_these_lead_to_half():
    """A log that explores and is too short: as many more rows as are asked for, and half leave."""
    shop = Street(noise=2.5)
    log = shop.log(800, explore=0.2)
    found = outlook(log, share=0.75)
    assert found.next.kind == "more"
    assert found.left < 0.2
    n = rows_in(found.next.words)
    assert 500 < n < 40_000
    later = shop.log(found.rows + n + 300, explore=0.2)
    assert outlook(later, (found.rows + n) / len(later)).left > 0.4


@follows("What could be better is hardly ever played", "Play an action drawn at random in 5 %")
def test_exploring_as_advised_shows_what_is_better():
    """A log of the usual banner alone: 5 % explored for as long as is said, and "spring" is played."""
    shop = Street(noise=0.5)
    log = shop.log(1200, explore=0.0)
    found = outlook(log)
    assert (found.left, found.next.kind) == (0.0, "explore")
    assert found.rows_needed is None
    assert "5 % of requests" in found.next.words
    n = rows_in(found.next.words)
    assert 500 < n < 40_000
    later = joined(log.head(found.rows), shop.log(n, explore=0.05), shop.log(300, explore=0.0))
    assert outlook(later, (found.rows + n) / len(later)).left > 0.5
    # and, as it says, the same number of rows like these does not help
    same = joined(log.head(found.rows), shop.log(n, explore=0.0), shop.log(300, explore=0.0))
    assert outlook(same, (found.rows + n) / len(same)).left == 0.0


@follows(
    "The model is ready and nothing was asked yet.",
    "Decide requests, then look again.",
    "Give an action drawn at random as baseline= in 5 %",
)
def test_a_live_bandit_that_is_told_to_explore_gets_there():
    shop = Street(noise=0.5)
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), refits="manual", seed=0)
    bandit.warm_start(shop.log(600, explore=0.0), **COLUMNS, baseline="bundle")

    def serve(n, explore):
        for _ in range(n):
            store, context = int(shop.rng.integers(shop.stores)), shop.context()
            usual = BANNERS[int(shop.rng.integers(3))] if shop.rng.random() < explore else "bundle"
            d = bandit.decide(f"store-{store}", context=context, baseline=usual)
            bandit.reward(d.id, shop.earn(store, context, d.arm))

    assert bandit.status().next.kind == "decide"
    serve(200, 0.0)
    status = bandit.status()
    assert (status.left, status.uplift, status.next.kind) == (0.0, None, "explore")
    serve(rows_in(status.next.words), 0.05)
    bandit.refit()
    before = bandit.status()
    serve(200, 0.0)
    after = bandit.status()
    left = after.left * after.decisions - before.left * before.decisions
    assert left > 100
    assert after.uplift.low < after.uplift.value < after.uplift.high
    assert after.uplift.value == pytest.approx(0.6 * 2.1, rel=0.2)


@follows("Go live")
def test_going_live_with_the_printed_command(tmp_path):
    shop = Street()
    log = tmp_path / "log.csv"
    shop.log(3000, explore=0.3).write_csv(log)
    columns = ["--task", "store", "--arm", "banner", "--context", "age,device", "--reward", "revenue"]
    told = run("evaluate", str(log), *columns, "--baseline", "bundle")
    assert "next: Go live" in told
    command = shlex.split(told[told.index("  banister fit") :].replace("\\\n", " "))
    run(*command[1:])
    request = {"task": "store-1", "context": {"age": 41, "device": "ios"}, "baseline": "bundle"}
    answers = [json.loads(run("decide", str(log.with_suffix(".banister")), json.dumps(request)))]
    assert answers[0]["arm"] == "spring"
    status = run("status", str(log.with_suffix(".banister")))
    assert status.startswith("left the baseline in 100 % of 1 decisions")


@follows("There is no model yet", "Check that rewards are reported")
def test_rewards_that_differ_make_a_model():
    shop = Street()
    log = shop.log(400)
    silent = outlook(log.with_columns(revenue=pl.lit(0.0)))
    assert (silent.next.kind, silent.left) == ("rewards", 0.0)
    assert outlook(log).next.kind != "rewards"
    assert bn.SafeBandit().status().next.kind == "rewards"
    # too few rows for so many features: more rows help, and so do fewer columns
    rng = np.random.default_rng(0)
    wide = [f"n{i}" for i in range(12)]
    columns = {name: rng.normal(size=1600) for name in wide} | {"revenue": 1.0 * (rng.random(1600) < 0.2)}
    many = shop.log(1600).with_columns(pl.Series(name, values) for name, values in columns.items())

    def judged(rows, numeric):
        bandit = bn.SafeBandit(alpha=0.1, features=bn.Arms(BANNERS, numeric=numeric), seed=0)
        return bandit.dry_run(rows, **COLUMNS, baseline="bundle").next.kind

    assert judged(many.head(300), wide) == "rewards"
    assert judged(many, wide) != "rewards"
    assert judged(many.head(300), []) != "rewards"


@follows("All actions of a request have the same features", "Give actions features of their own")
def test_features_of_the_actions_end_the_advice_to_give_some():
    shop = Street()
    log = shop.log(1500)
    made = arms().learn(log)
    X = made.rows(log, ["bundle"] * len(log))
    frame = log.with_columns(x=pl.Series(X.tolist()), A=pl.Series([[x, x, x] for x in X.tolist()]))
    bandit = bn.SafeBandit(alpha=0.1, seed=0)
    found = bandit.dry_run(frame, task="store", reward="revenue", features="x", actions="A")
    assert found.next.kind == "features"
    assert found.reasons == {"kept:identical-features": 1.0}
    assert found.left == 0.0
    assert outlook(log).next.kind != "features"
    played, offered = made.rows(log, "banner"), made.tensor(log)
    own = log.with_columns(x=pl.Series(played.tolist()), A=pl.Series(offered.tolist()), b=pl.lit(1))
    told = bandit.dry_run(own, task="store", reward="revenue", features="x", actions="A", baseline="b")
    assert told.next.kind == "live"


@follows("Nothing on offer looks better")
def test_nothing_to_gain_is_nothing_to_gain_also_later():
    shop = Street(gain=0.7, noise=0.1)
    found = outlook(shop.log(1500))
    assert (found.left, found.next.kind) == (0.0, "nothing")
    assert outlook(shop.log(6000)).left == 0.0


@follows("What could be gained cannot be told from these rows.")
def test_what_cannot_be_told_is_said_and_a_range_needs_no_telling():
    """Each task has rows in one half of the log alone: nothing can be said of any."""
    shop = Street()
    log = shop.log(1500).with_columns(
        store=pl.Series([f"a{i % 3}" for i in range(750)] + [f"b{i % 3}" for i in range(750)])
    )
    found = outlook(log)
    assert found.next.kind == "unknown"
    assert set(found.reasons) == {"fallback:new-task"}
    assert outlook(joined(log, log.tail(750))).next.kind != "unknown"
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), reward_range=(0, 6), refits="manual", seed=0)
    bandit.warm_start(log.head(750), **COLUMNS, baseline="bundle")
    made = [bandit.decide("b0", context=shop.context(), baseline="bundle") for _ in range(200)]
    assert {d.reason for d in made} == {"drawn"}
    assert any(d.arm != "bundle" for d in made)


@follows("Nothing has to be done: half of the requests")
def test_nothing_has_to_be_done_where_half_leave():
    """Who does nothing goes on leaving, and goes on earning."""
    shop = Street(noise=0.2)
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), refits="manual", seed=0)
    bandit.warm_start(shop.log(2000), **COLUMNS, baseline="bundle")
    gain = []
    for i in range(400):
        store, context = int(shop.rng.integers(shop.stores)), shop.context()
        d = bandit.decide(f"store-{store}", context=context, baseline="bundle")
        bandit.reward(d.id, shop.earn(store, context, d.arm))
        gain.append(shop.worth(store, context, d.arm) - shop.worth(store, context, "bundle"))
        if i == 99:
            assert bandit.status().next.words.startswith("Nothing has to be done: half")
    assert np.mean(np.array(gain[100:]) > 0) > 0.5


# --- what is told, and how -----------------------------------------------------------------------


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def shown():
    log = Street(noise=2.0).log(1600, explore=0.3)
    return outlook(log.with_columns(store=pl.col("store") + " in a street with a very long name indeed"))


def test_what_left_comes_first_and_lines_fit(shown):
    lines = str(shown).splitlines()
    assert lines[0].startswith(f"would leave the baseline in {percent(shown.left)} of 800 requests")
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("gate open, baseline kept: ") for line in lines)
    assert any(line.startswith("next: ") for line in lines)
    titles = next(line for line in lines if line.startswith("task"))
    assert titles.split("  ")[-1].strip() == "why the rest stays"
    _, bandit = trained(300)
    assert max(map(len, str(bandit.status()).splitlines())) <= WIDTH


def test_shares_add_up(shown):
    assert sum(shown.reasons.values()) == pytest.approx(1.0)
    assert shown.reasons.get("certified", 0.0) == pytest.approx(shown.left)
    for o in shown.tasks:
        assert sum(o.reasons.values()) == pytest.approx(1.0)
    total = sum(o.left * o.requests for o in shown.tasks)
    assert total == pytest.approx(shown.left * shown.requests)
    assert json.loads(json.dumps(shown.to_dict()))["next"]["kind"] == shown.next.kind


def test_the_first_number_is_true():
    """What a dry run says is earned is what leaving earned, by the truth of the shops."""
    shop = Street(noise=0.3)
    found = outlook(shop.log(3000, explore=0.3))
    wanted = 0.6 * float(np.mean([shop.level.mean() + 0.2 / 3])) * found.left
    assert found.left > 0.9
    assert found.gain is found.gains[-1]
    for gain in found.gains:
        assert gain.low - 0.1 < wanted < gain.high + 0.1, gain
    assert found.gain.low < wanted < found.gain.high


def test_a_status_counts_reasons_and_opens_again_the_same(tmp_path):
    world, bandit = trained(200, path=tmp_path / "s.banister")
    world.play(bandit, 50)
    status = bandit.status()
    assert sum(status.reasons.values()) == pytest.approx(1.0)
    assert status.reasons["fallback:no-data"] == 0.8
    assert status.reasons["certified"] == pytest.approx(status.left)
    bandit.close()
    with bn.SafeBandit.load(tmp_path / "s.banister") as again:
        assert replace(again.status(), next=status.next) == status
        assert again.status().next.kind == status.next.kind


def test_json_holds_no_infinity(tmp_path):
    world = World()
    A = [world.request()["actions"].tolist() for _ in range(60)]
    log = {"task": ["a"] * 60, "reward": [1.0] * 30 + [0.0] * 30, "x": [a[0] for a in A], "A": A}
    found = bn.SafeBandit(alpha=0.1, seed=0).dry_run(log, features="x", actions="A")
    endless = replace(found, gain=None, earned=float("inf"))
    assert json.loads(json.dumps(endless.to_dict(), allow_nan=False))["earned"] is None


def test_small_and_large_numbers_are_shown_as_they_are():
    assert [percent(s) for s in (0, 0.004, 0.07, 0.995, 1)] == ["0 %", "<1 %", "7 %", ">99 %", "100 %"]
    assert interval(0.0081, 0.0042, 0.012) == "0.008 [0.004, 0.012]"
    assert interval(1.0, 0.999998, 1.000002) == "1.000000 [0.999998, 1.000002]"
    assert interval(3.0, -np.inf, np.inf) == "3 (too few rows for an interval)"
    kept = staying({"kept:too-uncertain": 0.5, "certified": 0.2, "fallback:drift": 0.3})
    assert kept == ["gate open, baseline kept: 50 % (50 % too-uncertain)", "gate shut: 30 % (30 % drift)"]
    many = table(("task", "n"), [(f"t{i}", "1") for i in range(30)])
    assert many[-1] == "… and 10 more tasks"
    assert folded("banister fit 'my log.csv'") == ["  banister fit 'my log.csv'"]


def test_days_are_told_from_a_column_of_times():
    facts = Facts(True, 0.0, 0.8, 0.0, 9000, None, rate=1000.0)
    assert "about 9,000 more rows like these (9 days at the present rate)" in advise(facts).words
    said = {0.02: "about an hour", 0.2: "about 5 hours", 1.2: "about a day", 1500: "4 years"}
    for days, words in said.items():
        assert f"({words} at" in advise(replace(facts, rate=9000 / days)).words
    frame = pl.DataFrame({"when": ["2024-05-01T00:00:00", "2024-05-01T12:00:00"], "n": [1, 2]})
    assert rows_a_day(frame, "when") == 4.0
    assert rows_a_day(frame.with_columns(pl.col("when").str.to_datetime()), "when") == 4.0


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (["2024-05-01", "soon"], "is 'soon' at row 1"),
        ([1, 2], "tells no days"),
        (["2024-05-01", "2024-05-01"], "one moment only"),
    ],
)
def test_times_that_are_none(values, says):
    with pytest.raises(InputError, match=says):
        rows_a_day(pl.DataFrame({"when": values}), "when")
    with pytest.raises(InputError, match=r"no column 'then' for time.*when"):
        rows_a_day(pl.DataFrame({"when": values}), "then")


@follows(
    "Or give a reward range",
    "A bandit with a reward range does not wait",
    "Nothing has to be done: the bandit explores by itself",
)
def test_a_reward_range_explores_by_itself():
    """The other way that the advice names: nobody explores by hand, and "spring" is found all the same."""
    shop = Street(noise=0.3)
    log = shop.log(600, explore=0.0)
    assert "Or give a reward range" in outlook(log).next.words
    bandit = bn.SafeBandit(alpha=0.1, features=arms(), reward_range=(0, 6), refits="manual", seed=0)
    bandit.warm_start(log, **COLUMNS, baseline="bundle")
    left, total, usual = [], 0.0, 0.0
    for i in range(3000):
        store, context = int(shop.rng.integers(shop.stores)), shop.context()
        d = bandit.decide(f"store-{store}", context=context, baseline="bundle")
        bandit.reward(d.id, float(np.clip(shop.earn(store, context, d.arm), 0, 6)))
        left.append(d.arm != "bundle")
        total += shop.worth(store, context, d.arm)
        usual += shop.worth(store, context, "bundle")
        if i % 500 == 499:
            bandit.refit()
        if i == 200:
            assert bandit.status().next.kind in ("wait", "live")
    assert np.mean(left[-500:]) > max(0.3, 2 * np.mean(left[:500]))
    assert total > usual
    told = str(bandit.status())
    assert "measured from draws" in told
    assert max(map(len, told.splitlines())) <= WIDTH
