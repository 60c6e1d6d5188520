"""Banister: bandits with a handrail.

Improve many related decision problems at once, and never let any of them earn less than a set share of
what the policy in place already earns. Public names are loaded on first use, so importing is cheap; type
checkers and editors read the imports at the end of this file instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from banister import _cache, errors

_cache.ready()

__version__ = "0.2.0"

_HOME = {
    "SafeBandit": "banister.online.bandit",
    "Decision": "banister.online.decision",
    "Client": "banister.serve.client",
    "AsyncClient": "banister.serve.client",
    "Arms": "banister.features.arms",
    "Items": "banister.features.items",
    "SafeAltGDmin": "banister.policies.safe_altgdmin",
    "SafeDraws": "banister.policies.safe_draws",
    "NoPromise": "banister.policies.no_promise",
    "PaperSolver": "banister.estimators.paper",
    "ConvergedSolver": "banister.policies.epoch_fits",
    "TaskData": "banister.data",
    "AltGDmin": "banister.estimators.altgdmin",
    "DiskPool": "banister.solver.local",
    "RayPool": "banister.solver.cluster",
    "RayWorkers": "banister.solver.work",
    "pack": "banister.solver.pack",
    "TraceNorm": "banister.estimators.trace_norm",
    "MethodOfMoments": "banister.estimators.moments",
    "TaskRidge": "banister.estimators.ridge",
    "MovieLens": "banister.environments.movielens",
    "RatedMovies": "banister.environments.rated",
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
    "SpectralUCB": "banister.policies.spectral_ucb",
    "SafeExploreGreedy": "banister.policies.safe_explore_greedy",
    "CLUCB": "banister.policies.clucb",
    "CLUCB2": "banister.policies.clucb2",
    "simulate": "banister.simulation.trial",
    "compare": "banister.studies.comparison",
    "from_logs": "banister.environments.replay",
    "Policy": "banister.contract",
    "LinearEnvironment": "banister.environments.base",
}

# Spelled out, because type checkers read no other form; a test holds it and the imports to `_HOME`.
__all__ = [
    "AltGDmin",
    "AltGDminGreedy",
    "Arms",
    "AsyncClient",
    "BaselineOnly",
    "CLUCB",
    "CLUCB2",
    "Choices",
    "Client",
    "ConservativeThompson",
    "ConservativeUCB",
    "ConvergedSolver",
    "Decision",
    "DiskPool",
    "Items",
    "LinearEnvironment",
    "LowRankUCB",
    "MethodOfMoments",
    "MomentsGreedy",
    "MovieLens",
    "NoPromise",
    "Oracle",
    "Outcomes",
    "PaperSolver",
    "Policy",
    "PooledConservativeUCB",
    "RatedMovies",
    "RayPool",
    "RayWorkers",
    "Requests",
    "SafeAltGDmin",
    "SafeBandit",
    "SafeDraws",
    "SafeExploreGreedy",
    "SpectralUCB",
    "Synthetic",
    "TaskData",
    "TaskRidge",
    "TraceNorm",
    "TraceNormGreedy",
    "__version__",
    "compare",
    "errors",
    "from_logs",
    "pack",
    "simulate",
]


if TYPE_CHECKING:
    from banister.contract import Choices, Outcomes, Policy, Requests
    from banister.data import TaskData
    from banister.environments.base import LinearEnvironment
    from banister.environments.movielens import MovieLens
    from banister.environments.rated import RatedMovies
    from banister.environments.replay import from_logs
    from banister.environments.synthetic import Synthetic
    from banister.estimators.altgdmin import AltGDmin
    from banister.estimators.moments import MethodOfMoments
    from banister.estimators.paper import PaperSolver
    from banister.estimators.ridge import TaskRidge
    from banister.estimators.trace_norm import TraceNorm
    from banister.features.arms import Arms
    from banister.features.items import Items
    from banister.online.bandit import SafeBandit
    from banister.online.decision import Decision
    from banister.policies.altgdmin_greedy import AltGDminGreedy
    from banister.policies.clucb import CLUCB
    from banister.policies.clucb2 import CLUCB2
    from banister.policies.conservative_thompson import ConservativeThompson
    from banister.policies.conservative_ucb import ConservativeUCB
    from banister.policies.epoch_fits import ConvergedSolver
    from banister.policies.low_rank_ucb import LowRankUCB
    from banister.policies.moments_greedy import MomentsGreedy
    from banister.policies.no_promise import NoPromise
    from banister.policies.pooled_ucb import PooledConservativeUCB
    from banister.policies.reference import BaselineOnly, Oracle
    from banister.policies.safe_altgdmin import SafeAltGDmin
    from banister.policies.safe_draws import SafeDraws
    from banister.policies.safe_explore_greedy import SafeExploreGreedy
    from banister.policies.spectral_ucb import SpectralUCB
    from banister.policies.trace_norm_greedy import TraceNormGreedy
    from banister.serve.client import AsyncClient, Client
    from banister.simulation.trial import simulate
    from banister.solver.cluster import RayPool
    from banister.solver.local import DiskPool
    from banister.solver.pack import pack
    from banister.solver.work import RayWorkers
    from banister.studies.comparison import compare
else:  # a checker that saw `__getattr__` would let every misspelt name pass

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module 'banister' has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return list(__all__)
