"""The audit: passes on what happened, and finds what was altered."""

from __future__ import annotations

import numpy as np
import pytest

from banister import SafeBandit
from online_world import World, trained
from places import tamper


def lived(**settings) -> SafeBandit:
    world, bandit = trained(300, **settings)
    world.play(bandit, 60)
    bandit.refit()
    world.play(bandit, 60)
    return bandit


@pytest.mark.parametrize("keep_actions", [False, True])
def test_what_happened_follows(place, keep_actions):
    bandit = lived(path=place, keep_actions=keep_actions)
    found = bandit.audit()
    assert found.passed, str(found)
    assert (found.decisions, found.repeated, found.rewards) == (420, 420, 420)
    assert found.whole == (420 if keep_actions else 0)
    assert found.certified > 50
    assert set(found.versions) == {0, 1, 2}


def certified_id(bandit: SafeBandit) -> int:
    return max(record.id for record in bandit._engine.store.ledger.decisions() if record.moved)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE decisions SET bound = bound + 0.01 WHERE id = ?", "bound"),
        ("UPDATE decisions SET floor = floor - 0.01 WHERE id = ?", "floor"),
        ("UPDATE decisions SET reason = 'fallback:few-rows', certified = 0 WHERE id = ?", "the ledger says"),
        ("UPDATE decisions SET certified = 0 WHERE id = ?", "the ledger says"),
        ("UPDATE decisions SET version = 1 WHERE id = ?", "older model|bound"),
        ("UPDATE decisions SET high = high + 9, low = low + 9 WHERE id = ?", "baseline-disagrees"),
        ("UPDATE decisions SET features = zeroblob(length(features)) WHERE id = ?", "the ledger says|bound"),
        ("DELETE FROM decisions WHERE id = ?", "missing"),
        ("DELETE FROM rewards WHERE id = ?", "rewards are missing"),
    ],
)
def test_what_was_altered_is_found(place, statement, says):
    bandit = lived(path=place)
    tamper(place, statement, certified_id(bandit) - (1 if statement.startswith("DELETE") else 0))
    found = bandit.audit()
    assert not found.passed
    assert any(part in str(found) for part in says.split("|"))


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE decisions SET digest = digest + 1 WHERE id = ?", "digest"),
        (
            "UPDATE decisions SET action = (action + 1) % n_actions WHERE id = ?",
            "the ledger says|what was played",
        ),
        ("UPDATE decisions SET bound = bound * (1 + 1e-12) WHERE id = ?", "bound"),
    ],
)
def test_whole_action_sets_find_more(place, statement, says):
    bandit = lived(keep_actions=True, path=place)
    tamper(place, statement, certified_id(bandit))
    found = bandit.audit()
    assert not found.passed
    assert any(part in str(found) for part in says.split("|"))


def test_models_that_were_not_kept_are_counted(place):
    bandit = lived(path=place, keep_models=False)
    found = bandit.audit()
    assert found.passed
    assert found.unarchived == 60
    assert found.repeated == 360
    assert "not kept" in str(found)


def test_a_model_whose_bytes_were_altered_is_blamed(place):
    bandit = lived(path=place)
    tamper(place, "UPDATE model_parts SET bytes = zeroblob(length(bytes))")
    found = bandit.audit()
    assert not found.passed
    assert "its bytes are not those that were written" in str(found)


def test_rewards_for_decisions_that_are_not_there(place):
    bandit = lived(path=place)
    tamper(place, "INSERT INTO rewards VALUES (9999, 0.0, 1.0, NULL, 99999, zeroblob(32))")
    assert "9999" in str(bandit.audit())


def test_problems_are_counted_beyond_those_spelled_out(place):
    bandit = lived(path=place)
    tamper(place, "UPDATE decisions SET bound = bound + 1 WHERE certified")
    found = bandit.audit()
    assert len(found.problems) == 20
    assert found.n_problems > 20


def test_mixed_kinds_of_baseline_rewards_follow():
    world, bandit = trained(400)
    for i in range(60):
        request = world.request()
        r = request["baseline_reward"]
        kinds = [r, None, (r - 0.1, r + 0.3)]
        std = 0.05 if i % 4 == 0 and i % 3 == 0 else 0.0
        bandit.decide(**{**request, "baseline_reward": kinds[i % 3]}, baseline_reward_std=std)
    assert bandit.audit().passed


def test_an_empty_ledger_passes():
    assert SafeBandit(refits="manual").audit().passed


def test_ragged_traffic_and_many_versions_follow(place):
    world = World(tasks=10)
    bandit = SafeBandit(path=place, alpha=0.1, refits="inline", seed=2)
    rng = np.random.default_rng(0)
    for _ in range(400):
        world.play(bandit, 1, task=min(int(rng.exponential(2.0)), 9))
    assert bandit.version >= 3
    assert bandit.audit().passed
