"""Plays and labels of the same features as one row each.

Two rows `x'θ ≈ y` of the same x are one row of their weighted mean, whose precision is the sum of theirs: a
baseline that was played and whose reward is claimed costs a fit one row in place of two. How far the two lie
from their mean is kept, since residuals of plays and of labels are judged apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from banister.contract import Bool
from banister.data import Float

if TYPE_CHECKING:
    from banister.safety.factors import Factors


class Pairs(NamedTuple):
    """What of each row comes from its play and what from its label.

    Attributes:
        share: (T, r) of a row's information, what its play gives: 1 of a play alone, 0 of a label alone.
        play, label: (T, r) how far the two lie from their weighted mean, in units of their own noise.
    """

    share: Float
    play: Float
    label: Float


@dataclass(frozen=True, eq=False)
class Merged:
    """Rows of plays, each with the label of its features if it has one, then the labels of other features.

    Attributes:
        R: (T, r, p).
        play, label: (T, r) the reward and the claim; equal where a row has only one of them.
        played, labelled: (T, r) 1 where a row has a play, a label; else 0.
    """

    R: Float
    play: Float
    label: Float
    played: Float
    labelled: Float

    @classmethod
    def of(cls, plays: Factors, labels: Factors) -> Merged:
        """Rows are compared place by place: both kinds stand in the order in which they came."""
        T, r, _ = plays.R.shape
        same = np.zeros((T, max(r, labels.R.shape[1])), dtype=bool)
        n = min(r, labels.R.shape[1])
        same[:, :n] = (plays.R[:, :n] == labels.R[:, :n]).all(axis=2)
        R, claim = _others(labels, ~same[:, : labels.R.shape[1]])
        own = np.array(plays.z)
        own[:, :n] = np.where(same[:, :n], labels.z[:, :n], own[:, :n])
        return cls(
            np.concatenate([plays.R, R], axis=1) if R.shape[1] else plays.R,
            np.concatenate([plays.z, claim], axis=1),
            np.concatenate([own, claim], axis=1),
            np.concatenate([np.ones((T, r)), np.zeros(claim.shape)], axis=1),
            np.concatenate([same[:, :r], np.ones(claim.shape)], axis=1),
        )

    def weighed(self, noise: Float, label_variance: Float) -> tuple[Float, Float, Pairs]:
        """Rows (T, r, p) and (T, r) in units of their noise, for variances (T,) of plays and labels."""
        a, b = 1 / np.sqrt(noise)[:, None], 1 / np.sqrt(label_variance)[:, None]
        precision = a**2 * self.played + b**2 * self.labelled
        root, share, apart = np.sqrt(precision), a**2 * self.played / precision, self.play - self.label
        middle = share * self.play + (1 - share) * self.label
        pairs = Pairs(share, (1 - share) * a * apart, -share * b * apart)
        return self.R * root[:, :, None], middle * root, pairs


def _others(labels: Factors, other: Bool) -> tuple[Float, Float]:
    """The rows of labels that are marked (T, r), those of each task together; rows of zeros fill up."""
    most = int(other.sum(axis=1).max(initial=0))
    place = np.argsort(~other, axis=1, kind="stable")[:, :most]
    here = np.take_along_axis(other, place, axis=1)
    R = np.take_along_axis(labels.R, place[:, :, None], axis=1) * here[:, :, None]
    return R, np.take_along_axis(labels.z, place, axis=1) * here
