"""What passes between a policy and the world is checked at the door."""

import numpy as np
import pytest

from banister.contract import Choices, Outcomes, Requests
from banister.errors import InputError, ShapeError


def parts(m=3, n_actions=2, dim=4):
    return {
        "task": np.zeros(m, dtype=np.int64),
        "actions": np.zeros((m, n_actions, dim)),
        "baseline": np.zeros(m, dtype=np.int64),
        "baseline_reward": np.zeros(m),
    }


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        ({"task": np.zeros((3, 1), dtype=int)}, ShapeError, "task"),
        ({"actions": np.zeros((2, 2, 4))}, ShapeError, "actions"),
        ({"baseline": np.zeros((3, 2))}, ShapeError, "baseline"),
        ({"baseline": np.zeros(3)}, InputError, "whole-number"),
        ({"baseline": np.array([0, 2, 0])}, InputError, "action 2 at row 1"),
        ({"baseline": np.array([0, 0, -1])}, InputError, "action -1 at row 2"),
        ({"baseline_reward": np.zeros(2)}, ShapeError, "baseline_reward"),
        ({"baseline_reward_std": -1.0}, InputError, "negative"),
        ({"baseline_reward_std": np.zeros(2)}, ShapeError, "baseline_reward_std"),
        ({"round": np.array([0, 1, 0])}, InputError, "order"),
        ({"round": np.array([0, 1])}, ShapeError, "round"),
    ],
)
def test_requests_are_checked(bad, error, message):
    with pytest.raises(error, match=message):
        Requests(**{**parts(), **bad})


def test_parts_of_requests():
    requests = Requests(**{**parts(), "task": np.array([4, 5, 6])}, baseline_reward_std=0.5)
    assert requests[1:].task.tolist() == [5, 6]
    assert requests[np.array([True, False, True])].task.tolist() == [4, 6]
    assert requests[1:].baseline_reward_std.tolist() == [0.5, 0.5]
    assert np.shares_memory(requests[1:].actions, requests.actions)
    assert len(requests[:0]) == 0


def test_outcomes_are_checked():
    with pytest.raises(ShapeError, match="features"):
        Outcomes(np.zeros(2, dtype=np.int64), np.zeros((3, 4)), np.zeros(2))


def test_choices_of_the_baseline():
    settings = parts()
    settings["actions"][:, 1] = 1.0
    listed = Requests(**{**settings, "baseline": np.array([0, 1, 1])})
    chosen = Choices.of_baseline(listed)
    assert chosen.index.tolist() == [0, 1, 1]
    assert chosen.features[:, 0].tolist() == [0.0, 1.0, 1.0]
    assert chosen.reason.tolist() == ["baseline"] * 3
    vectors = Requests(**{**settings, "baseline": np.full((3, 4), 7.0)})
    chosen = Choices.of_baseline(vectors)
    assert chosen.index.tolist() == [-1, -1, -1]
    assert np.all(chosen.features == 7.0)
