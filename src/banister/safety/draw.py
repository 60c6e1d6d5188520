"""Draws: a probability for each listed action, and how large the share off the baseline may be.

A draw plays the baseline with probability 1 − p and otherwise one of the rest, `q`; its expected reward is
`(1−p) x_b'θ + p Σ_a q_a x_a'θ`, which is the paper's mixture. What is wished for (q, and p at most) comes
from a *committee*: seeded draws from the belief, each of which names the action it holds best (posterior
sampling with exact probabilities). For q they may be wider than for p. What is allowed comes from caps on p:

* the *free share*: where the range of rewards alone keeps the draw above its floor, no model and no data;
* the *decision cap*: under the belief, the draw's value clears its floor by z standard errors
  (`_draw_kernels.mixture`);
* *budget* and *growth*: what was saved so far pays for it (`betting`);
* the *holdout*: the baseline's share that never vanishes, for honest measuring.

`p = min(wish, 1 − holdout, max(free share, smallest of the other caps))`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from banister.data import Float
from banister.errors import InputError
from banister.safety._draw_kernels import fallen_on, votes

MEMBERS = 64  # shares come in steps of 1/64, and scores (64, d) @ (d, K) take tens of microseconds
_SINGLE = np.float32  # of scores: a third of the time, and who is best by 1e-7 does not matter
# Widths ν of a committee, as beliefs are wide for safety's sake. Whether to leave the baseline is asked
# narrowly: at 0.5 a world in which all else is harmful cost 4.7 % instead of 3.2 %. Where to go instead may
# be asked widely; see `Promise.search`.
LEAVE, SEARCH = 0.2, 0.5
WISH, FREE, HOLDOUT = "committee", "free share", "holdout"


class Committee(NamedTuple):
    """Seeded draws from a belief: member s holds `mean + ν · away[s]` at the width ν."""

    mean: NDArray[np.float32]  # (d,)
    away: NDArray[np.float32]  # (S, d)

    @classmethod
    def of(cls, mean: Float, away: Float) -> Committee:
        """In single precision."""
        return cls(mean.astype(_SINGLE), away.astype(_SINGLE))


def members(mean: Float, root: Float, *, seed: int, version: int, task: int) -> Committee:
    """The committee of one task, `μ + ν R z`, the same whenever it is asked for.

    Args:
        mean: (d,) the belief's mean.
        root: (d, m) with `root @ root.T` the belief's covariance.
        seed, version, task: of the store, of the belief, and the task's number; they key the random numbers.
    """
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, version, task))))
    return Committee.of(mean, rng.standard_normal((MEMBERS, root.shape[1])) @ root.T)


def root_of(cov: Float) -> Float:
    """R with `R R' = cov`, triangular; of a covariance that rounding has made indefinite, of its nearest.

    Examples:
        >>> root_of(np.array([[4.0, 0.0], [0.0, 9.0]]))
        array([[2., 0.],
               [0., 3.]])
    """
    try:
        return np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(cov)
        root: Float = vectors * np.sqrt(np.maximum(values, 0.0))
        return root


@dataclass(frozen=True, eq=False)
class Wish:
    """What the committee would play: `share` (K,) of its members each; `p` of them not the baseline.

    `others` (K,) is how the share off the baseline is spread: 0 for the baseline, 1 in sum. If no member
    would leave the baseline it is even.
    """

    share: Float
    p: float
    others: Float


def wish(committee: Committee, actions: Float, baseline: int, *, search: float = LEAVE) -> Wish:
    """Ask the committee about actions (K, d); a tie with the baseline is a vote for the baseline.

    How many leave is counted at the width `LEAVE`, where they go at the width `search`.

    Examples:
        >>> here, there = [0.0, 0.0], [-1.0, 2.0]
        >>> w = wish(Committee.of(np.array([1.0, 0.5]), np.array([here, here, there, there])), np.eye(2), 0)
        >>> w.share, w.p, w.others
        (array([0.5, 0.5]), 0.5, array([0., 1.]))
    """
    _check_baseline(baseline, len(actions))
    share, others = np.empty((2, len(actions)))
    x = actions.astype(_SINGLE).T
    widths = _SINGLE(LEAVE), _SINGLE(search)
    p = votes(committee.mean @ x, committee.away @ x, *widths, baseline, share, others)
    return Wish(share, p, others)


def free_share(
    alpha: float, low: float, *, worst_share: float = 0.0, r_b_low: float = -np.inf, r_b_high: float = np.inf
) -> float:
    """The probability off the baseline that the range of rewards alone makes safe.

    The draw's value is at least `r_b − p (r_b − lo)`, so p may be `α|r_b|/(r_b − lo)`, the least of it over
    the baseline rewards that are possible.

    Args:
        alpha: the share at risk.
        low: no action earns less in expectation; −inf without a reward range.
        worst_share: s, if no action earns less than this share of the baseline: then α/(1−s).
        r_b_low, r_b_high: what is known of the baseline's expected reward (the upper end of the range, a
            lower confidence bound); with low ≥ 0 neither is needed.

    Examples:
        >>> free_share(0.1, 0.0), free_share(0.1, 0.0, worst_share=0.5), free_share(0.1, -1.0, r_b_low=1.0)
        (0.1, 0.2, 0.05)
        >>> free_share(0.1, 1.0, r_b_high=5.0), free_share(0.1, -1.0), free_share(0.1, -np.inf)
        (0.125, 0.0, 0.0)
    """
    if not 0.0 <= worst_share < 1.0:
        raise InputError(f"worst_share={worst_share!r} must lie in [0, 1).")
    by_share = alpha / (1.0 - worst_share) if worst_share > 0.0 and max(low, r_b_low) >= 0.0 else 0.0
    return min(1.0, max(by_share, _by_range(alpha, low, max(low, r_b_low), r_b_high)))


def _by_range(alpha: float, low: float, least: float, most: float) -> float:
    """The least of `α|r|/(r − lo)` over r from `least` to `most`; it has no inner minimum but 0 at r = 0."""
    if not np.isfinite(low):
        return 0.0
    if low >= 0.0:
        return alpha * (most / (most - low) if np.isfinite(most) and most > low else 1.0)
    if least > 0.0:
        return alpha * least / (least - low)
    return alpha * -most / (most - low) if low < most < 0.0 else 0.0


@dataclass(frozen=True, eq=False)
class Draw:
    """A decision: `probabilities` (K,), the share `p` off the baseline, and which limit it met."""

    probabilities: Float
    p: float
    limited_by: str


def combine(wished: Wish, baseline: int, *, free: float, caps: Mapping[str, float], holdout: float) -> Draw:
    """Probabilities from the wish and the caps; `limited_by` names what held p where it is.

    Examples:
        >>> w = Wish(np.array([0.2, 0.8, 0.0]), 0.8, np.array([0.0, 1.0, 0.0]))
        >>> combine(w, 0, free=0.1, caps={"decision": 0.5, "budget": 0.3}, holdout=0.1)
        Draw(probabilities=array([0.7, 0.3, 0. ]), p=0.3, limited_by='budget')
    """
    _check_baseline(baseline, len(wished.others))
    p, name = 1.0, FREE
    for what, cap in caps.items():
        if cap < p:
            p, name = cap, what
    if p <= free:
        p, name = free, FREE
    for limit, what in ((1.0 - holdout, HOLDOUT), (wished.p, WISH)):
        if limit <= p:
            p, name = limit, what
    probabilities = p * wished.others
    probabilities[baseline] = 1.0 - p
    return Draw(probabilities, p, name)


def uniform(seed: int, decision: str) -> float:
    """A number in [0, 1) that a store's seed and a decision's id fix for ever: 53 bits of a keyed BLAKE2b.

    Examples:
        >>> uniform(7, "d1") == uniform(7, "d1"), uniform(7, "d1") == uniform(8, "d1")
        (True, False)
    """
    key = int(seed).to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(decision.encode(), digest_size=8, key=key).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53


def pick(probabilities: Float, u: float) -> int:
    """The action that u falls on when the probabilities are laid end to end; never one of probability 0.

    Examples:
        >>> [pick(np.array([0.5, 0.0, 0.5]), u) for u in (0.0, 0.49, 0.5, 0.999)]
        [0, 0, 2, 2]
    """
    return int(fallen_on(probabilities, u))


def _check_baseline(baseline: int, n_actions: int) -> None:
    if not 0 <= baseline < n_actions:
        raise InputError(f"The baseline is action {baseline}; there are {n_actions}, numbered from 0.")
