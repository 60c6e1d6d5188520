"""Sharing a representation pays most where a task has few rows: a figure of error against rows per task.

    python examples/estimators.py [figure.png]

60 tasks are fitted together. Then 200 new tasks arrive with a handful of rows each: the model keeps what the
tasks share and fits only what is theirs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import banister as bn

DIM, RANK, OLD, NEW, NOISE = 40, 3, 60, 200, 0.5
ROWS = (1, 2, 3, 5, 8, 12, 20, 30, 50)


def draw(theta: Any, rows: int, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """`rows` noisy observations of every task (column) of theta."""
    tasks = np.repeat(np.arange(theta.shape[1]), rows)
    X = rng.standard_normal((len(tasks), DIM))
    return X, np.einsum("ij,ji->i", X, theta[:, tasks]) + NOISE * rng.standard_normal(len(X)), tasks


def truth(tasks: int, B: Any, rng: np.random.Generator) -> Any:
    """Tasks around a common mean within the span of B."""
    return B @ (np.array([[1.0], [0.0], [0.0]]) + 0.5 * rng.standard_normal((RANK, tasks)))


def errors(seed: int = 0) -> dict[str, list[float]]:
    """Relative error of the new tasks' parameters by rows per task, with and without sharing."""
    rng = np.random.default_rng(seed)
    B = np.linalg.qr(rng.standard_normal((DIM, RANK)))[0]
    X, y, tasks = draw(truth(OLD, B, rng), 60, rng)
    shared, plain = (bn.AltGDmin(rank=RANK, shrink=shrink).fit(X, y, tasks) for shrink in (True, False))
    theta, names = truth(NEW, B, rng), np.arange(OLD, OLD + NEW)
    found: dict[str, list[float]] = {"shared, shrunk": [], "shared": [], "each task alone (ridge)": []}
    for rows in ROWS:
        X_new, y_new, new = draw(theta, rows, rng)
        for name, model in (("shared, shrunk", shared), ("shared", plain)):
            larger = _copy(model).add_tasks(X_new, y_new, names[new])
            found[name].append(_error(larger.theta_[:, OLD:], theta))
        found["each task alone (ridge)"].append(_error(_ridge(X_new, y_new, rows), theta))
    return found


def _copy(model: bn.AltGDmin) -> bn.AltGDmin:
    import copy

    return copy.deepcopy(model)


def _ridge(X: Any, y: Any, rows: int) -> Any:
    """Each task alone with the penalty that the truth's scale calls for: σ²/var(θ_j)."""
    cube, targets = X.reshape(NEW, rows, DIM), y.reshape(NEW, rows, 1)
    penalty = NOISE**2 * DIM / (1 + RANK * 0.25) * np.eye(DIM)
    gram, cross = cube.transpose(0, 2, 1) @ cube, cube.transpose(0, 2, 1) @ targets
    return np.linalg.solve(gram + penalty, cross)[..., 0].T


def _error(found: Any, theta: Any) -> float:
    return float(np.linalg.norm(found - theta) / np.linalg.norm(theta))


def draw_figure(found: dict[str, list[float]], path: Path) -> None:
    """Error against rows per new task, on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for (name, values), colour in zip(found.items(), ("#0b6e4f", "#e08e45", "#7a7a7a"), strict=True):
        ax.plot(ROWS, values, "o-", color=colour, label=name)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="rows per new task",
        ylabel="relative error of θ",
        title=f"{NEW} new tasks, {DIM} features, {RANK} shared directions",
    )
    ax.set_xticks(ROWS, [str(r) for r in ROWS])
    ax.set_yticks((0.1, 0.2, 0.5, 1, 2, 5), ("0.1", "0.2", "0.5", "1", "2", "5"))
    ax.minorticks_off()
    ax.grid(alpha=0.3)
    ax.legend(frameon=False)
    fig.savefig(path, dpi=150)


def main(path: Path = Path("estimators.png")) -> None:
    found = errors()
    print(f"{'rows':>5}" + "".join(f"{name:>26}" for name in found))
    for i, rows in enumerate(ROWS):
        print(f"{rows:>5}" + "".join(f"{values[i]:>26.3f}" for values in found.values()))
    draw_figure(found, path)
    print(f"figure: {path}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
