"""From a fit to a belief that can be trusted with a floor: doubts that the likelihood does not see.

The fit is the best guess. A bound that must hold over thousands of decisions also has to allow for

* few tasks: directions from T tasks are known with T − k − 1 degrees of freedom (`tails`);
* few rows of a task, while nothing is shared or the fit passes through its rows: the task's size is known
  from its own rows alone (`of_own_size`);
* a fit that passes through its rows: it explains them by some coordinates or directions, and others would
  have done as well (`left_over`);
* a task that is alone with a direction: no other task bears out how it goes on where the task's own rows do
  not show it (`alone`);
* a left-over that selection hides: a baseline that was *chosen* knowing θ shows only 0.15 to 0.2 of the
  actions' variance along θ_t (a 5th best of 10), so rows taken under it see 1/25 to 1/40 of the energy that
  lies there. What is significant of the left-over therefore counts `HIDDEN`-fold (`left_over`);
* tasks unlike the others: noise far above theirs may be signal off the shared directions (`odd_noise`), and
  scores larger than the left-over explains call for a left-over of the task's own size (`_own_scale`);
* a baseline that leans to one side of what is offered: the task's level may come from that lean (`lean`);
* noise that grows with the features (`unequal_noise`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from banister.data import Float, Int
from banister.safety.factors import Information
from banister.safety.hierarchy import Hierarchy
from banister.safety.noise import LEAST_FREEDOM, wider
from banister.safety.passes import outlying
from banister.safety.posterior import Posterior, Shared

HIDDEN = 25.0  # see the module's fifth point: 1 / 0.2²
_SURE = 3.0  # standard errors from which a coordinate's left-over is its own, not the common level
_SIGNIFICANT = 2.0  # standard errors beyond which the common level counts as seen
_LARGEST = 100.0  # times τ0²: no coordinate explains more than a hundred times the rewards' mean square
_ALONE = 0.5  # of a task's leverage on its directions: beyond, it says more of them than all others together
_FEW = 0.25  # the same where tasks are many: beyond, it and two or three others have the directions
_ODD = 2.0  # standard deviations of a task's score beyond which its left-over is of its own size
_ODD_STEPS = 10


def tails(n_tasks: int, rank: int, z: float) -> float:
    """How much wider directions seen in few tasks are taken: the ratio of Student's quantile to the normal's.

    Examples:
        >>> round(tails(1000, 2, 4.0), 2), round(tails(20, 0, 4.0), 2)
        (1.01, 1.63)
    """
    return float(wider(np.array(max(n_tasks - rank - 1, 1)), z))


def of_own_size(rows: Float, tails: float, z: float) -> Float:
    """How much wider than by `tails` a task of few rows is taken while a fit is loose, (T,); at least 1.

    Then nothing says that tasks are of one size. Where they have a few directions in common which are not
    seen yet, sizes of tasks are spread like sums of few squares, and what is known of a task's own comes from
    its own rows: Student's quantile has their number of degrees of freedom, if that is less than T − 1.

    Examples:
        >>> of_own_size(np.array([5.0, 19.0, 100.0]), tails(20, 0, 4.0), 4.0).round(2)
        array([5.79, 1.  , 1.  ])
    """
    found: Float = np.maximum(wider(np.maximum(rows, LEAST_FREEDOM), z) / tails, 1.0)
    return found


def alone(w: Float, L: Float) -> Float:
    """Variance added to the left-over of tasks that are alone with their directions, (T,).

    A task's leverage `w'(Σ ww')⁻¹w` is 1 where no other task goes its way. The direction is then the task
    itself as far as its own rows show it, and where they do not, other tasks' small coefficients seem to say
    how it goes on. Such a task has a left-over as large as what it is said to share, and as well hidden. A
    task that is borne out only by such tasks is one of them.

    Args:
        w: (T, k) coefficients.
        L: (p, k) directions.

    Examples:
        >>> alone(np.array([[4.0], [1.0], [-1.0]]), np.array([[0.5], [0.0]]))  # 25 · 2² / 2
        array([50.,  0.,  0.])
    """
    n, k = w.shape
    most = min(_ALONE, _FEW + 4 * k / n)  # normal coefficients hardly ever come near it
    energy, others = ((w @ L.T) ** 2).sum(axis=1), np.ones(n, dtype=bool)
    while others.any():
        rest = w[others]
        leverage = np.einsum("tk,kl,tl->t", rest, np.linalg.pinv(rest.T @ rest, hermitian=True), rest)
        if not (leverage > most).any():
            break
        others[np.flatnonzero(others)[leverage > most]] = False
    return np.where(others, 0.0, HIDDEN * energy / len(L))


def left_over(hierarchy: Hierarchy, tails: float) -> Float:
    """D with what rows cannot tell apart put at one common level, and what they surely show multiplied.

    While the fit is loose D is all that is known of directions that a task's rows do not show: then it is
    widened by the `tails` of few tasks. A fit that spent most rows has chosen about as many coordinates as a
    task has rows and put the others at nothing, surely as it seems: then none is below the mean of all.
    """
    D, spread = hierarchy.shared.D, hierarchy.spread
    own = _SURE * spread < D
    wide = np.where(own, HIDDEN * D, D)
    rest = ~own
    if rest.any():
        total = max(float(hierarchy.unforced[rest].sum()), 0.0)
        inverse = 2 * np.linalg.pinv(hierarchy.information, rcond=1e-10, hermitian=True)
        error = np.sqrt(max(float(inverse[np.ix_(rest, rest)].sum()), 0.0))
        seen = HIDDEN * max(0.0, total - _SIGNIFICANT * error) / max(total, 1e-300)
        level = total / rest.sum() * max(1.0, seen)
        if hierarchy.loose:  # what is shared and not seen yet is hidden in all coordinates alike
            level = max(level, (total + _SIGNIFICANT * error) / rest.sum())
            if hierarchy.through:
                level = max(level, float(D.mean()))
            wide = np.maximum(wide, level)
        unseen = hierarchy.unseen[rest]
        wide[rest] = np.where(unseen, hierarchy.size, np.maximum(level, 1e-3 * spread[rest]))
    if hierarchy.loose:
        wide = tails * wide
    capped: Float = np.minimum(wide, _LARGEST * hierarchy.size)
    return capped


def left_over_error(hierarchy: Hierarchy) -> Float:
    """Standard error of D; while the fit is loose, nothing speaks for a small left-over."""
    spread = hierarchy.spread * (np.sqrt(HIDDEN) if hierarchy.loose else 1.0)
    capped: Float = np.minimum(spread, hierarchy.size)
    return capped


def odd_noise(raw: Float, freedom: Float, dim: int) -> Float:
    """Variance added to the left-over of tasks whose residuals are far larger than the others', (T,)."""
    added, odd = np.zeros(len(raw)), outlying(raw, freedom)
    if odd.any():
        added[odd] = np.sqrt(HIDDEN) * (raw[odd] - np.median(raw[freedom >= 2])) / dim
    return added


@dataclass(frozen=True, eq=False)
class Leaning:
    """Mean features of each task's played baselines and of what was offered to it, with their counts.

    Features are in standardised coordinates without the intercept; `baseline` and `offered` are (T, d).
    """

    baseline: Float
    played: Float
    offered: Float
    shown: Float

    def with_more(self, task: Int, sums: Float, n: Float) -> Leaning:
        """With more played baselines: sums (g, d) of n (g,) rows of tasks (g,)."""
        played = self.played + np.bincount(task, weights=n, minlength=len(self.played))
        total = self.baseline * self.played[:, None]
        np.add.at(total, task, sums)
        return replace(self, baseline=total / np.maximum(played, 1.0)[:, None], played=played)

    def added(self, square: Float, dim: int) -> Float:
        """Variance added to the left-over of each task, (T,): `mean y² / δ² / p`, δ² the squared lean.

        Were the whole level `x_b'θ` due to the lean, θ would have `level/δ` along it; 0 while the lean is
        within three standard deviations of none. `square` is each task's mean y² (T,), `dim` is p.
        """
        told = (self.played > 0) & (self.shown > 0)
        added = np.zeros(len(square))
        if not told.any():
            return added
        d = self.baseline.shape[1]
        rows = 1 / (1 / self.played[told] + 1 / self.shown[told])
        length = ((self.baseline - self.offered)[told] ** 2).sum(axis=1)
        lean = float((length - d / rows).mean())
        if lean > 0 and (rows * length - d).sum() > 3 * np.sqrt(2 * d * told.sum()):
            added = square / lean / dim
        return added


def sums(task: Int, Z: Float, n_tasks: int) -> Float:
    """The sum of each task's rows (n, d), (T, d)."""
    n = np.bincount(task, minlength=n_tasks)
    found = np.zeros((n_tasks, Z.shape[1]))
    some = np.flatnonzero(n)
    if len(some):
        starts = (np.cumsum(n) - n)[some]
        found[some] = np.add.reduceat(Z[np.argsort(task, kind="stable")], starts, axis=0)
    return found


def means(task: Int, Z: Float, n_tasks: int) -> tuple[Float, Float]:
    """The mean of each task's rows (n, d), (T, d), and how many there are, (T,)."""
    found = np.bincount(task, minlength=n_tasks).astype(float)
    return sums(task, Z, n_tasks) / np.maximum(found, 1.0)[:, None], found


def unequal_noise(error: Float, weight: Float) -> float:
    """How much more residuals of rows with large features count than the plain mean says; at least 1.

    Args:
        error: (n,) residuals.
        weight: (n,) the squared length of each row's features.

    Examples:
        >>> unequal_noise(np.array([1.0, 1.0]), np.array([1.0, 9.0]))
        1.0
        >>> unequal_noise(np.array([1.0, 3.0]), np.array([1.0, 9.0]))
        1.64
    """
    square = error**2
    plain = float(square.mean()) if len(square) else 0.0
    if plain <= 0 or weight.sum() <= 0:
        return 1.0
    return max(1.0, float((weight * square).sum() / weight.sum()) / plain)


def widened(
    info: Information, shared: Shared, scale: Float, added: Float, opened: Float, size: float
) -> Posterior:
    """The posterior of tasks whose left-over is `scale D + added` or of their own size.

    Args:
        info: the tasks' rows.
        shared: what tasks share, its left-over and directions widened already.
        scale: (T,) factor of each task's left-over.
        added: (T,) variance added to it.
        opened: (T, p, p) what all rows leave open of the shared part.
        size: τ0².
    """
    plain = _given(info, shared, np.ones(len(info.y)), added)
    found, expected, chance = _scores(plain, opened)
    odd = np.flatnonzero(found > expected + _ODD * chance)
    if len(odd):
        own = _own_scale(info.of_tasks(odd), shared, added[odd], opened[odd], size)
        scale = scale.copy()
        scale[odd] = np.maximum(scale[odd], own)
    return plain if (scale == 1.0).all() else _given(info, shared, scale, added)


def _given(info: Information, shared: Shared, scale: Float, added: Float) -> Posterior:
    """With left-overs of `scale D + added`."""
    return Posterior(info, Shared(shared.mu, shared.L, scale[:, None] * shared.D + added[:, None]))


def _own_scale(info: Information, shared: Shared, added: Float, opened: Float, size: float) -> Float:
    """The factor of the left-over of tasks whose scores are larger than it explains, (T,)."""
    scale = np.ones(len(info.y))
    most = size / float(shared.D.mean())
    for _ in range(_ODD_STEPS):
        found, expected, chance = _scores(_given(info, shared, scale, added), opened)
        grown = scale * np.sqrt((found + chance) / expected)  # one standard deviation up
        scale = np.clip(grown, 1.0, _LARGEST * most)
    return np.minimum(HIDDEN * scale, _LARGEST**2 * most)


def _scores(post: Posterior, opened: Float) -> tuple[Float, Float, Float]:
    """`Q'DQ` of each task, its expectation under the model and its standard deviation, (T,)."""
    D = post.shared.D
    found = (post.Q**2 * D).sum(axis=1)
    expected = (post.scores_expected(post.learned(opened)) * D).sum(axis=1)
    return found, np.maximum(expected, 1e-300), np.sqrt(2 * post.squares(D))
