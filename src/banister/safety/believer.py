"""Making a belief from everything seen. The steps, each a file of its own:

1. `frame`: units and intercept.
2. `labels`: which claimed baseline rewards count.
3. `hierarchy`, `passes`: what tasks share, and how well that is known; from a sample of tasks where there are
   many.
4. `given`, `posterior`, `widening`: each task given what is shared, with the doubts that a likelihood does
   not see.

Rows come by blocks of tasks (`gathering`); covariances of very many tasks are kept as rows (`compact`,
`stored`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student

from banister.data import Float, Int
from banister.errors import SettingError
from banister.safety import widening
from banister.safety._small_kernels import quadratics
from banister.safety.belief import Belief, steady
from banister.safety.compact import DENSE, Compact, PerTask
from banister.safety.frame import Frame
from banister.safety.gathering import Gathered, Labels, Old, Part
from banister.safety.given import Doubts, given, joined, widened
from banister.safety.hierarchy import Hierarchy, Start
from banister.safety.labels import Claims, Trust, trust
from banister.safety.loudness import EVEN, Loudness, Told, local, loudness, passed_through, rows_along
from banister.safety.noise import LEAST_FREEDOM, MANY, Moderated, lifted, moderate
from banister.safety.passes import LEAST_NOISE, fit
from banister.safety.past import Past
from banister.safety.posterior import Shared
from banister.safety.rows import mean_square
from banister.safety.seen import Seen, latest, most_common, telling
from banister.safety.stored import Storing
from banister.solver.threads import one_thread
from banister.solver.work import HERE, Workers

_SAMPLED = 256  # tasks from which what is shared is learned; more make its error small beside a task's own
_USUAL = 1024  # residuals kept to know what is usual, if there are no more than 128 features
_A_FEATURE = 8  # of them for each feature, to know its noise
_INTERPOLATED = 0.5  # share of a row that the fit spent on it, beyond which its residual tells nothing
_AUDIBLE = 1.2  # of the loudest feature's variance, below which bounds of many tasks are not made again


@dataclass(frozen=True, kw_only=True)
class Believer:
    """Makes beliefs.

    Args:
        confidence: the probability, over all decisions together, with which bounds hold.
        rank: the most directions that tasks may share; None: as many as the data show. What they do not
            explain counts as left over, so too small a rank costs gain and no safety.
        decisions: how many decisions the union bound counts; by default twice those so far, and at least 100
            a task.
        workers: who works out what the fit means for each task; the belief is the same whoever does.
    """

    confidence: float = 0.95
    rank: int | None = None
    decisions: int | None = None
    workers: Workers = HERE

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
        if not telling(seen.y, dim + 1, seen.past):
            return Belief.none(n_tasks, dim)
        with one_thread():
            return _Making(self, seen, n_tasks, decisions, last).belief()


class _Settled(NamedTuple):
    """Every task given the fit.

    Attributes:
        c: (T, k+1) coefficients.
        noise: of its rewards.
        scale: (T,) factor of its left-over; added: (T,) variance added to it.
        unequal: how much more rows with large features count.
    """

    c: Float
    noise: Moderated
    scale: Float
    added: Float
    unequal: float


class _Widened(NamedTuple):
    """Means (T, p) of tasks with rows, and V and `away` of all tasks."""

    mean: Float
    V: Float | PerTask
    away: Float | PerTask


def _some(n: int, most: int) -> Int:
    """All of n, or a fixed random sample: every m-th row is of the same tasks where they take turns."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(n).choice(n, most, replace=False))


def _louder(V: Float, loud: Float) -> Float:
    """Covariances (T, p, p), wider along features (T, p) whose noise is larger."""
    root = np.sqrt(loud)
    wider: Float = V * (root[:, :, None] * root[:, None, :])  # symmetric to the last bit, as models are kept
    return wider


class _Checked(NamedTuple):
    """(Some) rows compared with the belief, one entry a row.

    Attributes:
        task, Z: of the row; error: its residual; spread: variance of what is believed of it.
        loud: how much louder than their task's level rewards are along each feature; None: not known.
    """

    task: Int
    Z: Float
    error: Float
    spread: Float
    loud: Loudness | None

    @property
    def common(self) -> Float:
        """(p,) of all tasks; empty where nothing is known of it."""
        return EVEN if self.loud is None else self.loud.common


class _Making:
    """The steps from what was seen to a belief; tasks without rows take no part."""

    def __init__(self, by: Believer, seen: Seen, n_tasks: int, decisions: int, last: Belief | None) -> None:
        self.by, self.n_tasks, self.seen, self.last = by, n_tasks, seen, last
        dim = seen.X.shape[1]
        self.past, self.label_past = seen.past or Past.none(dim), seen.label_past or Past.none(dim)
        rows = np.bincount(np.append(seen.task, self.past.of), minlength=n_tasks) > 0
        self.tasks = np.flatnonzero(rows)
        self.place = np.full(n_tasks, -1)
        self.place[self.tasks] = np.arange(len(self.tasks))
        self.z = by.quantile(decisions, len(self.tasks))
        played = seen.X
        if len(self.past.of):
            played = np.concatenate([seen.X, self.past.low[:, :dim], self.past.high[:, :dim]])
        self.frame = Frame.of(seen.offered, played, seen.y)
        self.task = self.place[seen.task]
        self.y, self.claim = seen.y / self.frame.reward, seen.claim / self.frame.reward
        self.n_rows = len(seen.y) + int(self.past.n.sum())

    def belief(self) -> Belief:
        """Run all steps."""
        trusted = self._trust()
        data = self._gathered(trusted)
        start = self._start(trusted)
        hierarchy = fit(data.sample(_some(len(self.tasks), _SAMPLED)), start, self.by.rank)
        settled = self._settle(data, hierarchy)
        kappa = widening.tails(len(self.tasks), hierarchy.shared.rank, self.z)
        wide = Shared(
            hierarchy.shared.mu, np.sqrt(kappa) * hierarchy.shared.L, widening.left_over(hierarchy, kappa)
        )
        wider = self._widen(data, hierarchy, wide, settled)
        checked = self._check(wider, settled, hierarchy.shared.D)
        most = float(checked.common.max(initial=1.0))
        if not isinstance(wider.V, PerTask):
            if checked.loud is not None:
                wider = wider._replace(V=_louder(wider.V, self._placed(checked.loud.each)))
        elif most > _AUDIBLE:  # rows of many tasks know one noise: that of the loudest feature
            wider = self._widen(data, hierarchy, wide, settled._replace(unequal=most * settled.unequal))
        began = self.n_rows if start is None else start.rows
        return self._pack(hierarchy, trusted, settled.noise, wider, checked, began)

    def _trust(self) -> Trust:
        """Which tasks' claims are labels; claims once contradicted stay so."""
        s, T = self.seen, len(self.tasks)
        if self.last is not None and self.last.claims is Claims.CONTRADICTED:
            return Trust(Claims.CONTRADICTED, np.zeros(T, dtype=bool))
        ends_task, ends, ends_label = self.label_past.corners()
        label_task = np.append(s.label_task, ends_task)
        labelled, label = np.concatenate([s.labelled_features, ends]), np.append(s.label, ends_label)
        here = self.place[label_task] >= 0
        rows = latest(self.task, s.is_baseline & np.isfinite(self.claim), T)
        return trust(
            self.task[rows], self.frame.rows(s.X[rows]), self.y[rows], self.claim[rows],
            self.place[label_task[here]], self.frame.rows(labelled[here]),
            label[here] / self.frame.reward, T,
        )  # fmt: skip

    def _gathered(self, trusted: Trust) -> Gathered:
        """Plays and the labels that count, by task."""
        s, T = self.seen, len(self.tasks)
        of = np.append(self.task, self.place[self.past.of])
        times = np.append(np.ones(len(self.y)), self.past.times)
        most = most_common(of, np.append(self.y, self.past.usual / self.frame.reward), T, times)
        n = np.bincount(of, weights=np.append(np.ones(len(self.y)), self.past.n), minlength=T)
        place, unit = self.place[s.label_task], self.frame.reward
        used = np.flatnonzero((place >= 0) & trusted.labelled[place])
        labels = Labels(place, s.labelled_features, s.label / unit, s.label_std / unit)
        old = Old(
            self.past.placed(self.place),
            self.label_past.of_tasks(self.tasks[trusted.labelled]).placed(self.place),
        )
        telling = np.where(most > 1, n - most, n)
        return Gathered(self.frame, self.task, s.X, self.y, s.is_baseline, labels, used, telling, old)

    def _start(self, trusted: Trust) -> Start | None:
        """The last fit's result; None where the fit should start from nothing.

        That is after claims have changed their standing, and whenever the rows have doubled: a fit that took
        a wrong turn on few rows must not be where all later ones begin.
        """
        last = self.last
        if last is None or last.start is None or last.claims is not trusted.verdict:
            return None
        if last.frame.intercept != self.frame.intercept or self.n_rows >= 2 * last.start.rows:
            return None
        return last.start.per(last.frame.units / self.frame.units)

    def _settle(self, data: Gathered, hierarchy: Hierarchy) -> _Settled:
        """Every task given the fit: its coefficients, its noise, and the variance added to its left-over."""
        T = len(self.tasks)
        noise = np.full(T, hierarchy.level) if T > _SAMPLED else hierarchy.noise.variance
        parts = self._parts(data)
        found = self.by.workers.map(given, [(part, noise[part.tasks]) for part in parts], hierarchy)
        g, order = joined(found), np.concatenate([data.order(part.tasks) for part in parts])
        error, length = np.empty(len(order)), np.empty(len(order))
        error[order], length[order] = g.error, g.length
        total = np.zeros(2)
        for block in g.totals:
            total += block
        own = np.maximum(g.raw / np.maximum(g.freedom, 0.5), LEAST_NOISE * mean_square(*total))
        told = np.minimum(g.freedom, data.telling)
        level = lifted(moderate(own, told), g.n, data.telling) if T > 1 else hierarchy.noise
        added = widening.odd_noise(g.raw / np.maximum(g.freedom, 1e-9), told, self.frame.dim)
        added += self._lean(g.leaning, g.played).added(g.square, self.frame.dim)
        added += widening.alone(g.c[:, 1:], hierarchy.shared.L)
        tails = widening.tails(T, hierarchy.shared.rank, self.z)
        scale = widening.of_own_size(g.n, tails, self.z) if hierarchy.loose else np.ones(T)
        return _Settled(g.c, level, scale, added, widening.unequal_noise(error, length))

    def _parts(self, data: Gathered) -> list[Part]:
        """What is worked on at a time; few tasks, whose rows are all at hand, are not worth cutting."""
        return data.parts(self.by.workers.shares if len(self.tasks) > _SAMPLED else 1)

    def _lean(self, baseline: Float, played: Float) -> widening.Leaning:
        s, d = self.seen, len(self.frame.scale)
        here = self.place[s.offered_task] >= 0
        offered = self.frame.rows(s.offered[here])[:, :d]
        means = widening.means(self.place[s.offered_task[here]], offered, len(self.tasks))
        lean = widening.Leaning(baseline, played, *means)
        if len(self.past.of) == 0:
            return lean
        sums, n = self.past.sums[:, :d], self.past.sums[:, d]
        sums = (sums - n[:, None] * self.frame.shift) / self.frame.scale
        return lean.with_more(self.place[self.past.of], sums, n)

    def _widen(self, data: Gathered, hierarchy: Hierarchy, wide: Shared, settled: _Settled) -> _Widened:
        """Every task's posterior under what is shared, widened; dense, or as rows where tasks are many."""
        T, p = len(self.tasks), self.frame.dim
        noise, opened = settled.unequal * settled.noise.variance, hierarchy.open.times(settled.unequal)
        left = widening.left_over_error(hierarchy)
        storing = None if T * p * p <= DENSE else Storing.of(wide, opened, left)
        doubts = Doubts(wide, opened, hierarchy.label_level, hierarchy.size, storing)
        columns = (noise, settled.scale, settled.added, settled.c)
        pieces = [(part, *(column[part.tasks] for column in columns)) for part in self._parts(data)]
        w = joined(self.by.workers.map(widened, pieces, doubts))
        if storing is None:
            return _Widened(w.mean, self._placed(w.V), self._placed(w.away))
        compact = Compact(w.rows, storing.dual, w.more, w.tied, wide.L, w.D, settled.c, opened, self.place)
        return _Widened(w.mean, compact.covariances, compact.away)

    def _pack(
        self, hierarchy: Hierarchy, trusted: Trust, noise: Moderated, wide: _Widened, checked: _Checked,
        began: int,
    ) -> Belief:  # fmt: skip
        """Every task's numbers in their places; those without rows are not known."""
        freedom = np.maximum(noise.freedom, LEAST_FREEDOM)
        return Belief(
            frame=self.frame,
            mean=self._placed(wide.mean),
            V=wide.V,
            away=wide.away,
            left=widening.left_over_error(hierarchy),
            noise=self._placed(np.sqrt(noise.variance)),
            z=self._placed(student.isf(norm.sf(self.z), freedom)),
            labelled=self._placed(trusted.labelled),
            label_error=float(np.sqrt(hierarchy.label_level)),
            known=self._placed(np.ones(len(self.tasks), dtype=bool)),
            usual=self._usual(checked, steady(np.sqrt(noise.variance))),
            loud=checked.common,
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

    def _check(self, wide: _Widened, settled: _Settled, left_over: Float) -> _Checked:
        """Compare (some) rows with the belief made from them; `left_over` is the fit's (p,)."""
        noise = np.sqrt(settled.unequal * settled.noise.variance)
        rows = _some(len(self.y), max(_USUAL, _A_FEATURE * self.frame.dim))
        task, Z = self.task[rows], self.frame.rows(self.seen.X[rows])
        error = self.y[rows] - np.einsum("np,np->n", Z, wide.mean[task])
        spread = self._spread(wide.V, self.seen.task[rows], Z)
        share = spread / noise[task] ** 2
        told = share < _INTERPOLATED
        telling = Told(task[told], Z[told], (error[told] / noise[task[told]]) ** 2, 1 - share[told])
        if not told.any():
            return _Checked(task, Z, error, spread, None)
        freedom = self._freedom(settled.noise.lent, many=isinstance(wide.V, PerTask))
        spent = passed_through(telling, left_over, settled.noise.variance)
        return _Checked(task, Z, error, spread, loudness(telling, freedom, self.z, spent))

    def _freedom(self, lent: float, *, many: bool) -> Float:
        """Degrees of freedom behind each task's noise along each feature: lent by others, and its own rows.

        (T, p), or (T, 1) without limit where others lend enough, or tasks have no bounds of their own along
        features. Rows of long ago are taken to be like the others.
        """
        T = len(self.tasks)
        if many or lent >= MANY:
            return np.full((T, 1), np.inf)
        latest = np.bincount(self.task, minlength=T)
        old = np.bincount(self.place[self.past.of], weights=self.past.n, minlength=T)
        along = rows_along(self.task, self.frame.rows(self.seen.X), T)
        return lent + along * (1 + old / np.maximum(latest, 1))[:, None]

    def _usual(self, checked: _Checked, noise: Float) -> Float:
        """Residuals of rows as they would be had the row not been in the fit, standardised, sorted."""
        share = checked.spread / noise[checked.task] ** 2
        told = share < _INTERPOLATED
        near = local(checked.Z[told], checked.common)
        usual = noise[checked.task[told]] * np.sqrt(near * (1 - share[told]))
        return np.sort(checked.error[told] / usual)

    @staticmethod
    def _spread(V: Float | PerTask, task: Int, Z: Float) -> Float:
        """`z'V z` of rows (n, p) of tasks (n,), (n,)."""
        if isinstance(V, PerTask):
            return np.array([z @ V[t] @ z for t, z in zip(task, Z, strict=True)])
        spread = np.empty(len(Z))
        quadratics(V, task, Z, spread)
        return spread
