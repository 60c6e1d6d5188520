"""A fit in few passes, for those who fit often: a little from each start, then the best one to the end."""

from __future__ import annotations

from functools import partial

import numpy as np

from banister.data import Float
from banister.solver.descent import Solution, minimise
from banister.solver.passes import Passes
from banister.solver.spectra import from_raw
from banister.solver.starts import candidates, ranked
from banister.solver.whitening import Whitening

_TASTE = 60  # passes after which a start that has not converged must wait for the others
_NEARLY = 1 + 1e-4  # the last step lowered the objective by less


def solve_quick(
    passes: Passes,
    whitening: Whitening,
    *,
    warm: Float | None = None,
    tol: float = 1e-7,
    budget: int = 200,
) -> Solution:
    """The first descent that converges, or the best after `budget` passes (then `converged` is False).

    `warm`, a basis in the data's coordinates, goes first; the spectral starts follow only if it does not
    converge within a taste. Unlucky starts crawl along valleys for hundreds of passes where another is home
    in thirty, so no start is followed to the bitter end before the others have been tried.
    """
    tastes: list[Solution] = []
    taste = partial(_taste, passes, whitening, tol)
    if warm is not None:
        tastes.append(taste(from_raw(whitening, warm)))
    if not tastes or not tastes[0].converged:
        for B in ranked(passes, whitening, candidates(passes, whitening, None)):
            if passes.count >= budget:
                break
            tastes.append(taste(B))
            if tastes[-1].converged and tastes[-1].objective <= min(s.objective for s in tastes):
                return tastes[-1]
    best = tastes[int(np.argmin([s.objective for s in tastes]))]
    if best.converged or passes.count >= budget:
        return best
    left = budget - passes.count
    return minimise(passes, whitening, from_raw(whitening, best.B), tol=tol, max_passes=left)


def _taste(passes: Passes, whitening: Whitening, tol: float, B: Float) -> Solution:
    """A descent of a few passes, and once more as many for one that has nearly arrived."""
    first = minimise(passes, whitening, B, tol=tol, max_passes=_TASTE)
    if first.converged or len(first.history) < 2 or first.history[-2] > _NEARLY * first.objective:
        return first
    return minimise(passes, whitening, from_raw(whitening, first.B), tol=tol, max_passes=_TASTE)
