"""The drift guard: when a task's recent rewards no longer fit the model, its gate shuts.

Each reward that was not in the fit gives a residual `u = (y − x'θ̂)/√(s² + x'Vx)`, near N(0, 1) while the
model holds. A change shows in the last k of them for some k, so all suffixes of a window are watched: the
alarm rings when the sum of the last k squares exceeds the χ²_k quantile at `_TAIL`. Residuals are cut off at
±4, k is at least 5 and quantiles are raised by half, so neither a wild reward nor a noise level that is a
fifth too low can ring it. One more window watches all tasks together, for changes that they share; a task
takes part in it only now and then, so that a busy one cannot fill it. The suffix
that is likeliest under a much larger variance says when the change began; earlier rows of that task are left
out of later fits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from scipy.stats import chi2

from banister.contract import Bool
from banister.data import Float, Int
from banister.safety import checks
from banister.safety.certificate import Certificate

WINDOW = 64
_LEAST = 5
_CUT = 4.0
_TIPPING = 2.56  # squares above this are likelier under ten times the variance than under the model's own
_TAIL = 1e-7
_DOUBT = 1.5
_MANY = 10  # tasks from which a change that they share can be told from a change of one
EVERY_TASK = -1

_jit: Any = numba.njit(cache=True, nogil=True)


def _thresholds() -> Float:
    sizes = np.arange(1, WINDOW + 1)
    return np.where(sizes < _LEAST, np.inf, _DOUBT * chi2.isf(_TAIL, sizes))


@_jit
def _watch(window, owner, count, u, number, thresholds, cut, tipping):  # type: ignore[no-untyped-def]
    """Add a residual to a ring; the excess of the worst suffix, and the first decision after the change."""
    size = window.shape[0]
    window[count % size] = min(u * u, cut * cut)
    owner[count % size] = number
    total, first, worst = 0.0, number, 0.0
    evidence, most, since = 0.0, -np.inf, number
    for k in range(min(count + 1, size)):
        place = (count - k) % size
        total += window[place]
        evidence += window[place] - tipping
        first = min(first, owner[place])
        worst = max(worst, total / thresholds[k] - 1.0)
        if evidence > most:
            most, since = evidence, first
    return worst, since


@_jit
def _standardised(x, y, theta, V, play):  # type: ignore[no-untyped-def]
    mean, variance = 0.0, play * play
    for i in range(x.shape[0]):
        s = 0.0
        for j in range(x.shape[0]):
            s += V[i, j] * x[j]
        variance += x[i] * s
        mean += x[i] * theta[i]
    return (y - mean) / np.sqrt(variance) if variance > 0.0 else 0.0


class Alarm(NamedTuple):
    """A change: the task (`EVERY_TASK` for all), the first decision after it, the excess over the alarm."""

    task: int
    since: int
    excess: float


class DriftGuard:
    """Windows of standardised residuals for one certificate: one a task, and one for all tasks together.

    It watches the tasks whose gates the fit opened, whatever requests shut later, so that showing it the same
    rewards again gives the same alarms.
    """

    def __init__(self, certificate: Certificate) -> None:
        self._certificate = certificate
        self.opened: Bool = certificate.shut == checks.OPEN
        self._watched = self.opened.copy()
        self._thresholds = _thresholds()
        n = certificate.n_tasks if certificate.opened else 0
        self._window: Float = np.zeros((n + 1, WINDOW))
        self._owner: Int = np.zeros((n + 1, WINDOW), dtype=np.int64)
        self._count = [0] * (n + 1)
        self._apart = min(n, WINDOW) // 2 if n >= _MANY else 0
        self._pooled = [-self._apart] * n

    def watches(self, task: int) -> bool:
        """Whether the fit opened this task's gate and no alarm has shut it."""
        return task < len(self._watched) and bool(self._watched[task])

    def see(self, task: int, x: Float, y: float, number: int) -> list[Alarm]:
        """Take in the reward of decision `number`; shut gates where an alarm rings, and say so."""
        c = self._certificate
        if task >= len(self._count) - 1 or not self._watched[task]:
            return []
        u = _standardised(x, y, c.theta[task], c.V[task], c.scales.play[task])
        alarms = [self._ring(task, u, number)]
        if self._apart and self._count[EVERY_TASK] - self._pooled[task] >= self._apart:
            self._pooled[task] = self._count[EVERY_TASK]
            alarms.append(self._ring(EVERY_TASK, u, number))
        rung = [alarm for alarm in alarms if alarm.excess > 0]
        for alarm in rung:
            shut(c, alarm.task)
            self._watched[slice(None) if alarm.task == EVERY_TASK else alarm.task] = False
        return rung

    def state(self, tasks: list[int]) -> tuple[Any, ...]:
        """What `see` may change for these tasks, to be put back if a reward cannot be written down."""
        last = len(self._count) - 1
        rows = [
            (t, self._window[t].copy(), self._owner[t].copy(), self._count[t], self._pooled[t : t + 1])
            for t in {last, *(t for t in tasks if t < last)}
        ]
        return rows, self._watched.copy()

    def put_back(self, state: tuple[Any, ...]) -> None:
        """As if the rewards since `state` had not been seen."""
        rows, self._watched = state
        for task, window, owner, count, pooled in rows:
            self._window[task], self._owner[task], self._count[task] = window, owner, count
            self._pooled[task : task + 1] = pooled

    def _ring(self, task: int, u: float, number: int) -> Alarm:
        excess, since = _watch(
            self._window[task],
            self._owner[task],
            self._count[task],
            u,
            number,
            self._thresholds,
            _CUT,
            _TIPPING,
        )
        self._count[task] += 1
        return Alarm(task, int(since), float(excess))


def shut(certificate: Certificate, task: int) -> None:
    """Shut one gate, or every gate, because of a drift."""
    certificate.shut[slice(None) if task == EVERY_TASK else task] = checks.DRIFT
