"""Adapters against the real packages: coba, obp, Gymnasium, Vowpal Wabbit's format."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import banister as bn
from banister.adapters.coba import EnvironmentSimulation, PolicyLearner
from banister.adapters.obp import ObpPolicy
from banister.adapters.vowpal import read_vw
from banister.errors import DataFileError, InputError, SettingError, UnknownTaskError

SMALL = {"dim": 4, "rank": 1, "tasks": 5, "actions": 4, "baseline_rank": 2, "noise_std": 0.01}


def learner(policy, **more):
    return PolicyLearner(
        policy,
        tasks=range(5),
        task=lambda context: context["task"],
        baseline=lambda context, actions: context["baseline"],
        baseline_reward=lambda context, actions: context["baseline_reward"],
        **more,
    )


@pytest.fixture
def coba():
    module = pytest.importorskip("coba", reason="coba is not installed")
    module.CobaContext.logger = module.NullLogger()
    return module


def mean_rewards(coba, world, learners):
    result = coba.Experiment([world], learners).run(quiet=True)
    rows = list(result.interactions.to_dicts())
    return [np.mean([r["reward"] for r in rows if r["learner_id"] == i]) for i in range(len(learners))]


def test_policies_play_in_a_coba_experiment_beside_its_own_learners(coba):
    """On 150 rounds of one low-rank world: ours leaves the baseline and beats it and a random player."""
    world = EnvironmentSimulation(bn.Synthetic(**SMALL), rounds=150)
    ours, baseline, random = mean_rewards(
        coba, world, [learner(bn.SafeAltGDmin(alpha=0.2)), learner(bn.BaselineOnly()), coba.RandomLearner()]
    )
    best = np.mean([max(i["rewards"]) for i in world.read()])
    assert random < baseline < ours < best
    assert ours - baseline > 0.5 * (best - baseline)


def test_a_policy_plays_in_an_environment_of_coba(coba):
    """coba's linear world with two tasks by the sign of a feature; what coba counts is what was chosen."""
    world = coba.Environments.from_linear_synthetic(
        300, n_actions=3, n_context_features=1, n_action_features=3, reward_features=["a"], seed=3
    )[0]
    policy = PolicyLearner(
        bn.AltGDminGreedy(rank=1, online=20),
        tasks=[False, True],
        task=lambda context: context[0] > 0,
        baseline=lambda context, actions: 0,
    )
    ours, random = mean_rewards(coba, world, [policy, coba.RandomLearner()])
    assert ours > random


def test_interactions_can_be_read_again_and_hold_the_environments_rewards():
    world = EnvironmentSimulation(bn.Synthetic(**SMALL), rounds=3, seed=4)
    first, again = list(world.read()), list(world.read())
    assert first == again
    assert len(first) == 15
    env = world.env
    request = first[0]
    theta = env.theta[:, request["context"]["task"]]
    expected = np.array(request["actions"]) @ theta
    np.testing.assert_allclose(np.ptp(np.array(request["rewards"]) - expected), 0.0, atol=1e-12)
    assert expected[request["context"]["baseline"]] == pytest.approx(request["context"]["baseline_reward"])


def test_a_learner_refuses_mixtures_and_unknown_tasks():
    context = {"task": 0, "baseline": 0, "baseline_reward": 1.0}
    with pytest.raises(InputError, match="mixing=False"):
        learner(bn.SafeAltGDmin(safety="paper", rho=0.25)).predict(context, np.eye(3).tolist())
    with pytest.raises(UnknownTaskError, match="Task 9 is not among the 5"):
        learner(bn.BaselineOnly()).predict({**context, "task": 9}, np.eye(3).tolist())


def test_epochs_reach_the_policy():
    policy = bn.AltGDminGreedy(rank=1)
    teacher = learner(policy, epoch=40)
    rng = np.random.default_rng(0)
    for number in range(40):
        context = {"task": number % 5, "baseline": 0, "baseline_reward": 0.0}
        assert policy.theta is None
        _, kept = teacher.predict(context, rng.standard_normal((3, 2)).tolist())
        teacher.learn(context, None, 1.0, 1.0, **kept)
    assert policy.theta is not None


@pytest.fixture
def obp_simulation():
    return pytest.importorskip("obp.simulator", reason="obp is not installed").run_bandit_simulation


def played_by_chance(rounds=1500, seed=0):
    """A log as obp keeps it: three actions, two tasks, one number of context; action 2 is best in task 1."""
    rng = np.random.default_rng(seed)
    context = np.column_stack([rng.integers(2, size=rounds), rng.uniform(size=rounds)])
    action = rng.integers(3, size=rounds)
    expected = np.where(action == 0, 0.6, np.where(context[:, 0] == 1, 0.4 * action, 0.1))
    reward = expected + 0.05 * rng.standard_normal(rounds)
    return {
        "n_rounds": rounds, "n_actions": 3, "context": context, "action": action, "reward": reward,
        "position": np.zeros(rounds, dtype=int), "pscore": np.full(rounds, 1 / 3),
    }  # fmt: skip


def obp_policy(policy):
    return ObpPolicy(
        policy, n_actions=3, tasks=[0, 1], task=lambda x: int(x[0]), baseline=lambda x: 0,
        baseline_reward=lambda x: 0.6, features=lambda x: np.column_stack([np.eye(3), np.full(3, x[1])]),
    )  # fmt: skip


def replay(feedback, policy):
    """What obp's simulation does: ask, and learn where the log played the same."""
    chosen = []
    for context, action, reward in zip(
        feedback["context"], feedback["action"], feedback["reward"], strict=True
    ):
        (selected,) = policy.select_action(context[None])
        if selected == action:
            policy.update_params(action=action, reward=reward, context=context[None])
        chosen.append(selected)
    return np.array(chosen)


def test_a_policy_learns_in_obps_rounds_and_begins_anew():
    feedback, policy = played_by_chance(300), obp_policy(bn.AltGDminGreedy(rank=1))
    chosen = replay(feedback, policy)
    assert policy.n_trial == np.sum(chosen == feedback["action"])
    policy.initialize()
    assert policy.n_trial == 0
    np.testing.assert_array_equal(replay(feedback, policy), chosen)


def test_obps_own_simulation_plays_a_policy(obp_simulation):
    feedback = played_by_chance(400)
    played = obp_simulation(feedback, obp_policy(bn.BaselineOnly()))
    assert played.shape == (400, 3, 1)
    assert (played[:, 0, 0] == 1).all()
    learned = obp_simulation(feedback, obp_policy(bn.LowRankUCB(rank=1)))
    np.testing.assert_array_equal(
        learned[:, :, 0].argmax(axis=1), replay(feedback, obp_policy(bn.LowRankUCB(rank=1)))
    )


def test_gymnasiums_own_checks():
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from gymnasium.utils.env_checker import check_env

    from banister.adapters.gymnasium import BanditTask

    check_env(BanditTask(bn.Synthetic(**SMALL), task=2, rounds=5), skip_render_check=True)


def test_a_gymnasium_episode_scores_as_the_environment_does():
    pytest.importorskip("gymnasium", reason="gymnasium is not installed")
    from banister.adapters.gymnasium import BanditTask

    task = BanditTask(bn.Synthetic(**{**SMALL, "noise_std": 0.0}), task=2, rounds=10)
    seen, info = task.reset(seed=7)
    theta, steps, over = task.env.theta[:, 2], 0, False
    while not over:
        worth = seen @ theta
        assert worth[info["baseline"]] == pytest.approx(info["baseline_reward"])
        seen, reward, over, cut, info = task.step(int(np.argmax(worth)))
        assert reward == pytest.approx(worth.max()) == pytest.approx(info["best"])
        assert not cut
        steps += 1
    assert steps == 10
    with pytest.raises(SettingError, match="task=5 is not there"):
        BanditTask(bn.Synthetic(**SMALL), task=5)


def test_a_missing_library_names_its_extra():
    code = "import sys; sys.modules['gymnasium'] = None; import banister.adapters.gymnasium"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert "pip install 'banister[gym]'" in shown


LOG = """shared |store s17 |user age:0.5
| price:0.25 new
0:-1.5:0.75 |item price:0.5

shared |store s18 |user age:2
0:0.5:0.25 | price:1
| new:3 |item price
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.vw"
    path.write_text(LOG)
    return path


def test_vw_by_hand(log):
    found = read_vw(log, task="store")
    assert found["names"][0] == ["item.price", "new", "price", "user.age"]
    assert found["task"] == ["s17", "s18"]
    assert found["reward"] == [1.5, -0.5]
    assert found["propensity"] == [0.75, 0.25]
    assert found["actions"][0] == [[0.0, 1.0, 0.25, 0.5], [0.5, 0.0, 0.0, 0.5]]
    assert found["actions"][1] == [[0.0, 0.0, 1.0, 2.0], [1.0, 3.0, 0.0, 2.0]]
    assert found["features"] == [found["actions"][0][1], found["actions"][1][0]]


def test_a_bandit_learns_from_a_vw_log(log):
    bandit = bn.SafeBandit(refits="manual")
    assert bandit.warm_start(read_vw(log, task="store"), features="features", actions="actions") == 2
    assert {t.task for t in bandit.status().tasks} == {"s17", "s18"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("0:-1.5:0.75", "0:-1.5", "line 3: '0:-1.5' is not action:cost:probability"),
        ("0:-1.5:0.75", "", "line 1: 0 actions are marked as played"),
        ("-1.5", "nan", "line 3: 'nan' is not a finite number"),
        ("price:0.25", "price:dear", "line 2: 'dear' is not a finite number"),
        ("|store s17 ", "", "line 1: namespace 'store' must hold one feature"),
        ("shared |store s17 |user age:0.5\n", "", "line 1: an example begins with a `shared` line"),
    ],
)
def test_a_bad_vw_log_names_the_line(log, old, new, says):
    log.write_text(LOG.replace(old, new, 1))
    with pytest.raises(DataFileError, match=says):
        read_vw(log, task="store")


def test_a_missing_vw_log(tmp_path):
    with pytest.raises(DataFileError, match="does not exist"):
        read_vw(tmp_path / "none.vw", task="store")
