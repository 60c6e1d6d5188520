"""Who competes: every policy of the study, as data.

The default reading gives all policies the same rows: each estimates from the rows of the epoch just ended, as
Algorithm 1 does, and the rivals without a safety rule play at random in their first epoch. What the paper
leaves open is a competitor of its own, so that claims can be checked under each reading.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from banister.contract import Environment, Policy
from banister.errors import SettingError
from banister.estimators.paper import PaperSolver
from banister.simulation.point import Point


@dataclass(frozen=True, kw_only=True)
class Competitor:
    """A policy with its settings.

    Attributes:
        name: its key in results and on the command line.
        label: how figures and tables call it.
        home: the module and class it is built from.
        settings: its keyword arguments.
        takes: what else it is handed: "alpha" and "rank" of the setting, or "env" (the yardstick that sees
            the truth).
        meaning: what it is, in a sentence.
    """

    name: str
    label: str
    home: str
    settings: dict[str, Any] = field(default_factory=dict)
    takes: tuple[str, ...] = ()
    meaning: str

    def build(self, point: Point, env: Environment) -> Policy:
        """The policy for one trial."""
        given = {"alpha": point.alpha, "rank": env.rank, "env": env}
        module, _, name = self.home.rpartition(".")
        policy: Policy = getattr(import_module(f"banister.policies.{module}"), name)(
            **self.settings, **{key: given[key] for key in self.takes}
        )
        return policy


_LIST = (
    Competitor(
        name="certified",
        label="Safe-AltGDmin, certified",
        home="safe_altgdmin.SafeAltGDmin",
        takes=("alpha",),
        meaning="Ours: plays an action only if a lower confidence bound clears the floor; finds the rank "
        "itself, pools its data and refits as they grow.",
    ),
    Competitor(
        name="paper",
        label="Safe-AltGDmin, as printed",
        home="safe_altgdmin.SafeAltGDmin",
        settings={"safety": "paper"},
        takes=("alpha", "rank"),
        meaning="Algorithm 1 line by line: the conservative mixture with Lemma l8's ρ in epoch 1, then "
        "greedy; the rank is given; L = 100 gradient steps on each epoch's own rows, γ from epoch 1.",
    ),
    Competitor(
        name="paper-short-step",
        label="as printed, c = 0.02",
        home="safe_altgdmin.SafeAltGDmin",
        settings={"safety": "paper", "solver": PaperSolver(c=0.02)},
        takes=("alpha", "rank"),
        meaning="Algorithm 1 with c = 0.02 in the step γ; the paper asks for c ≤ 0.5 and does not say which.",
    ),
    Competitor(
        name="converged",
        label="Safe-AltGDmin, converged",
        home="safe_altgdmin.SafeAltGDmin",
        settings={"safety": "converged"},
        takes=("alpha", "rank"),
        meaning="The paper's schedule on the same rows, with a fit that converged in the place of Algorithm "
        "1's gradient steps; the rank is given.",
    ),
    Competitor(
        name="trace-norm",
        label="Trace norm",
        home="trace_norm_greedy.TraceNormGreedy",
        settings={"pool": False},
        meaning="Convex relaxation, penalty by cross-validation; random first epoch, then greedy; each "
        "epoch's own rows.",
    ),
    Competitor(
        name="moments",
        label="Method of moments",
        home="moments_greedy.MomentsGreedy",
        settings={"pool": False},
        takes=("rank",),
        meaning="B from epoch 1 and W from epoch 2, both random, then greedy; each epoch's own rows.",
    ),
    Competitor(
        name="thompson",
        label="Thompson sampling",
        home="conservative_thompson.ConservativeThompson",
        takes=("alpha",),
        meaning="Stage-wise conservative linear Thompson sampling, one bandit per task.",
    ),
    Competitor(
        name="ucb",
        label="Conservative UCB",
        home="conservative_ucb.ConservativeUCB",
        takes=("alpha",),
        meaning="The UCB twin of Thompson sampling, one bandit per task.",
    ),
    Competitor(
        name="pooled-ucb",
        label="Pooled conservative UCB",
        home="pooled_ucb.PooledConservativeUCB",
        takes=("alpha",),
        meaning="One parameter for all tasks, agents share their sums (DiSC-UCB).",
    ),
    Competitor(
        name="low-rank-ucb",
        label="Low-rank UCB",
        home="low_rank_ucb.LowRankUCB",
        takes=("rank",),
        meaning="Optimism over a low-rank fit; no safety.",
    ),
    Competitor(
        name="altgdmin-pooled",
        label="AltGDmin greedy, pooled",
        home="altgdmin_greedy.AltGDminGreedy",
        takes=("rank",),
        meaning="AltGDmin on all rows so far, random first epoch, greedy; no safety.",
    ),
    Competitor(
        name="trace-norm-pooled",
        label="Trace norm, pooled",
        home="trace_norm_greedy.TraceNormGreedy",
        meaning="The trace norm on all rows so far.",
    ),
    Competitor(
        name="trace-norm-online",
        label="Trace norm, online",
        home="trace_norm_greedy.TraceNormGreedy",
        settings={"online": 10},
        meaning="The trace norm refitted every 10 rounds on all rows so far; 10 random rounds.",
    ),
    Competitor(
        name="moments-online",
        label="Moments, online",
        home="moments_greedy.MomentsGreedy",
        settings={"online": 10},
        takes=("rank",),
        meaning="The method of moments refitted every 10 rounds on all rows so far; 20 random rounds.",
    ),
    Competitor(
        name="baseline",
        label="Baseline only",
        home="reference.BaselineOnly",
        meaning="The policy in place.",
    ),
    Competitor(
        name="oracle",
        label="Oracle",
        home="reference.Oracle",
        takes=("env",),
        meaning="The truly best action.",
    ),
)

COMPETITORS = {competitor.name: competitor for competitor in _LIST}

OURS = ("certified", "converged", "paper")
PAPERS = ("certified", "converged", "paper", "trace-norm", "moments", "thompson")
EVERYONE = (
    *PAPERS,
    *("ucb", "pooled-ucb", "low-rank-ucb", "altgdmin-pooled", "baseline", "oracle"),
)


def check_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names if all are known, else an error that lists those that are."""
    unknown = [name for name in names if name not in COMPETITORS]
    if unknown:
        raise SettingError(
            f"There is no policy called {', '.join(map(repr, unknown))}; known are {', '.join(COMPETITORS)}."
        )
    return names
