"""From a click log to a live bandit, beside learners that promise nothing.

    python examples/click_log.py [--quick] [--figure click_log.svg]

A shop chain shows one of five banners; the usual one is "bundle", and one visit in ten tried another. The log
of 30,000 visits is a table as shops have it, with gaps. Every learner starts from it and decides the next
30,000 visits, 500 at a time: Banister at alpha = 0.1, MABWiser's LinUCB (if it is installed) and an
epsilon-greedy learner, one model a store each. What a visit was worth is known here, so that clicks above the
usual banner, and stores that fell below their floor, can be counted. The same after a log of 2,000 visits
shows what the promise is for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

import banister as bn

BANNERS = ["spring", "bundle", "loyalty", "delivery", "gift"]
USUAL, ALPHA, EXPLORED, BATCH = BANNERS.index("bundle"), 0.1, 0.1, 500
NUMERIC, CATEGORICAL = ["age", "basket"], ["device", "region"]
DEVICES, REGIONS = np.array(["ios", "android", "web"]), np.array(["north", "south", "east", "west"])
OPTIONS: dict[str, Any] = {"reward_range": (0, 1)}  # clicks: exploring is free up to alpha


class Shops:
    """Click rates by store, age, basket and device: what all stores share, and two ways to differ from it."""

    def __init__(self, stores: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        kinds = 0.9 * rng.standard_normal((2, len(BANNERS), 4))
        own = 0.5 * np.einsum("sk,kbf->sbf", rng.standard_normal((stores, 2)), kinds)
        self.effect = 0.54 * rng.standard_normal((len(BANNERS), 4)) + own
        self.level = -1.6 + 0.3 * rng.standard_normal(stores)
        self.stores = stores
        middle = int(np.argsort(self.rates(self.visits(4000, rng)).mean(axis=0))[2])
        self.effect[:, [USUAL, middle]] = self.effect[:, [middle, USUAL]]  # the usual banner is a fair one

    def visits(self, n: int, rng: np.random.Generator) -> pl.DataFrame:
        """Who comes, and where; one age in ten is not known."""
        age = pl.Series(np.where(rng.random(n) < 0.1, np.nan, rng.normal(40, 12, n))).fill_nan(None)
        store = pl.Series(rng.integers(self.stores, size=n))
        return pl.DataFrame(
            {
                "store": "store-" + store.cast(pl.String), "age": age, "basket": rng.gamma(4, 8, n),
                "device": DEVICES[rng.integers(3, size=n)], "region": REGIONS[rng.integers(4, size=n)],
            }
        )  # fmt: skip

    def rates(self, visits: pl.DataFrame) -> Any:
        """(n, banners) the probability of a click."""
        age = (visits["age"].fill_null(40).to_numpy() - 40) / 12
        basket = (visits["basket"].to_numpy() - 32) / 16
        z = np.stack([np.ones(len(visits)), age, basket, visits["device"].to_numpy() == "ios"], axis=1)
        s = store_of(visits)
        logit = self.level[s][:, None] + np.einsum("nf,nbf->nb", z.astype(float), self.effect[s])
        return 1 / (1 + np.exp(-logit))

    def log(self, n: int, seed: int = 1) -> pl.DataFrame:
        """What was shown and what it earned: the usual banner, and in `EXPLORED` of the visits any."""
        rng = np.random.default_rng(seed)
        visits = self.visits(n, rng)
        shown = np.where(rng.random(n) < EXPLORED, rng.integers(len(BANNERS), size=n), USUAL)
        clicked = rng.random(n) < self.rates(visits)[np.arange(n), shown]
        chance = np.where(shown == USUAL, 1 - EXPLORED, 0.0) + EXPLORED / len(BANNERS)
        banner = np.array(BANNERS)[shown]
        return visits.with_columns(banner=banner, p=chance, click=clicked.astype(float))


def store_of(visits: pl.DataFrame) -> Any:
    return visits["store"].str.strip_prefix("store-").cast(pl.Int64).to_numpy()


class Player(Protocol):
    """Chooses banners for visits, then sees the clicks."""

    def choose(self, visits: pl.DataFrame) -> Any: ...
    def learn(self, visits: pl.DataFrame, shown: Any, clicks: Any) -> None: ...


class Banister:
    """The four lines of the page, and a refit whenever the rows have grown by a tenth."""

    def __init__(self, log: pl.DataFrame) -> None:
        arms = bn.Arms(BANNERS, numeric=NUMERIC, categorical=CATEGORICAL)
        self.bandit = bn.SafeBandit(alpha=ALPHA, features=arms, refits="manual", seed=0, **OPTIONS)
        self.bandit.warm_start(log, task="store", arm="banner", reward="click", baseline="bundle")
        self._rows, self._due = len(log), 1.1 * len(log)

    def choose(self, visits: pl.DataFrame) -> Any:
        self.made = self.bandit.decide_many(visits, task="store", baselines="bundle")
        return np.array([BANNERS.index(arm) for arm in self.made["arm"]])

    def learn(self, visits: pl.DataFrame, shown: Any, clicks: Any) -> None:
        self.bandit.reward_many(self.made["id"].to_list(), clicks.tolist())
        self._rows += len(visits)
        if self._rows >= self._due:
            self.bandit.refit()
            self._due = 1.1 * self._rows


class Encoded:
    """Contexts as numbers, for learners that want them so."""

    def __init__(self, log: pl.DataFrame) -> None:
        arms = bn.Arms([*BANNERS], numeric=NUMERIC, categorical=CATEGORICAL).learn(log)
        self.context = arms.context
        self.learn(log, np.array([BANNERS.index(b) for b in log["banner"]]), log["click"].to_numpy())

    def encode(self, visits: pl.DataFrame) -> Any:
        return np.column_stack([np.ones(len(visits)), self.context.block(visits, 0, len(visits))])

    def learn(self, visits: pl.DataFrame, shown: Any, clicks: Any) -> None:
        raise NotImplementedError


class EpsilonGreedy(Encoded):
    """A ridge regression for each store and banner; one visit in ten shows any banner."""

    def __init__(self, log: pl.DataFrame, stores: int) -> None:
        self.rng, self.stores = np.random.default_rng(5), stores
        self.gram: Any = None
        super().__init__(log)

    def choose(self, visits: pl.DataFrame) -> Any:
        theta = np.linalg.solve(self.gram, self.moment[..., None])[..., 0]
        best = np.einsum("nf,nbf->nb", self.encode(visits), theta[store_of(visits)]).argmax(axis=1)
        tried = self.rng.random(len(visits)) < 0.1
        return np.where(tried, self.rng.integers(len(BANNERS), size=len(visits)), best)

    def learn(self, visits: pl.DataFrame, shown: Any, clicks: Any) -> None:
        z, place = self.encode(visits), (store_of(visits), shown)
        if self.gram is None:
            shape = (self.stores, len(BANNERS), z.shape[1])
            self.gram, self.moment = (
                np.broadcast_to(np.eye(shape[2]), (*shape, shape[2])).copy(),
                np.zeros(shape),
            )
        np.add.at(self.gram, place, z[:, :, None] * z[:, None, :])
        np.add.at(self.moment, place, z * clicks[:, None])


class LinUCB(Encoded):
    """MABWiser's, one a store."""

    def __init__(self, log: pl.DataFrame, stores: int) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        self.mabs = [MAB(BANNERS, LearningPolicy.LinUCB(alpha=1.0), seed=s) for s in range(stores)]
        super().__init__(log)

    def choose(self, visits: pl.DataFrame) -> Any:
        z, store, out = self.encode(visits), store_of(visits), np.zeros(len(visits), dtype=int)
        for s in np.unique(store):
            rows = np.flatnonzero(store == s)
            told = self.mabs[s].predict(z[rows])
            out[rows] = [BANNERS.index(b) for b in (told if len(rows) > 1 else [told])]
        return out

    def learn(self, visits: pl.DataFrame, shown: Any, clicks: Any) -> None:
        z, store = self.encode(visits), store_of(visits)
        for s in np.unique(store):
            rows = store == s
            self.mabs[s].partial_fit([BANNERS[i] for i in shown[rows]], clicks[rows], z[rows])


@dataclass
class Course:
    """One learner's visits: clicks expected above the usual banner, and each store's standing over time."""

    name: str
    gain: list[float] = field(default_factory=list)
    below: int = 0
    worst: list[float] = field(default_factory=list)  # of the stores' totals, relative to the usual banner's


def play(name: str, player: Player, world: Shops, visits: pl.DataFrame, luck: Any) -> Course:
    """The same visits and the same luck for everybody."""
    course, rates, store = Course(name), world.rates(visits), store_of(visits)
    total, usual = np.zeros(world.stores), np.zeros(world.stores)
    for start in range(0, len(visits), BATCH):
        rows = np.arange(start, min(start + BATCH, len(visits)))
        part = visits[start : start + BATCH]
        shown = player.choose(part)
        worth, base = rates[rows, shown], rates[rows, USUAL]
        player.learn(part, shown, (luck[rows] < worth).astype(float))
        np.add.at(total, store[rows], worth - base)
        np.add.at(usual, store[rows], base)
        course.gain += (worth - base).tolist()
        course.below += int(np.sum(worth < (1 - ALPHA) * base))
        course.worst.append(float(np.min(total / np.maximum(usual, 1e-9))))
    return course


def main(quick: bool = False, figure: Path | None = None) -> tuple[list[Course], list[Course]]:
    """After a long log, and after a short one: decide the visits that follow, count."""
    world, n, few = Shops(stores=6 if quick else 12), 6_000 if quick else 30_000, 1_000 if quick else 2_000
    after_long, after_short = (race(world, rows, visits) for rows, visits in ((n, n), (few, 3 * few)))
    if figure is not None:
        draw(after_long, after_short, figure)
    return after_long, after_short


def race(world: Shops, logged: int, n: int) -> list[Course]:
    """All learners on the same visits after the same log."""
    log, rng = world.log(logged), np.random.default_rng(2)
    visits, luck = world.visits(n, rng), rng.random(n)
    courses = [play("Banister", Banister(log), world, visits, luck)]
    courses.append(play("epsilon-greedy", EpsilonGreedy(log, world.stores), world, visits, luck))
    if find_spec("mabwiser") is not None:
        courses.append(play("MABWiser LinUCB", LinUCB(log, world.stores), world, visits, luck))
    print(f"after a log of {logged:,} visits, {n:,} more:")
    tell(courses, world.rates(visits))
    return courses


def tell(courses: list[Course], rates: Any) -> None:
    best = float((rates.max(axis=1) - rates[:, USUAL]).mean())
    print(
        f"  the usual banner earns {rates[:, USUAL].mean():.3f} clicks a visit, the best one {best:.3f} more"
    )
    unsafe = max(np.mean(c.gain) for c in courses[1:])
    for c in courses:
        gain, below = float(np.mean(c.gain)), c.below / len(c.gain)
        print(
            f"  {c.name:16} {gain:+.3f} clicks a visit ({gain / unsafe:.0%}), worst store at any time ",
            end="",
        )
        print(f"{min(c.worst):+.1%}, {below:.1%} of visits below the floor")


def draw(after_long: list[Course], after_short: list[Course], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(8.4, 3.2), layout="constrained")
    FigureCanvasAgg(fig)
    value, standing = fig.subplots(1, 2)
    for axes in (value, standing):
        axes.set_prop_cycle(color=["tab:blue", "tab:orange", "tab:green"])
    for c in after_long:
        value.plot(np.cumsum(c.gain), label=c.name)
    for c in after_short:
        standing.plot(BATCH * np.arange(1, len(c.worst) + 1), 100 * np.array(c.worst), label=c.name)
    value.set(xlabel="visits", ylabel="clicks above the usual banner", title="after a long log: value")
    value.legend(frameon=False)
    standing.axhline(0, color="0.6", lw=0.8)
    standing.axhline(-100 * ALPHA, color="tab:red", lw=1, ls="--")
    standing.annotate("floor", (1, -100 * ALPHA), xycoords=("axes fraction", "data"), xytext=(-2, 3),
                      textcoords="offset points", color="tab:red", ha="right")  # fmt: skip
    standing.set(xlabel="visits", ylabel="% of its usual clicks", title="after a short log: the worst store")
    fig.savefig(path)


if __name__ == "__main__":
    from _story import run

    run(main, __doc__, "click_log.svg")
