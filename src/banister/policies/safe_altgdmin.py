"""Safe-AltGDmin: learn a representation that tasks share, and never earn less than the floor."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np

from banister.contract import Environment
from banister.data import Float
from banister.errors import SettingError
from banister.estimators.paper import PaperSolver
from banister.policies._checks import check_count
from banister.policies._moded import Moded
from banister.policies.certified_mode import CertifiedMode
from banister.policies.epoch_fits import ConvergedFit, ConvergedSolver, PrintedFit
from banister.policies.epoch_mode import EpochMode
from banister.policies.schedules import Schedule
from banister.safety.believer import Believer
from banister.safety.constraint import Constraint
from banister.safety.exploration import ConservativeMixture


class SafeAltGDmin(Moded):
    """Safe-AltGDmin in three modes: certified by the data, as the paper prints it, or with a converged fit.

    `safety="certified"` (the default) plays an action only if a lower confidence bound on its expected reward
    clears the floor, refits as data grow, and keeps every gate shut while the model cannot be trusted.
    `safety="paper"` is Algorithm 1 as printed, line by line: conservative exploration in the first epoch,
    then greedy on L gradient steps; `solver=PaperSolver(...)` holds what the paper leaves open.
    `safety="converged"` plays the same schedule on the same rows, but on a fit that converged.

    Args:
        alpha: the share of the baseline reward that may be risked, strictly between 0 and 1.
        safety: "certified", "paper" or "converged".
        rank: r; None to find it in the data. In certified mode it is the most directions that tasks may
            share; what they do not explain counts as left over.
        schedule: when certified mode refits, in rounds; by default whenever the data have grown by a quarter,
            and twentyfold once hardly a request stays at its baseline.
        confidence: of all bounds of certified mode together.
        mixing: whether the mixture `(1−ρ)x_b + ρζ` can be played while nothing is certified. None: on the
            paper's schedule yes, in certified mode no (a catalogue has no mixtures).
        rho: a constant ρ (Algorithm 1, line 6); None for Lemma l8's largest safe one, per request.
        norm_bound: a bound on ‖θ_t‖ for Lemma l8; None to estimate one, conservatively, from the requests.
        horizon: rounds over which Lemma l8's probability is shared out.
        delta: that probability.
        reward_bounds: `(r_l, r_h)`, for requests whose baseline reward is unknown (the paper's last remark
            before its simulations): ρ is then safe for every reward in between; without it ρ is 0 there.
        solver: a `PaperSolver` (paper's mode) or a `ConvergedSolver` (converged mode); None for the default.
        literal_floor: use the paper's `(1−α) r_b` also where `r_b` is negative.

    Examples:
        >>> from banister import SafeAltGDmin, Synthetic, simulate
        >>> env = Synthetic(dim=10, rank=1, tasks=12, actions=5, baseline_rank=3)
        >>> result = simulate(env, SafeAltGDmin(alpha=0.2), epochs=2, rounds=20)
        >>> int(result.violations.sum())
        0
    """

    def __init__(
        self,
        alpha: float = 0.2,
        *,
        safety: Literal["certified", "paper"] = "certified",
        rank: int | None = None,
        schedule: Schedule | None = None,
        confidence: float = 0.95,
        mixing: bool | None = None,
        rho: float | None = None,
        norm_bound: float | Float | None = None,
        horizon: int = 200,
        delta: float = 0.01,
        reward_bounds: tuple[float, float] | None = None,
        solver: PaperSolver | ConvergedSolver | None = None,
        literal_floor: bool = False,
    ) -> None:
        _check_mode(safety, schedule, solver)
        if rank is not None:
            check_count("rank", rank)
        check_count("horizon", horizon)
        self.constraint = Constraint(alpha, literal_floor)
        self.alpha = alpha
        self.safety, self.rank, self.schedule, self.confidence = safety, rank, schedule, confidence
        self.mixing = safety != "certified" if mixing is None else mixing
        self.rho, self.norm_bound, self.horizon, self.delta = rho, norm_bound, horizon, delta
        self.reward_bounds, self.solver = _check_bounds(reward_bounds), solver
        Believer(confidence=confidence)  # a bad setting is an error now, not at the first trial
        self._mixture(1)

    @classmethod
    def example(cls, env: Environment) -> Self:
        """A small instance for the contract tests."""
        return cls()

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        if self.safety != "certified":
            fit = self._fit(rng)
            self._mode: EpochMode | CertifiedMode = EpochMode(
                self.constraint, self._mixture(n_tasks), fit, n_tasks, rng
            )
        else:
            self._mode = CertifiedMode(
                self.constraint,
                Believer(confidence=self.confidence, rank=self.rank),
                self.schedule,
                self._mixture(n_tasks) if self.mixing else None,
                n_tasks,
                rng,
            )

    def _fit(self, rng: np.random.Generator) -> PrintedFit | ConvergedFit:
        if self.safety == "paper":
            solver = self.solver if isinstance(self.solver, PaperSolver) else PaperSolver()
            return PrintedFit(solver, self.rank, rng)
        converged = self.solver if isinstance(self.solver, ConvergedSolver) else ConvergedSolver()
        return ConvergedFit(converged, self.rank, rng)

    def _mixture(self, n_tasks: int) -> ConservativeMixture:
        return ConservativeMixture(
            plays=self.horizon * n_tasks,
            rho=self.rho,
            norm_bound=self.norm_bound,
            delta=self.delta,
            mixing=self.mixing,
            reward_bounds=self.reward_bounds,
        )


def _check_mode(safety: str, schedule: Schedule | None, solver: object) -> None:
    fitting = {"certified": type(None), "paper": PaperSolver, "converged": ConvergedSolver}
    if safety not in fitting:
        raise SettingError(f"safety={safety!r} must be 'certified', 'paper' or 'converged'.")
    if solver is not None and not isinstance(solver, fitting[safety]):
        raise SettingError(
            f"solver={solver!r} does not go with safety={safety!r}: a PaperSolver is for 'paper', a "
            "ConvergedSolver for 'converged', and certified mode has its own fit."
        )
    if safety != "certified" and schedule is not None:
        raise SettingError(
            f"schedule is for safety='certified'; with safety={safety!r} the trial's epochs decide."
        )


def _check_bounds(bounds: tuple[float, float] | None) -> tuple[float, float] | None:
    if bounds is not None and not (len(bounds) == 2 and -np.inf < bounds[0] <= bounds[1] < np.inf):
        raise SettingError(f"reward_bounds={bounds!r} must be (r_l, r_h), finite, with r_l ≤ r_h.")
    return bounds
