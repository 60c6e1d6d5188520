"""Who competes: every policy of the study, as data.

The default reading gives all policies the same rows: each estimates from the rows of the epoch just ended, as
Algorithm 1 does, and the rivals without a safety rule play at random in their first epoch. What the paper
leaves open is a competitor of its own, so that claims can be checked under each reading.
"""

from __future__ import annotations

from typing import Any

from banister.errors import SettingError
from banister.estimators.paper import PaperSolver
from banister.policies.epoch_fits import ConvergedSolver
from banister.studies.competitor import LABELS, NOISE, NORM, RANK, Competitor

_SAFE = "safe_altgdmin.SafeAltGDmin"
_BANDIT: dict[str, Any] = {"takes": ("alpha",), "assumes": (NOISE, NORM), "uses": (LABELS,), "mixes": True}
_TOTAL: dict[str, Any] = {**_BANDIT, "mixes": False}
_PAPER: dict[str, Any] = {"home": _SAFE, "takes": ("alpha",), "assumes": (RANK, NORM), "mixes": True}

_LIST = (
    Competitor(
        name="certified",
        label="Safe-AltGDmin, certified",
        home=_SAFE,
        takes=("alpha",),
        meaning="Ours: plays an action only if a lower confidence bound clears the floor; finds the rank "
        "itself, pools its data and refits as they grow.",
    ),
    Competitor(
        name="paper",
        label="Safe-AltGDmin, as printed",
        settings={"safety": "paper"},
        tuned=True,
        **_PAPER,
        meaning="Algorithm 1 line by line: the conservative mixture with Lemma l8's ρ in epoch 1, then "
        "greedy; the rank is given; L = 100 gradient steps on each epoch's own rows, γ from epoch 1.",
    ),
    Competitor(
        name="paper-short-step",
        label="as printed, c = 0.02",
        settings={"safety": "paper", "solver": PaperSolver(c=0.02)},
        **_PAPER,
        meaning="Algorithm 1 with c = 0.02 in the step γ; the paper asks for c ≤ 0.5 and does not say which.",
    ),
    Competitor(
        name="converged",
        label="Safe-AltGDmin, converged",
        settings={"safety": "converged"},
        **_PAPER,
        meaning="The paper's schedule on the same rows, with a fit that converged in the place of Algorithm "
        "1's gradient steps; the rank is given.",
    ),
    Competitor(
        name="trace-norm",
        label="Trace norm",
        home="trace_norm_greedy.TraceNormGreedy",
        settings={"pool": False},
        uses=(LABELS,),
        meaning="Convex relaxation, penalty by cross-validation; random first epoch, then greedy; each "
        "epoch's own rows.",
    ),
    Competitor(
        name="moments",
        label="Method of moments",
        home="moments_greedy.MomentsGreedy",
        settings={"pool": False},
        assumes=(RANK,),
        meaning="B from epoch 1 and W from epoch 2, both random, then greedy; each epoch's own rows.",
    ),
    Competitor(
        name="thompson",
        label="Thompson sampling",
        home="conservative_thompson.ConservativeThompson",
        **_BANDIT,
        meaning="Stage-wise conservative linear Thompson sampling, one bandit per task.",
    ),
    Competitor(
        name="ucb",
        label="Conservative UCB",
        home="conservative_ucb.ConservativeUCB",
        **_BANDIT,
        meaning="The UCB twin of Thompson sampling, one bandit per task.",
    ),
    Competitor(
        name="pooled-ucb",
        label="Pooled conservative UCB",
        home="pooled_ucb.PooledConservativeUCB",
        **_BANDIT,
        meaning="One parameter for all tasks, agents share their sums (DiSC-UCB).",
    ),
    Competitor(
        name="clucb",
        label="CLUCB",
        home="clucb.CLUCB",
        **_TOTAL,
        meaning="Optimism held back by the total so far, one bandit per task; single plays may violate.",
    ),
    Competitor(
        name="clucb2",
        label="CLUCB2",
        home="clucb2.CLUCB2",
        **_TOTAL,
        meaning="CLUCB with a constrained choice and a tighter account of the past.",
    ),
    Competitor(
        name="sege",
        label="SEGE",
        home="safe_explore_greedy.SafeExploreGreedy",
        **_BANDIT,
        meaning="Safe exploration until every direction is known, then the greedy safe action; one per task.",
    ),
    Competitor(
        name="spectral-ucb",
        label="Spectral UCB",
        home="spectral_ucb.SpectralUCB",
        assumes=(RANK, NOISE, NORM),
        meaning="Optimism around a spectral subspace of random rows (MTLR-OFUL made computable); no safety.",
    ),
    Competitor(
        name="low-rank-ucb",
        label="Low-rank UCB",
        home="low_rank_ucb.LowRankUCB",
        assumes=(RANK, NOISE),
        uses=(LABELS,),
        meaning="Optimism over a low-rank fit; no safety.",
    ),
    Competitor(
        name="altgdmin-pooled",
        label="AltGDmin greedy, pooled",
        home="altgdmin_greedy.AltGDminGreedy",
        assumes=(RANK,),
        uses=(LABELS,),
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
        assumes=(RANK,),
        meaning="The method of moments refitted every 10 rounds on all rows so far; 20 random rounds.",
    ),
    Competitor(
        name="printed-split",
        label="as printed, rows split",
        settings={"safety": "paper", "solver": PaperSolver(split=True, iterations=12)},
        **_PAPER,
        meaning="Algorithm 1 with its line Sample-split, which 50 rows allow for L = 12.",
    ),
    Competitor(
        name="printed-each-epoch",
        label="+ step anew each epoch",
        settings={"safety": "paper", "solver": PaperSolver(step="each epoch")},
        **_PAPER,
        meaning="Algorithm 1 with γ set from each epoch's own rows.",
    ),
    Competitor(
        name="printed-sigma",
        label="+ σ_max known",
        settings={"safety": "paper", "solver": PaperSolver(sigma_max=1.0)},
        **_PAPER,
        meaning="Algorithm 1 with the true σ_max = 1 of the synthetic settings in γ.",
    ),
    Competitor(
        name="converged-spectral",
        label="+ solver that converges",
        settings={"safety": "converged", "solver": ConvergedSolver(starts="spectral")},
        **_PAPER,
        meaning="Algorithm 1's rows and spectral start, solved to convergence.",
    ),
    Competitor(
        name="converged-pooled",
        label="+ all rows so far",
        settings={"safety": "converged", "solver": ConvergedSolver(pool=True)},
        **_PAPER,
        meaning="The converged fit on all rows so far instead of the last epoch's.",
    ),
    Competitor(
        name="converged-often",
        label="+ estimates every 10 rounds",
        settings={"safety": "converged", "solver": ConvergedSolver(pool=True, every=10)},
        **_PAPER,
        meaning="The converged fit on all rows, anew every 10 rounds; the mixture for the first 10.",
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
FILMS = (*PAPERS, "pooled-ucb")  # all tasks share one parameter there, which is what that rival is made for
EVERYONE = (
    *PAPERS,
    *("ucb", "sege", "clucb", "clucb2", "pooled-ucb", "low-rank-ucb", "spectral-ucb", "altgdmin-pooled"),
    *("baseline", "oracle"),
)

# From the printed algorithm to the repaired one, one change at a time.
STEPS = (
    *("printed-split", "paper", "printed-each-epoch", "printed-sigma", "converged-spectral", "converged"),
    *("converged-pooled", "converged-often", "certified"),
)


def parse_names(text: str) -> tuple[str, ...]:
    """The policies named in a list with commas, each by its name or by its label in tables.

    Some labels hold a comma, so the longest run of parts that is a label counts as one.

    Examples:
        >>> parse_names("moments, Safe-AltGDmin, certified, Trace norm")
        ('moments', 'certified', 'trace-norm')
    """
    known = {_key(word): c.name for c in _LIST for word in (c.name, c.label)}
    parts = [part for part in text.split(",") if part.strip()]
    names: list[str] = []
    while parts:
        runs = (n for n in range(len(parts), 0, -1) if _key(",".join(parts[:n])) in known)
        run = next(runs, None)
        if run is None:
            raise SettingError(
                f"There is no policy called {parts[0].strip()!r}; known are {', '.join(COMPETITORS)}."
            )
        names.append(known[_key(",".join(parts[:run]))])
        del parts[:run]
    return tuple(dict.fromkeys(names))


def _key(word: str) -> str:
    """A name without what readers do not see: letter case and spaces."""
    return "".join(word.lower().split())
