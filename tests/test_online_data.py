"""Learning that survives data: units of any size, tasks without rows, rewards that tell nothing."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import banister.cli.online  # noqa: F401 (its commands)
from banister import SafeBandit
from banister.cli.app import app
from online_world import World, trained


def decisions(features: float, rewards: float) -> list[tuple[int, str, bool]]:
    """What a bandit decides whose world is told in other units: 400 rewards, a refit, 100 decisions."""
    world, bandit = World(), SafeBandit(alpha=0.1, seed=1, refits="manual")
    made = []
    for i in range(500):
        if i == 400:
            bandit.refit()
        request = world.request()
        told = {"actions": request["actions"] * features, "baseline_reward": None}
        d = bandit.decide(**{**request, **told})
        bandit.reward(d.id, rewards * world.earn(request, request["actions"][d.action]))
        made.append((d.action, d.reason, bool(np.isfinite(d.lower_bound) and d.lower_bound > d.floor)))
    assert bandit.audit().passed
    return made[400:]


@pytest.mark.parametrize(
    ("features", "rewards"), [(3e77, 1.0), (1e-165, 1.0), (1.0, 3e77), (1.0, 1e-165), (3e77, 1e-165)]
)
def test_a_live_bandit_decides_the_same_in_units_that_overflow_when_squared(features, rewards):
    plain = decisions(1.0, 1.0)
    assert sum(reason == "certified" for _, reason, _ in plain) > 30
    assert decisions(features, rewards) == plain


def test_a_hundred_and_fifty_new_names_shut_no_healthy_task():
    world, bandit = trained(400)
    before = [d.reason for d in world.play(bandit, 60)]
    for i in range(150):
        bandit.decide(f"new-{i}", np.ones((2, world.dim)), baseline=0)
    bandit.refit()
    gates = {t.task: t.gate for t in bandit.status().tasks}
    assert {gates[f"shop-{t}"] for t in range(12)} == {"open"}
    assert {gates[f"new-{i}"] for i in range(150)} == {"new-task"}
    after = [d.reason for d in world.play(bandit, 60)]
    assert after.count("certified") > 0.8 * before.count("certified") > 20


def equal_rewards(rows: int, value: float) -> pl.DataFrame:
    world = World()
    X = world.rng.standard_normal((rows, 8))
    features = {f"f{i}": X[:, i] for i in range(8)}
    task = [f"shop-{i % 12}" for i in range(rows)]
    return pl.DataFrame({"task": task, "reward": [value] * rows, **features})


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_rewards_that_are_all_equal_mean_that_there_is_nothing_to_learn_yet(tmp_path, value):
    world, logs = World(), equal_rewards(240, value)
    with SafeBandit(alpha=0.1, path=tmp_path / "s.banister", refits="manual", seed=0) as bandit:
        for _ in range(2):  # a retry counts once
            assert bandit.warm_start(logs) == 240
        assert sum(t.rows for t in bandit.status().tasks) == 240
        d = bandit.decide(**world.request())
        assert (d.certified, d.reason) == (False, "fallback:no-data")
        bandit.reward(d.id, value)
        bandit.refit()
        assert bandit.status().refit_failure is None
        world.play(bandit, 600)  # then the metric begins to move
        bandit.refit()
        assert any(d.certified for d in world.play(bandit, 50))
        assert bandit.audit().passed


def test_fit_takes_a_log_of_equal_rewards(tmp_path):
    logs, out = tmp_path / "logs.parquet", tmp_path / "m.banister"
    equal_rewards(240, 0.0).write_parquet(logs)
    done = CliRunner().invoke(app, ["fit", str(logs), "--out", str(out)])
    assert (done.exit_code, done.exception) == (0, None)
    with SafeBandit.load(out) as bandit:
        assert bandit.decide(**World().request()).reason == "fallback:no-data"
