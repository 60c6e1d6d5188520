"""Every policy at the paper's default setting on one core: seconds a trial, regret, violations, error.

Run with OMP_NUM_THREADS, OPENBLAS_NUM_THREADS and BANISTER_THREADS set to 1. d = T = 100, r = 2, K = 10, 4
epochs of 50 rounds, noise 0.001, alpha 0.2; violations of 20,000 plays. Seconds are processor time of
the whole trial, the environment's share included, after a first run that compiles.
"""

from __future__ import annotations

import argparse
from time import process_time

import numpy as np

import banister as bn
from banister.simulation.trial import simulate

ALPHA = 0.2


def one_theta():
    """The default setting, but with the first task's parameters for every task."""

    class OneTheta(bn.Synthetic):
        def reset(self, rng):
            super().reset(rng)
            self._thetas = tuple(np.repeat(theta[:1], self.tasks, axis=0) for theta in self._thetas)

    return OneTheta()


def contestants(env):
    """Name, policy and environment of each row."""
    paper, shared = env, one_theta()
    return [
        ("BaselineOnly", bn.BaselineOnly(), paper),
        ("Oracle", bn.Oracle(paper), paper),
        ("SafeAltGDmin, certified", bn.SafeAltGDmin(ALPHA), paper),
        ("SafeAltGDmin, paper", bn.SafeAltGDmin(ALPHA, safety="paper"), paper),
        ("SafeAltGDmin, converged", bn.SafeAltGDmin(ALPHA, safety="converged"), paper),
        ("AltGDminGreedy", bn.AltGDminGreedy(), paper),
        ("AltGDminGreedy online=10", bn.AltGDminGreedy(online=10), paper),
        ("TraceNormGreedy", bn.TraceNormGreedy(), paper),
        ("TraceNormGreedy lam='rate'", bn.TraceNormGreedy(lam="rate"), paper),
        ("TraceNormGreedy online=10", bn.TraceNormGreedy(online=10), paper),
        ("MomentsGreedy rank=2", bn.MomentsGreedy(rank=2), paper),
        ("MomentsGreedy rank=2 pool=False", bn.MomentsGreedy(rank=2, pool=False), paper),
        ("MomentsGreedy rank=2 explore=1", bn.MomentsGreedy(rank=2, explore=1), paper),
        ("LowRankUCB", bn.LowRankUCB(), paper),
        ("LowRankUCB rank=2", bn.LowRankUCB(rank=2), paper),
        ("ConservativeThompson", bn.ConservativeThompson(ALPHA), paper),
        ("  noise given", bn.ConservativeThompson(ALPHA, noise=1e-3), paper),
        (
            "  noise given, radius='source'",
            bn.ConservativeThompson(ALPHA, noise=1e-3, radius="source"),
            paper,
        ),
        ("  the same, lam=1", bn.ConservativeThompson(ALPHA, noise=1e-3, radius="source", lam=1.0), paper),
        ("  waiting rule", bn.ConservativeThompson(ALPHA, noise=1e-3, wait_for_eigenvalue=True), paper),
        ("  noise given, labels", bn.ConservativeThompson(ALPHA, noise=1e-3, labels=True), paper),
        ("ConservativeUCB", bn.ConservativeUCB(ALPHA), paper),
        ("SafeExploreGreedy", bn.SafeExploreGreedy(ALPHA), paper),
        ("CLUCB", bn.CLUCB(ALPHA), paper),
        ("CLUCB2", bn.CLUCB2(ALPHA), paper),
        ("SpectralUCB rank=2", bn.SpectralUCB(rank=2), paper),
        ("PooledConservativeUCB", bn.PooledConservativeUCB(ALPHA), paper),
        ("  noise given", bn.PooledConservativeUCB(ALPHA, noise=1e-3), paper),
        ("one θ: PooledConservativeUCB", bn.PooledConservativeUCB(ALPHA), shared),
        ("one θ: ConservativeThompson", bn.ConservativeThompson(ALPHA), shared),
    ]


def measure(policy, env, seeds):
    simulate(env, policy, epochs=1, rounds=2, seed=99, alpha=ALPHA)  # compiles
    rows = []
    for seed in range(seeds):
        began = process_time()
        result = simulate(env, policy, seed=seed, alpha=ALPHA)
        rows.append((process_time() - began, result))
    seconds = [took for took, _ in rows]
    results = [result for _, result in rows]
    return (
        min(seconds),
        np.mean([r.regret.sum() for r in results]),
        np.mean([r.violations.sum() for r in results]),
        np.mean([r.cumulative_violations.sum() for r in results]),
        np.mean([r.error[-1] for r in results]),
        np.mean([r.certified[-1] for r in results]),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = parser.parse_args().seeds
    print(f"means of {seeds} seeds; seconds: the fastest of them")
    print(
        f"| {'policy':32} | {'s/trial':>7} | {'regret':>7} | {'violations':>10} | {'in total':>8} | "
        f"{'error':>7} | certified |"
    )
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, policy, env in contestants(bn.Synthetic()):
        seconds, regret, violations, total, error, certified = measure(policy, env, seeds)
        print(
            f"| {name:32} | {seconds:7.2f} | {regret:7.0f} | {violations:10.0f} | {total:8.0f} | "
            f"{error:7.4f} | {certified:9.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
