"""One job of a study: build the environment and the policies, play the trial, return its rows."""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from banister.contract import Policy
from banister.simulation.point import SYNTHETIC, Point
from banister.simulation.store import Job
from banister.simulation.trial import one_trial, simulate
from banister.studies import contraction
from banister.studies.competitors import COMPETITORS

if TYPE_CHECKING:
    import polars as pl


def play(job: Job) -> pl.DataFrame:
    """The rows of a job: per policy and epoch every measure, and how often the policy's fits complained.

    `wall` is what the whole job took, `seconds` what the policy did; the rest is the same in every run.

    A trial's seed depends on its number alone: trial 7 of every point has the same source of randomness, so
    points that differ in one parameter are compared on the same draws wherever shapes allow it.
    """
    import polars as pl

    began = perf_counter()
    if job.point.environment == contraction.ENVIRONMENT:
        return contraction.measure(job).with_columns(seconds=0.0, wall=perf_counter() - began)
    _compile(job.policies)
    began = perf_counter()
    env = job.point.build()
    heard = {name: Heard(COMPETITORS[name].build(job.point, env)) for name in job.policies}
    results = one_trial(
        env,
        cast("dict[str, Policy]", heard),
        epochs=job.point.epochs,
        rounds=job.point.rounds,
        seed=trial_seed(job),
        alpha=job.point.alpha,
    )
    frames = [
        result.frame.with_columns(warnings=pl.lit(heard[name].warnings, dtype=pl.Int64))
        for name, result in results.items()
    ]
    rows = pl.concat(frames).with_columns(
        point=pl.lit(job.point.name),
        trial=pl.lit(job.trial, dtype=pl.Int64),
        wall=pl.lit(perf_counter() - began),
    )
    return rows.select("point", "trial", pl.exclude("point", "trial"))


# A worker's first use of a policy compiles or loads kernels; a trial of this size gets that over with, so
# that seconds are those of deciding and learning.
_SMALL = Point.of(SYNTHETIC, dim=5, rank=1, tasks=4, actions=3, baseline_rank=2, epochs=2, rounds=30)
_compiled: set[str] = set()


def _compile(policies: tuple[str, ...]) -> None:
    fresh = [name for name in policies if name not in _compiled]
    env = _SMALL.build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in fresh:
            simulate(
                env,
                COMPETITORS[name].build(_SMALL, env),
                epochs=_SMALL.epochs,
                rounds=_SMALL.rounds,
                alpha=0.2,
            )
    _compiled.update(fresh)


def trial_seed(job: Job) -> np.random.SeedSequence:
    """The child of the study's seed with the trial's number, as `SeedSequence.spawn` makes them."""
    return np.random.SeedSequence(job.seed, spawn_key=(job.trial,))


class Heard:
    """A policy whose warnings are counted instead of shown: thousands of trials would bury the screen."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.warnings = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def learn(self, outcomes: Any) -> None:
        """The policy's, with its warnings counted."""
        self._hear(self._policy.learn, outcomes)

    def end_epoch(self) -> None:
        """The policy's, with its warnings counted."""
        self._hear(self._policy.end_epoch)

    def _hear(self, call: Any, *args: Any) -> None:
        from banister.errors import CompileNotice

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(*args)
        self.warnings += sum(not issubclass(w.category, CompileNotice) for w in caught)
