"""Banister: bandits with a handrail.

Improve many related decision problems at once, and never let any of them earn less than a set share of
what the policy in place already earns. Public names are loaded on first use, so importing is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from banister import errors

__version__ = "0.1.0"

_HOME = {
    "SafeBandit": "banister.online.bandit",
    "Decision": "banister.online.decision",
    "SafeAltGDmin": "banister.policies.safe_altgdmin",
    "TaskData": "banister.data",
    "AltGDmin": "banister.estimators.altgdmin",
    "DiskPool": "banister.solver.local",
    "RayPool": "banister.solver.cluster",
    "pack": "banister.solver.pack",
    "TraceNorm": "banister.estimators.trace_norm",
    "MethodOfMoments": "banister.estimators.moments",
    "TaskRidge": "banister.estimators.ridge",
    "MovieLens": "banister.environments.movielens",
    "Requests": "banister.contract",
    "Choices": "banister.contract",
    "Outcomes": "banister.contract",
    "Synthetic": "banister.environments.synthetic",
    "BaselineOnly": "banister.policies.reference",
    "Oracle": "banister.policies.reference",
    "TraceNormGreedy": "banister.policies.trace_norm_greedy",
    "MomentsGreedy": "banister.policies.moments_greedy",
    "AltGDminGreedy": "banister.policies.altgdmin_greedy",
    "ConservativeThompson": "banister.policies.conservative_thompson",
    "ConservativeUCB": "banister.policies.conservative_ucb",
    "PooledConservativeUCB": "banister.policies.pooled_ucb",
    "LowRankUCB": "banister.policies.low_rank_ucb",
    "simulate": "banister.simulation.trial",
    "compare": "banister.simulation.trial",
}

__all__ = ["__version__", "errors", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'banister' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)


if TYPE_CHECKING:
    from banister.data import TaskData as TaskData
