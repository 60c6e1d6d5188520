"""`Point`: one setting of a study, as data. Equal settings are one point, whichever panels show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from banister.contract import Environment
from banister.errors import SettingError
from banister.simulation.trial import DEFAULT_ALPHA

# What a policy is told besides its requests. R is the noise's level, S a bound on every ‖θ_t‖, a label a
# baseline's expected reward taken as a row to learn from. A policy uses what it can.
SOURCE = "source"
KNOWS = {
    "nothing": "nothing: all is estimated",
    "scales": "R and S",
    "labels": "labels",
    SOURCE: "what its source assumes",
    "all": "that, and labels",
}

SYNTHETIC = "synthetic"
MOVIELENS = "movielens"
RATED = "rated"


@dataclass(frozen=True, kw_only=True)
class Point:
    """An environment and the length of a trial; what is left out stays at the paper's default.

    Attributes:
        environment: "synthetic", "movielens" or "rated".
        settings: what differs from the environment's defaults, as sorted pairs.
        alpha: the share of the baseline reward that may be risked.
        epochs, rounds: how many epochs a trial has, and how many rounds an epoch.
        knows: what the policies are told besides the requests: a key of `KNOWS`.
        tuning: settings of the paper's algorithm that differ from its default, as sorted pairs.

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
    knows: str = SOURCE
    tuning: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.knows not in KNOWS:
            raise SettingError(f"knows={self.knows!r} is not known; choose one of {', '.join(KNOWS)}.")

    @classmethod
    def of(
        cls,
        environment: str,
        *,
        alpha: float = DEFAULT_ALPHA,
        epochs: int = 4,
        rounds: int = 50,
        knows: str = SOURCE,
        tuning: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Point:
        """A point by keywords; those that are no field of its own are the environment's."""
        pairs = tuple(sorted(settings.items()))
        tuned = tuple(sorted((tuning or {}).items()))
        return cls(
            environment=environment, settings=pairs, alpha=alpha, epochs=epochs, rounds=rounds,
            knows=knows, tuning=tuned,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """A readable key that is also a folder's name: the environment, and what is not at its default."""
        defaults = Point(environment=self.environment)
        own = [(k, getattr(self, k)) for k in ("alpha", "epochs", "rounds", "knows")]
        changed = [(k, v) for k, v in own if v != getattr(defaults, k)]
        pairs = (*self.settings, *self.tuning, *changed)
        return ",".join([self.environment, *(f"{k}={v}" for k, v in pairs)])

    def build(self) -> Environment:
        """The environment; a worker builds its own, so that nothing large travels between processes."""
        if self.environment == SYNTHETIC:
            from banister.environments.synthetic import Synthetic

            return Synthetic(**dict(self.settings))
        if self.environment == MOVIELENS:
            from banister.environments.movielens import MovieLens

            return MovieLens(**dict(self.settings))
        if self.environment == RATED:
            from banister.environments.rated import RatedMovies

            return RatedMovies(**dict(self.settings))
        known = ", ".join(map(repr, (SYNTHETIC, MOVIELENS, RATED)))
        raise SettingError(f"There is no environment {self.environment!r}; use one of {known}.")

    @property
    def needs_ratings(self) -> bool:
        """Whether it needs the rating file."""
        return self.environment in (MOVIELENS, RATED)
