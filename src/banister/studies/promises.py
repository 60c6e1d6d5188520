"""Beyond the paper: what promises earn and what they break, over time, where the same actions come again.

Worlds with listed actions, clicks or revenue in return, and a baseline whose reward nobody reports: each
policy plays the same requests with the same luck. Measured at marks along the way: the share captured of what
the best actions would have earned more than the baseline, and the tasks whose total is below its floor.
`report.promises` draws it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from banister.contract import Policy
from banister.environments.banners import Banners, Revenue
from banister.environments.fixed_items import FixedItems
from banister.errors import SettingError
from banister.extras import STUDY, need
from banister.policies.clucb import CLUCB
from banister.policies.clucb2 import CLUCB2
from banister.policies.conservative_thompson import ConservativeThompson
from banister.policies.no_promise import NoPromise
from banister.policies.reference import BaselineOnly, Oracle
from banister.policies.safe_draws import SafeDraws
from banister.simulation.trial import one_trial

if TYPE_CHECKING:
    import polars as pl

ALPHA = 0.1
MARKS = 25  # along a trial: enough for a smooth line

World = Banners | FixedItems

WORLDS: dict[str, Callable[..., World]] = {
    "banners": Banners,
    "items": FixedItems,
    "revenue": Revenue,
    "harmful": lambda **size: Banners(effects="harmful", **size),
}
MEANING = {
    "banners": "the same arms for every visitor, a context, clicks",
    "items": "a short catalogue of its own for each task, clicks",
    "revenue": "banners where one visitor in twenty buys",
    "harmful": "banners where everything but the arm in place is worse",
}


def _safe(promise: Any) -> Callable[[World], Policy]:
    return lambda env: SafeDraws((env.low, env.high), alpha=ALPHA, promise=promise)


def _told(env: World) -> dict[str, Any]:
    """What the conservative rivals' sources assume: rewards in a range of width w are w/2-sub-Gaussian.

    Their intervals for what was never played are a multiple of 1/√λ wide: λ = 1, not the package's default
    for nearly noiseless rewards, with which they would wait for thousands of decisions a task.
    """
    width = env.high - env.low
    return {"alpha": ALPHA, "noise": width / 2, "norm_bound": width, "lam": 1.0}


PLAYERS: dict[str, Callable[[World], Policy]] = {
    "task": _safe("task"),
    "fleet": _safe("fleet"),
    "decision": _safe("decision"),
    "free-thompson": lambda env: NoPromise("thompson"),
    "epsilon-greedy": lambda env: NoPromise("epsilon-greedy"),
    "linear-ucb": lambda env: NoPromise("ucb"),
    "clucb": lambda env: CLUCB(**_told(env)),
    "clucb2": lambda env: CLUCB2(**_told(env)),
    "sclts": lambda env: ConservativeThompson(mixing=False, **_told(env)),
    "baseline": lambda env: BaselineOnly(),
    "oracle": Oracle,
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who plays what for how long.

    Attributes:
        worlds, players: keys of `WORLDS` and `PLAYERS`.
        tasks: of each world.
        decisions: of each trial; a round has as many as there are tasks.
        trials: of each player in each world.
        seed: of the first trial; the others follow.

    Examples:
        >>> Plan(worlds=("items",), players=("task", "oracle"), tasks=10, decisions=5000).rounds
        500
    """

    worlds: tuple[str, ...] = ("banners", "items", "revenue")
    players: tuple[str, ...] = tuple(PLAYERS)
    tasks: int = 10
    decisions: int = 5_000
    trials: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        for names, known in ((self.worlds, WORLDS), (self.players, PLAYERS)):
            for name in names:
                if name not in known:
                    raise SettingError(f"{name!r} is not known here; choose from {', '.join(known)}.")
        if self.tasks < 3 or self.trials < 1 or self.rounds < MARKS:
            raise SettingError(
                f"tasks={self.tasks} must be at least 3, trials={self.trials} at least 1, and "
                f"decisions={self.decisions} at least {MARKS} a task."
            )

    @property
    def rounds(self) -> int:
        """Of a trial."""
        return self.decisions // self.tasks

    def games(self) -> list[tuple[str, str, int]]:
        """Every (world, player, trial)."""
        return [
            (world, player, trial)
            for world in self.worlds for player in self.players for trial in range(self.trials)
        ]  # fmt: skip


def play(plan: Plan, world: str, player: str, trial: int) -> pl.DataFrame:
    """One game: a row for each mark, everything counted from the start of the trial."""
    need(STUDY)
    import polars as pl

    env = WORLDS[world](tasks=plan.tasks)
    ends = [plan.rounds * (i + 1) // MARKS for i in range(MARKS)]
    lengths = [b - a for a, b in zip([0, *ends], ends, strict=False)]
    policy = PLAYERS[player](env)
    found = one_trial(env, {player: policy}, epochs=lengths, seed=plan.seed + trial, alpha=ALPHA)[player]
    return found.frame.select(
        pl.lit(world).alias("world"), "policy", pl.lit(trial).alias("trial"),
        pl.col("decisions").cum_sum(), "captured",
        below=pl.col("violations").cum_sum() / pl.col("decisions").cum_sum(),
        tasks_ever="tasks_below", tasks_now="tasks_below_now",
        fleet=pl.col("fleet_violations").cum_sum(),
        gain=(pl.col("possible") - pl.col("regret")).cum_sum() / pl.col("decisions").cum_sum(),
    )  # fmt: skip


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """At the end, a row for each world and policy: means over trials, and in how many the fleet was below.

    `captured`, `below` (share of decisions under their own floor), `tasks_ever`, `tasks_now`, `fleet`, and
    `gain`, what a decision earned more than the baseline.
    """
    import polars as pl

    last = rows.filter(pl.col("decisions") == pl.col("decisions").max().over("world"))
    return last.group_by("world", "policy", maintain_order=True).agg(
        pl.col("captured", "below", "tasks_ever", "tasks_now").mean(),
        fleet=(pl.col("fleet") > 0).sum(), gain=pl.col("gain").mean(), trials=pl.len(),
    )  # fmt: skip
