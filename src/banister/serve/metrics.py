"""What is counted, for Prometheus."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from banister.online.decision import Decision
from banister.online.status import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_REMEMBERED = 100_000  # decisions whose time is known, for the delay of their rewards
_LATENCY = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_DELAY = (0.1, 1.0, 10.0, 60.0, 600.0, 3600.0, 6 * 3600.0, 86400.0, 7 * 86400.0)
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
        self.delay = Histogram(
            "banister_reward_delay_seconds", "From a decision to its reward, for decisions of this process",
            buckets=_DELAY, registry=own,
        )  # fmt: skip
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
        self._times: OrderedDict[int, float] = OrderedDict()

    def decided(self, made: Sequence[tuple[Decision, bool]]) -> None:
        """Count decisions, each with whether it left the baseline."""
        now = time.time()
        self.left.inc(sum(left for _, left in made))
        self._times.update((decision.id, now) for decision, _ in made)
        for reason, count in Tally(decision.reason for decision, _ in made).items():
            self.decisions.labels(reason).inc(count)
        while len(self._times) > _REMEMBERED:
            self._times.popitem(last=False)

    def rewarded(self, ids: Iterable[int], outcomes: Iterable[str]) -> None:
        """Count rewards."""
        now = time.time()
        for number, outcome in zip(ids, outcomes, strict=True):
            self.rewards.labels(outcome).inc()
            made = self._times.pop(number, None) if outcome == "accepted" else None
            if made is not None:
                self.delay.observe(now - made)

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
