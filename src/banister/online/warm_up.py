"""Compile every kernel that a `SafeBandit` uses, so that the first process to serve does not have to.

`python -m banister.online.warm_up` leaves them where numba keeps its cache.
"""

from __future__ import annotations

import numpy as np

from banister.online.bandit import SafeBandit

_TASKS, _DIM, _ROWS = 12, 6, 40


def warm_up() -> int:
    """Live a short life in memory: fit, decide one and many, reward, audit. The model's version."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((_DIM, 2)))[0]
    theta = (basis @ rng.standard_normal((2, _TASKS))).T
    with SafeBandit(refits="manual", seed=0) as bandit:
        for i in range(_TASKS * _ROWS):
            if i in (_TASKS * _ROWS // 2, _TASKS * _ROWS - _TASKS):
                bandit.refit()
            A = rng.standard_normal((4, _DIM))
            mean = A @ theta[i % _TASKS]
            d = bandit.decide(f"{i % _TASKS}", A, baseline=0, baseline_reward=float(mean[0]))
            bandit.reward(d.id, float(d.features @ theta[i % _TASKS] + 0.1 * rng.standard_normal()))
        many = bandit.decide_many(["0", "1"], rng.standard_normal((2, 4, _DIM)), baselines=[0, 1])
        bandit.reward_many([d.id for d in many], [0.0, 0.0])
        bandit.audit()
        return bandit.version


if __name__ == "__main__":
    warm_up()
