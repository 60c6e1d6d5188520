"""CLUCB: optimism that may spend only what the totals allow."""

from __future__ import annotations

import numpy as np

from banister.data import Float, Int
from banister.policies._card import GIVEN_OR_ESTIMATED, Card
from banister.policies._cumulative import CumulativeBandit


class CLUCB(CumulativeBandit):
    """Plays the most optimistic action if the total so far surely stays above (1−α) of the baseline's.

    Source: Kazerouni, Ghavamzadeh, Abbasi-Yadkori and Van Roy, *Conservative contextual linear bandits*,
    2017; one bandit per task. The candidate is `argmax x'θ̂ + β‖x‖_{V⁻¹}`; it is played if, for the worst θ of
    the confidence set, everything earned so far and the candidate together reach (1−α) of what the baseline
    would have earned, and the baseline is played otherwise. **The promise is about totals**: a single play
    may be far below its own floor, so violations of the stage-wise floor are expected, and its own measure
    is `cumulative_violations`.

    What we chose, and why: rewards of the baseline are learned from too (the source keeps only those of
    optimistic plays, which is less; the confidence set holds either way). A baseline reward that is unknown,
    or itself an estimate, is bounded by the same confidence set, as in the source's variant for unknown
    baselines. Where the baseline's total is negative the floor is `Σ r_b − α|Σ r_b|`.

    Args:
        alpha: the share of the baseline's total that may be risked, strictly between 0 and 1.
        lam, noise, norm_bound, delta, radius, labels, literal_floor: as for `ConservativeThompson`.

    Examples:
        >>> from banister import CLUCB, Synthetic, simulate
        >>> env = Synthetic(dim=5, rank=1, tasks=4, actions=5, baseline_rank=3, noise_std=0.001)
        >>> result = simulate(env, CLUCB(), epochs=2, rounds=40)
        >>> int(result.cumulative_violations.sum()), bool(result.regret[1] < 0.5 * result.regret[0])
        (0, True)
    """

    card = Card(
        source="Kazerouni et al. 2017 (CLUCB), one per task",
        noise=GIVEN_OR_ESTIMATED,
        norm_bound=GIVEN_OR_ESTIMATED,
        safe="in total, with probability 1 − δ; single plays may be below the floor",
        refits="every round",
        cost="T K d²",
        use="only the sum has to keep up with the baseline's",
    )

    def _pick(self, upper: Float, margin: Float) -> Int:
        best = upper.argmax(axis=1)
        allowed = np.take_along_axis(margin, best[:, None], axis=1)[:, 0] >= 0
        return np.where(allowed, best, -1)
