"""Actions that no model can tell apart, because their features are the same."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from banister.data import Float

IDENTICAL = "identical-features"  # the reason of a decision in which every action looks like the baseline

_ROUNDING = 1e-12  # features reach us by different routes; a difference of this share of their size is none


def identical(actions: Float, baseline: int) -> NDArray[np.bool_]:
    """(K,) which actions have the baseline's features (itself included): nothing can be learned between them.

    Examples:
        >>> identical(np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]]), 0).tolist()
        [True, True, False]
    """
    usual = actions[baseline]
    same: NDArray[np.bool_] = (np.abs(actions - usual) <= _ROUNDING * np.abs(usual)).all(axis=1)
    return same


def indistinct(actions: Float, baseline: int) -> bool:
    """Whether a request with more than one action offers nothing but the baseline's features."""
    return len(actions) > 1 and bool(identical(actions, baseline).all())
