"""Every task given the fit, a part of the tasks at a time, wherever that part is worked on.

What tasks share is learned in one place, from a sample. What follows from it for each task needs that task's
rows alone: parts of the tasks can be worked on by threads or on other machines (`banister.solver.work`).
Parts are whole blocks, and a block's arithmetic does not depend on its part, so results are the same to the
last bit for any number of parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from banister.data import Float
from banister.safety import widening
from banister.safety.gathering import Part
from banister.safety.hierarchy import Hierarchy
from banister.safety.opened import Open
from banister.safety.posterior import Posterior, Shared
from banister.safety.stored import Stored, Storing


class Given(NamedTuple):
    """Tasks given the fit, one entry a task but for the last three.

    Attributes:
        raw: squared residuals; freedom: rows that the fit did not spend; n: rows.
        c: (T, k+1) coefficients; square: mean y².
        leaning, played: mean features of played baselines and their number.
        totals: (blocks, 2) see `Rows.total`.
        error, length: of each row, task after task: its residual and the square of its features' length.
    """

    raw: Float
    freedom: Float
    n: Float
    c: Float
    square: Float
    leaning: Float
    played: Float
    totals: Float
    error: Float
    length: Float


def given(part: Part, noise: Float, hierarchy: Hierarchy) -> Given:
    """A part's tasks given the fit and their noise variances."""
    return joined(
        [_block_given(part, block, noise[_inside(part, block)], hierarchy) for block in part.blocks()]
    )


def _block_given(part: Part, block: Any, noise: Float, hierarchy: Hierarchy) -> Given:
    data, d = part.data, len(part.data.frame.scale)
    rows = data.rows(block)
    post = Posterior(rows.information(noise, hierarchy.label_level), hierarchy.shared)
    spent, _ = post.spent(post.learned(hierarchy.open_of(post.c)))
    features, chosen = block.features, data.is_baseline[block.row]
    return Given(
        rows.plays.rest + post.play_squares(noise),
        np.maximum(rows.plays.n - spent, 0.0),
        rows.plays.n,
        post.c,
        rows.plays.yy / np.maximum(rows.plays.n, 1.0),
        *widening.means(block.task[chosen], features[chosen, :d], len(rows.plays.n)),
        np.array(rows.total())[None],
        block.rewards - np.einsum("np,np->n", features, post.mean[block.task]),
        np.einsum("np,np->n", features, features),
    )


@dataclass(frozen=True, eq=False)
class Doubts:
    """What all tasks are widened by.

    Attributes:
        wide: what tasks share, widened; opened: what is open of it.
        label_level, size: see `Hierarchy`.
        storing: how rows are kept; None where covariances are.
    """

    wide: Shared
    opened: Open
    label_level: float
    size: float
    storing: Storing | None


class Wide(NamedTuple):
    """Tasks' means (T, p) and their covariances: V and `away` (T, p, p), or rows with D (T, p), `more` and
    `tied` (`stored`).
    """

    mean: Float
    V: Float
    away: Float
    D: Float
    more: Float
    tied: Float
    rows: list[Stored]


def widened(part: Part, noise: Float, scale: Float, added: Float, c: Float, doubts: Doubts) -> Wide:
    """A part's tasks given what is shared, widened; noise, scale, added (n,) and c (n, q) are theirs."""
    p = part.data.frame.dim
    n = len(noise) if doubts.storing is None else 0
    V, away = np.empty((n, p, p)), np.empty((n, p, p))
    found = []
    for block in part.blocks():
        i = _inside(part, block)
        info = part.data.rows(block).information(noise[i], doubts.label_level)
        left_open = doubts.opened.of(c[i])
        post = widening.widened(info, doubts.wide, scale[i], added[i], left_open, doubts.size)
        if doubts.storing is None:  # matrices are large: each block's go where they will stay
            post.covariance(left_open, (V[i], away[i]))
        found.append(_of_block(post, c[i], doubts.storing))
    return joined(found)._replace(V=V, away=away)


def _of_block(post: Posterior, c: Float, storing: Storing | None) -> Wide:
    """A block's tasks without their matrices."""
    p = post.mean.shape[1]
    nothing = np.empty((0, p, p))
    if storing is None:
        return Wide(post.mean, nothing, nothing, np.empty((0, p)), np.empty(0), np.empty(0), [])
    D = np.array(post.shared.D)
    kept = storing.store(post.info.R, D, c)
    return Wide(post.mean, nothing, nothing, D, kept.more, kept.tied, [kept.rows])


def _inside(part: Part, block: Any) -> slice:
    """A block's tasks, counted from the part's first."""
    return slice(block.tasks.start - part.tasks.start, block.tasks.stop - part.tasks.start)


Result = TypeVar("Result", Given, Wide)


def joined(parts: Sequence[Result]) -> Result:
    """One result of those of consecutive tasks."""
    if len(parts) == 1:
        return parts[0]
    columns: list[Any] = [_end_to_end(group) for group in zip(*parts, strict=True)]
    return type(parts[0])(*columns)


def _end_to_end(group: Sequence[Any]) -> Any:
    if isinstance(group[0], list):
        return [item for column in group for item in column]
    return np.concatenate(group)
