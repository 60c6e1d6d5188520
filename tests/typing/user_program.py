"""A user's program with 25 mistakes, each marked `# wrong`; type checkers must find these and nothing else.

It is checked, never run: see `tests/test_typing.py`.
"""

import numpy as np

import banister as bn

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 4))
y = X @ np.ones(4)
tasks = [f"shop-{i % 6}" for i in range(60)]

# Right: settings as Python or numpy numbers, arrays or nested lists, logs of several kinds.
bandit = bn.SafeBandit(alpha=np.float32(0.1), rank=np.int64(2), path="shop.banister", refits="manual")
decision = bandit.decide("shop-1", X[:3], baseline=np.int64(1), baseline_reward=(0.1, 0.2))
number: int = decision.action
accepted: str = bandit.reward(decision.id, np.float64(0.3))
rows: int = bandit.warm_start({"task": tasks, "f0": y, "reward": y}, features=["f0"])
model = bn.AltGDmin(rank="auto").fit(X, y, tasks)
mean, error = model.predict(X, tasks, return_std=True)
lower, upper = model.interval(X.tolist(), tasks, level=0.9)
settings: dict[str, object] = model.get_params()
env = bn.Synthetic(dim=6, rank=2, tasks=5, actions=4, baseline_rank=2, contexts="uniform")
result = bn.simulate(env, bn.SafeAltGDmin(alpha=0.2), epochs=[4, 8])
results = bn.compare(env, {"ours": bn.SafeAltGDmin(), "rival": bn.ConservativeUCB()}, epochs=np.int64(2))

# Wrong names.
bn.SafeBandits()  # wrong
bn.SafeBandit(alfa=0.1)  # wrong
bandit.decides("shop-1", X[:3], baseline=1)  # wrong
bandit.decide("shop-1", X[:3], base_line=1)  # wrong
bandit.decide("shop-1", actons=X[:3], baseline=1)  # wrong
bandit.warm_start("log.parquet", rewards="revenue")  # wrong
bandit.dry_run("log.parquet", shares=0.5)  # wrong
print(decision.certifed)  # wrong
model.ftt(X, y, tasks)  # wrong
print(model.thetta_)  # wrong
bn.AltGDmin(ranks=2)  # wrong
bn.Synthetic(features=6)  # wrong
bn.PooledConservativeUCB(alpha=0.2, lamb=0.1)  # wrong
print(result.regrets)  # wrong

# Wrong types.
bn.SafeBandit(alpha="0.1")  # wrong
bn.SafeBandit(refits="sometimes")  # wrong
bandit.decide(17, X[:3], baseline=1)  # wrong
bandit.decide("shop-1", X[:3], baseline=0.5)  # wrong
bandit.reward("1", 0.3)  # wrong
bn.AltGDmin(rank="automatic")  # wrong
bn.AltGDmin(2).fit(X, y)  # wrong
bn.SafeAltGDmin(safety="safe")  # wrong
bn.simulate(bn.SafeAltGDmin(), env)  # wrong
late: str = bandit.refit()  # wrong
first: list[int] = results.policies  # wrong
