"""What the bounds need to know of Θ: its condition number, incoherence, noise-to-signal ratio and scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.data import as_matrix
from banister.errors import SettingError
from banister.theory._domain import at_least_one, count, non_negative, positive


def singular_values(theta: Any, *, rank: int) -> Any:
    """The first `rank` singular values of Θ (d, T), largest first; Section II-B.

    Raises:
        SettingError: if Θ has fewer than `rank` directions, so that κ and the NSR would be infinite.
    """
    matrix = as_matrix(theta, "theta")
    most = min(matrix.shape)
    if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or not 1 <= rank <= most:
        raise SettingError(f"rank={rank!r} is not possible for a {matrix.shape} matrix; use 1 to {most}.")
    values = np.linalg.svd(matrix, compute_uv=False)[:rank]
    found = int(np.sum(values > values[0] * np.finfo(np.float64).eps * max(matrix.shape)))
    if found < rank:
        raise SettingError(f"theta has only {found} directions, fewer than rank={rank}; lower the rank.")
    return values


def condition_number(theta: Any, *, rank: int) -> float:
    """κ = σ*_max / σ*_min over the first `rank` singular values; Section II-B.

    Examples:
        >>> condition_number([[3.0, 0.0], [0.0, 1.5]], rank=2)
        2.0
    """
    values = singular_values(theta, rank=rank)
    return float(values[0] / values[-1])


def incoherence(theta: Any, *, rank: int) -> float:
    """The least μ ≥ 1 with max_t ‖θ_t‖ ≤ μ √(r/T) σ*_max; Definition "Incoherence", Appendix A.

    The paper takes μ = max‖w_t‖/min‖w_t‖, which is never smaller; every bound only needs the inequality, so
    this is the least μ that may be used.

    Examples:
        >>> incoherence([[1.0, 1.0, 1.0, 1.0]], rank=1)
        1.0
        >>> round(incoherence([[2.0, 0.0, 0.0, 0.0]], rank=1), 3)
        2.0
    """
    values = singular_values(theta, rank=rank)
    norms = np.linalg.norm(as_matrix(theta, "theta"), axis=0)
    return float(max(1.0, norms.max() * np.sqrt(len(norms) / rank) / values[0]))


def incoherence_printed(theta: Any) -> float:
    """μ = u/l = max_t ‖w_t‖ / min_t ‖w_t‖, as the paper defines it; Assumption 4 and Appendix A.

    ‖w_t‖ = ‖θ_t‖, since B* is orthonormal. Never below `incoherence`, and without bound where one task has a
    small parameter, which no proof needs.

    Examples:
        >>> incoherence_printed([[3.0, 1.0], [4.0, 0.0]])
        5.0

    Raises:
        SettingError: if a task's parameter is zero: Assumption 4 asks for l > 0.
    """
    norms = np.linalg.norm(as_matrix(theta, "theta"), axis=0)
    if not norms.min() > 0:
        raise SettingError(
            f"task {int(norms.argmin())} has a parameter of zero; Assumption 4 asks for l > 0."
        )
    return float(norms.max() / norms.min())


def noise_to_signal(*, noise: Any, tasks: Any, sigma_min: Any) -> Any:
    """NSR = T σ_η² / σ*_min²; Section II-B, "Notations".

    Args:
        noise: σ_η, standard deviation of the reward noise, in units of reward.
        tasks: T.
        sigma_min: σ*_min, smallest of the r singular values of Θ.
    """
    noise, tasks = non_negative("noise", noise), count("tasks", tasks)
    return tasks * noise**2 / positive("sigma_min", sigma_min) ** 2


def norm_bound(*, mu: Any, rank: Any, tasks: Any, sigma_max: Any) -> Any:
    """μ √(r/T) σ*_max, the paper's bound on every ‖θ_t‖; Assumption 4 and Appendix A."""
    scale = np.sqrt(count("rank", rank) / count("tasks", tasks))
    return at_least_one("mu", mu) * scale * positive("sigma_max", sigma_max)


def subspace_distance(B1: Any, B2: Any) -> float:
    """SD(B1, B2) = ‖(I − B1 B1') B2‖_F for orthonormal B1, B2 (d, r); Section II-B, "Notations".

    Examples:
        >>> subspace_distance([[1.0], [0.0]], [[0.0], [1.0]])
        1.0
    """
    first, second = as_matrix(B1, "B1"), as_matrix(B2, "B2", dim=np.shape(B1)[1])
    return float(np.linalg.norm(second - first @ (first.T @ second)))
