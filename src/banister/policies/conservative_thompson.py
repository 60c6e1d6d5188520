"""Conservative Thompson sampling, one bandit per task: the paper's naive safe rival."""

from __future__ import annotations

import numpy as np

from banister.contract import Requests
from banister.data import Float
from banister.policies import _ridge_kernels as kernels
from banister.policies._card import GIVEN_OR_ESTIMATED, Card
from banister.policies._conservative import ConservativeBandit
from banister.policies._ridge import RunningRidge


class ConservativeThompson(ConservativeBandit):
    """SCLTS: sample a parameter, play its best action among those that are surely above the floor.

    Source: Moradipari, Thrampoulidis and Alizadeh, *Stage-wise conservative linear bandits*, 2020; the paper
    runs one per task ("naive extension"). It samples `θ̃ = θ̂ + β V^{-1/2} η`, `η ~ N(0, I)`, and plays
    `argmax x'θ̃` over the actions with `x'θ̂ − β‖x‖_{V⁻¹} ≥ floor`, or the conservative mixture if there are
    none. See `banister.policies._conservative` for the symbols.

    Assumes linear rewards, sub-Gaussian noise of level R, `‖θ_t‖ ≤ S`. Then every certified play is above the
    floor, all tasks and rounds together, with probability 1 − δ. Tasks share nothing: with fewer rows than
    features a task's interval is useless, so no gate opens in the first d rounds.

    What we chose, and why:

    * `lam=1e-3`: at the paper's scale (‖θ_t‖ ≈ 0.14, noise 0.001) it has lower regret than 1.
    * `radius="determinant"`: the same theorem's tighter form; "source" is the form that the source prints.
    * The source also waits until `λ_min(V) ≥ (2Lβ/(κ_l + α r_b))²` before it certifies anything. That is for
      the regret proof, not for safety, and at the paper's sizes it never opens: off unless asked for.
    * Gaussian η is one of the distributions its Definition 1 allows.

    Args:
        alpha: the share of the baseline reward that may be risked, strictly between 0 and 1.
        lam: λ, the ridge penalty.
        noise: R; None to estimate it from all tasks' residuals, erring upwards (it assumes that tasks are
            equally noisy).
        norm_bound: S, one number or one per task; None for a cautious guess from the baseline rewards
            (`banister.safety.norm_guess`). Without known baseline rewards it has to be given.
        delta: the probability with which the certificates may fail, over all tasks and rounds together.
        radius: "determinant" or "source".
        wait_for_eigenvalue: apply the source's waiting rule.
        least_gap: κ_l of that rule, a lower bound on how far the best action is above the baseline.
        labels: also learn from the baseline's expected reward, where a request gives it exactly: a row
            without noise in every round, whatever is played.
        mixing: False where mixtures cannot be played: then the baseline is.
        horizon: rounds over which the mixture's probability is shared out.
        literal_floor: use the paper's `(1−α) r_b` also where `r_b` is negative.

    Examples:
        >>> from banister import ConservativeThompson, Synthetic, simulate
        >>> env = Synthetic(dim=5, rank=1, tasks=4, actions=5, baseline_rank=3, noise_std=0.001)
        >>> result = simulate(env, ConservativeThompson(), epochs=2, rounds=20)
        >>> int(result.violations.sum()), bool(result.certified[1] > 0.5)
        (0, True)
    """

    card = Card(
        source="Moradipari et al. 2020 (SCLTS), one per task",
        noise=GIVEN_OR_ESTIMATED,
        norm_bound=GIVEN_OR_ESTIMATED,
        horizon="only for the mixture's ρ",
        safe="yes, with probability 1 − δ",
        refits="every round",
        cost="T (K d + a few d²)",
        use="few tasks, or tasks that share nothing, each with many more rows than features",
    )

    def _preference(self, requests: Requests, ridge: RunningRidge, radius: Float) -> tuple[Float, float]:
        """A fresh sample for every request."""
        drawn = np.empty((len(requests), requests.dim))
        scale = np.where(np.isfinite(radius), radius, 0.0)  # nothing is certified there anyway
        normal = self.rng.standard_normal(drawn.shape)
        kernels.sample(requests.task, ridge.root, ridge.theta, scale, normal, drawn)
        return drawn, 0.0
