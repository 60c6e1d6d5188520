"""What the method costs: rows, arithmetic and messages, up to the paper's unstated constants.

These are orders of growth (Section IV, "Sample Complexity" and "Time and Communication Complexity"): with
C = 1 they rank settings against each other and promise no count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from banister.theory._domain import at_least_one, count, non_negative, open_unit, positive
from banister.theory.bound import Bound


def first_epoch_complexity(*, dim: Any, rank: Any, nsr: Any, C: float = 1.0) -> Bound:
    """Rows over all tasks in epoch 1: (d + r) max(r, NSR), with κ and μ held constant."""
    d, r, C = count("dim", dim), count("rank", rank), float(positive("C", C))
    return Bound(
        C * (d + r) * np.maximum(r, non_negative("nsr", nsr)), "Sample complexity, epoch 1", {"C": C}
    )


def later_epoch_complexity(*, dim: Any, rank: Any, nsr: Any, target: Any, C: float = 1.0) -> Bound:
    """Rows over all tasks in an epoch m ≥ 2: (d + r) r max(1, NSR/ε²).

    The paper also gives it as its figure for any epoch.
    """
    d, r, C = count("dim", dim), count("rank", rank), float(positive("C", C))
    noise = non_negative("nsr", nsr) / positive("target", target) ** 2
    return Bound(C * (d + r) * r * np.maximum(1.0, noise), "Sample complexity, epochs m >= 2", {"C": C})


def separate_complexity(*, dim: Any, tasks: Any) -> Any:
    """Rows over all tasks to learn each task alone: at least T d an epoch."""
    return count("tasks", tasks) * count("dim", dim)


def sharing_tasks(*, dim: Any, rank: Any, nsr: Any, target: Any, C: float = 1.0) -> Bound:
    """The T from which the shared representation asks for fewer rows than T·d: C (d+r) r max(1, NSR/ε²) / d.

    NSR = T σ_η²/σ*_min² is taken as given; it does not change with T if σ*_min² grows as T,
    that is, if tasks keep their size.
    """
    rows = later_epoch_complexity(dim=dim, rank=rank, nsr=nsr, target=target, C=C)
    return Bound(rows.value / count("dim", dim), "Sample complexity against T d", rows.constants)


def time_complexity(*, rows: Any, tasks: Any, dim: Any, rank: Any, target: Any, C: float = 1.0) -> Bound:
    """Multiplications in one epoch to reach ε: (G_m − G_{m−1}) T d r log(1/ε).

    Args:
        rows: G_m − G_{m−1}, rows per task in the epoch.
        tasks: T.
        dim: d.
        rank: r.
        target: ε, strictly between 0 and 1.
        C: unstated constant; a placeholder.
    """
    size = count("rows", rows) * count("tasks", tasks) * count("dim", dim) * count("rank", rank)
    C = float(positive("C", C))
    return Bound(C * size * _log_inverse(target), "Time complexity", {"C": C})


def communication_complexity(*, dim: Any, rank: Any, kappa: Any, target: Any, C: float = 1.0) -> Bound:
    """Numbers one task exchanges to reach ε: d r κ log(1/ε), as printed.

    d·r numbers an iteration, times Theorem T11's κ² log(1/ε) iterations, would give κ² for the printed κ.
    """
    size = count("dim", dim) * count("rank", rank) * at_least_one("kappa", kappa)
    C = float(positive("C", C))
    return Bound(C * size * _log_inverse(target), "Communication complexity", {"C": C})


def bytes_per_iteration(*, dim: Any, rank: Any, item_bytes: Any = 8) -> Any:
    """Bytes one task sends and receives in one iteration: its d×r gradient out, the new d×r B in."""
    return 2.0 * count("dim", dim) * count("rank", rank) * count("item_bytes", item_bytes)


def _log_inverse(target: Any) -> Any:
    return np.log(1.0 / open_unit("target", target))
