"""The safety grid: does the live object keep its promise, where does it open, and what does it earn?

Plays `SafeBandit` (in memory, refits inline) in every family of `families.py`, round by round. A play is a
violation if it left the baseline and its true expected reward is below `r_b − α|r_b|` of the baseline that
the request named. Where a policy in place explores, the action that it drew is the request's baseline, which
is what an application would say; a random log goes in through `warm_start`. The gain counts from what the
policy in place earns to what the best action earns. Beside it: an ungated learner, which is greedy by the
same belief made from its own plays; and, where the model holds, standardised errors of the belief over all
actions on offer, from the first belief on.

    python benchmarks/certificate.py [--families "A;B"] [--groups "script;table"] [--seeds 20] [--first 0]
        [--jobs 1] [--policy] [--ungated 2] [--out bench-certificate] [--page docs/safety-grid.md]

Writes `OUT.jsonl` (one line a run; runs found there are not repeated), `OUT.json` and `OUT.md`; with `--page`
also a page for the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("BANISTER_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed
from rich.progress import track

import blind  # noqa: F401  (adds its families)
import fresh  # noqa: F401  (adds its families)
import invented  # noqa: F401  (adds its families)
import unequal  # noqa: F401  (adds its families)
import unseen_later  # noqa: F401  (adds its families and those of `unseen`)
from families import FAMILIES
from players import Live, Player, Trial, Ungated
from worlds import Round, World

BINS = np.linspace(0, 10, 201)  # of |standardised error|; enough for the 99.9 % point at 0.05
TOLERANCE = 1e-9  # of rounding, relative to the baseline's reward


class Tally:
    """What one run adds up to."""

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha
        self.plays = self.left = self.late = self.late_plays = self.unpromised = 0
        self.got = self.base = self.best = 0.0
        self.bad: list[tuple[int, int, float]] = []
        self.first: int | None = None
        self.errors, self.squares = np.zeros(len(BINS), dtype=int), 0.0

    def add(self, n: int, asked: Round, action: Any, certified: Any, late: bool) -> None:
        """Score one round."""
        mean, base = asked.mean[np.arange(len(action)), action], asked.baseline_mean
        left = action != asked.baseline
        under = base - self.alpha * np.abs(base) - mean
        for i in np.flatnonzero(left & (under > TOLERANCE * (1 + np.abs(base)))):
            self.bad.append((n, int(asked.task[i]), float(under[i] / np.abs(asked.baseline_mean).mean())))
        self.unpromised += int((left & ~certified).sum())
        self.plays += len(action)
        self.left += int(left.sum())
        if left.any() and self.first is None:
            self.first = n
        if late:
            self.late, self.late_plays = self.late + int(left.sum()), self.late_plays + len(action)
        self.got, self.base, self.best = (
            self.got + mean.sum(), self.base + base.sum(), self.best + asked.mean.max(axis=1).sum()
        )  # fmt: skip

    def calibrate(self, z: Any) -> None:
        """Add standardised errors."""
        self.squares += float((z**2).sum())
        self.errors += np.bincount(np.digitize(np.abs(z), BINS) - 1, minlength=len(BINS))

    def row(self) -> dict[str, Any]:
        """As JSON can hold it."""
        room = self.best - self.base
        worst = max((size for *_, size in self.bad), default=0.0)
        return {
            "plays": self.plays, "left": self.left, "late": self.late / max(self.late_plays, 1),
            "violations": len(self.bad), "worst": worst, "where": self.bad[:20], "first": self.first,
            "unpromised": self.unpromised, "gain": float((self.got - self.base) / room) if room > 0 else 0.0,
            "errors": self.errors.tolist() if self.errors.any() else None, "squares": self.squares,
        }  # fmt: skip


def play(world: World, player: Player, alpha: float, rounds: int, known: bool) -> Tally:
    """One run: decide, score, and hand rewards back when the world lets them arrive."""
    tally, waiting = Tally(alpha), list[tuple[Any, ...]]()
    if world.logged:
        player.warm_start(*world.log())
    for n in range(rounds):
        asked = world.round()
        m, t = len(asked.task), asked.task
        x = asked.actions[np.arange(m), asked.baseline]
        claim, error = world.claim(t, x, asked.baseline_mean) if known else (np.full(m, np.nan), 0.0)
        if world.holds and n % 3 == 0:
            tally.calibrate(player.errors(asked))
        ids, action, certified = player.decide(asked, np.asarray(claim, dtype=float), error)
        tally.add(n, asked, action, certified, 3 * n >= 2 * rounds)
        mean, X = asked.mean[np.arange(m), action], asked.actions[np.arange(m), action]
        y = world.reward(t, X, mean)
        here, due = world.arrives(mean, y), n + world.delays(t)
        waiting = [*waiting, *zip(due[here], ids[here], t[here], X[here], y[here], strict=True)]
        now, waiting = [w for w in waiting if w[0] <= n], [w for w in waiting if w[0] > n]
        if now:
            player.learn(*(np.array(c) for c in list(zip(*now, strict=True))[1:]))
    return tally


def run(name: str, known: bool, seed: int, policy: bool, ungated: bool) -> dict[str, Any]:
    """One run of one cell, as a row."""
    warnings.simplefilter("ignore")
    family = FAMILIES[name]
    alpha, rounds = family.alpha(seed), family.rounds_of(seed)
    world = family.make(seed)
    start = time.process_time()
    player: Player = Trial(alpha, world.T, seed) if policy else Live(alpha, seed)
    row = play(world, player, alpha, rounds, known).row()
    row |= {"seconds": time.process_time() - start, **player.describe()}
    if ungated:
        free = play(family.make(seed), Ungated(alpha, world.T, seed), alpha, rounds, known)
        row |= {"ungated violations": len(free.bad), "ungated gain": free.row()["gain"]}
    return {"family": name, "known": known, "seed": seed, "alpha": alpha, "rounds": rounds, **row}


def _pooled(rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Root mean square and 99.9 % point of standardised errors."""
    rows = [r for r in rows if r["errors"]]
    counts = np.sum([r["errors"] for r in rows], axis=0) if rows else np.zeros(1)
    if counts.sum() == 0:
        return "", ""
    rms = np.sqrt(sum(r["squares"] for r in rows) / counts.sum())
    point = BINS[np.searchsorted(np.cumsum(counts), 0.999 * counts.sum())]
    return f"{rms:.2f}", f"{point:.1f}"


HEADS = (
    "family", "r_b", "runs", "violating runs", "plays below / departures", "worst", "left", "late", "gain",
    "ungated: violating, gain", "rms", "99.9 %",
)  # fmt: skip


def line(name: str, known: str, rows: list[dict[str, Any]]) -> list[str]:
    """One line of the table."""
    free = [r for r in rows if "ungated gain" in r]
    mean = lambda key, some: float(np.mean([r[key] for r in some]))  # noqa: E731
    left = sum(r["left"] for r in rows)
    return [
        name, known, str(len(rows)), str(sum(r["violations"] > 0 for r in rows)),
        f"{sum(r['violations'] for r in rows)} / {left}",
        f"{max(r['worst'] for r in rows):.2g}" if any(r["violations"] for r in rows) else "",
        f"{left / sum(r['plays'] for r in rows):.2f}", f"{mean('late', rows):.2f}",
        f"{mean('gain', rows):.2f}",
        f"{sum(r['ungated violations'] > 0 for r in free)}/{len(free)}, {mean('ungated gain', free):.2f}"
        if free else "", *_pooled(rows),
    ]  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown: a line a family, totals a group."""
    lines = ["| " + " | ".join(HEADS) + " |", "|" + " --- |" * len(HEADS)]
    for group in dict.fromkeys(f.group for f in FAMILIES.values()):
        whole = [r for r in rows if FAMILIES[r["family"]].group == group]
        for name, family in FAMILIES.items():
            for known in family.known:
                some = [r for r in whole if r["family"] == name and r["known"] == known]
                if some:
                    told = "by cell" if group == "grid" else "known" if known else "unknown"
                    lines.append("| " + " | ".join(line(name, told, some)) + " |")
        if whole:
            lines.append("| " + " | ".join(line(f"**{group}, all**", "", whole)) + " |")
    return "\n".join(lines) + "\n"


def violating(rows: list[dict[str, Any]]) -> str:
    """Every violating run with its seed, so that it can be played again."""
    bad = [r for r in rows if r["violations"]]
    return "".join(
        f"- {r['family']}, r_b {'known' if r['known'] else 'unknown'}, seed {r['seed']}, alpha {r['alpha']}: "
        f"{r['violations']} of {r['left']} departures, worst {r['worst']:.3f} of the mean baseline; "
        f"first (round, task, size) {r['where'][:3]}\n"
        for r in bad
    )


KINDS = {
    "script": "levels, averages and arms, as an application first tries them",
    "table": "the worlds that the belief was developed on",
    "everyday": "categories, clicks, counts, revenue, delays, seasons, drifts",
    "grid": "the paper's generator over sizes, ranks and noise",
    "blind": "written by a reader of the rules to break them",
    "invented": "written by a reader of the rules to break them",
    "unequal": "written without sight of the rules: noise that goes by arm, segment, market or size",
    "unseen": "written without sight of the rules: assumptions hold, everything else may not",
    "afterwards": "written after the rules that `unseen` led to",
    "fresh": "written without sight of the rules: tasks that pooling may misjudge",
}


def page(rows: list[dict[str, Any]], seeds: range) -> str:
    """A page for the documentation: groups, families with a violation, and all families."""
    lines = table(rows).splitlines()
    whole = [text for text in lines[2:] if ", all**" in text]
    about = {g: f"| {g} | {KINDS[g]} | {cells} |" for text in whole for g, cells in [_group(text)]}
    bad = [r for r in rows if r["violations"]]
    return "\n".join(
        [
            "# Every world",
            "",
            f"`python benchmarks/certificate.py --seeds {len(seeds)} --first {seeds.start}` plays "
            "`SafeBandit` (in memory, refits inline) in every family of worlds that this project knows, each "
            "with new seeds. A run violates if one decision that left the baseline has a true expected "
            "reward below `r_b − α|r_b|`; worst is in shares of the mean baseline reward. Left is the share "
            "of decisions that left the baseline, late the same of the last third; gain is the share of best "
            "minus baseline; rms and 99.9 % are of the belief's standardised errors where the model holds. "
            "[Safety](safety.md) says what is promised, what is not, and how blind each group was.",
            "",
            "| group | what it holds | runs | violating | below / departures | worst | gain |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *about.values(),
            "",
            f"{len(bad)} of {len(rows)} runs violated.",
            "",
            "## Families with a violation",
            "",
            *lines[:2],
            *(text for text in lines[2:] if _violates(text)),
            "",
            "## All families",
            "",
            *lines,
            "",
        ]
    )


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.strip("|").split("|")]


def _group(text: str) -> tuple[str, str]:
    """A group's name, and what the first table says of it."""
    name, _, runs, bad, below, worst, _, _, gain, *_ = _cells(text)
    return name.strip("*").removesuffix(", all"), " | ".join((runs, bad, below, worst, gain))


def _violates(text: str) -> bool:
    return ", all**" not in text and _cells(text)[3] != "0"


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--families", default="", help="names, separated by semicolons; all by default")
    parser.add_argument("--groups", default="", help="groups, separated by semicolons")
    parser.add_argument("--seeds", type=int, default=20, help="runs a family and knowledge of r_b")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--policy", action="store_true", help="play SafeAltGDmin instead of SafeBandit")
    parser.add_argument("--ungated", type=int, default=2, help="runs a cell with an ungated learner beside")
    parser.add_argument("--out", type=Path, default=Path("bench-certificate"))
    parser.add_argument("--page", type=Path, help="a page of the documentation to write")
    return parser.parse_args()


def chosen(asked: argparse.Namespace) -> list[str]:
    """The families asked for."""
    groups, names = (set(filter(None, v.split(";"))) for v in (asked.groups, asked.families))
    unknown = names - set(FAMILIES) | groups - {f.group for f in FAMILIES.values()}
    if unknown:
        sys.exit(f"unknown {sorted(unknown)}; families are: {'; '.join(FAMILIES)}")
    return [n for n, f in FAMILIES.items() if (not names or n in names) and (not groups or f.group in groups)]


def main() -> None:
    """Play what is missing, seed by seed over all families, then write the tables."""
    asked = options()
    names, lines = chosen(asked), asked.out.with_suffix(".jsonl")
    rows = [json.loads(s) for s in lines.read_text().splitlines()] if lines.exists() else []
    done = {(r["family"], r["known"], r["seed"]) for r in rows}
    seeds = range(asked.first, asked.first + asked.seeds)
    cells = [(n, k, s) for s in seeds for n in names for k in FAMILIES[n].known]
    jobs = [
        delayed(run)(*c, asked.policy, c[2] - asked.first < asked.ungated) for c in cells if c not in done
    ]
    work = Parallel(n_jobs=asked.jobs, return_as="generator_unordered")(jobs)
    with lines.open("a") as out:
        for row in track(work, description="runs", total=len(jobs)):
            print(json.dumps(row), file=out, flush=True)
            rows.append(row)
    asked.out.with_suffix(".json").write_text(json.dumps(rows))
    text = table(rows) + "\n" + violating(rows)
    asked.out.with_suffix(".md").write_text(text)
    if asked.page is not None:
        asked.page.write_text(page(rows, seeds))
    print(text)


if __name__ == "__main__":
    main()
