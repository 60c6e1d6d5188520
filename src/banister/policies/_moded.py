"""A policy that plays in one of several ways, chosen when a trial begins."""

from __future__ import annotations

from typing import Protocol

from banister.contract import Choices, Outcomes, Requests
from banister.data import Float
from banister.policies._reset import NeedsReset


class Mode(Protocol):
    """A way of playing, for one trial."""

    @property
    def block(self) -> int | None:
        """Rounds it wishes to be asked at once now."""

    @property
    def theta(self) -> Float | None:
        """The current estimate, (d, T); None before the first."""

    def decide(self, requests: Requests) -> Choices:
        """Choose for each request."""

    def learn(self, outcomes: Outcomes) -> None:
        """Take in what came back."""

    def end_epoch(self) -> None:
        """The end of one of the paper's epochs."""


class Moded(NeedsReset):
    """Passes on what it is asked to the mode that `reset` has made."""

    _mode: Mode

    @property
    def block(self) -> int | None:
        """Rounds it wishes to be asked at once now."""
        return self._mode.block

    @property
    def theta(self) -> Float | None:
        """The current estimate, (d, T); None before the first."""
        return self._mode.theta

    def decide(self, requests: Requests) -> Choices:
        """Choose for each request."""
        return self._mode.decide(requests)

    def learn(self, outcomes: Outcomes) -> None:
        """Take in what came back."""
        self._mode.learn(outcomes)

    def end_epoch(self) -> None:
        """The end of one of the paper's epochs."""
        self._mode.end_epoch()
