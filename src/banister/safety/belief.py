"""A belief: for every task a mean, a covariance and a noise level, whose doubt can be trusted with a floor.

Immutable; a `Believer` makes it from everything seen (see `believer`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from banister.contract import Bool
from banister.data import Float
from banister.safety import _kernels
from banister.safety._matrix_kernels import Dense, Matrices
from banister.safety.compact import PerTask
from banister.safety.draw import root_of
from banister.safety.frame import Frame
from banister.safety.hierarchy import Start
from banister.safety.labels import Claims
from banister.safety.loudness import EVEN


@dataclass(frozen=True, eq=False)
class Belief:
    """What is known of every task, in the coordinates of `frame` (p of them).

    Attributes:
        frame: units.
        mean: (T, p); V: (T, p, p) covariance, with what all rows leave open of the shared part. Of very many
            tasks it and `away` are made when a task's is asked for (see `compact`).
        away: (T, p, p) how an error of what is shared enters a task; left: (p,) standard error of the
            left-over's variance: the bound allows for `2 √(Σ_j (away'g)_j⁴ left_j²)` more variance.
        noise: (T,) standard deviation of rewards; z: (T,) quantile of all bounds together.
        labelled: (T,) whether claimed baseline rewards count; label_error: the error of an exact one.
        known: (T,) whether the task had rows.
        usual: standardised residuals of the rows, sorted.
        loud: (p,) by how much noise along each feature exceeds the common level; empty where it does not.
        rank: shared directions; claims: what was found about claimed baseline rewards.
        start: where the next fit begins, in these coordinates.
    """

    frame: Frame
    mean: Float
    V: Float | PerTask
    away: Float | PerTask
    left: Float
    noise: Float
    z: Float
    labelled: Bool
    label_error: float
    known: Bool
    usual: Float
    rank: int = 0
    claims: Claims = Claims.NONE
    start: Start | None = None
    loud: Float = field(default_factory=lambda: EVEN)

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.mean)

    @property
    def theta(self) -> Float:
        """(T, d) estimates per unit of the features, without the level."""
        d = len(self.frame.scale)
        return self.frame.reward * self.mean[:, :d] / self.frame.scale

    @cached_property
    def steady(self) -> Float:
        """(T,) noise, where it is below what is usual of all tasks taken as that.

        A task that mostly plays what always earns the same shows little noise, and its other actions may have
        as much as anywhere: what their rewards are compared with, and how far they are explored, go by this.
        """
        return steady(self.noise, self.known)

    def predict(self, task: int, X: Float) -> Float:
        """Expected rewards of actions (n, d), in the users' units, (n,)."""
        expected: Float = self.frame.rows(X) @ self.mean[task] * self.frame.reward
        return expected

    def guess(self, task: int) -> tuple[Float, Float] | None:
        """Mean (p,) and a root (p, m) of the covariance of a task; one never seen is like any other.

        None while nothing is known.
        """
        if task < self.n_tasks and self.known[task]:
            return self.mean[task], self.steady[task] / self.noise[task] * root_of(self.V[task])
        if self.start is None:
            return None
        shared = self.start.shared
        return shared.mu, np.hstack([shared.L, np.diag(np.sqrt(shared.D))])

    @property
    def dense(self) -> Dense | None:
        """The matrices of all tasks; None where they are kept as rows."""
        V, away = self.V, self.away
        return None if isinstance(V, PerTask) or isinstance(away, PerTask) else Dense(V, away)

    def matrices(self, task: int) -> Matrices:
        """The task's covariance and `away`, for kernels that multiply them with vectors."""
        if isinstance(self.V, PerTask) and self.known[task]:
            return self.V.source.coded(task)
        return Dense(self.V[task], self.away[task])

    def contrast(self, task: int, step: Float, weight: float = 0.0) -> tuple[float, float]:
        """Estimate and standard error of `step'θ_t`, in the users' units.

        Args:
            task: whose.
            step: (d,) a sum of actions' features.
            weight: what the weights in that sum add up to: 1 for an action, 0 for the difference of two.
        """
        z = self.frame.combinations(step, weight)
        own = self.away[task].T @ z
        more = _kernels.UP * np.sqrt(np.sum((own * own * self.left) ** 2))
        spread = np.sqrt(max(float(z @ self.V[task] @ z), 0.0) + more)
        return float(z @ self.mean[task]) * self.frame.reward, float(spread) * self.frame.reward

    @classmethod
    def none(cls, n_tasks: int, dim: int) -> Belief:
        """Before anything is known."""
        p = dim + 1
        return cls(
            frame=Frame(np.ones(dim), True),
            mean=np.zeros((n_tasks, p)),
            V=np.zeros((0, p, p)),
            away=np.zeros((0, p, p)),
            left=np.zeros(p),
            noise=np.ones(n_tasks),
            z=np.ones(n_tasks),
            labelled=np.zeros(n_tasks, dtype=bool),
            label_error=1.0,
            known=np.zeros(n_tasks, dtype=bool),
            usual=np.zeros(0),
        )


def steady(noise: Float, known: Bool | slice = slice(None)) -> Float:
    """Noise levels (T,), none below the root mean square of those known."""
    level = float(np.sqrt(np.mean(noise[known] ** 2))) if len(noise[known]) else 0.0
    return np.maximum(noise, level)
