"""`Point`: one setting of a study, as data. Equal settings are one point, whichever panels show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from banister.contract import Environment
from banister.errors import SettingError
from banister.simulation.trial import DEFAULT_ALPHA

SYNTHETIC = "synthetic"
MOVIELENS = "movielens"


@dataclass(frozen=True, kw_only=True)
class Point:
    """An environment and the length of a trial; what is left out stays at the paper's default.

    Attributes:
        environment: "synthetic" or "movielens".
        settings: what differs from the environment's defaults, as sorted pairs.
        alpha: the share of the baseline reward that may be risked.
        epochs, rounds: how many epochs a trial has, and how many rounds an epoch.

    Examples:
        >>> Point.of("synthetic", dim=150, rank=2).name
        'synthetic,dim=150,rank=2'
        >>> Point.of("movielens", alpha=0.3) == Point.of("movielens", alpha=0.3)
        True
    """

    environment: str
    settings: tuple[tuple[str, Any], ...] = ()
    alpha: float = DEFAULT_ALPHA
    epochs: int = 4
    rounds: int = 50

    @classmethod
    def of(
        cls,
        environment: str,
        *,
        alpha: float = DEFAULT_ALPHA,
        epochs: int = 4,
        rounds: int = 50,
        **settings: Any,
    ) -> Point:
        """A point by keywords; those that are no field of its own are the environment's."""
        pairs = tuple(sorted(settings.items()))
        return cls(environment=environment, settings=pairs, alpha=alpha, epochs=epochs, rounds=rounds)

    @property
    def name(self) -> str:
        """A readable key that is also a folder's name: the environment, and what is not at its default."""
        defaults = Point(environment=self.environment)
        own = [(k, getattr(self, k)) for k in ("alpha", "epochs", "rounds")]
        changed = [(k, v) for k, v in own if v != getattr(defaults, k)]
        return ",".join([self.environment, *(f"{k}={v}" for k, v in (*self.settings, *changed))])

    def build(self) -> Environment:
        """The environment; a worker builds its own, so that nothing large travels between processes."""
        if self.environment == SYNTHETIC:
            from banister.environments.synthetic import Synthetic

            return Synthetic(**dict(self.settings))
        if self.environment == MOVIELENS:
            from banister.environments.movielens import MovieLens

            return MovieLens(**dict(self.settings))
        raise SettingError(
            f"There is no environment {self.environment!r}; use {SYNTHETIC!r} or {MOVIELENS!r}."
        )
