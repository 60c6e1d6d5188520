"""From a model and requests to verdicts: the compiled judgement without the cost of building request objects.

The same kernel judges one request, many, and those that an audit replays.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from banister.data import Float, Int
from banister.online.model import Model
from banister.safety import _kernels
from banister.safety.constraint import Constraint


class Verdicts(NamedTuple):
    """For each request: the action or −1, its bound, the floor, and the code of the reason."""

    chosen: Int
    bound: Float
    floor: Float
    code: Int


class Judge:
    """A model at work under a constraint. Not thread-safe: a verdict may shut a task's gate."""

    def __init__(self, model: Model, constraint: Constraint) -> None:
        self.model, self.constraint = model, constraint
        c = model.certificate
        self._frozen = constraint.literal, constraint.alpha, c.theta, c.V, c.z, c.shut, c.surprises
        exact = np.zeros(1)
        self._exact_error = float(c.scales.of_labels(exact)[0])
        self._exact_slack = float(c.slack * c.scales.beyond_doubt(exact)[0])
        self._task, self._index = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._numbers = np.zeros((3, 1))
        self._out = Verdicts(
            np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int64)
        )

    def one(
        self, task: int, actions: Float, baseline: int, low: float, high: float, std: float
    ) -> tuple[int, float, float, int]:
        """The verdict on one request with actions (K, d); an unknown baseline reward is NaN."""
        if task >= self.model.certificate.n_tasks:
            return -1, math.nan, self._plain_floor(high), self.model.unknown_task()
        self._task[0], self._index[0] = task, baseline
        reward, error, slack = self._numbers
        reward[0] = high
        error[0], slack[0] = self._doubt(low, high, std)
        columns = (
            self._task, actions[None], actions[baseline : baseline + 1], self._index, reward, error, slack
        )  # fmt: skip
        _kernels.judge(*columns, *self._frozen, *self._out)
        chosen, bound, floor, code = self._out
        index, least = int(chosen[0]), float(bound[0])
        return index, low if index == baseline and low == low else least, float(floor[0]), int(code[0])

    def many(
        self, task: Int, actions: Float, index: Int, features: Float, low: Float, high: Float, std: Float
    ) -> Verdicts:
        """Verdicts on requests (m, K, d) in turn; `features` (m, d) and `index` are the baselines'."""
        m = len(task)
        error, slack = self._doubts(low, high, std)
        out = Verdicts(
            np.full(m, -1),
            np.full(m, np.nan),
            self.constraint.floor(high),
            np.full(m, self.model.unknown_task()),
        )
        known = task < self.model.certificate.n_tasks
        if known.all():
            _kernels.judge(task, actions, features, index, high, error, slack, *self._frozen, *out)
        elif known.any():
            part: Any = [column[known] for column in out]
            columns = [a[known] for a in (task, actions, features, index, high, error, slack)]
            _kernels.judge(*columns, *self._frozen, *part)
            for whole, some in zip(out, part, strict=True):
                whole[known] = some
        kept = (out.chosen >= 0) & (out.chosen == index) & ~np.isnan(low)
        out.bound[kept] = low[kept]
        return out

    def _doubt(self, low: float, high: float, std: float) -> tuple[float, float]:
        if low != high:  # an interval, or unknown: no label to condition on
            return math.inf, 0.0
        if std == 0.0:
            return self._exact_error, self._exact_slack
        scales, claimed = self.model.certificate.scales, np.array([std])
        slack = self.model.certificate.slack * scales.beyond_doubt(claimed)[0]
        return float(scales.of_labels(claimed)[0]), float(slack)

    def _doubts(self, low: Float, high: Float, std: Float) -> tuple[Float, Float]:
        """Standard errors and slacks. An interval is no label: infinite error, and the floor of `high`."""
        certificate = self.model.certificate
        known = low == high
        error = np.where(known, certificate.scales.of_labels(std), np.inf)
        return error, np.where(known, certificate.slack * certificate.scales.beyond_doubt(std), 0.0)

    def _plain_floor(self, reward: float) -> float:
        c = self.constraint
        return reward - c.alpha * (reward if c.literal else abs(reward))
