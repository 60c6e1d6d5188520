"""`Competitor`: a policy of the study as data, and what it is told at each level of knowledge."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from banister.contract import Environment, Policy
from banister.estimators.paper import PaperSolver
from banister.simulation.point import SOURCE, Point

RANK, NOISE, NORM, LABELS = "rank", "noise", "norm_bound", "labels"

_LEVELS: dict[str, tuple[str, ...]] = {"nothing": (), "scales": (NOISE, NORM), "labels": (LABELS,)}


@dataclass(frozen=True, kw_only=True)
class Competitor:
    """A policy with its settings.

    Attributes:
        name: its key in results and on the command line.
        label: how figures and tables call it.
        home: the module and class it is built from.
        settings: its keyword arguments.
        takes: what else it is handed: "alpha" of the setting, or "env" (the yardstick that sees the truth).
        assumes: what its source takes for known: "rank", "noise" (R), "norm_bound" (S).
        uses: what more it could use if it were told: the same, and "labels".
        mixes: whether it plays mixtures unless told that there are none, as in a catalogue.
        tuned: whether a point's `tuning` is meant for it.
        meaning: what it is, in a sentence.
    """

    name: str
    label: str
    home: str
    settings: dict[str, Any] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    mixes: bool = False
    tuned: bool = False
    meaning: str

    def told(self, knows: str) -> tuple[str, ...]:
        """What it is told at a level of `KNOWS`.

        Examples:
            >>> one = Competitor(name="", label="", home="", assumes=("noise",), uses=("labels",), meaning="")
            >>> [one.told(level) for level in ("nothing", "scales", "source", "all")]
            [(), ('noise',), ('noise',), ('noise', 'labels')]
        """
        if knows == SOURCE:
            return self.assumes
        usable = (*self.assumes, *self.uses)
        if knows == "all":
            return tuple(name for name in usable if name in self.assumes or name == LABELS)
        return tuple(name for name in usable if name in _LEVELS[knows])

    def build(self, point: Point, env: Environment) -> Policy:
        """The policy for one trial; a norm bound it is told is set when the trial's truth is drawn."""
        given = {
            "alpha": point.alpha,
            "env": env,
            RANK: env.rank,
            NOISE: getattr(env, "noise_std", None),
            LABELS: True,
        }
        told = [name for name in self.told(point.knows) if name != NORM]
        mixing = {"mixing": False} if self.mixes and getattr(env, "catalogue", False) else {}
        handed = {key: given[key] for key in (*self.takes, *told)}
        settings = {**self.settings, **self._tuning(point), **mixing, **handed}
        module, _, name = self.home.rpartition(".")
        policy: Policy = getattr(import_module(f"banister.policies.{module}"), name)(**settings)
        return Informed(policy, env) if NORM in self.told(point.knows) else policy  # type: ignore[return-value]

    def _tuning(self, point: Point) -> dict[str, Any]:
        """The point's settings of Algorithm 1: ρ is the policy's, the rest its solver's."""
        if not self.tuned or not point.tuning:
            return {}
        wanted = dict(point.tuning)
        rho = {"rho": wanted.pop("rho")} if "rho" in wanted else {}
        return {**rho, "solver": replace(self.settings.get("solver", PaperSolver()), **wanted)}


class Informed:
    """A policy that is told, at the start of each trial, a bound on every ‖θ_t‖: their largest."""

    def __init__(self, policy: Any, env: Environment) -> None:
        self._policy, self._env = policy, env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """The policy's, with the bound set first."""
        self._policy.norm_bound = float(np.linalg.norm(self._env.theta, axis=0).max())
        self._policy.reset(n_tasks, rng)
