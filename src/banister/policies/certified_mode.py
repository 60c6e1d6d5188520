"""Certified mode: play the best action whose lower bound clears the floor, else fall back on the baseline."""

from __future__ import annotations

import numpy as np

from banister.contract import Choices, Outcomes, Requests
from banister.data import Float
from banister.policies.schedules import GrowthSchedule, Schedule
from banister.safety import checks
from banister.safety.certificate import Certificate
from banister.safety.certify import Certifier
from banister.safety.constraint import Constraint
from banister.safety.evidence import Evidence
from banister.safety.exploration import ConservativeMixture

EAGER = GrowthSchedule(first=5, share=0.2)
_WATCH = 2  # rounds
SETTLED = GrowthSchedule(first=5, share=0.5)


class CertifiedMode:
    """Refits whenever the data have grown by a set share, and lets the certificate decide.

    Data are pooled over all time. Where nothing is certified the baseline is played, or the conservative
    mixture where mixtures can be.
    """

    def __init__(
        self,
        constraint: Constraint,
        certifier: Certifier,
        schedule: Schedule | None,
        mixture: ConservativeMixture | None,
        n_tasks: int,
        rng: np.random.Generator,
    ) -> None:
        self.constraint, self.certifier, self.schedule, self.mixture = (
            constraint,
            certifier,
            schedule,
            mixture,
        )
        self.n_tasks, self.rng = n_tasks, rng
        self.evidence = Evidence()
        self.certificate: Certificate | None = None
        self._decisions = 0
        self._next = self._schedule_now().next(0)

    @property
    def theta(self) -> Float | None:
        """The last fit's estimate, whether or not it opened a gate."""
        if self.certificate is None or self.certificate.rank == 0:
            return None
        return self.certificate.theta.T

    @property
    def block(self) -> int:
        """Rounds until the next refit, at one request a task; few while a drift could do harm."""
        missing = self._next * self.n_tasks - self.evidence.n_plays
        rounds = max(1, -(-missing // self.n_tasks))
        return min(rounds, _WATCH) if self.certificate is not None and self.certificate.opened else rounds

    def decide(self, requests: Requests) -> Choices:
        """The best certified action, else the fallback."""
        self._decisions += len(requests)
        if self.certificate is None:
            self.certificate = Certificate.closed(self.n_tasks, requests.dim)
        choices = self.certificate.judge(requests, self.constraint)
        self.evidence.see(requests)
        return choices if self.mixture is None else self._mixed(requests, choices, self.mixture)

    def _mixed(self, requests: Requests, choices: Choices, mixture: ConservativeMixture) -> Choices:
        """Mixtures in place of uncertified baselines; the reason stays that of the certificate."""
        mixed = mixture.choose(requests, self.constraint, self.rng)
        keep = choices.certified
        return Choices(
            np.where(keep[:, None], choices.features, mixed.features),
            np.where(keep, choices.index, mixed.index),
            keep,
            np.where(keep, choices.lower_bound, mixed.lower_bound),
            choices.floor,
            choices.reason,
        )

    def learn(self, outcomes: Outcomes) -> None:
        """Take in rewards; refit when the schedule says so, and start anew after a drift."""
        if self.certificate is not None:
            self.certificate.watch(outcomes)
            if self.certificate.drifted:
                self._start_anew(self.certificate.theta.shape[1])
        self.evidence.learn(outcomes)
        if self.evidence.n_plays >= self._next * self.n_tasks and len(outcomes):
            self.refit(outcomes.features.shape[1])

    def refit(self, dim: int) -> None:
        """A new certificate from everything seen; where a fit settles nothing, an open one stays."""
        new = self.certifier.certify(self.evidence, self.n_tasks, dim, self._decisions, self.rng)
        if self.certificate is None or not (new.undecided and self.certificate.opened):
            self.certificate = new
        self._next = self._schedule_now().next(self.evidence.n_plays // self.n_tasks)

    def _start_anew(self, dim: int) -> None:
        """What was learned before a drift is no longer true; only the bases are kept, to start fits from."""
        self.evidence = Evidence()
        self.certifier.forget()
        self.certificate = Certificate.closed(self.n_tasks, dim, checks.DRIFT)
        self._next = self._schedule_now().next(0)

    def _schedule_now(self) -> Schedule:
        """The schedule given; else often while every gate is shut (fits are small then), less often later."""
        if self.schedule is not None:
            return self.schedule
        opened = self.certificate is not None and self.certificate.opened
        return SETTLED if opened else EAGER

    def end_epoch(self) -> None:
        """The fixed epochs of the paper mean nothing here."""
