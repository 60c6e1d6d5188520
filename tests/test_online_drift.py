"""The drift guard: a change half way shuts the gate, noise alone does not, and the task learns anew."""

from __future__ import annotations

import numpy as np
import pytest
from banister.online.drift import EVERY_TASK, WINDOW, DriftGuard, _thresholds, _watch
from scipy.stats import chi2

from banister import SafeBandit
from banister.safety import checks
from online_world import World, trained


def test_thresholds_are_raised_quantiles_of_sums_of_squares():
    table = _thresholds()
    assert np.isinf(table[:4]).all()
    np.testing.assert_allclose(table[9], 1.5 * chi2.isf(1e-7, 10))


def test_the_worst_suffix_says_when_the_change_began():
    window, owner, thresholds = np.zeros(WINDOW), np.zeros(WINDOW, dtype=np.int64), _thresholds()
    for count in range(30):
        assert _watch(window, owner, count, 0.5, count + 1, thresholds, 4.0, 2.56)[0] == 0.0
    found = [_watch(window, owner, 30 + i, 4.0, 31 + i, thresholds, 4.0, 2.56) for i in range(6)]
    excess, since = next((e, s) for e, s in found if e > 0)
    assert since == 31
    assert excess > 0


def test_one_wild_reward_rings_nothing():
    _, bandit = trained(400)
    guard = DriftGuard(bandit._engine.model.certificate)
    x = np.ones(8)
    assert guard.see(0, x, 1e6, 1) == []
    assert guard.see(0, x, float(x @ bandit._engine.model.certificate.theta[0]), 2) == []


def change(world: World, task: int) -> None:
    world.theta = world.theta.copy()
    world.theta[task] *= -1.0


def play_unlabelled(world: World, bandit: SafeBandit, n: int, task: int) -> list[str]:
    reasons = []
    for _ in range(n):
        request = {**world.request(task), "baseline_reward": None}
        d = bandit.decide(**request)
        bandit.reward(d.id, world.earn(request, d.features))
        reasons.append(d.reason)
    return reasons


def test_a_change_half_way_shuts_the_gate_and_the_task_learns_anew(tmp_path):
    path = tmp_path / "store.banister"
    world, bandit = trained(500, path=path)
    assert play_unlabelled(world, bandit, 20, 0)[-1] == "certified"
    change(world, 0)
    reasons = play_unlabelled(world, bandit, 30, 0)
    assert reasons.index("fallback:drift") <= 12
    assert reasons[-1] == "fallback:drift"
    status = bandit.status()
    assert status.drifts == 1
    assert status["shop-0"].gate == "drift"
    assert status["shop-1"].gate == "open"
    bandit.close()
    bandit = SafeBandit.load(path)
    assert bandit.status()["shop-0"].gate == "drift"
    assert bandit.audit().passed
    play_unlabelled(world, bandit, 40, 0)
    rows = bandit.status()["shop-0"].rows
    assert rows <= 40 + 30  # what was earned before the change no longer counts
    bandit.refit()
    requests = [world.request(0) for _ in range(30)]
    decisions = [bandit.decide(**{**r, "baseline_reward": None}) for r in requests]
    for request, d in zip(requests, decisions, strict=True):
        assert world.truth(request, d.features) >= request["baseline_reward"] - 0.1 * abs(
            request["baseline_reward"]
        )
    assert sum(d.certified for d in decisions) > 10
    assert bandit.audit().passed
    bandit.close()


def test_the_guard_can_be_left_out():
    world, bandit = trained(500, drift_guard=False)
    change(world, 0)
    play_unlabelled(world, bandit, 30, 0)
    assert bandit.status().drifts == 0


def test_a_change_that_all_tasks_share_shuts_every_gate():
    world, bandit = trained(600)
    world.theta = -world.theta
    for _ in range(200):
        request = {**world.request(), "baseline_reward": None}
        d = bandit.decide(**request)
        bandit.reward(d.id, world.earn(request, d.features))
        if bandit._engine.model.certificate.drifted:
            break
    assert EVERY_TASK in bandit._engine.store.memory.since
    assert {t.gate for t in bandit.status().tasks} == {"drift"}
    assert bandit.audit().passed


def test_contradicted_baselines_of_many_tasks_are_a_drift():
    world, bandit = trained(600)
    limit = int(bandit._engine.model.certificate.surprises[1])
    for t in range(limit):
        request = world.request(t)
        bandit.decide(**{**request, "baseline_reward": request["baseline_reward"] + 5.0})
    assert bandit._engine.model.certificate.drifted
    assert bandit._engine.store.memory.since[EVERY_TASK] == bandit._engine.store.decisions
    assert bandit.audit().passed


@pytest.mark.statistical
def test_noise_alone_rings_rarely():
    """At most 1 alarm in 20 worlds of 600 rewards each after the fit; by the quantile 0.01 are expected."""
    alarms = 0
    for seed in range(20):
        world, bandit = trained(400, seed=seed)
        c = bandit._engine.model.certificate
        guard, opened = DriftGuard(c), np.flatnonzero(c.shut == checks.OPEN)
        rng = np.random.default_rng(seed)
        for i in range(600 * bool(len(opened))):
            t, x = int(rng.choice(opened)), rng.standard_normal(world.dim)
            truth = world.theta[int(bandit._engine.store.labels[t][5:])]
            alarms += len(guard.see(t, x, float(x @ truth + 0.1 * rng.standard_normal()), i + 1))
    assert alarms <= 1
