"""Everyday worlds for the safety grid: one small class a hardship, all of them seeded.

A world says who asks, what is offered, what each action truly earns, what the policy in place plays, what is
claimed about it, and what comes back. `certificate.py` plays them; `families.py` names them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


class Round(NamedTuple):
    """Requests of one round: tasks (m,), actions (m, K, d), their true means (m, K), baselines (m,)."""

    task: Int
    actions: Float
    mean: Float
    baseline: Int

    @property
    def baseline_mean(self) -> Float:
        """What the baselines truly earn."""
        return self.mean[np.arange(len(self.task)), self.baseline]


class World:
    """T tasks whose parameters share r directions, fresh Gaussian actions, a baseline of a given rank.

    Settings are class attributes; keyword arguments replace them.
    """

    T, K, d, r = 20, 8, 10, 2
    noise, scale = 0.1, 1.0
    place = 4  # the baseline is the action that is this good: 1 the best
    explores = 0.0  # how often the policy in place plays another action, drawn uniformly
    logged = 0  # rounds of a uniformly random policy, logged before the first decision
    delay = 0  # rounds after which rewards arrive
    holds = True  # whether rewards are linear with Gaussian parameters and even noise: calibration is judged

    def __init__(self, seed: int, **settings: Any) -> None:
        self.__dict__.update(settings)
        self.rng, self.n = np.random.default_rng([71, seed]), 0
        self.setup()

    def setup(self) -> None:
        """Draw the truth."""
        B = np.linalg.qr(self.rng.standard_normal((self.d, self.r)))[0]
        w = self.rng.standard_normal((self.T, self.r)) / np.sqrt(self.r)
        self.theta: Float = self.scale * w @ B.T

    def tasks(self) -> Int:
        """Who asks in this round."""
        return np.arange(self.T)

    def actions(self, t: Int) -> Float:
        """What is offered."""
        return self.rng.standard_normal((len(t), self.K, self.d))

    def mean(self, t: Int, A: Float) -> Float:
        """What actions truly earn."""
        return np.einsum("mkd,md->mk", A, self.theta[t])

    def base(self, t: Int, A: Float, M: Float) -> Int:
        """What the policy in place plays."""
        return np.argsort(-M, axis=1)[:, self.place - 1]

    def claim(self, t: Int, x: Float, mean: Float) -> tuple[Float, Float | float]:
        """The claimed baseline reward and its standard error."""
        return mean, 0.0

    def reward(self, t: Int, X: Float, mean: Float) -> Float:
        """What comes back for rows X (m, d)."""
        return mean + self.noise * self.scale * self.rng.standard_normal(len(t))

    def arrives(self, mean: Float, y: Float) -> Bool:
        """Which rewards are reported at all."""
        return np.ones(len(y), dtype=bool)

    def delays(self, t: Int) -> Int:
        """After how many rounds the rewards of each request arrive."""
        return np.full(len(t), self.delay)

    def change(self) -> None:
        """What happens to the truth before round `n`."""

    def round(self) -> Round:
        """The next round; the policy in place explores if the world says so."""
        self.change()
        t = self.tasks()
        A = self.actions(t)
        M = self.mean(t, A)
        b = self.base(t, A, M)
        if self.explores:
            other = (b + self.rng.integers(1, A.shape[1], len(t))) % A.shape[1]
            b = np.where(self.rng.random(len(t)) < self.explores, other, b)
        self.n += 1
        return Round(t, A, M, b)

    def log(self) -> tuple[Int, Float, Float]:
        """Tasks, features and rewards of a random policy."""
        blocks = []
        for _ in range(self.logged):
            t = self.tasks()
            A = self.actions(t)
            pick = np.arange(len(t)), self.rng.integers(A.shape[1], size=len(t))
            blocks.append((t, A[pick], self.reward(t, A[pick], self.mean(t, A)[pick])))
        return tuple(np.concatenate(c) for c in zip(*blocks, strict=True))  # type: ignore[return-value]


class Paper(World):
    """The paper's: orthonormal factors, d = T = 40."""

    T, d, K, place = 40, 40, 10, 5
    spectrum: tuple[float, ...] = (1.0, 1.0)

    def setup(self) -> None:
        """Θ with the given singular values."""
        k = len(self.spectrum)
        B = np.linalg.qr(self.rng.standard_normal((self.d, k)))[0]
        W = np.linalg.qr(self.rng.standard_normal((self.T, k)))[0]
        self.theta = (W * np.array(self.spectrum)) @ B.T


class OutlierTask(Paper):
    """One task outside the shared subspace."""

    noise = 0.05

    def setup(self) -> None:
        super().setup()
        u = self.rng.standard_normal(self.d)
        self.theta[3] = u / np.linalg.norm(u) * np.sqrt(len(self.spectrum) / self.T)


class Level(World):
    """A level per task, as a constant feature."""

    level, spread = 3.0, 1.0

    def setup(self) -> None:
        super().setup()
        self.theta[:, 0] = self.rng.normal(self.level, self.spread, self.T)

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 0] = 1
        return A


class ScriptLevel(Level):
    """A level per task beside effects of size 1/√(2d): the level is nearly all there is to see."""

    def setup(self) -> None:
        B, W = self.rng.standard_normal((self.d, 2)), self.rng.standard_normal((self.T, 2))
        self.theta = W @ B.T / np.sqrt(2 * self.d)
        self.theta[:, 0] = self.rng.normal(self.level, self.spread, self.T)


class Arms(World):
    """Arms × context, disjoint; each task has its own fixed arm in place."""

    K, p = 5, 2

    def setup(self) -> None:
        self.d = self.p * self.K
        super().setup()
        self.theta *= np.sqrt(self.K)

    def context(self, t: Int) -> Float:
        """(m, p) contexts with a constant."""
        C = self.rng.standard_normal((len(t), self.p))
        C[:, 0] = 1
        return C

    def actions(self, t: Int) -> Float:
        return np.einsum("kl,mp->mklp", np.eye(self.K), self.context(t)).reshape(len(t), self.K, -1)

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return t % self.K


class ScriptArms(Arms):
    """Arms × context with effects of size 1/√(2d), never explored."""

    def setup(self) -> None:
        self.d = self.p * self.K
        B, W = self.rng.standard_normal((self.d, 2)), self.rng.standard_normal((self.T, 2))
        self.theta = W @ B.T / np.sqrt(2 * self.d)


class Categories(Arms):
    """Arms × one-hot contexts: a device of 3, a region of 4, rare levels among them."""

    p, T = 8, 30

    def context(self, t: Int) -> Float:
        device = self.rng.choice(3, len(t), p=(0.6, 0.35, 0.05))
        region = self.rng.choice(4, len(t), p=(0.5, 0.3, 0.17, 0.03))
        return np.c_[np.ones(len(t)), np.eye(3)[device], np.eye(4)[region]]


class OwnSubspace(World):
    """The baseline is an action of its own, in a small subspace of each task."""

    q = 2

    def setup(self) -> None:
        super().setup()
        self.P = np.linalg.qr(self.rng.standard_normal((self.T, self.d, self.q)))[0]

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, 0] = np.einsum("md,mdq,meq->me", A[:, 0], self.P[t], self.P[t])
        return A

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.zeros(len(t), dtype=int)


class Items(World):
    """Each task's own fixed catalogue."""

    T, r, explores = 40, 3, 0.1

    def setup(self) -> None:
        super().setup()
        self.theta = np.c_[self.theta * 0.5, self.rng.normal(2.0, 0.3, self.T)]
        items = self.rng.standard_normal((self.T, self.K, self.d))
        self.items = np.concatenate([items, np.ones((self.T, self.K, 1))], axis=2)
        self.d += 1
        self.b = np.argsort(-np.einsum("tkd,td->tk", self.items, self.theta), axis=1)[:, 3]

    def actions(self, t: Int) -> Float:
        return self.items[t]

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return self.b[t]


class Ragged(World):
    """Many tasks of very different traffic."""

    T, d = 100, 20

    def setup(self) -> None:
        super().setup()
        self.p = 0.5 * self.rng.dirichlet(np.full(self.T, 0.5)) + 0.5 / self.T

    def tasks(self) -> Int:
        return np.sort(self.rng.choice(self.T, 40, p=self.p))


class Scales(World):
    """Columns of very different units."""

    units: tuple[float, float] = (-3.0, 4.0)

    def setup(self) -> None:
        super().setup()
        self.unit = np.logspace(*self.units, self.d)
        self.theta = self.theta / self.unit

    def actions(self, t: Int) -> Float:
        return super().actions(t) * self.unit


class OneHugeColumn(World):
    """One column with a standard deviation of a million, which means little."""

    def setup(self) -> None:
        super().setup()
        self.theta[:, 0] = 1e-7 * self.rng.standard_normal(self.T)

    def actions(self, t: Int) -> Float:
        A = super().actions(t)
        A[:, :, 0] *= 1e6
        return A


class Offsets(World):
    """Columns far from zero (an age, a price) and no constant."""

    def actions(self, t: Int) -> Float:
        return super().actions(t) + np.linspace(-20, 50, self.d)


class Equal(World):
    """All tasks are one task."""

    def setup(self) -> None:
        super().setup()
        self.theta[:] = self.theta[0]


class OldGreedy(Level):
    """The policy in place is greedy by an old estimate."""

    old = 0.3  # its error a coordinate, in units of the effects

    def setup(self) -> None:
        super().setup()
        size = self.theta[:, 1:].std()
        self.estimate = self.theta + self.old * size * self.rng.standard_normal(self.theta.shape)

    def base(self, t: Int, A: Float, M: Float) -> Int:
        return np.einsum("mkd,md->mk", A, self.estimate[t]).argmax(1)
