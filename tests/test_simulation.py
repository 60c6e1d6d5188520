"""The trial and its measures."""

import numpy as np
import pytest

import banister as bn
from banister.contract import Choices, Outcomes
from banister.errors import SettingError
from banister.simulation import trial
from banister.simulation.metrics import Tally, Worth, estimation_error, leading_subspace, subspace_distance
from banister.simulation.trial import one_trial
from banister.simulation.wrappers import Late

SMALL = {"dim": 8, "rank": 2, "tasks": 6, "actions": 4, "baseline_rank": 3}


class Probe(bn.BaselineOnly):
    """Plays the baseline in blocks of its own size and writes down what it saw."""

    def __init__(self, block=None, index=None):
        self.block, self.index = block, index

    def reset(self, n_tasks, rng):
        self.sizes, self.actions, self.rewards, self.rounds, self.first = [], [], [], [], rng.random()

    def decide(self, requests):
        self.sizes.append(len(np.unique(requests.round)))
        self.actions.append(requests.actions)
        self.rounds.append(requests.round)
        if self.index is None:
            return Choices.of_baseline(requests)
        return Choices.of_index(requests, np.full(len(requests), self.index), "greedy")

    def learn(self, outcomes):
        self.rewards.append(outcomes.reward)


def test_tally_by_hand():
    # Floors at α = 0.5: 2, −6, 2. The plays earn 3 (fine), −8 (2 below, a third) and 1.5 (a quarter below).
    tally = Tally()
    worth = Worth(best=np.array([5.0, 1.0, 4.0]), baseline=np.array([4.0, -4.0, 4.0]))
    tally.add(np.array([3.0, -8.0, 1.5]), np.array([True, False, True]), worth, 0.5)
    assert tally == Tally(
        decisions=3,
        regret=2.0 + 9.0 + 2.5,
        violations=2,
        literal_violations=2,
        shortfall=2.0,
        relative_shortfall=1 / 3,
        certified=2,
        possible=1.0 + 5.0 + 0.0,
    )
    # Playing a negative baseline violates the literal floor −2 and nothing else.
    tally.add(np.array([-4.0]), np.array([False]), Worth(np.array([1.0]), np.array([-4.0])), 0.5)
    assert (tally.violations, tally.literal_violations, tally.decisions) == (2, 3, 4)


def test_distances_by_hand():
    assert estimation_error(np.zeros((2, 2)), np.eye(2)) == 1.0
    turned = np.array([[np.cos(0.3)], [np.sin(0.3)]])
    assert subspace_distance(np.array([[1.0], [0.0]]), turned) == pytest.approx(np.sin(0.3))
    theta = np.outer([3.0, 4.0], [1.0, 2.0]) / 5
    assert subspace_distance(np.array([[0.6], [0.8]]), leading_subspace(theta, 1)) < 1e-12


def test_two_yardsticks():
    env = bn.Synthetic(**SMALL, noise_std=0.3)
    results = one_trial(env, {"place": bn.BaselineOnly(), "best": bn.Oracle(env)}, epochs=2, rounds=30)
    assert np.all(results["best"].regret < 1e-9)
    assert np.all(results["best"].error == 0)
    assert np.all(results["best"].subspace_distance < 1e-9)
    assert np.all(results["place"].regret > 10)
    assert np.all(np.isnan(results["place"].error))
    for result in results.values():
        assert result.violations.tolist() == [0, 0]
    assert results["place"].literal_violations.sum() > 0
    assert results["best"].alpha == 0.2


def test_the_oracle_follows_a_drift():
    env = bn.Synthetic(**SMALL, drift_at=7)
    result = bn.simulate(env, bn.Oracle(env), epochs=[5, 10, 5])
    assert np.all(result.regret < 1e-9)
    assert np.all(result.error == 0)


def test_violations_are_counted_against_the_truth():
    env = bn.Synthetic(**SMALL, baseline_bias=-10.0)
    worst = bn.simulate(env, Probe(index=0), epochs=1, rounds=50, alpha=0.1)
    env.reset(trial._Streams(0).make(0))
    requests = env.requests(50, trial._Streams(0).make(1))
    played = env.expected(requests, Choices.of_index(requests, np.zeros(300, dtype=int), "greedy"))
    base = env.baseline(requests)
    floor = base - 0.1 * np.abs(base)
    assert worst.violations[0] == np.sum(played < floor) > 50
    assert worst.shortfall[0] == pytest.approx(np.max(floor - played))
    assert worst.regret[0] == pytest.approx(np.sum(env.best(requests) - played))


def test_company_and_blocks_change_nothing():
    env = bn.Synthetic(**SMALL, noise_std=0.1, baseline_reward_std=0.1)
    alone, among, stepwise = Probe(), Probe(), Probe(block=3)
    one = bn.simulate(env, alone, epochs=2, rounds=10, seed=4)
    crowd = {"z": bn.Oracle(env), "a": among, "b": stepwise}
    many = one_trial(env, crowd, epochs=2, rounds=10, seed=4)
    assert stepwise.sizes == [3, 3, 3, 1] * 2
    assert alone.sizes == [10, 10]
    for probe in (among, stepwise):
        assert probe.first == alone.first
        np.testing.assert_array_equal(np.concatenate(probe.actions), np.concatenate(alone.actions))
        np.testing.assert_array_equal(np.concatenate(probe.rewards), np.concatenate(alone.rewards))
    np.testing.assert_array_equal(one.regret, many["a"].regret)
    assert bn.simulate(env, Probe(), epochs=2, rounds=10, seed=5).regret[0] != one.regret[0]


def test_chunks_change_nothing(monkeypatch):
    env = bn.Synthetic(**SMALL, noise_std=0.1, traffic_ratio=5.0, baseline_reward_std=0.1)
    whole, parts = Probe(), Probe()
    bn.simulate(env, whole, epochs=2, rounds=10)
    monkeypatch.setattr(trial, "CHUNK_BYTES", 3 * 6 * 4 * 8 * 8)  # three rounds of actions
    bn.simulate(env, parts, epochs=2, rounds=10)
    assert parts.sizes[0] == 3
    assert max(a.nbytes for a in parts.actions) <= trial.CHUNK_BYTES
    np.testing.assert_array_equal(np.concatenate(whole.actions), np.concatenate(parts.actions))
    np.testing.assert_array_equal(np.concatenate(whole.rewards), np.concatenate(parts.rewards))


def test_a_seed_sequence_is_left_as_it_was():
    env, seed = bn.Synthetic(**SMALL), np.random.SeedSequence(9)
    results = [bn.simulate(env, bn.BaselineOnly(), epochs=1, rounds=5, seed=seed) for _ in range(2)]
    assert results[0].regret == results[1].regret
    assert bn.simulate(env, bn.BaselineOnly(), epochs=1, rounds=5, seed=9).regret == results[0].regret
    child = bn.simulate(env, bn.BaselineOnly(), epochs=1, rounds=5, seed=seed.spawn(1)[0])
    assert child.regret != results[0].regret


def test_late_rewards_come_once_and_in_time():
    env = bn.Synthetic(**SMALL)
    prompt, late = Probe(block=1), Probe(block=1)
    bn.simulate(env, prompt, epochs=1, rounds=10)
    bn.simulate(env, late, epochs=1, rounds=10, delay=4)
    assert len(late.rewards) == 6
    np.testing.assert_array_equal(np.concatenate(late.rewards), np.concatenate(prompt.rewards)[:36])


def test_dropped_rewards_never_come():
    env = bn.Synthetic(**{**SMALL, "tasks": 50})
    some, none = Probe(), Probe()
    bn.simulate(env, some, epochs=1, rounds=40, drop=0.3)
    bn.simulate(env, none, epochs=1, rounds=40, drop=1.0)
    assert 0.65 < sum(map(len, some.rewards)) / 2000 < 0.75  # 5 standard errors
    assert none.rewards == []


def test_rewards_come_late_within_a_block_too():
    env = bn.Synthetic(**SMALL)
    env.reset(np.random.default_rng(0))
    requests = env.requests(5, np.random.default_rng(1))
    probe = Probe()
    probe.reset(6, np.random.default_rng(0))
    late = Late(probe, delay=2, drop=0.0, rng=np.random.default_rng(0))
    features = late.decide(requests).features
    late.learn(Outcomes(requests.task, features, requests.round.astype(float)))
    assert np.unique(probe.rewards[0]).tolist() == [0, 1, 2]


def test_the_frame_has_a_row_per_epoch():
    result = bn.simulate(bn.Synthetic(**SMALL), bn.BaselineOnly(), epochs=[3, 4], alpha=0.3)
    frame = result.frame
    assert frame["policy"].to_list() == ["BaselineOnly"] * 2
    assert frame["epoch"].to_list() == [1, 2]
    assert frame["rounds"].to_list() == [3, 4]
    assert frame["decisions"].to_list() == [18, 24]
    assert frame["alpha"].to_list() == [0.3, 0.3]
    np.testing.assert_array_equal(frame["regret"], result.regret)
    np.testing.assert_array_equal(frame["certified"], [0.0, 0.0])
    assert np.all(result.seconds > 0)


def test_alpha_comes_from_the_policies_if_they_agree():
    env, careful, bold = bn.Synthetic(**SMALL), Probe(), Probe()
    careful.alpha = 0.1
    assert one_trial(env, {"a": careful, "b": bold}, epochs=1, rounds=2)["b"].alpha == 0.1
    bold.alpha = 0.5
    with pytest.raises(SettingError, match="alphas differ"):
        one_trial(env, {"a": careful, "b": bold}, epochs=1, rounds=2)


@pytest.mark.parametrize(
    "bad", [{"epochs": 0}, {"rounds": 0}, {"epochs": [3, 0]}, {"delay": -1}, {"drop": 1.5}, {"alpha": 1.0}]
)
def test_bad_settings(bad):
    with pytest.raises(SettingError):
        bn.simulate(bn.Synthetic(**SMALL), bn.BaselineOnly(), **bad)


@pytest.mark.statistical
def test_the_baselines_regret_is_the_known_figure():
    """The fifth best of ten costs E[z(10:10) − z(6:10)] ‖θ‖ a play: (1.5388 − 0.1227)·√(2/100)·mean norm.

    5,000 plays; the tolerance of 2 % is above five standard errors.
    """
    env = bn.Synthetic()
    result = bn.simulate(env, bn.BaselineOnly(), epochs=1, rounds=50)
    expected = 50 * (1.53875 - 0.12267) * np.linalg.norm(env.theta, axis=0).sum()
    assert result.regret[0] == pytest.approx(expected, rel=0.02)
