"""`bn.compare` over many trials, errors that name what is missing, and a log as an environment."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import banister as bn
from banister.errors import DataWarning, InputError, SettingError
from banister.estimators.ridge import TaskRidge
from banister.simulation.trial import one_trial

DOC = Path(__file__).parents[1] / "docs" / "your-own.md"


def world(**settings):
    return bn.Synthetic(**{"dim": 6, "rank": 2, "tasks": 5, "actions": 4, "baseline_rank": 2, **settings})


SHORT = {"epochs": 2, "rounds": 6}


def test_a_comparison_is_its_trials():
    env = world(noise_std=0.1)
    policies = {"place": bn.BaselineOnly(), "greedy": bn.AltGDminGreedy(rank=2)}
    found = bn.compare(env, policies, trials=3, seed=7, alpha=0.2, **SHORT)
    for name in policies:
        regrets = []
        for trial in range(3):
            seed = np.random.SeedSequence(7, spawn_key=(trial,))
            regrets.append(one_trial(env, policies, seed=seed, alpha=0.2, **SHORT)[name].regret.sum())
        own = found.trials.filter(pl.col("policy") == name)
        assert own["regret"].to_list() == regrets
        row = found.frame.row(by_predicate=pl.col("policy") == name, named=True)
        assert row["regret"] == pytest.approx(np.mean(regrets))
        assert row["regret_low"] <= row["regret"] <= row["regret_high"]
        assert row["regret_low"] < row["regret_high"]
    assert found.rows.height == 3 * 2 * 2


def test_processes_do_not_change_the_numbers():
    env = world(noise_std=0.1)
    one, two = (bn.compare(env, [bn.BaselineOnly()], trials=3, jobs=j, **SHORT) for j in (1, 2))
    timed = pl.exclude("seconds")
    assert one.rows.select(timed).equals(two.rows.select(timed), null_equal=True)


def test_no_violation_in_few_trials_is_not_proof_of_none():
    found = bn.compare(world(), [bn.BaselineOnly()], trials=4, **SHORT)
    row = found.frame.to_dicts()[0]
    assert (row["violations"], row["unsafe_trials"], row["unsafe_trials_low"]) == (0, 0, 0)
    assert row["unsafe_trials_high"] == pytest.approx(1 - 0.025 ** (1 / 4))
    assert "BaselineOnly" in str(found)


def test_the_figure_is_written(tmp_path):
    found = bn.compare(world(), [bn.BaselineOnly(), bn.BaselineOnly()], trials=2, **SHORT)
    figure = found.plot(tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert labels == ["BaselineOnly", "BaselineOnly 2"]
    rounds, regret = figure.axes[0].lines[0].get_data()
    assert list(rounds) == [6, 12]
    assert regret[1] == pytest.approx(found.frame["regret"][0])


class Nothing:
    """Takes part in nothing."""


class Undecided(bn.Policy):
    """Inherits everything and answers nothing."""


class Blockless:
    """Everything but `block`."""

    theta = None

    def decide(self, requests): ...
    def learn(self, outcomes): ...
    def reset(self, n_tasks, rng): ...
    def end_epoch(self): ...


class Mute(bn.LinearEnvironment):
    """No requests of its own: Python refuses it."""


@pytest.mark.parametrize(
    ("env", "policies", "message"),
    [
        (
            world(),
            [Nothing()],
            r"Nothing is no policy: it lacks 'decide' \(decide\(requests\) returns Choices",
        ),
        (world(), [Undecided()], "Undecided is no policy: it lacks 'decide'"),
        (world(), [Blockless()], "Blockless is no policy: it lacks 'block'"),
        (world(), [bn.BaselineOnly], r"BaselineOnly is a class; give an instance"),
        (world(), [], "no policies"),
        (Nothing(), [bn.BaselineOnly()], "Nothing is no environment: it lacks 'reset'"),
        (bn.Synthetic, [bn.BaselineOnly()], "Synthetic is a class"),
    ],
)
def test_what_is_missing_is_named(env, policies, message):
    for play in (bn.compare, one_trial):
        with pytest.raises(SettingError, match=message):
            play(env, policies, **SHORT)


def test_an_environment_without_requests_cannot_be_made():
    with pytest.raises(TypeError, match=r"abstract class Mute.*noise.*requests"):
        Mute()


def test_bad_numbers_of_trials_and_processes():
    for options in ({"trials": 0}, {"trials": True}, {"jobs": -1}, {"jobs": 1.5}):
        with pytest.raises(SettingError, match=next(iter(options))):
            bn.compare(world(), [bn.BaselineOnly()], **SHORT, **options)


def test_the_pages_example_runs_in_thirty_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    example = re.findall(r"```python\n(.*?)```", DOC.read_text(encoding="utf-8"), re.S)[0]
    lines = [line for line in example.splitlines() if line.strip()]
    assert len(lines) <= 30
    names = {"__name__": "example"}
    exec(example, names)
    frame = names["found"].frame
    regret = dict(zip(frame["policy"], frame["regret"], strict=True))
    assert regret["EpsilonGreedy"] < 0.6 * regret["BaselineOnly"]
    assert frame["violations"].to_list()[1] == 0
    assert "EpsilonGreedy" in capsys.readouterr().out
    assert (tmp_path / "cities.svg").exists()


# --- a log as an environment ----------------------------------------------------------------------


def log(n=400, *, clicks=False, seed=0):
    rng = np.random.default_rng(seed)
    age, task = rng.normal(size=n), rng.integers(3, size=n)
    arm = rng.integers(2, size=n)
    worth = 0.3 + 0.1 * task + np.where(arm == 1, 0.1 * age, 0.0)
    reward = (rng.random(n) < worth) if clicks else worth + 0.05 * rng.normal(size=n)
    names = np.array(["a", "b"])
    return pl.DataFrame(
        {
            "shop": [f"s{t}" for t in task], "age": age, "arm": names[arm],
            "won": reward.astype(float), "usual": names[(age > 0).astype(int)],
        }
    )  # fmt: skip


def arms():
    return bn.Arms(["a", "b"], numeric=["age"])


def replay(frame=None, **options):
    frame = log() if frame is None else frame
    return bn.from_logs(frame, **{"features": arms(), "task": "shop", "reward": "won", **options})


def test_requests_are_rows_of_the_tasks_own_log():
    frame = log()
    env = replay(frame, baseline="usual")
    asked = env.requests(30, np.random.default_rng(0), start=5)
    assert asked.round.tolist() == [5 + i // 3 for i in range(90)]
    ages = asked.actions[:, 0, 1]
    mean, scale = frame["age"].mean(), frame["age"].std(ddof=0)
    for t, label in enumerate(env.labels):
        own = (frame.filter(pl.col("shop") == label)["age"].to_numpy() - mean) / scale
        assert np.isclose(ages[asked.task == t][:, None], own).any(axis=1).all()
    np.testing.assert_array_equal(asked.baseline, (ages * scale + mean > 0).astype(int))
    assert np.isnan(asked.baseline_reward).all()


MODELS = [TaskRidge, lambda: bn.AltGDmin(rank=2), lambda: bn.AltGDmin(rank=1, fit_intercept=True)]


@pytest.mark.parametrize("make", MODELS)
def test_the_truth_is_the_models(make):
    """Two routes: what `from_logs` says an action is worth, and a model fitted by hand."""
    frame, learned = log(), arms()
    env = replay(frame, features=learned, baseline="a", baseline_known=True, model=make())
    model = make().fit(learned.rows(frame, "arm"), frame["won"].to_numpy(), frame["shop"].to_list())
    asked = env.requests(10, np.random.default_rng(1))
    wanted = model.predict(asked.actions[:, 1], env.labels[asked.task])
    np.testing.assert_allclose(env.expected(asked, bn.Choices.of_index(asked, np.ones(30, int), "x")), wanted)
    np.testing.assert_allclose(asked.baseline_reward, env.baseline(asked))
    np.testing.assert_allclose(env.best(asked), np.maximum(wanted, env.baseline(asked)))
    assert wanted.std() > 0.05


def test_noise_is_the_logs_residuals():
    frame, learned = log(), arms()
    env = replay(frame, features=learned)
    X, y, tasks = learned.rows(frame, "arm"), frame["won"].to_numpy(), frame["shop"].to_list()
    left = y - TaskRidge().fit(X, y, tasks).predict(X, tasks)
    asked = env.requests(2000, np.random.default_rng(2))
    noise = env.noise(asked, np.random.default_rng(3))
    for t, label in enumerate(env.labels):
        own = left[np.array(tasks) == label]
        drawn = noise[asked.task == t]
        assert np.isclose(drawn[:, None], own).any(axis=1).all()
        assert drawn.std() == pytest.approx(own.std(), rel=0.1)
    np.testing.assert_array_equal(env.reward(asked, np.ones(6000), noise), 1 + noise)


def test_clicks_stay_clicks():
    env = replay(log(4000, clicks=True), baseline="a")
    asked = env.requests(4000, np.random.default_rng(2))
    expected = env.baseline(asked)
    assert 0.0 <= expected.min() <= expected.max() <= 1.0
    won = env.reward(asked, expected, env.noise(asked, np.random.default_rng(3)))
    assert set(np.unique(won)) == {0.0, 1.0}
    assert won.mean() == pytest.approx(expected.mean(), abs=4 * 0.5 / np.sqrt(12_000))


def test_expected_clicks_are_possible():
    """A model may say 1.4 clicks; the world does not."""
    frame = log(400, clicks=True).with_columns(won=pl.lit(1.0) * (pl.col("age") > 0))
    env = replay(frame.with_columns(age=pl.col("age") * 3), baseline="a")
    asked = env.requests(500, np.random.default_rng(2))
    assert (asked.scores(env.theta) > 1).any()
    assert env.best(asked).max() == 1.0
    assert env.baseline(asked).min() == 0.0


def test_an_arm_that_was_never_played_is_a_guess():
    with pytest.warns(DataWarning, match="never played b"):
        replay(log().filter(pl.col("arm") == "a"))


def test_bad_logs_are_named():
    with pytest.raises(InputError, match="no column 'won' for reward; it has shop, age"):
        replay(log().drop("won"))
    with pytest.raises(InputError, match="holds 'c' at row 0; the arms are a, b"):
        replay(log().with_columns(arm=pl.lit("c")))
    with pytest.raises(InputError, match="won"):
        replay(log().with_columns(won=pl.lit(None, pl.Float64)))


def test_policies_play_on_a_log():
    found = bn.compare(
        replay(baseline="a"), [bn.BaselineOnly(), bn.AltGDminGreedy(rank=2)], trials=2, **SHORT
    )
    assert found.frame["regret"].is_finite().all()
