"""Logs in, dry runs and off-policy estimates out."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from banister import SafeBandit
from banister.errors import InputError, ShapeError
from banister.online.logs import read_logs
from banister.online.off_policy import direct, doubly_robust, inverse_propensity, self_normalised
from online_world import World, same


def log(world: World, n: int, *, labels: bool = True, explore: float = 0.0) -> pl.DataFrame:
    """Rows of a policy that plays its third best action, and with probability `explore` any."""
    rows = []
    for _ in range(n):
        r = world.request()
        k, K = r["baseline"], world.actions
        played = int(world.rng.integers(K)) if world.rng.random() < explore else k
        x = r["actions"][played]
        chance = explore / K + (1 - explore) * (played == k)
        rows.append(
            {
                "task": r["task"], "reward": world.earn(r, x), "p": chance,
                "r_b": r["baseline_reward"] if labels else None, "b": k, "A": r["actions"].tolist(),
                **{f"f{i}": float(v) for i, v in enumerate(x)},
            }
        )  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"r_b": pl.Float64})


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return log(World(), 600)


def test_every_kind_of_log_reads_the_same(frame, tmp_path):
    flat = frame.drop("A")
    flat.write_parquet(tmp_path / "log.parquet")
    flat.write_csv(tmp_path / "log.csv")
    lists = frame.select("task", "reward", x=pl.concat_list(pl.col("^f.*$")))
    ways = [
        flat,
        flat.to_pandas(),
        flat.to_dict(as_series=False),
        tmp_path / "log.parquet",
        str(tmp_path / "log.csv"),
    ]
    first = read_logs(flat)
    for way in ways:
        rows = read_logs(way)
        assert rows.labels == first.labels
        np.testing.assert_allclose(rows.X, first.X, rtol=1e-12)
        np.testing.assert_allclose(rows.y, first.y, rtol=1e-12)
    np.testing.assert_array_equal(read_logs(lists, features="x").X, first.X)
    np.testing.assert_array_equal(read_logs(flat, features=["f1", "f0"]).X, first.X[:, [1, 0]])


def test_numbers_become_labels_and_gaps_unknown_rewards():
    rows = read_logs(
        pd.DataFrame({"shop": [7, 8], "won": [True, False], "f": [1, 2], "b": [0.5, None]}),
        task="shop", reward="won", features="f", baseline_reward="b",
    )  # fmt: skip
    assert rows.labels == ["7", "8"]
    assert rows.y.tolist() == [1.0, 0.0]
    assert rows.baseline_reward[0] == 0.5
    assert np.isnan(rows.baseline_reward[1])


def test_warm_start_certifies_from_the_first_decision(frame):
    bandit = SafeBandit(alpha=0.1, refits="manual", seed=0)
    assert bandit.warm_start(frame, baseline_reward="r_b") == 600
    world = World()
    decisions = [bandit.decide(**world.request()) for _ in range(50)]
    assert bandit.version == 1
    assert sum(d.certified for d in decisions) > 25
    assert bandit.audit().passed


def test_a_warm_started_store_continues_bit_for_bit(frame, tmp_path):
    bandits = [
        SafeBandit(alpha=0.1, refits="manual", seed=0, path=tmp_path / f"{i}.banister") for i in (0, 1)
    ]
    for bandit in bandits:
        bandit.warm_start(frame.head(300), baseline_reward="r_b", refit=False)
        bandit.warm_start(frame.tail(300), baseline_reward="r_b")
    bandits[1].close()
    bandits[1] = SafeBandit.load(tmp_path / "1.banister")
    world = World()
    for _ in range(30):
        request = world.request()
        a, b = (bandit.decide(**request) for bandit in bandits)
        assert same(a, b)
        reward = world.earn(request, a.features)
        for bandit in bandits:
            bandit.reward(a.id, reward)
    assert [bandit.refit() for bandit in bandits] == [2, 2]
    request = world.request()
    assert same(*(bandit.decide(**request) for bandit in bandits))


def test_dry_run_says_what_would_happen(frame):
    bandit = SafeBandit(alpha=0.1, seed=0)
    report = bandit.dry_run(frame, baseline_reward="r_b", actions="A")
    assert (report.rows, report.requests, report.candidates) == (300, 300, "logged")
    assert report.left > 0.5
    assert report.gain.low < report.gain.value < report.gain.high
    assert report.gain.value > 0
    assert "model" in report.gain.method
    assert len(report.tasks) == 12
    assert bandit.status().decisions == 0
    assert json.dumps(report.to_dict())
    assert str(report).startswith("would leave the baseline in ")
    drawn = bandit.dry_run(frame, baseline_reward="r_b")
    assert drawn.candidates == "drawn"


def test_a_dry_run_on_too_little_says_what_is_missing():
    report = SafeBandit(alpha=0.1, seed=0).dry_run(log(World(), 60, labels=False))
    assert (report.left, report.gain, report.gains) == (0, None, [])
    reasons = {t.reason for t in report.tasks if t.requests}
    assert "kept:too-uncertain" in reasons
    # a task whose only judged row is all that can be drawn for it offers nothing but that row
    kept = {"kept:too-uncertain", "kept:baseline-best", "kept:identical-features"}
    assert reasons <= {*kept, "fallback:new-task"}
    assert any(t.rows_needed for t in report.tasks)


@pytest.mark.statistical
def test_dry_run_estimates_agree_with_the_truth():
    """All estimates of one log of 4,000 rows within four half-widths of their intervals of the true gain."""
    world = World(seed=5)
    frame = log(world, 4000, explore=0.5)
    report = SafeBandit(alpha=0.1, seed=0).dry_run(
        frame, baseline_reward="r_b", actions="A", baseline="b", propensity="p"
    )
    assert [e.method for e in report.gains][1:] == ["inverse propensity", "self-normalised", "doubly robust"]
    best = report.gains[0].value
    for e in report.gains[1:]:
        assert abs(e.value - best) < 2 * (e.high - e.low)
    widths = {e.method: e.high - e.low for e in report.gains}
    assert widths["doubly robust"] < widths["inverse propensity"]


def test_collinear_features_certify_nothing_false():
    """Features that span 3 of 6 dimensions: certified actions clear the floor and stay in the span."""
    rng = np.random.default_rng(0)
    mix, theta = rng.standard_normal((3, 6)), rng.standard_normal((10, 6))
    Z = rng.standard_normal((600, 5, 3))
    bandit, below, moved = SafeBandit(alpha=0.1, refits="manual", seed=0), 0, 0
    for i, A in enumerate(Z @ mix):
        t = i % 10
        mean = A @ theta[t]
        k = int(np.argsort(mean)[-3])
        d = bandit.decide(f"t{t}", A, baseline=k)
        bandit.reward(d.id, float(mean[d.action] + 0.1 * rng.standard_normal()))
        below += mean[d.action] < mean[k] - 0.1 * abs(mean[k])
        moved += d.action != k
        if i in (200, 400):
            bandit.refit()
    assert (below, moved > 100) == (0, True)
    stranger = np.vstack([Z[0] @ mix, 5 * np.linalg.svd(mix)[2][3:4]])
    assert bandit.decide("t0", stranger, baseline=0).action != 5
    assert bandit.audit().passed


def test_off_policy_by_hand():
    r, p = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 0.5, 0.25, 1.0])
    hit = np.array([True, False, True, True])
    assert inverse_propensity(r, p, hit).value == pytest.approx((2 + 0 + 12 + 4) / 4)
    assert self_normalised(r, p, hit).value == pytest.approx((2 + 12 + 4) / (2 + 4 + 1))
    q, new = np.array([1.0, 1.0, 2.0, 4.0]), np.array([1.0, 5.0, 2.0, 4.0])
    assert doubly_robust(r, p, hit, q, new).value == pytest.approx((1 + 5 + (2 + 4 * 1) + 4) / 4)
    assert inverse_propensity(r, p, hit).rows == pytest.approx(7**2 / (4 + 16 + 1))


def test_gains_over_another_policy_by_hand():
    """Rows 0 and 1 differ: the new policy plays what was played in row 0, the old one in row 1."""
    r, p = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5, 1.0])
    new, old = np.array([True, False, True]), np.array([False, True, True])
    assert inverse_propensity(r, p, new, than=old).value == pytest.approx((2 - 4) / 3)
    assert self_normalised(r, p, new, than=old).value == pytest.approx((2 + 3) / 3 - (4 + 3) / 3)
    q, q_new, q_old = np.full(3, 1.0), np.array([1.0, 5.0, 1.0]), np.array([0.0, 1.0, 1.0])
    # (1 − 0) + 2 (1 − 1); (5 − 1) − 2 (2 − 1); 0
    assert doubly_robust(r, p, new, q, q_new, than=old, q_than=q_old).value == pytest.approx((1 + 2) / 3)


def test_an_interval_has_no_width_of_zero_by_accident():
    quiet, p = np.zeros(6), np.full(6, 0.5)
    some = np.array([True, True, True, False, False, False])
    for e in (inverse_propensity(quiet, p, some), self_normalised(quiet, p, some), direct(quiet, 0.0, "m")):
        assert (e.value, e.low, e.high) == (0.0, -np.inf, np.inf)
    # one row alone speaks for the difference: its spread beside the rows that agree says nothing
    r, one = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 0.0]), np.eye(1, 6, dtype=bool)[0]
    e = inverse_propensity(r, p, one | some, than=some & ~one)
    assert e.rows == 1.0
    assert (e.low, e.high) == (-np.inf, np.inf)


def test_a_perfect_model_makes_doubly_robust_exact():
    rng = np.random.default_rng(0)
    r, p = rng.standard_normal(50), rng.uniform(0.1, 1.0, 50)
    new = rng.standard_normal(50)
    for hit in (np.zeros(50, dtype=bool), rng.random(50) < 0.5):
        assert doubly_robust(r, p, hit, r, new).value == pytest.approx(new.mean())


@settings(deadline=None)
@given(st.integers(2, 40), st.integers(0, 1000))
def test_certain_logging_of_the_same_actions_is_the_plain_mean(n, seed):
    r = np.random.default_rng(seed).standard_normal(n)
    sure, same_action = np.ones(n), np.ones(n, dtype=bool)
    for estimate in (inverse_propensity, self_normalised):
        assert estimate(r, sure, same_action).value == pytest.approx(r.mean())


def test_off_policy_bad_input():
    ones, hit = np.ones(3), np.ones(3, dtype=bool)
    with pytest.raises(ShapeError):
        inverse_propensity(ones, np.ones(2), hit)
    with pytest.raises(InputError, match="Propensities"):
        inverse_propensity(ones, np.array([0.5, 0.0, 1.0]), hit)
    with pytest.raises(InputError, match="never plays"):
        self_normalised(ones, ones, ~hit)


@pytest.mark.statistical
def test_off_policy_intervals_cover():
    """Doubly robust and inverse propensity 95 % intervals cover in at least 88 of 100 simulated logs."""
    rng, covered = np.random.default_rng(1), np.zeros(2)
    truth = 0.7
    for _ in range(100):
        p = rng.uniform(0.2, 0.8, 400)
        hit = rng.random(400) < p
        r = np.where(hit, truth, 0.0) + 0.3 * rng.standard_normal(400)
        q_new = np.full(400, 0.5)
        estimates = inverse_propensity(r, p, hit), doubly_robust(r, p, hit, np.where(hit, 0.5, 0.0), q_new)
        covered += [e.low <= truth <= e.high for e in estimates]
    assert (covered >= 88).all()
