"""Is the belief still right? One family of sequential tests for rewards of one task and of all.

A reward that was not in the fit has a standardised error `u`. Its rank among the errors of the fit's own rows
gives p-values that are uniform while the world stays as it was, whatever the noise looks like: of `|u|`, of
`u` and of `−u`. The normal distribution gives others, which are right where the belief's own doubt outweighs
the noise and ranks mislead; the larger of the two counts. Each becomes an e-value, a bet with expectation at
most 1:

* on size: `∫ κ p^{κ−1} dκ = (1 − p + p log p) / (p log² p)`, large where p is small;
* on a shift up or down: `1 + λ (1 − 2p)`, which grows slowly and surely under a small lasting shift. Played
  actions are those whose estimate came out highest, so their errors lean; only what lies beyond `_LEAN`
  standard errors of the estimate itself counts as a shift.

A stream multiplies its e-values and starts again from 1 whenever it falls below (an e-CUSUM: Shin, Ramdas and
Rinaldo 2024), so an alarm at `1/TAIL` comes at most `TAIL` times a reward on average while nothing has
changed, and three streams share that. The start of the run that rang is where the change began.

"Nothing has changed" means that errors are distributed as those of the fit's own rows. Actions noisier than
those rows, played more often than before, ring too, though the world stands still.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from banister.data import Float, Int
from banister.safety._matrix_kernels import Matrices, square, taken
from banister.safety.belief import Belief
from banister.safety.gates import EVERY_TASK
from banister.solver.kernels import compiled, dot

TAIL = 1e-6  # alarms a reward, at most, while errors are as the fit's own: one in a million
_STREAMS = 3
_ALARM = math.log(_STREAMS / TAIL)
_BET = (
    0.3  # on a shift: a third of what may be lost keeps growth positive under shifts of a fifth of the noise
)
_LEAN = 2.0  # standard errors of an estimate that selection may well have added to it
_LEAST = 100  # residuals of the fit before ranks among them say anything
_MANY = 10  # tasks from which a change that they share can be told from a change of one
_APART = 64  # rewards of others, at most, between two of the same task in the stream of all


class Alarm(NamedTuple):
    """A change: the task (`EVERY_TASK` for all), the first decision after it, the excess over the alarm."""

    task: int
    since: int
    excess: float


@compiled
def bet_on_size(p):  # type: ignore[no-untyped-def]
    """The logarithm of the mixed calibrator; its limit at p = 1 is log ½."""
    if p > 0.999:
        return math.log(0.5)
    low = math.log(p)
    return math.log((1.0 - p + p * low) / (p * low * low))


@compiled
def _over(u):  # type: ignore[no-untyped-def]
    """The probability that a standard normal exceeds u."""
    return 0.5 * math.erfc(u / math.sqrt(2.0))


@compiled
def _louder(z, loud):  # type: ignore[no-untyped-def]
    """The variance of noise at a row in units of the common level; see `loudness.local`."""
    total, own = 0.0, 0.0
    for j in range(loud.shape[0]):
        total += z[j] * z[j]
        own += z[j] * z[j] * loud[j]
    return own / total if total > 0.0 else 1.0


@compiled
def standardised(x, y, shift, scale, unit, mean, matrices, noise, loud):  # type: ignore[no-untyped-def]
    """`(y − x'θ̂) / √(s² + x'Vx)` in the belief's units, and the estimate's share in that error's size."""
    p, d = mean.shape[0], x.shape[0]
    z = np.ones(p)
    for j in range(d):
        z[j] = (x[j] - shift[j]) / scale[j]
    own = square(matrices, z, np.empty(p))
    total = own + noise * noise * _louder(z, loud)
    if not total > 0.0:
        return 0.0, 0.0
    return (y / unit - dot(z, mean)) / math.sqrt(total), math.sqrt(max(own, 0.0) / total)


@compiled
def step(u, lean, usual, sizes, logs, starts, number):  # type: ignore[no-untyped-def]
    """Add an error to a stream's three runs; the largest log e-value, and where its run began."""
    n = usual.shape[0]
    larger = (1.0 + n - np.searchsorted(sizes, abs(u))) / (n + 1.0)
    above = (1.0 + n - np.searchsorted(usual, u - lean)) / (n + 1.0)
    below = (1.0 + np.searchsorted(usual, u + lean, side="right")) / (n + 1.0)
    gains = (
        bet_on_size(max(larger, 2.0 * _over(abs(u)))),
        math.log(1.0 + _BET * (1.0 - 2.0 * max(above, _over(u - lean)))),
        math.log(1.0 + _BET * (1.0 - 2.0 * max(below, _over(-u - lean)))),
    )
    most, since = -np.inf, float(number)
    for i in range(3):
        if logs[i] <= 0.0:
            logs[i], starts[i] = 0.0, number
        logs[i] += gains[i]
        if logs[i] > most:
            most, since = logs[i], float(starts[i])
    return most, since


_RUNG, _LAST = 2 * _STREAMS, 2 * _STREAMS + 1  # columns of a stream's row, after log e-values and starts


@compiled
def follow(  # type: ignore[no-untyped-def]
    task,
    X,
    y,
    number,
    known,
    shift,
    scale,
    unit,
    mean,
    matrices,
    noise,
    loud,
    usual,
    sizes,
    rows,
    apart,
    alarms,
):
    """Add errors of rewards in turn to their tasks' streams and, when its turn has come, to that of all.

    One function, because every reward of a live bandit pays for each call into compiled code.

    Args:
        task, X, y, number: (m,) and (m, d) of the rewards; those of tasks that are not known are passed over.
        known, shift, scale, unit, mean, matrices, noise, loud, usual, sizes: the belief's; `matrices` are of
            all tasks, or of the one task that all rewards are of.
        rows: of the streams, the last that of all.
        apart: rewards between two of one task in the stream of all; 0 without one.
        alarms: filled with stream, where its run began and excess of each alarm; a stream rings once.

    Returns:
        The number of alarms.
    """
    n, found = rows.shape[0] - 1, 0
    for i in range(task.shape[0]):
        t = task[i]
        if t >= n or not known[t]:
            continue
        u, share = standardised(X[i], y[i], shift, scale, unit, mean[t], taken(matrices, t), noise[t], loud)
        shared = apart > 0 and rows[n, _LAST] - rows[t, _LAST] >= apart
        if shared:
            rows[t, _LAST] = rows[n, _LAST]
            rows[n, _LAST] += 1.0
        for stream in (t, n):
            row = rows[stream]
            if row[_RUNG] or (stream == n and not shared):
                continue
            logs, starts = row[:_STREAMS], row[_STREAMS:_RUNG]
            most, since = step(u, _LEAN * share, usual, sizes, logs, starts, number[i])
            if most > _ALARM:
                row[_RUNG] = 1.0
                alarms[found, 0], alarms[found, 1], alarms[found, 2] = stream, since, most - _ALARM
                found += 1
    return found


class Watch:
    """Streams of one belief: one a task, and one for all tasks together.

    Showing it the same rewards again gives the same alarms.
    """

    def __init__(self, belief: Belief) -> None:
        self._belief, frame = belief, belief.frame
        self._known = belief.known, frame.shift, frame.scale, frame.reward, belief.mean
        self._noise = belief.steady, belief.loud, belief.usual
        self._dense = belief.dense
        self._sizes = np.sort(np.abs(belief.usual))
        self._n = belief.n_tasks if len(belief.usual) >= _LEAST else 0
        known = int(belief.known.sum())
        self._apart = min(known, _APART) // 2 if known >= _MANY else 0
        # A stream is a row: log e-values, where their runs began, whether it has rung, and its task's last
        # place in the stream of all. That one is the last row; its last column counts.
        self._rows: Float = np.zeros((self._n + 1, _LAST + 1))
        self._rows[:-1, _LAST] = -self._apart
        self._alarms = np.empty((self._n + 1, 3))  # of one call, and its columns for a single reward
        self._one = np.zeros(1, dtype=np.int64), np.zeros(1), np.zeros(1, dtype=np.int64)

    def state(self, tasks: Sequence[int]) -> tuple[list[int], Float | list[Float]]:
        """What seeing rewards of these tasks may change, to be handed to `put_back`."""
        streams = [EVERY_TASK, *[t for t in tasks if t < self._n]]
        if len(streams) <= 2:  # one reward: rows by themselves are copied sooner than by a list of places
            return streams, [self._rows[t].copy() for t in streams]
        return streams, self._rows[streams]

    def put_back(self, state: tuple[list[int], Float | list[Float]]) -> None:
        """As if those rewards had not been seen."""
        streams, rows = state
        self._rows[streams] = rows

    def silence(self, task: int) -> None:
        """An alarm of this task (or of all) was rung by another watch over the same belief."""
        if task < self._n:
            self._rows[task, _RUNG] = 1.0

    def see(self, task: int, x: Float, y: float, number: int) -> list[Alarm]:
        """Take in the reward of decision `number`; the alarms that it rings, each once a belief."""
        self._one[0][0], self._one[1][0], self._one[2][0] = task, y, number
        return self.see_many(self._one[0], x[None], *self._one[1:])

    def see_many(self, task: Int, X: Float, y: Float, number: Int) -> list[Alarm]:
        """The same of rewards (m,) in turn."""
        if self._dense is not None:
            return self._follow(task, X, y, number, self._dense)
        each = [slice(i, i + 1) for i, t in enumerate(task) if t < self._n and self._belief.known[t]]
        return [
            alarm
            for i in each
            for alarm in self._follow(task[i], X[i], y[i], number[i], self._belief.matrices(int(task[i][0])))
        ]

    def _follow(self, task: Int, X: Float, y: Float, number: Int, matrices: Matrices) -> list[Alarm]:
        found = follow(
            task, X, y, number, *self._known, matrices, *self._noise, self._sizes, self._rows, self._apart,
            self._alarms,
        )  # fmt: skip
        return [self._alarm(*row) for row in self._alarms[:found].tolist()] if found else []

    def _alarm(self, stream: float, since: float, excess: float) -> Alarm:
        return Alarm(EVERY_TASK if stream == self._n else int(stream), int(since), excess)
