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
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from banister.data import Float, Int
from banister.safety._matrix_kernels import square, taken
from banister.safety.belief import Belief
from banister.safety.gates import EVERY_TASK
from banister.solver.kernels import compiled, dot

TAIL = 1e-6  # false alarms a reward, at most: one in a million
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
def standardised(x, y, shift, scale, unit, mean, matrices, noise):  # type: ignore[no-untyped-def]
    """`(y − x'θ̂) / √(s² + x'Vx)` in the belief's units, and the estimate's share in that error's size."""
    p, d = mean.shape[0], x.shape[0]
    z = np.ones(p)
    for j in range(d):
        z[j] = (x[j] - shift[j]) / scale[j]
    own = square(matrices, z, np.empty(p))
    total = own + noise * noise
    if not total > 0.0:
        return 0.0, 0.0
    return (y / unit - dot(z, mean)) / math.sqrt(total), math.sqrt(max(own, 0.0) / total)


@compiled
def errors(  # type: ignore[no-untyped-def]
    task, X, y, shift, scale, unit, mean, matrices, noise, u, share
):
    """Fill u and share (m,) with what `standardised` says of each reward."""
    for i in range(task.shape[0]):
        t = task[i]
        of = taken(matrices, t)
        u[i], share[i] = standardised(X[i], y[i], shift, scale, unit, mean[t], of, noise[t])


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
    most, since = -np.inf, number
    for i in range(3):
        if logs[i] <= 0.0:
            logs[i], starts[i] = 0.0, number
        logs[i] += gains[i]
        if logs[i] > most:
            most, since = logs[i], starts[i]
    return most, since


@compiled
def follow(  # type: ignore[no-untyped-def]
    task, u, lean, number, apart, seen, usual, sizes, logs, starts, rung, last, excess, alarms
):
    """Add errors in turn to their tasks' streams and to that of all, the last; a stream rings once.

    Args:
        task, u, lean, number: (m,) of each reward.
        apart, seen: rewards between two of one task in the stream of all, 0 without one; how many it has.
        usual, sizes: the fit's own errors and their sizes, sorted.
        logs, starts, rung, last: of the streams.
        excess, alarms: filled with each alarm's excess, its stream and where its run began.

    Returns:
        `seen` now, and the number of alarms.
    """
    n, found = last.shape[0], 0
    for i in range(task.shape[0]):
        t = task[i]
        shared = apart > 0 and seen - last[t] >= apart
        if shared:
            last[t] = seen
            seen += 1
        for stream in (t, n):
            if rung[stream] or (stream == n and not shared):
                continue
            most, since = step(u[i], lean[i], usual, sizes, logs[stream], starts[stream], number[i])
            if most > _ALARM:
                rung[stream] = True
                excess[found], alarms[found, 0], alarms[found, 1] = most - _ALARM, stream, since
                found += 1
    return seen, found


class Watch:
    """Streams of one belief: one a task, and one for all tasks together.

    Showing it the same rewards again gives the same alarms.
    """

    def __init__(self, belief: Belief) -> None:
        self._belief = belief
        self._sizes = np.sort(np.abs(belief.usual))
        n = belief.n_tasks if len(belief.usual) >= _LEAST else 0
        self._logs: Float = np.zeros((n + 1, _STREAMS))
        self._starts: Int = np.zeros((n + 1, _STREAMS), dtype=np.int64)
        self._rung = np.zeros(n + 1, dtype=bool)
        known = int(belief.known.sum())
        self._apart = min(known, _APART) // 2 if known >= _MANY else 0
        self._seen, self._last = 0, np.full(n, -self._apart)

    def state(self, tasks: Sequence[int]) -> tuple[Any, ...]:
        """What seeing rewards of these tasks may change, to be handed to `put_back`."""
        n = len(self._last)
        rows = [*(slice(t, t + 1) for t in tasks if t < n), slice(n, None)]  # the last stream is of all
        columns = (self._logs, self._starts, self._rung, self._last)
        return self._seen, [(row, [column[row].copy() for column in columns]) for row in rows]

    def put_back(self, state: tuple[Any, ...]) -> None:
        """As if those rewards had not been seen."""
        self._seen, kept = state
        for row, columns in kept:
            self._logs[row], self._starts[row], self._rung[row], self._last[row] = columns

    def silence(self, task: int) -> None:
        """An alarm of this task (or of all) was rung by another watch over the same belief."""
        if task < len(self._last):
            self._rung[task] = True

    def see(self, task: int, x: Float, y: float, number: int) -> list[Alarm]:
        """Take in the reward of decision `number`; the alarms that it rings, each once a belief."""
        return self.see_many(np.array([task]), x[None], np.array([y]), np.array([number]))

    def see_many(self, task: Int, X: Float, y: Float, number: Int) -> list[Alarm]:
        """The same of rewards (m,) in turn."""
        n = len(self._last)
        rows = np.flatnonzero(task < n)
        rows = rows[self._belief.known[task[rows]]]
        if len(rows) == 0:
            return []
        if len(rows) < len(task):
            task, X, y, number = task[rows], X[rows], y[rows], number[rows]
        u, share = self._errors(task, X, y)
        most = min(2 * len(rows), n + 1)  # alarms
        alarms = np.empty(most), np.empty((most, 2), dtype=np.int64)
        self._seen, rung = follow(
            task, u, _LEAN * share, number, self._apart, self._seen, self._belief.usual, self._sizes,
            self._logs, self._starts, self._rung, self._last, *alarms,
        )  # fmt: skip
        found = zip(alarms[0][:rung].tolist(), alarms[1][:rung].tolist(), strict=True)
        return [
            Alarm(EVERY_TASK if stream == n else stream, since, excess) for excess, (stream, since) in found
        ]

    def _errors(self, task: Int, X: Float, y: Float) -> tuple[Float, Float]:
        """Standardised errors of rewards of known tasks, and the estimate's share in them, (m,) each."""
        b, u, share = self._belief, np.empty(len(y)), np.empty(len(y))
        units = b.frame.shift, b.frame.scale, b.frame.reward
        dense = b.dense
        if dense is not None:
            errors(task, X, y, *units, b.mean, dense, b.steady, u, share)
            return u, share
        first = np.zeros(1, dtype=np.int64)
        for i, t in enumerate(task.tolist()):
            row, one = slice(i, i + 1), slice(t, t + 1)
            of = b.mean[one], b.matrices(t), b.steady[one]
            errors(first, X[row], y[row], *units, *of, u[row], share[row])
        return u, share
