"""CLUCB2: the best action that the totals allow, and totals read off the rewards themselves."""

from __future__ import annotations

import numpy as np

from banister.contract import Outcomes, Requests
from banister.data import Float, Int
from banister.policies._card import GIVEN_OR_ESTIMATED, Card
from banister.policies._cumulative import CumulativeBandit, Turned
from banister.policies._ridge import RunningRidge


class CLUCB2(CumulativeBandit):
    """CLUCB with a constrained choice and a tighter account of the past.

    Source: Garcelon, Ghavamzadeh, Lazaric and Pirotta, *Improved algorithms for conservative exploration in
    bandits*, 2020; one bandit per task. Two changes against `CLUCB`:

    * Among all actions that keep the promise the one with the highest upper bound is played, where CLUCB
      gives up if the most optimistic one does not.
    * What past plays were worth is bounded from the rewards that came back,
      `Σ y − R √((n+1) log((n+1)/δ'²))`, beside the bound from the confidence set; the larger counts, together
      with the new action's own lower bound.

    What we chose, and why: the source bounds the sum of rewards by Freedman's inequality for bounded noise;
    ours is the self-normalised bound for R-sub-Gaussian noise, valid at all times. The source also uses that
    rewards are not negative; ours may be. Its relaxation to checkpoints is not built. The rest is as in
    `CLUCB`.

    Args:
        alpha: the share of the baseline's total that may be risked, strictly between 0 and 1.
        lam, noise, norm_bound, delta, radius, labels, literal_floor: as for `ConservativeThompson`.

    Examples:
        >>> from banister import CLUCB2, Synthetic, simulate
        >>> env = Synthetic(dim=5, rank=1, tasks=4, actions=5, baseline_rank=3, noise_std=0.001)
        >>> result = simulate(env, CLUCB2(), epochs=2, rounds=40)
        >>> int(result.cumulative_violations.sum()), bool(result.regret[1] < 0.5 * result.regret[0])
        (0, True)
    """

    card = Card(
        source="Garcelon et al. 2020 (CLUCB2), one per task",
        noise=GIVEN_OR_ESTIMATED,
        norm_bound=GIVEN_OR_ESTIMATED,
        safe="in total, with probability 1 − δ; single plays may be below the floor",
        refits="every round",
        cost="T K d²",
        use="as CLUCB; it leaves the baseline earlier",
    )

    def reset(self, n_tasks: int, rng: np.random.Generator) -> None:
        """Start a new trial over `n_tasks` tasks."""
        super().reset(n_tasks, rng)
        self._open: dict[tuple[int, bytes], int] = {}  # plays in `_left` whose rewards are still out
        self._rewards, self._returned = np.zeros(n_tasks), np.zeros(n_tasks, dtype=np.int64)
        self._out: Float = np.zeros((n_tasks, 0))  # (T, d) Σ x of those plays

    def learn(self, outcomes: Outcomes) -> None:
        """Take in rewards; those of plays that left the baseline settle what these were worth."""
        for task, x, y in zip(outcomes.task.tolist(), outcomes.features, outcomes.reward, strict=True):
            key = (task, x.tobytes())
            if self._open.get(key, 0):
                self._open[key] -= 1
                self._out[task] -= x
                self._rewards[task] += y
                self._returned[task] += 1
        super().learn(outcomes)

    def _pick(self, upper: Float, margin: Float) -> Int:
        allowed = np.where(margin >= 0, upper, -np.inf)
        return np.where((margin >= 0).any(axis=1), allowed.argmax(axis=1), -1)

    def _margins(self, asked: Requests, offered: Turned, ridge: RunningRidge, radius: Float) -> Float:
        joint = super()._margins(asked, offered, ridge, radius)
        mean, width = offered.bounds(radius[asked.task])
        return np.maximum(joint, self._settled(asked, ridge, radius) + mean - width)

    def _settled(self, asked: Requests, ridge: RunningRidge, radius: Float) -> Float:
        """The past from rewards: what came back, less what chance could have added; (m, 1)."""
        noise = ridge.noise_level() if self.noise is None else self.noise
        if not np.isfinite(noise):
            return np.full((len(asked), 1), -np.inf)
        task, fail = asked.task, self.delta / self.n_tasks
        n = self._returned[task]
        luck = noise * np.sqrt((n + 1.0) * np.log((n + 1.0) / fail**2)) * (n > 0)
        nothing = Turned(np.zeros((len(asked), 1)), np.zeros((len(asked), 1, asked.dim)))
        rest = self._joint(task, nothing, self._out[task], ridge, radius)
        settled: Float = rest + (self._rewards[task] - luck)[:, None]
        return settled

    def _size(self, dim: int) -> None:
        super()._size(dim)
        if self._out.shape[1] != dim:
            self._out = np.zeros((self.n_tasks, dim))

    def _join(self, task: Int, features: Float) -> None:
        super()._join(task, features)
        self._out[task] += features
        for key in zip(task.tolist(), (x.tobytes() for x in features), strict=True):
            self._open[key] = self._open.get(key, 0) + 1
