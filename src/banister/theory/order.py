"""Mean of the k-th largest of K standard normals: what "the 5th best of 10 actions" earns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, log_ndtr

from banister.errors import SettingError
from banister.theory._domain import count

_GRID = np.linspace(-12.0, 12.0, 4801)  # the integrand is analytic and vanishes at the ends: the sum is exact


def expected_order(*, place: Any, actions: Any) -> Any:
    """E of the `place`-th largest of `actions` independent standard normals.

    With Gaussian features, the k-th best of K actions earns ‖θ‖ times this on average.

    Args:
        place: k, 1 for the best.
        actions: K.

    Examples:
        >>> expected_order(place=[1, 5], actions=10).round(4)
        array([1.5388, 0.1227])
    """
    k, K = np.broadcast_arrays(count("place", place), count("actions", actions))
    if np.any(k > K):
        raise SettingError(f"place={float(k.max())!r} is beyond the last of {float(K.min())!r} actions.")
    k, K = k[..., None], K[..., None]
    # density of the k-th largest: K!/((k−1)!(K−k)!) Φ^(K−k) (1−Φ)^(k−1) φ
    log_weight = gammaln(K + 1) - gammaln(k) - gammaln(K - k + 1) - 0.5 * np.log(2.0 * np.pi)
    log_density = log_weight + (K - k) * log_ndtr(_GRID) + (k - 1) * log_ndtr(-_GRID) - 0.5 * _GRID**2
    return (np.exp(log_density) * _GRID).sum(axis=-1) * (_GRID[1] - _GRID[0])
