"""Worlds with clicks and money: the law of rewards, flips, seasons, and who the incumbent is."""

import numpy as np
import pytest

from banister.contract import Choices
from banister.environments.banners import Banners, Revenue, arm_blocks
from banister.environments.fixed_items import FixedItems
from banister.errors import NotFittedError, SettingError


def ready(env, seed=0):
    env.reset(np.random.default_rng(seed))
    return env


def values(env, requests):
    """Expected rewards (m, K) of every action."""
    m, K, _ = requests.actions.shape
    of = [Choices.of_index(requests, np.full(m, k), "x") for k in range(K)]
    return np.stack([env.expected(requests, c) for c in of], axis=1)


def test_blocks_by_hand():
    np.testing.assert_array_equal(
        arm_blocks(np.array([[1.0, 7.0]]), 2), [[[1.0, 7.0, 0.0, 0.0], [0.0, 0.0, 1.0, 7.0]]]
    )


@pytest.mark.parametrize(
    "env", [Banners(tasks=6), Revenue(tasks=6), FixedItems(tasks=6)], ids=lambda e: type(e).__name__
)
def test_rewards_have_the_expected_mean_and_stay_in_the_range(env):
    ready(env)
    requests = env.requests(1, np.random.default_rng(1))[np.zeros(200_000, dtype=np.int64)]
    expected = values(env, requests[:1])[0, 0]
    reward = env.reward(requests, np.full(200_000, expected), env.noise(requests, np.random.default_rng(2)))
    assert env.low <= reward.min()
    assert reward.max() <= env.high
    assert reward.mean() == pytest.approx(expected, abs=4 * reward.std() / np.sqrt(200_000))


def test_money_is_mostly_zero_with_a_heavy_tail():
    env = ready(Revenue())
    requests = env.requests(500, np.random.default_rng(1))
    y = env.reward(requests, env.baseline(requests), env.noise(requests, np.random.default_rng(2)))
    assert 0.9 < (y == 0).mean() < 0.98
    assert y.max() > 4 * y[y > 0].mean()


def test_click_rates_are_those_of_banners():
    """Over ten worlds the middle two thirds of the incumbent's click rates lie from about 0.05 to 0.3."""
    worlds = [ready(Banners(), seed) for seed in range(10)]
    rate = np.concatenate([env.baseline(env.requests(100, np.random.default_rng(1))) for env in worlds])
    low, high = np.quantile(rate, [1 / 6, 5 / 6])
    assert 0.04 < low < 0.08
    assert 0.2 < high < 0.35


def test_the_incumbent_is_neither_best_nor_worst_and_others_can_be_harmful_or_equal():
    env = ready(Banners())
    requests = env.requests(500, np.random.default_rng(1))
    mean = values(env, requests).mean(0)
    assert np.argsort(np.argsort(-mean))[env.incumbent] == 2
    harmful = ready(Banners(effects="harmful"))
    requests = harmful.requests(200, np.random.default_rng(1))
    assert np.mean(harmful.best(requests) > harmful.baseline(requests)) < 0.05
    equal = ready(Banners(effects="none"))
    requests = equal.requests(5, np.random.default_rng(1))
    np.testing.assert_allclose(equal.best(requests), equal.baseline(requests))


def test_a_flip_turns_gains_into_losses_and_leaves_the_incumbent():
    env = ready(Banners(change="flip", period=3))
    before, after = env.theta_at(2).T.reshape(40, 5, 7), env.theta_at(3).T.reshape(40, 5, 7)
    b = env.incumbent
    np.testing.assert_allclose(after[:, b], before[:, b])
    np.testing.assert_allclose(after - after[:, [b]], -(before - before[:, [b]]), atol=1e-12)
    requests = env.requests(6, np.random.default_rng(1))
    whole = env.best(requests)
    np.testing.assert_allclose(whole[120:], env.best(requests[120:]))  # the second truth scores its own rows
    assert env.change_points == (3,)


def test_seasons_move_everyone_together_and_come_back():
    env = ready(Banners(change="seasons", period=24))
    level = [env.theta_at(r)[0, 0] for r in range(48)]
    np.testing.assert_allclose(level[:24], level[24:])
    assert max(level) - level[0] == pytest.approx(0.4, abs=1e-9)
    requests = env.requests(24, np.random.default_rng(0))
    by_round = env.baseline(requests).reshape(24, -1).mean(1)
    assert by_round[6:8].mean() > by_round[18:20].mean() + 0.03


def test_catalogues_do_not_change_and_the_item_in_place_has_its_rank():
    env = ready(FixedItems(baseline_rank=5))
    requests = env.requests(20, np.random.default_rng(1))
    scores = values(env, requests)
    rank = (scores > env.baseline(requests)[:, None] + 1e-12).sum(1)
    assert np.all(rank == 4)


def test_traffic_is_uneven():
    env = ready(Banners())
    count = np.bincount(env.requests(2000, np.random.default_rng(1)).task, minlength=40)
    np.testing.assert_allclose(count / count.sum(), env.traffic, atol=0.005)
    assert env.traffic.max() / env.traffic.min() == pytest.approx(np.sqrt(40))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Banners(arms=2), lambda: Banners(effects="odd"), lambda: Banners(change="often"),
        lambda: Banners(period=0), lambda: FixedItems(baseline_rank=11), lambda: FixedItems(rank=41),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(make):
    with pytest.raises(SettingError):
        make()


def test_no_truth_before_a_reset():
    with pytest.raises(NotFittedError, match="reset"):
        Banners().theta_at(0)
