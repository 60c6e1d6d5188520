"""Two sizes by which a low-rank fit is judged: how noise alone looks, and how many numbers are fitted."""

from __future__ import annotations

import math


def noise_norm(dim: int, n_tasks: int) -> float:
    """√d + √T: about the largest singular value of a (d, T) matrix of standard normal noise.

    A direction of the tasks' coefficients, in units of their standard errors, stands out of the noise if it
    is longer than this.

    Examples:
        >>> noise_norm(16, 9)
        7.0
    """
    return math.sqrt(dim) + math.sqrt(n_tasks)


def fitted_numbers(dim: int, n_tasks: int, rank: int) -> int:
    """k (d + T − k): how many free numbers a (d, T) matrix of rank k has.

    Examples:
        >>> fitted_numbers(16, 9, 2)
        46
    """
    return rank * (dim + n_tasks - rank)


def fitted_share(dim: int, n_tasks: int, rank: int, rows: float) -> float:
    """γ_k = k (d + T − k) / N: fitted numbers as a share of the rows.

    Examples:
        >>> fitted_share(16, 9, 2, rows=460)
        0.1
    """
    return fitted_numbers(dim, n_tasks, rank) / max(rows, 1.0)
