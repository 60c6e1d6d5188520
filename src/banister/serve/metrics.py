"""What is counted, for Prometheus."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from banister.online.decision import Decision
from banister.online.engine import ACCEPTED
from banister.online.status import Status
from banister.serve.delays import Delays

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LATENCY = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_FIT = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Metrics:
    """Counters of this process, and gauges of the store as it was last looked at."""

    def __init__(self) -> None:
        self.registry = own = CollectorRegistry()
        self.decisions = Counter("banister_decisions", "Decisions made, by reason", ["reason"], registry=own)
        self.left = Counter("banister_left", "Decisions that left the baseline", registry=own)
        self.rewards = Counter(
            "banister_rewards", "Rewards, by what became of them", ["outcome"], registry=own
        )
        self.delays = Delays()
        own.register(self.delays)
        self.refits = Histogram("banister_refit_seconds", "How long a fit took", buckets=_FIT, registry=own)
        self.requests = Histogram(
            "banister_request_seconds", "Time to answer", ["route", "status"], buckets=_LATENCY, registry=own
        )
        self.refused = Counter(
            "banister_refused_requests", "Requests that were refused, by status", ["status"], registry=own
        )
        self._totals = {
            name: Gauge(f"banister_{name}", text, registry=own)
            for name, text in {
                "left_share": "Share of all decisions that left the baseline",
                "tasks": "Tasks seen",
                "pending": "Decisions that wait for a reward",
                "model_version": "The model that serves",
                "drifts": "Alarms so far",
            }.items()
        }
        self._gates = Gauge(
            "banister_gates", "Tasks by gate: open, or why it is shut", ["gate"], registry=own
        )

    def decided(self, made: Sequence[Decision], left: int) -> None:
        """Count decisions, `left` of which left the baseline."""
        self.left.inc(left)
        self.delays.decided([decision.id for decision in made], time.time())
        for reason, count in Tally(decision.reason for decision in made).items():
            self.decisions.labels(reason).inc(count)

    def rewarded(self, ids: Sequence[int], outcomes: Sequence[str]) -> None:
        """Count rewards."""
        for outcome, count in Tally(outcomes).items():
            self.rewards.labels(outcome).inc(count)
        accepted = [number for number, outcome in zip(ids, outcomes, strict=True) if outcome == ACCEPTED]
        self.delays.rewarded(accepted, time.time())

    def looked(self, status: Status) -> None:
        """Note a status."""
        values = {
            "left_share": status.left, "tasks": len(status.tasks), "pending": status.pending,
            "model_version": status.model_version, "drifts": status.drifts,
        }  # fmt: skip
        for name, value in values.items():
            self._totals[name].set(value)
        self._gates.clear()
        for gate, count in Tally(task.gate for task in status.tasks).items():
            self._gates.labels(gate).set(count)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)
