"""One data set out of rows of different quality: each row is divided by its own noise level.

Rewards have a noise level per task. Baseline rewards come with a claimed standard error, which is believed
only as far as the residuals bear it out: `inflation` is how much worse they fit than claimed. An exact
baseline reward is given a hundredth of the rewards' noise, which is exact enough and keeps the arithmetic
well scaled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from banister.contract import Bool
from banister.data import Float, TaskData
from banister.safety.evidence import Observations
from banister.safety.noise import moderate, task_sums

_EXACT = 0.01
_EXACT_REWARDS = 1e-6  # the least noise of rewards, as a share of their size
_FAR = 0.1  # labels with a tenth of the rewards' noise outweigh them a hundred to one
_WORSE = 1.5  # labels that fit up to this much worse than claimed do so by chance


@dataclass(frozen=True, eq=False)
class Scales:
    """Noise levels.

    Attributes:
        play: (T,) standard deviation of each task's rewards.
        inflation: how many times larger the errors of baseline rewards are than claimed; at least 1.
        grain: how many times coarser than a hundredth of the rewards' noise an exact baseline reward is taken
            to be. Where the model is only nearly true, exact labels show every flaw of it; a coarser grain
            lets small flaws pass for noise.
    """

    play: Float
    inflation: float = 1.0
    grain: float = 1.0

    @property
    def least(self) -> float:
        """The standard error given to a baseline reward that is said to be exact."""
        return float(self.grain * _EXACT * np.median(self.play))

    def of_labels(self, claimed: Float) -> Float:
        """What a claimed standard error of a baseline reward is taken to be."""
        return self.inflation * np.maximum(claimed, self.least)

    def exact(self, claimed: Float) -> bool:
        """Whether labels of these claims far outweigh rewards, and the data give no reason to doubt them."""
        return self.grain == self.inflation == 1.0 and self.outweigh(claimed)

    def outweigh(self, claimed: Float) -> bool:
        """Whether labels of these claims are far more exact than rewards."""
        return bool(np.mean(self.of_labels(claimed)) < _FAR * np.min(self.play))

    def beyond_doubt(self, claimed: Float) -> Float:
        """The same, but 0 for a baseline reward said to be exact that the data give no reason to doubt."""
        believed = (claimed == 0) & (self.inflation == 1.0)
        return np.where(believed, 0.0, self.of_labels(claimed))


def scaled_rows(
    plays: Observations | None, labels: Observations | None, scales: Scales, n_tasks: int
) -> tuple[TaskData, Bool]:
    """All rows divided by their noise levels and sorted by task, and which of them are labels.

    Rewards of a baseline whose label is known are merged with that label, each weighted by its precision.
    """
    parts = []
    if labels is not None:
        y, std = labels.y, scales.of_labels(labels.std)
        if plays is not None:
            plays, y, std = _merge(plays, labels, scales, std)
        parts.append((labels.task, labels.X, y, std, np.ones(len(y), dtype=bool)))
    if plays is not None and labels is not None:
        plays = plays.rows(~_negligible(plays, labels, scales))
    if plays is not None and len(plays):
        noise = scales.play[plays.task]
        parts.append((plays.task, plays.X, plays.y, noise, np.zeros(len(plays), dtype=bool)))
    task, X, y, std, is_label = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(task, kind="stable")
    X = X[order]
    X /= std[order, None]
    data = TaskData.from_codes(X, (y / std)[order], task[order], np.arange(n_tasks))
    return data, is_label[order]


def _negligible(plays: Observations, labels: Observations, scales: Scales) -> Bool:
    """Rewards that add next to nothing to the fit, (n,): their task has enough labels far more exact."""
    if not scales.outweigh(labels.std):
        return np.zeros(len(plays), dtype=bool)
    n_labels = np.bincount(labels.task, minlength=len(scales.play))
    enough = 2 * n_labels >= np.bincount(plays.task, minlength=len(scales.play))
    negligible: Bool = enough[plays.task]
    return negligible


def _merge(
    plays: Observations, labels: Observations, scales: Scales, std: Float
) -> tuple[Observations, Float, Float]:
    """Rewards without a label of their own; and the labels' values and errors with the others merged in."""
    order = np.argsort(labels.key, kind="stable")
    place = np.minimum(np.searchsorted(labels.key[order], plays.key), len(order) - 1)
    label = order[place]
    matched = labels.key[label] == plays.key
    label, noise = label[matched], scales.play[plays.task[matched]]
    own = 1 / std**2
    extra = np.bincount(label, weights=1 / noise**2, minlength=len(labels))
    total = np.bincount(label, weights=plays.y[matched] / noise**2, minlength=len(labels))
    rest = plays.rows(~matched)
    return rest, (labels.y * own + total) / (own + extra), 1 / np.sqrt(own + extra)


def rescale(
    scales: Scales,
    plays: Observations | None,
    labels: Observations | None,
    theta: Float,
    rank: int,
) -> tuple[Scales, float]:
    """New scales from the residuals of a fit (d, T), and the largest factor by which one changed."""
    d, n_tasks = theta.shape
    spent = rank * (d + n_tasks - rank)
    play, inflation = scales.play, scales.inflation
    if labels is not None:
        worse = labels.errors(theta) / np.maximum(labels.std, scales.least)
        share = max(1 - spent / len(labels), 0.05)
        inflation = float(np.sqrt(np.mean(worse**2) / share))
        inflation = inflation if inflation > _WORSE else 1.0
    if plays is not None:
        # Where there are labels they carry the fit, and rewards keep their degrees of freedom.
        share = 1.0 if labels is not None else max(1 - spent / len(plays), 0.05)
        freedom = share * np.bincount(plays.task, minlength=n_tasks)
        sums = task_sums(plays.errors(theta), plays.task, n_tasks)
        play = np.sqrt(moderate(sums / np.maximum(freedom, 0.5), freedom).variance)
        # Rewards without noise would otherwise leave rounding errors for a noise level.
        play = np.maximum(play, _EXACT_REWARDS * np.sqrt(np.mean(plays.y**2)))
    ratio = np.append(play / scales.play, inflation / scales.inflation)
    return Scales(play, inflation, scales.grain), float(np.max(np.maximum(ratio, 1 / ratio)))
