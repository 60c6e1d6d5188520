"""Gates: who may leave the baseline, and why not."""

import numpy as np

from banister.safety import reasons
from banister.safety.belief import Belief
from banister.safety.gates import EVERY_TASK, Gates
from banister.safety.reasons import (
    DISAGREES,
    DRIFT,
    NEW_TASK,
    NO_DATA,
    OPEN,
    REASONS,
    Reason,
)
from belief_world import belief

SOME = belief(np.zeros((3, 1)), np.zeros((3, 1, 1)), known=np.array([True, False, True]))


def test_open_where_a_task_is_known():
    gates = Gates.of(SOME)
    assert gates.codes.tolist() == [OPEN, NEW_TASK, OPEN]
    assert gates.any_open
    assert [gates.is_open(t) for t in range(5)] == [True, False, True, False, False]


def test_shut_while_nothing_is_known():
    gates = Gates.of(Belief.none(2, 3))
    assert gates.codes.tolist() == [NO_DATA, NO_DATA]
    assert not gates.any_open
    assert not Gates.of(Belief.none(0, 3)).any_open


def test_one_gate_or_all_that_are_open():
    gates = Gates.of(SOME)
    gates.shut(0)
    assert gates.codes.tolist() == [DRIFT, NEW_TASK, OPEN]
    gates.shut(0, DISAGREES)
    gates.shut(9)  # a task that came after the belief
    assert gates.codes.tolist() == [DISAGREES, NEW_TASK, OPEN]
    gates.shut(EVERY_TASK)
    assert gates.codes.tolist() == [DISAGREES, NEW_TASK, DRIFT]  # the others keep their reasons
    assert not gates.any_open


def test_reasons_and_their_numbers():
    for code, reason in enumerate(REASONS[: reasons.HARMED + 1]):
        assert getattr(reasons, reason.name) == code
    assert str(Reason.DISAGREES) == "fallback:baseline-disagrees"
    assert len(set(REASONS)) == len(REASONS) == 17
