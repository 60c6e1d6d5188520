"""Wrappers that keep the interaction loop bare: a clock, and rewards that come late or never."""

from __future__ import annotations

from dataclasses import fields, replace
from time import perf_counter
from typing import Any

import numpy as np

from banister.contract import Choices, Outcomes, Policy, Requests
from banister.data import Float, Int


class Timed:
    """Counts the seconds a policy spends deciding and learning."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.seconds = 0.0

    @property
    def block(self) -> int | None:
        """As the policy says."""
        return self.policy.block

    @property
    def theta(self) -> Float | None:
        """As the policy says."""
        return self.policy.theta

    def decide(self, requests: Requests) -> Choices:
        """The policy's choices."""
        choices: Choices = self._measure(self.policy.decide, requests)
        return choices

    def learn(self, outcomes: Outcomes) -> None:
        """Pass the outcomes on."""
        self._measure(self.policy.learn, outcomes)

    def end_epoch(self) -> None:
        """Pass the mark on."""
        self._measure(self.policy.end_epoch)

    def _measure(self, call: Any, *args: Any) -> Any:
        began = perf_counter()
        result = call(*args)
        self.seconds += perf_counter() - began
        return result


class Late(Timed):
    """Holds rewards back: each arrives `delay` rounds late, and a share `drop` of them never.

    What is still on its way when the trial ends is lost.
    """

    def __init__(self, policy: Policy, *, delay: int, drop: float, rng: np.random.Generator) -> None:
        super().__init__(policy)
        self.delay, self.drop, self.rng = delay, drop, rng
        self._asked: Int = np.empty(0, dtype=np.int64)
        self._numbered = 0
        self._due: Int = np.empty(0, dtype=np.int64)
        self._held: Outcomes | None = None

    def decide(self, requests: Requests) -> Choices:
        """The policy's choices; the rounds are kept for the rewards to come."""
        self._asked = requests.round
        self._numbered += len(requests)
        return super().decide(requests)

    def learn(self, outcomes: Outcomes) -> None:
        """Pass on what is due by the last round asked about."""
        numbers = np.arange(self._numbered - len(outcomes), self._numbered)
        outcomes = replace(outcomes, decision=numbers)
        keep = self.rng.random(len(outcomes)) >= self.drop
        due = np.concatenate([self._due, self._asked[keep] + self.delay])
        held = _join(self._held, outcomes, keep)
        now = due <= self._asked.max(initial=-1)
        self._due, self._held = due[~now], _pick(held, ~now)
        if now.any():
            super().learn(_pick(held, now))


def _pick(outcomes: Outcomes, rows: Any) -> Outcomes:
    return Outcomes(*(column[rows] for column in _columns(outcomes)))


def _join(held: Outcomes | None, new: Outcomes, keep: Any) -> Outcomes:
    if held is None:
        return _pick(new, keep)
    pairs = zip(_columns(held), _columns(new), strict=True)
    return Outcomes(*(np.concatenate([old, fresh[keep]]) for old, fresh in pairs))


def _columns(outcomes: Outcomes) -> list[Any]:
    return [getattr(outcomes, f.name) for f in fields(outcomes)]
