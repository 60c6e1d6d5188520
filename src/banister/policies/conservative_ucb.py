"""Conservative UCB, one bandit per task: optimism in place of Thompson's sampling."""

from __future__ import annotations

from banister.contract import Requests
from banister.data import Float
from banister.policies._card import GIVEN_OR_ESTIMATED, Card
from banister.policies._conservative import ConservativeBandit
from banister.policies._ridge import RunningRidge


class ConservativeUCB(ConservativeBandit):
    """SCLUCB: play the highest upper bound among the actions that are surely above the floor.

    Source: Moradipari, Thrampoulidis and Alizadeh 2020, the UCB twin of SCLTS. It plays the
    `argmax x'θ̂ + β‖x‖_{V⁻¹}` over the actions with `x'θ̂ − β‖x‖_{V⁻¹} ≥ floor`, or the conservative mixture
    if there are none. Assumptions, choices and arguments are those of `ConservativeThompson`; there is
    nothing random in it but the mixture.

    Examples:
        >>> from banister import ConservativeUCB, Synthetic, simulate
        >>> env = Synthetic(dim=5, rank=1, tasks=4, actions=5, baseline_rank=3, noise_std=0.001)
        >>> int(simulate(env, ConservativeUCB(), epochs=2, rounds=20).violations.sum())
        0
    """

    card = Card(
        source="Moradipari et al. 2020 (SCLUCB), one per task",
        noise=GIVEN_OR_ESTIMATED,
        norm_bound=GIVEN_OR_ESTIMATED,
        horizon="only for the mixture's ρ",
        safe="yes, with probability 1 − δ",
        refits="every round",
        cost="T K d²",
        use="as ConservativeThompson, where choices should not be random",
    )

    def _preference(self, requests: Requests, ridge: RunningRidge, radius: Float) -> tuple[Float, float]:
        """The estimate, and one full width of optimism."""
        return ridge.theta[requests.task], 1.0
