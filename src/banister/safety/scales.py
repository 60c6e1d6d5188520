"""One data set out of rows of different quality: each row is divided by its own noise level.

Rewards have a noise level per task. Baseline rewards come with a claimed standard error, which is believed
only as far as the residuals bear it out: `inflation` is how much worse they fit than claimed. An exact
baseline reward is given a hundredth of the rewards' noise, which is exact enough and keeps the arithmetic
well scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banister.data import Float, TaskData
from banister.safety.evidence import Observations
from banister.safety.noise import moderate, task_sums

_EXACT = 0.01
_WORSE = 1.5  # labels that fit up to this much worse than claimed do so by chance


@dataclass(frozen=True, eq=False)
class Scales:
    """Noise levels.

    Attributes:
        play: (T,) standard deviation of each task's rewards.
        inflation: how many times larger the errors of baseline rewards are than claimed; at least 1.
    """

    play: Float
    inflation: float = 1.0

    @property
    def least(self) -> float:
        """The standard error given to a baseline reward that is said to be exact."""
        return float(_EXACT * np.median(self.play))

    def of_labels(self, claimed: Float) -> Float:
        """What a claimed standard error of a baseline reward is taken to be."""
        return self.inflation * np.maximum(claimed, self.least)

    def beyond_doubt(self, claimed: Float) -> Float:
        """The same, but 0 for a baseline reward said to be exact that the data give no reason to doubt."""
        believed = (claimed == 0) & (self.inflation == 1.0)
        return np.where(believed, 0.0, self.of_labels(claimed))


def scaled_rows(
    plays: Observations | None, labels: Observations | None, scales: Scales, n_tasks: int
) -> tuple[TaskData, Float]:
    """All rows divided by their noise levels, sorted by task, and which are labels (sorted alike, 0 or 1)."""
    parts = []
    if plays is not None:
        parts.append((plays, scales.play[plays.task], 0.0))
    if labels is not None:
        parts.append((labels, scales.of_labels(labels.std), 1.0))
    task = np.concatenate([p.task for p, _, _ in parts])
    inverse = 1.0 / np.concatenate([s for _, s, _ in parts])
    X = np.concatenate([p.X for p, _, _ in parts])
    X *= inverse[:, None]
    y = np.concatenate([p.y for p, _, _ in parts]) * inverse
    kind = np.concatenate([np.full(len(p), k) for p, _, k in parts])
    order = np.argsort(task, kind="stable")
    data = TaskData.from_codes(X[order], y[order], task[order], np.arange(n_tasks))
    return data, kind[order]


def rescale(
    scales: Scales, residual: Float, kind: Float, data: TaskData, rank: int
) -> tuple[Scales, float]:
    """New scales from the standardised residuals of a fit, and the largest factor by which one changed."""
    label = kind == 1.0
    left = _freedom_share(data, label, rank)
    play, inflation = scales.play, scales.inflation
    if not label.all():
        codes = data.codes[~label]
        freedom = left[0] * np.bincount(codes, minlength=data.n_tasks)
        sums = task_sums(residual[~label], codes, data.n_tasks)
        factor = np.sqrt(moderate(sums / np.maximum(freedom, 0.5), freedom).variance)
        play = scales.play * np.maximum(factor, 1e-6)
    if label.any():
        worse = inflation * float(np.sqrt(np.mean(residual[label] ** 2) / left[1]))
        inflation = worse if worse > _WORSE else 1.0
    ratio = np.append(play / scales.play, inflation / scales.inflation)
    return Scales(play, inflation), float(np.max(np.maximum(ratio, 1 / ratio)))


def _freedom_share(data: TaskData, label: NDArray[np.bool_], rank: int) -> tuple[float, float]:
    """The share of rows that remains as degrees of freedom: of rewards, and of labels.

    The fit spends `k (d + T − k)` in all, and on each kind in proportion to the energy of its scaled rows.
    """
    energy = np.einsum("ij,ij->i", data.X, data.X)
    on_labels = float(energy[label].sum() / max(energy.sum(), np.finfo(float).tiny))
    spent = rank * (data.dim + data.n_tasks - rank)
    n_labels = int(label.sum())
    shares = [
        1 - spent * part / max(count, 1)
        for part, count in ((1 - on_labels, len(label) - n_labels), (on_labels, n_labels))
    ]
    return max(shares[0], 0.05), max(shares[1], 0.05)
