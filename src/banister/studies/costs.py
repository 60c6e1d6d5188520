"""How long a workload takes: from seconds measured, in this run if it has begun, else in an earlier one.

`costs.json` holds, for every point, the mean seconds of each policy and what a trial costs besides ("").
`benchmarks/costs.py` writes it from a finished run.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING

from banister.simulation.store import Job

if TYPE_CHECKING:
    import polars as pl

Costs = dict[str, dict[str, float]]

_UNKNOWN = 2.0  # seconds of a policy that was never measured


def shipped() -> Costs:
    """The seconds measured when this version was made; see `costs.json` for where."""
    table: Costs = json.loads((files("banister.studies") / "costs.json").read_text("utf-8"))["seconds"]
    return table


def measured(rows: pl.DataFrame) -> Costs:
    """Mean seconds of each policy at each point, and of the rest of a trial."""
    import polars as pl

    trials = rows.group_by("point", "trial", "policy").agg(pl.col("seconds").sum(), pl.col("wall").first())
    costs: Costs = {}
    for (point, policy), group in trials.group_by("point", "policy"):
        costs.setdefault(str(point), {})[str(policy)] = float(group["seconds"].mean() or 0.0)  # type: ignore[arg-type]
    # One job's policies carry the same wall time; what they did not spend is the environment's.
    jobs = trials.group_by("point", "trial", "wall").agg(pl.col("seconds").sum())
    for (point,), group in jobs.group_by("point"):
        rest = (group["wall"] - group["seconds"]).mean()
        costs[str(point)][""] = max(float(rest or 0.0), 0.0)  # type: ignore[arg-type]
    return costs


def job_seconds(job: Job, costs: Costs) -> float:
    """What a job is expected to take on one worker."""
    known = costs.get(job.point.name, {})
    return known.get("", 0.3) + sum(known.get(name) or _elsewhere(name, costs) for name in job.policies)


def _elsewhere(policy: str, costs: Costs) -> float:
    """What a policy takes on average at the points where it was measured."""
    found = [seconds[policy] for seconds in costs.values() if policy in seconds]
    return sum(found) / len(found) if found else _UNKNOWN


def merged(first: Costs, second: Costs) -> Costs:
    """`first`, and `second` where it says nothing."""
    return {
        point: {**second.get(point, {}), **first.get(point, {})} for point in dict.fromkeys([*first, *second])
    }
