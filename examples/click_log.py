"""From a click log to a live bandit, beside learners that promise nothing.

    python examples/click_log.py [--quick] [--figure click_log.svg] [--world 0] [--page click-log.md]

A shop chain shows one of five banners; the usual one is "bundle", and one visit in ten tried another. The log
of 30,000 visits is a table as shops have it, with gaps. Every learner starts from it and decides the next
30,000 visits, 500 at a time: Banister at alpha = 0.1, MABWiser's LinUCB (if it is installed) and an
epsilon-greedy learner, one model a store each. What a visit was worth is known here, so that clicks above the
usual banner, and stores that fell below their floor, can be counted; where a banner was drawn, by what the
draw was worth. The same after a log of 2,000 visits shows what the promise is for.
"""

from __future__ import annotations

import argparse
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
KINDS: dict[str, dict[str, Any]] = {  # clicks: exploring is free up to alpha, unless nobody says so
    "Banister": {"reward_range": (0, 1)},
    'Banister, `promise="fleet"`': {"reward_range": (0, 1), "promise": "fleet"},
    "Banister without a range": {},
}
MARKS = "<!-- tables: written by `python examples/click_log.py --page` -->", "<!-- end of tables -->"
Choice = tuple[Any, Any]  # (n,) banners shown, and (n, banners) the chances with which they were drawn


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


def certain(banners: Any) -> Any:
    """Chances of a choice without chance in it."""
    return np.eye(len(BANNERS))[banners]


class Player(Protocol):
    """Chooses banners for visits, then sees the clicks."""

    def choose(self, visits: pl.DataFrame) -> Choice: ...
    def learn(self, visits: pl.DataFrame, shown: Any, clicks: Any) -> None: ...


class Banister:
    """The four lines of the page, and a refit whenever the rows have grown by a tenth."""

    def __init__(self, log: pl.DataFrame, **options: Any) -> None:
        arms = bn.Arms(BANNERS, numeric=NUMERIC, categorical=CATEGORICAL)
        self.bandit = bn.SafeBandit(alpha=ALPHA, features=arms, refits="manual", seed=0, **options)
        self.bandit.warm_start(log, task="store", arm="banner", reward="click", baseline="bundle")
        self._rows, self._due = len(log), 1.1 * len(log)

    def choose(self, visits: pl.DataFrame) -> Choice:
        self.made = self.bandit.decide_many(visits, task="store", baselines="bundle")
        shown = np.array([BANNERS.index(arm) for arm in self.made["arm"]])
        odds = self.made["probabilities"].to_list()
        return shown, np.array([certain(i) if p is None else p for i, p in zip(shown, odds, strict=True)])

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

    def choose(self, visits: pl.DataFrame) -> Choice:
        theta = np.linalg.solve(self.gram, self.moment[..., None])[..., 0]
        best = np.einsum("nf,nbf->nb", self.encode(visits), theta[store_of(visits)]).argmax(axis=1)
        tried = self.rng.random(len(visits)) < 0.1
        shown = np.where(tried, self.rng.integers(len(BANNERS), size=len(visits)), best)
        return shown, 0.9 * certain(best) + 0.1 / len(BANNERS)

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

    def choose(self, visits: pl.DataFrame) -> Choice:
        z, store, out = self.encode(visits), store_of(visits), np.zeros(len(visits), dtype=int)
        for s in np.unique(store):
            rows = np.flatnonzero(store == s)
            told = self.mabs[s].predict(z[rows])
            out[rows] = [BANNERS.index(b) for b in (told if len(rows) > 1 else [told])]
        return out, certain(out)

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
    below: int = 0  # visits whose draw is worth less than its floor
    fallen: set[int] = field(default_factory=set)  # stores whose total was below its floor at some time
    worst: list[float] = field(default_factory=list)  # of the stores' totals, relative to the usual banner's


def play(name: str, player: Player, world: Shops, visits: pl.DataFrame, luck: Any) -> Course:
    """The same visits and the same luck for everybody."""
    course, rates, store = Course(name), world.rates(visits), store_of(visits)
    total, usual = np.zeros(world.stores), np.zeros(world.stores)
    for start in range(0, len(visits), BATCH):
        rows = np.arange(start, min(start + BATCH, len(visits)))
        part = visits[start : start + BATCH]
        shown, odds = player.choose(part)
        player.learn(part, shown, (luck[rows] < rates[rows, shown]).astype(float))
        count(course, total, usual, store[rows], (odds * rates[rows]).sum(axis=1), rates[rows, USUAL])
    return course


def count(course: Course, total: Any, usual: Any, store: Any, worth: Any, base: Any) -> None:
    """Add some visits to the stores' totals, one after the other, and look at each store's standing."""
    for s, gain, b in zip(store.tolist(), worth - base, base, strict=True):
        total[s] += gain
        usual[s] += b
        if total[s] < -ALPHA * usual[s] - 1e-9:
            course.fallen.add(s)
    course.gain += (worth - base).tolist()
    course.below += int(np.sum(worth < (1 - ALPHA) * base - 1e-9))
    course.worst.append(float(np.min(total / np.maximum(usual, 1e-9))))


def main(
    quick: bool = False, figure: Path | None = None, world: int = 0, page: Path | None = None
) -> tuple[list[Course], list[Course]]:
    """After a long log, and after a short one: decide the visits that follow, count."""
    shops = Shops(6 if quick else 12, world)
    n, few = (6_000, 1_000) if quick else (30_000, 2_000)
    after_long, after_short = race(shops, n, n), race(shops, few, 3 * few)
    tables = "\n\n".join(table(*found) for found in ((n, n, after_long), (few, 3 * few, after_short)))
    print(tables)
    if figure is not None:
        draw(after_long, after_short, figure)
    if page is not None:
        before, after = page.read_text(encoding="utf-8").split(MARKS[0])[0], MARKS[1]
        rest = page.read_text(encoding="utf-8").split(after)[1]
        page.write_text(f"{before}{MARKS[0]}\n{tables}\n{after}{rest}", encoding="utf-8")
    return after_long, after_short


def race(world: Shops, logged: int, n: int) -> list[Course]:
    """All learners on the same visits after the same log."""
    log, rng = world.log(logged), np.random.default_rng(2)
    visits, luck = world.visits(n, rng), rng.random(n)
    players: dict[str, Player] = {name: Banister(log, **options) for name, options in KINDS.items()}
    players["epsilon-greedy"] = EpsilonGreedy(log, world.stores)
    if find_spec("mabwiser") is not None:
        players["MABWiser LinUCB"] = LinUCB(log, world.stores)
    return [play(name, player, world, visits, luck) for name, player in players.items()]


def table(logged: int, n: int, courses: list[Course]) -> str:
    """What every learner earned and what fell below, as Markdown."""
    unsafe = max(np.mean(c.gain) for c in courses[len(KINDS) :])
    lines = [
        f"| after {logged:,} logged visits, {n:,} more | clicks a visit above the usual banner | of the best "
        "without a promise | stores ever below their floor | worst store | visits below the floor |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for c in courses:
        gain, below = float(np.mean(c.gain)), c.below / len(c.gain)
        lines.append(
            f"| {c.name} | {gain:+.3f} | {gain / unsafe:.0%} | {len(c.fallen)} | {min(c.worst):+.1%} | "
            f"{below:.1%} |"
        )
    return "\n".join(lines)


def draw(after_long: list[Course], after_short: list[Course], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(8.4, 3.2), layout="constrained")
    FigureCanvasAgg(fig)
    value, standing = fig.subplots(1, 2)
    for axes in (value, standing):
        axes.set_prop_cycle(color=["tab:blue", "tab:purple", "tab:cyan", "tab:orange", "tab:green"])
    for c in after_long:
        value.plot(np.cumsum(c.gain), label=c.name.replace("`", ""))
    for c in after_short:
        standing.plot(BATCH * np.arange(1, len(c.worst) + 1), 100 * np.array(c.worst), label=c.name)
    value.set(xlabel="visits", ylabel="clicks above the usual banner", title="after a long log: value")
    value.legend(frameon=False, fontsize=8)
    standing.axhline(0, color="0.6", lw=0.8)
    standing.axhline(-100 * ALPHA, color="tab:red", lw=1, ls="--")
    standing.annotate("floor", (1, -100 * ALPHA), xycoords=("axes fraction", "data"), xytext=(-2, 3),
                      textcoords="offset points", color="tab:red", ha="right")  # fmt: skip
    standing.set(xlabel="visits", ylabel="% of its usual clicks", title="after a short log: the worst store")
    fig.savefig(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small version")
    parser.add_argument("--figure", type=Path, default=Path("click_log.svg"))
    parser.add_argument("--world", type=int, default=0, help="other stores, other tastes")
    parser.add_argument("--page", type=Path, help="a page to write the tables into")
    options = parser.parse_args()
    main(options.quick, options.figure, options.world, options.page)
