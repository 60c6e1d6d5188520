"""Thousands of odd values at every door: an error of this package that changes nothing, or a good answer."""

from __future__ import annotations

import inspect
import os

import numpy as np
import pytest

import banister as bn
from banister import SafeBandit
from banister.errors import BanisterError, InputError
from odd_values import arrays, scalars
from online_world import trained

LOG = {"task": ["a"] * 4, "reward": [1.0, 2.0, 3.0, 4.0], "f0": [1.0, 2.0, 3.0, 5.0], "b": [1.0] * 4}
rng = np.random.default_rng(0)
ROWS = {"X": rng.normal(size=(12, 3)), "y": rng.normal(size=12), "tasks": np.repeat(["a", "b", "c"], 4)}

# (door, arguments that are right, the one to be replaced, by what)
DECIDE = {"task": "shop-0", "actions": np.ones((3, 8)), "baseline": 0}
MANY = {"tasks": ["shop-0", "shop-1"], "actions": np.ones((2, 3, 8)), "baselines": [0, 0]}
DOORS = [
    *(("decide", DECIDE, name, (1,)) for name in ("task", "baseline", "baseline_reward_std", "key")),
    ("decide", DECIDE, "actions", (3, 8)), ("decide", DECIDE, "baseline_reward", (2,)),
    ("decide", DECIDE, "context", (1,)), ("decide", DECIDE, "offered", (1,)),
    ("decide_many", MANY, "tasks", (2,)), ("decide_many", MANY, "actions", (2, 3, 8)),
    ("decide_many", MANY, "baselines", (2,)), ("decide_many", MANY, "baseline_rewards", (2,)),
    ("decide_many", MANY, "baseline_rewards", (2, 2)), ("decide_many", MANY, "baseline_reward_std", (2,)),
    ("reward", {"reward": 1.0}, "id", (1,)), ("reward", {"id": 1}, "reward", (1,)),
    ("reward", {"id": 1, "reward": 1.0}, "key", (1,)), ("reward_many", {"rewards": [1.0, 1.0]}, "ids", (2,)),
    ("reward_many", {"ids": [1, 2]}, "rewards", (2,)), ("retract", {"why": "x"}, "id", (1,)),
    ("retract", {"id": 10**9}, "why", (1,)), ("audit", {}, "receipt", (1,)), ("save", {}, "path", (1,)),
    ("export", {}, "path", (1,)), ("dry_run", {"logs": LOG}, "share", (1,)),
    ("warm_start", {}, "logs", (4,)), ("dry_run", {}, "logs", (4,)),
    *(("warm_start", {"logs": LOG}, name, (4,)) for name in (
        "task", "reward", "features", "baseline_reward", "actions", "baseline", "propensity", "refit",
    )),
]  # fmt: skip


@pytest.fixture(scope="module")
def lived():
    return trained(150)[1]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refuses(call, arguments, kept=lambda: None) -> bool:
    """Whether a call is refused by an error of this package, everything being as it was."""
    before, refused = kept(), False
    try:
        call(**arguments)
    except BanisterError:
        refused = True
    assert not refused or kept() == before
    return refused


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("door", "good", "name", "shape"), DOORS)
def test_a_bandits_doors(lived, door, good, name, shape):
    def fresh(**arguments):
        SafeBandit(refits="manual").warm_start(**arguments)

    call = fresh if door == "warm_start" else getattr(lived, door)
    values = arrays(shape)
    refused = [
        label for label, value in values.items() if refuses(call, {**good, name: value}, lived.receipt)
    ]
    assert len(values) > 100
    assert len(refused) > 20  # the door does look


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("column", ["task", "reward", "f0", "b"])
def test_columns_of_logs(column):
    values = arrays((4,))
    refused = [
        label
        for label, value in values.items()
        if refuses(
            lambda logs: SafeBandit(refits="manual").warm_start(logs, baseline_reward="b"),
            {"logs": {**LOG, column: value}},
        )
    ]
    assert len(refused) > 30


@pytest.mark.parametrize("name", list(inspect.signature(SafeBandit).parameters))
def test_settings(name):
    refused = [v for v, value in scalars().items() if refuses(SafeBandit, {"refits": "manual", name: value})]
    assert len(refused) > 20


@pytest.mark.parametrize("door", ["load", "open_read_only"])
def test_paths(door):
    values = arrays((1,))
    assert all(refuses(getattr(SafeBandit, door), {"path": value}) for value in values.values())
    assert os.listdir() == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("estimator", [bn.AltGDmin, bn.TraceNorm, bn.MethodOfMoments, bn.TaskRidge])
@pytest.mark.parametrize("name", ["X", "y", "tasks"])
def test_estimators(estimator, name):
    fitted = estimator().fit(**ROWS)
    values = arrays(ROWS[name].shape)
    refused = [v for v, value in values.items() if refuses(estimator().fit, {**ROWS, name: value})]
    assert len(refused) > 20
    if name != "y":
        rows = {"X": ROWS["X"], "tasks": ROWS["tasks"]}
        kept = fitted.predict(**rows)
        assert sum(refuses(fitted.predict, {**rows, name: value}) for value in values.values()) > 20
        np.testing.assert_array_equal(fitted.predict(**rows), kept)


SETTINGS = [
    (estimator, name)
    for estimator in (bn.AltGDmin, bn.MethodOfMoments, bn.TaskRidge)
    for name in inspect.signature(estimator).parameters
    if name != "pool"  # a function that is called
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "name"), SETTINGS)
def test_settings_of_estimators(estimator, name):
    refused = [
        v
        for v, value in scalars().items()
        if refuses(lambda **own: estimator(**own).fit(**ROWS), {name: value})
    ]
    assert len(refused) > 20


MASKED = np.ma.masked_array(np.ones((2, 3, 8)), mask=np.eye(2)[:, :, None].repeat(8, 2)[:, [0, 1, 1]] > 0)


@pytest.mark.parametrize(
    ("door", "arguments", "says"),
    [
        ("decide_many", {**MANY, "baseline_rewards": ["1.0", "2.0"]}, "cannot be read as numbers"),
        ("decide_many", {**MANY, "baseline_rewards": [True, False]}, "cannot be read as numbers"),
        ("decide_many", {**MANY, "baseline_rewards": np.ma.masked_array([1.0, 2.0], [1, 0])}, "masked"),
        ("decide_many", {**MANY, "actions": MASKED}, "masked"),
        ("decide_many", {**MANY, "baselines": np.ma.masked_array([0, 0], [True, False])}, "masked"),
        ("decide_many", {**MANY, "baselines": [True, False]}, "index"),
        ("decide_many", {**MANY, "baselines": {0: 0, 1: 0}}, "list, a tuple or an array"),
        ("decide_many", {**MANY, "baselines": [np.timedelta64(1), 0]}, "index"),
        ("decide_many", {**MANY, "tasks": (t for t in "ab")}, "list, a tuple or an array"),
        ("decide", {**DECIDE, "actions": MASKED[0]}, "masked"),
        ("decide", {**DECIDE, "baseline_reward": np.timedelta64(1)}, "number"),
        ("reward", {"id": np.timedelta64(1), "reward": 1.0}, "whole number"),
        ("reward_many", {"ids": {1: 2}, "rewards": [1.0]}, "list, a tuple or an array"),
        ("export", {"path": 5}, "path"), ("export", {"path": None}, "path"),
        ("save", {"path": "\ud800"}, "surrogate"),
    ],
)  # fmt: skip
def test_what_was_let_through_or_fell_through(lived, door, arguments, says):
    before = lived.receipt()
    with pytest.raises(InputError, match=says):
        getattr(lived, door)(**arguments)
    assert lived.receipt() == before
