"""What promises earn and what they break: worlds with fixed arms, played by live `SafeBandit`s and others.

    python benchmarks/promises.py --worlds banner,items --seeds 4

Per world and policy: captured share of oracle − baseline (cumulative at 10, 50 and 100 % of the decisions),
decisions whose draw was below its floor, tasks whose total was ever below / below at the end (a run), runs in
which the fleet's total was ever below. α = 0.1; the baseline's reward is never known; rewards come one batch
late.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from banister.contract import Choices, Requests
from banister.environments.banners import Banners, Revenue
from banister.environments.fixed_items import FixedItems
from banister.environments.ratings import find_ratings, read_ratings
from banister.environments.sources import MOVIELENS_100K
from promise_agents import POLICIES, make_agent

ALPHA = 0.1
MARKS = (0.1, 0.5, 1.0)
COLUMNS = ("policy", "captured", "gain", "2nd half", "below", "tasks ever/end", "fleet", "left", "s")
Float = Any


class Played:
    """An environment of the package, asked for the value of every action."""

    def __init__(self, env: Any, seed: int) -> None:
        self.env, self.low, self.high = env, env.low, env.high
        env.reset(np.random.default_rng((seed, 1)))
        self.rng, self.noise = np.random.default_rng((seed, 2)), np.random.default_rng((seed, 3))
        self.tasks, self.dim, self.round = env.n_tasks, len(env.theta), 0

    def ask(self, rows: int) -> tuple[Requests, Float]:
        rounds = max(1, rows // self.tasks)
        requests = self.env.requests(rounds, self.rng, self.round)
        self.round += rounds
        K = requests.actions.shape[1]
        of = (Choices.of_index(requests, np.full(len(requests), k), "") for k in range(K))
        return requests, np.stack([self.env.expected(requests, c) for c in of], axis=1)

    def reward(self, requests: Requests, played: Float, values: Float) -> Float:
        noise = self.env.noise(requests, self.noise)
        return self.env.reward(requests, values[np.arange(len(played)), played], noise)


class RatingsWorld:
    """Ten popular films for groups of viewers; the reward is whether a real viewer of the group liked it.

    Groups are found from the viewers' other ratings, and rewards are drawn from the group's real ratings of
    these ten films, which were held out. The film in place is the third best on average.
    """

    def __init__(self, seed: int, groups: int = 30, arms: int = 10) -> None:
        from sklearn.cluster import KMeans

        rng = np.random.default_rng(seed)
        R = read_ratings(find_ratings(MOVIELENS_100K), MOVIELENS_100K).matrix()
        popular = np.argsort(-np.isfinite(R).sum(0))[:60]
        films = rng.choice(popular, arms, replace=False)
        rest = np.delete(R, films, axis=1)
        taste = np.nan_to_num(rest - np.nanmean(rest, axis=1, keepdims=True))
        U, S, _ = np.linalg.svd(taste, full_matrices=False)
        F = U[:, :8] * S[:8]
        group = KMeans(groups, n_init=2, random_state=seed).fit_predict(
            F / (np.linalg.norm(F, axis=1)[:, None] + 1e-9)
        )
        liked = np.where(np.isfinite(R[:, films]), R[:, films] >= 0.8, np.nan)
        pools = [[c[np.isfinite(c)] for c in liked[group == g].T] for g in range(groups)]
        keep = [g for g in range(groups) if min(len(c) for c in pools[g]) >= 3]
        self.pools = [pools[g] for g in keep]
        self.means = np.array([[c.mean() for c in p] for p in self.pools])
        weight = np.array([(group == g).sum() for g in keep])
        self.traffic = weight / weight.sum()
        self.incumbent = int(np.argsort(-(self.means * weight[:, None]).sum(0))[2])
        self.tasks, self.dim, self.low, self.high, self.rng = len(keep), arms, 0.0, 1.0, rng

    def ask(self, rows: int) -> tuple[Requests, Float]:
        task = self.rng.choice(self.tasks, rows, p=self.traffic)
        actions = np.broadcast_to(np.eye(self.dim), (rows, self.dim, self.dim))
        baseline = np.full(rows, self.incumbent)
        return Requests(task, np.ascontiguousarray(actions), baseline, np.full(rows, np.nan)), self.means[
            task
        ]

    def reward(self, requests: Requests, played: Float, values: Float) -> Float:
        pools = (self.pools[t][a] for t, a in zip(requests.task, played, strict=True))
        return np.array([pool[self.rng.integers(len(pool))] for pool in pools])


WORLDS = {
    "banner": (100_000, lambda s: Played(Banners(), s)),
    "items": (50_000, lambda s: Played(FixedItems(), s)),
    "revenue": (200_000, lambda s: Played(Revenue(), s)),
    "ratings": (30_000, RatingsWorld),
    "harmful": (10_000, lambda s: Played(Banners(effects="harmful"), s)),
    "equal": (10_000, lambda s: Played(Banners(effects="none"), s)),
    "flip": (100_000, lambda s: Played(Banners(change="flip"), s)),
    "seasons": (100_000, lambda s: Played(Banners(change="seasons", period=500), s)),
}


def play(world: Any, agent: Any, decisions: int) -> dict[str, Any]:
    """One run; truth and promises are kept by the expected rewards of draws."""
    totals, worst, fleet_worst = np.zeros((world.tasks, 3)), np.zeros(world.tasks), 0.0
    below, done, captured, half, left = 0, 0, [], np.zeros(3), 0.0
    while done < decisions:
        requests, values = world.ask(int(min(max(2 * world.tasks, 0.01 * done), 4000, decisions - done)))
        m = len(requests)
        rows = np.arange(m)
        probabilities, played = agent.decide(requests)
        agent.learn(requests, played, world.reward(requests, played, values))
        value, base, best = (probabilities * values).sum(1), values[rows, requests.baseline], values.max(1)
        below += int((value < (1 - ALPHA) * base - 1e-9).sum())
        left += float((1 - probabilities[rows, requests.baseline]).sum())
        np.add.at(totals, requests.task, np.column_stack([value, base, best]))
        saved = totals[:, 0] - (1 - ALPHA) * totals[:, 1]
        worst, fleet_worst = np.minimum(worst, saved), min(fleet_worst, saved.sum())
        half = totals.sum(0) if done < decisions / 2 else half
        captured += [_captured(totals.sum(0)) for mark in MARKS if done < mark * decisions <= done + m]
        done += m
    end = totals.sum(0)
    return {
        "captured": captured, "gain": end[0] / end[1] - 1,
        "second half": (end - half)[0] / (end - half)[1] - 1,
        "below": below / done, "ever": int((worst < -1e-9).sum()), "end": int((saved < -1e-9).sum()),
        "fleet": bool(fleet_worst < -1e-9), "left": left / done,
    }  # fmt: skip


def _captured(totals: Float) -> float:
    possible = totals[2] - totals[1]
    return float((totals[0] - totals[1]) / possible) if possible > 1e-9 * totals[1] else float("nan")


def summary(runs: list[dict[str, Any]]) -> list[str]:
    mean = {k: np.mean([r[k] for r in runs], axis=0) for k in runs[0]}
    return [
        "/".join(f"{c:.2f}" for c in mean["captured"]), f"{mean['gain']:+.1%}", f"{mean['second half']:+.1%}",
        f"{mean['below']:.1%}", f"{mean['ever']:.2f}/{mean['end']:.2f}", f"{sum(r['fleet'] for r in runs)}",
        f"{mean['left']:.0%}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("bench-promises.json"))
    options = parser.parse_args()
    rows = []
    for name in options.worlds.split(","):
        decisions, make = WORLDS[name]
        table = Table(*COLUMNS, title=name)
        for policy in options.policies.split(","):
            start = time.process_time()
            seeds = range(options.first, options.first + options.seeds)
            worlds = ((s, make(s)) for s in seeds)
            runs = [play(w, make_agent(policy, w, s, ALPHA), decisions) for s, w in worlds]
            table.add_row(policy, *summary(runs), f"{(time.process_time() - start) / len(runs):.0f}")
            rows += [
                {"world": name, "policy": policy, "seed": s, **r} for s, r in zip(seeds, runs, strict=True)
            ]
            options.out.write_text(json.dumps(rows, indent=1))
        Console(width=130).print(table)


if __name__ == "__main__":
    main()
