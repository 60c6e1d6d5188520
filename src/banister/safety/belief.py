"""A belief: for every task a mean, a covariance and a noise level, whose doubt can be trusted with a floor.

Immutable, made by `believe` from everything seen. The steps, each a file of its own:

1. `frame`: units and intercept.
2. `labels`: which claimed baseline rewards count.
3. `hierarchy`: what tasks share, and how well that is known; from a sample of tasks where there are many.
4. `posterior`, `widening`: each task given what is shared, with the doubts that a likelihood does not see.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from banister.contract import Bool
from banister.data import Float, Int
from banister.errors import SettingError
from banister.safety import _kernels, widening
from banister.safety.draw import root_of
from banister.safety.factors import Factors
from banister.safety.frame import Frame
from banister.safety.hierarchy import LEAST_NOISE, Hierarchy, Rows, Start, fit
from banister.safety.labels import Claims, Trust, trust
from banister.safety.noise import Moderated, moderate
from banister.safety.posterior import Posterior, Shared

_SAMPLED = 256  # tasks from which what is shared is learned; more make its error small beside a task's own
_PAIRED = 400  # latest rows of a task whose pairs are compared when claims are judged
_USUAL = 1024  # residuals kept to know what is usual
_CLICKS = 2  # rewards that are not the usual one, for each coefficient
_INTERPOLATED = 0.5  # share of a row that the fit spent on it, beyond which its residual tells nothing
_LEAST_FREEDOM = 3.0  # of Student's quantile; with fewer its tails have no variance


class Seen(NamedTuple):
    """Everything a belief is made from.

    Attributes:
        task, X, y: (n,), (n, d), (n,) what was played and earned.
        is_baseline: (n,) whether that was the baseline.
        claim: (n,) the baseline reward claimed for it; NaN for other actions and where none was given.
        label_task, labelled_features, label, label_std: every claimed baseline reward, played or not.
        offered_task, offered: a sample of the actions offered.
    """

    task: Int
    X: Float
    y: Float
    is_baseline: Bool
    claim: Float
    label_task: Int
    labelled_features: Float
    label: Float
    label_std: Float
    offered_task: Int
    offered: Float


@dataclass(frozen=True, eq=False)
class Belief:
    """What is known of every task, in the coordinates of `frame` (p of them).

    Attributes:
        frame: units.
        mean: (T, p); V: (T, p, p) covariance, with what all rows leave open of the shared part.
        away: (T, p, p) how an error of what is shared enters a task; left: (p,) standard error of the
            left-over's variance: the bound allows for `2 √(Σ_j (away'g)_j⁴ left_j²)` more variance.
        noise: (T,) standard deviation of rewards; z: (T,) quantile of all bounds together.
        labelled: (T,) whether claimed baseline rewards count; label_error: the error of an exact one.
        known: (T,) whether the task had rows.
        usual: standardised residuals of the rows, sorted.
        rank: shared directions; claims: what was found about claimed baseline rewards.
        start: where the next fit begins, in these coordinates.
    """

    frame: Frame
    mean: Float
    V: Float
    away: Float
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


@dataclass(frozen=True, kw_only=True)
class Believer:
    """Makes beliefs.

    Args:
        confidence: the probability, over all decisions together, with which bounds hold.
        rank: the most directions that tasks may share; None: as many as the data show. What they do not
            explain counts as left over, so too small a rank costs gain and no safety.
        decisions: how many decisions the union bound counts; by default twice those so far, and at least 100
            a task.
    """

    confidence: float = 0.95
    rank: int | None = None
    decisions: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise SettingError(f"confidence={self.confidence!r} must lie strictly between 0 and 1.")

    def quantile(self, decisions: int, n_tasks: int) -> float:
        """The normal quantile that `decisions` bounds together exceed with probability 1 − confidence."""
        count = self.decisions or max(2 * decisions, 100 * n_tasks)
        return float(norm.isf((1 - self.confidence) / count))

    def believe(self, seen: Seen, n_tasks: int, decisions: int, last: Belief | None = None) -> Belief:
        """A belief from everything seen; `Belief.none` while rewards tell nothing apart."""
        dim = seen.X.shape[1]
        if not _telling(seen.y, dim + 1):
            return Belief.none(n_tasks, dim)
        with _threads().limit(limits=1):  # matrices are small: a second thread doubles the time
            return _Making(self, seen, n_tasks, decisions, last).belief()


@cache
def _threads() -> ThreadpoolController:
    return ThreadpoolController()


class _Making:
    """The steps from what was seen to a belief; tasks without rows take no part."""

    def __init__(self, by: Believer, seen: Seen, n_tasks: int, decisions: int, last: Belief | None) -> None:
        self.n_tasks, self.seen, self.last, self.rank = n_tasks, seen, last, by.rank
        rows = np.bincount(seen.task, minlength=n_tasks) > 0
        self.tasks = np.flatnonzero(rows)
        self.place = np.full(n_tasks, -1)
        self.place[self.tasks] = np.arange(len(self.tasks))
        self.z = by.quantile(decisions, len(self.tasks))
        self.frame = Frame.of(seen.offered, seen.X, seen.y)
        self.task, self.Z = self.place[seen.task], self.frame.rows(seen.X)
        self.y, self.claim = seen.y / self.frame.reward, seen.claim / self.frame.reward

    def belief(self) -> Belief:
        """Run all steps."""
        trusted = self._trust()
        rows = self._rows(trusted)
        start = self._start(trusted)
        hierarchy = fit(self._sampled(rows), start, self.rank)
        noise, opened, guess, added = self._settle(rows, hierarchy)
        unequal = widening.unequal_noise(self.y - np.einsum("np,np->n", self.Z, guess[self.task]), self.Z)
        added += self._lean().added(rows.plays)
        kappa = widening.tails(len(self.tasks), hierarchy.shared.rank, self.z)
        wide = Shared(
            hierarchy.shared.mu, np.sqrt(kappa) * hierarchy.shared.L, widening.left_over(hierarchy, kappa)
        )
        level = unequal * noise.variance
        mean, V, away = self._widen(rows, level, hierarchy, wide, added, unequal * opened)
        began = len(self.y) if start is None else start.rows
        return self._pack(hierarchy, trusted, noise, mean, V, away, began)

    def _trust(self) -> Trust:
        """Which tasks' claims are labels; claims once contradicted stay so."""
        s, T = self.seen, len(self.tasks)
        if self.last is not None and self.last.claims is Claims.CONTRADICTED:
            return Trust(Claims.CONTRADICTED, np.zeros(T, dtype=bool))
        here = self.place[s.label_task] >= 0
        rows = _latest(self.task, s.is_baseline & np.isfinite(self.claim), T)
        return trust(
            self.task[rows], self.Z[rows], self.y[rows], self.claim[rows],
            self.place[s.label_task[here]], self.frame.rows(s.labelled_features[here]),
            s.label[here] / self.frame.reward, T,
        )  # fmt: skip

    def _rows(self, trusted: Trust) -> Rows:
        """Sums of plays and of the labels that count."""
        s, T = self.seen, len(self.tasks)
        plays = Factors.of(self.task, self.Z, self.y, T)
        most = _most_common(self.task, self.y, T)
        telling = np.where(most > 1, plays.n - most, plays.n)
        place = self.place[s.label_task]
        used = (place >= 0) & trusted.labelled[place]
        if not used.any():
            return Rows(plays, Factors.none(T, self.frame.dim), np.ones(T), telling)
        task = place[used]
        labels = Factors.of(
            task, self.frame.rows(s.labelled_features[used]), s.label[used] / self.frame.reward, T
        )
        square = np.bincount(task, weights=(s.label_std[used] / self.frame.reward) ** 2, minlength=T)
        return Rows(plays, labels, np.where(labels.n > 0, square / np.maximum(labels.n, 1.0), 1.0), telling)

    def _sampled(self, rows: Rows) -> Rows:
        """All tasks, or a fixed random sample of many."""
        T = rows.n_tasks
        if T <= _SAMPLED:
            return rows
        chosen = np.sort(np.random.default_rng(T).choice(T, _SAMPLED, replace=False))
        return rows.of_tasks(chosen)

    def _start(self, trusted: Trust) -> Start | None:
        """The last fit's result; None where the fit should start from nothing.

        That is after claims have changed their standing, and whenever the rows have doubled: a fit that took
        a wrong turn on few rows must not be where all later ones begin.
        """
        last = self.last
        if last is None or last.start is None or last.claims is not trusted.verdict:
            return None
        if last.frame.intercept != self.frame.intercept or len(self.y) >= 2 * last.start.rows:
            return None
        return last.start.per(last.frame.units / self.frame.units)

    def _settle(self, rows: Rows, hierarchy: Hierarchy) -> tuple[Moderated, Float, Float, Float]:
        """Noise, what is open of the shared part, means and odd tasks' extra left-over, for all tasks."""
        T, p = rows.n_tasks, rows.dim
        raw, freedom, opened, guess = np.empty(T), np.empty(T), np.empty((T, p, p)), np.empty((T, p))
        noise = np.full(T, hierarchy.level) if T > _SAMPLED else hierarchy.noise.variance
        for chunk in rows.chunks():
            part, level = rows.of_tasks(chunk), noise[chunk]
            post = Posterior(part.information(level, hierarchy.label_level), hierarchy.shared)
            opened[chunk] = hierarchy.open_of(post.c)
            raw[chunk] = part.plays.rest + post.play_squares(level)
            spent, _ = post.spent(post.learned(opened[chunk]))
            freedom[chunk], guess[chunk] = np.maximum(part.plays.n - spent, 0.0), post.mean
        own = np.maximum(raw / np.maximum(freedom, 0.5), LEAST_NOISE * rows.mean_square())
        told = np.minimum(freedom, rows.telling)
        found = moderate(own, told) if T > 1 else hierarchy.noise
        odd = widening.odd_noise(raw / np.maximum(freedom, 1e-9), told, p)
        return found, opened, guess, odd

    def _lean(self) -> widening.Leaning:
        s, d = self.seen, len(self.frame.scale)
        here = self.place[s.offered_task] >= 0
        played = s.is_baseline
        return widening.Leaning.of(
            self.task[played], self.Z[played, :d],
            self.place[s.offered_task[here]], self.frame.rows(s.offered[here])[:, :d], len(self.tasks),
        )  # fmt: skip

    def _widen(
        self, rows: Rows, noise: Float, hierarchy: Hierarchy, wide: Shared, added: Float, opened: Float
    ) -> tuple[Float, Float, Float]:
        """Every task's posterior under what is shared, widened."""
        T, p = rows.n_tasks, rows.dim
        mean, V, away = np.empty((T, p)), np.empty((T, p, p)), np.empty((T, p, p))
        for chunk in rows.chunks():
            info = rows.of_tasks(chunk).information(noise[chunk], hierarchy.label_level)
            mean[chunk], V[chunk], away[chunk] = widening.widened(
                info, wide, added[chunk], opened[chunk], hierarchy.size
            )
        return mean, V, away

    def _pack(
        self, hierarchy: Hierarchy, trusted: Trust, noise: Moderated, mean: Float, V: Float, away: Float,
        began: int,
    ) -> Belief:  # fmt: skip
        """Every task's numbers in their places; those without rows are not known."""
        freedom = np.maximum(noise.freedom, _LEAST_FREEDOM)
        return Belief(
            frame=self.frame,
            mean=self._placed(mean),
            V=self._placed(V),
            away=self._placed(away),
            left=widening.left_over_error(hierarchy),
            noise=self._placed(np.sqrt(noise.variance)),
            z=self._placed(student.isf(norm.sf(self.z), freedom)),
            labelled=self._placed(trusted.labelled),
            label_error=float(np.sqrt(hierarchy.label_level)),
            known=self._placed(np.ones(len(self.tasks), dtype=bool)),
            usual=self._usual(mean, V, steady(np.sqrt(noise.variance))),
            rank=hierarchy.shared.rank,
            claims=trusted.verdict,
            start=Start(hierarchy.shared, hierarchy.level, began),
        )

    def _placed(self, values: NDArray[Any]) -> NDArray[Any]:
        if len(self.tasks) == self.n_tasks:
            return np.ascontiguousarray(values)
        placed = np.zeros((self.n_tasks, *values.shape[1:]), dtype=values.dtype)
        placed[self.tasks] = values
        return placed

    def _usual(self, mean: Float, V: Float, noise: Float) -> Float:
        """Residuals of (some) rows as they would be had the row not been in the fit, standardised, sorted."""
        rows = np.arange(0, len(self.y), max(1, len(self.y) // _USUAL))
        task, Z = self.task[rows], self.Z[rows]
        error = self.y[rows] - np.einsum("np,np->n", Z, mean[task])
        spread = np.array([z @ V[t] @ z for t, z in zip(task, Z, strict=True)])
        share = spread / noise[task] ** 2
        told = share < _INTERPOLATED
        return np.sort(error[told] / (noise[task[told]] * np.sqrt(1 - share[told])))


def steady(noise: Float, known: Bool | slice = slice(None)) -> Float:
    """Noise levels (T,), none below the root mean square of those known."""
    level = float(np.sqrt(np.mean(noise[known] ** 2))) if len(noise[known]) else 0.0
    return np.maximum(noise, level)


def _telling(y: Float, dim: int) -> bool:
    """Whether rewards can tell anything: where most are one value (no click), enough others must be there.

    A model of `dim` coefficients explains a handful of clicks among many zeros perfectly, and is wrong.
    """
    if len(y) == 0:
        return False
    most = int(_most_common(np.zeros(len(y), dtype=np.int64), y, 1)[0])
    return len(y) > most if 2 * most <= len(y) else len(y) - most >= _CLICKS * dim


def _most_common(task: Int, y: Float, n_tasks: int) -> Float:
    """How often each task's most common reward came, (T,)."""
    order = np.lexsort((y, task))
    t, value = task[order], y[order]
    starts = np.flatnonzero(np.r_[True, (t[1:] != t[:-1]) | (value[1:] != value[:-1])])
    most = np.zeros(n_tasks)
    np.maximum.at(most, t[starts], np.diff(np.r_[starts, len(t)]))
    return most


def _latest(task: Int, which: Bool, n_tasks: int) -> Int:
    """The latest rows of each task among some, at most `_PAIRED` each."""
    rows = np.flatnonzero(which)
    order = rows[np.argsort(task[rows], kind="stable")]
    n = np.bincount(task[rows], minlength=n_tasks)
    after = np.cumsum(n)[task[order]] - np.arange(len(order))  # how many of its task follow, itself included
    return np.sort(order[after <= _PAIRED])
