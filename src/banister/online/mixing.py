"""The conservative mixture in place of an uncertified baseline, one request at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from banister.contract import Requests
from banister.data import Float
from banister.online.door import Request
from banister.safety.constraint import Constraint
from banister.safety.exploration import ConservativeMixture


def mixed(
    mixture: ConservativeMixture, request: Request, constraint: Constraint, seed: int, number: int
) -> tuple[Float, float] | None:
    """Features and lower bound of Lemma l8's mixture for decision `number`; None where ρ is 0.

    The random direction follows from the seed and the decision's number, so nothing is to be kept of it.
    """
    known = request.low == request.high
    if not known and request.low == request.low:
        mixture = replace(mixture, reward_bounds=(request.low, request.high))
    rows = Requests(
        np.zeros(1, dtype=np.int64),
        request.actions[None],
        np.array([request.baseline]),
        np.array([request.high if known else np.nan]),
        request.std,
    )
    choice = mixture.choose(rows, constraint, np.random.default_rng([seed, number]))
    if choice.index[0] >= 0:
        return None
    return choice.features[0], float(choice.lower_bound[0])
