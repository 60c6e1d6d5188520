"""The claims on panel 3e: is the measured contraction at least the promised one, and for how long."""

from __future__ import annotations

import numpy as np

from banister import theory
from banister.data import Float
from banister.report.intervals import mean_interval, share_interval
from banister.studies.contraction import ENVIRONMENT
from banister.studies.evidence import Estimate, Evidence
from banister.studies.verdicts import Check, above, listed, never
from banister.theory.contraction import FIRST, LATER

_FIRST_ITERATIONS = 5  # before noise or rounding has a say


def paths(evidence: Evidence, name: str) -> Float | None:
    """(trials, iterations + 1) distances of a design or a promise."""
    import polars as pl

    one = evidence.rows.filter((pl.col("point") == ENVIRONMENT) & (pl.col("policy") == name))
    if one.is_empty():
        return None
    wide = one.sort("trial", "epoch").pivot(on="epoch", index="trial", values="subspace_distance")
    found: Float = wide.drop("trial").to_numpy()
    return found


def faster_than(evidence: Evidence, design: str, theorem: str, reading: str) -> Check:
    """The coefficient a of `1 − a γ σ_min²` over the first iterations, against the theorem's."""
    limit = FIRST if theorem == "T5" else LATER
    path, estimate = paths(evidence, design), None
    if path is not None:
        gamma = theory.first_step_size(rho=0.0, sigma_max=1.0)
        factor = (path[:, _FIRST_ITERATIONS] / path[:, 0]) ** (1.0 / _FIRST_ITERATIONS)
        estimate = Estimate(*mean_interval((1.0 - factor) / gamma), len(path), design)
    statistic = f"coefficient a of the factor 1 − aγσ², {theorem} promises {limit:g}"
    return above(f"{reading}, {theorem}", statistic, listed(estimate), limit)


def stays_below(evidence: Evidence, design: str, theorem: str, reading: str) -> Check:
    """Whether a path ever rises above the promise."""
    path, promise, estimate = paths(evidence, design), paths(evidence, theorem), None
    if path is not None and promise is not None:
        over = path > promise[: len(path)] * (1.0 + 1e-9)
        broken = int(over.any(axis=1).sum())
        first = int(np.argmax(over.any(axis=0))) if broken else 0
        where = f"first at iteration {first}" if broken else ""
        estimate = Estimate(*share_interval(broken, len(path)), len(path), where)
    return never(f"{reading}, {theorem}", f"share of trials that rise above {theorem}'s curve", estimate)
