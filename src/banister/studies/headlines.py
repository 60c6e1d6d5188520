"""The few numbers that a page opens with, and the remarks that must not be missed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from banister.report.intervals import share_interval
from banister.report.numbers import number
from banister.report.page import Headline
from banister.report.summary import per_trial
from banister.simulation.point import MOVIELENS
from banister.studies.claims import Judged
from banister.studies.competitors import COMPETITORS
from banister.studies.panels import DEFAULT
from banister.studies.verdicts import DEPENDS, FAILS, HOLDS, MISSING, UNDECIDED

if TYPE_CHECKING:
    import polars as pl


def headlines(rows: pl.DataFrame, judged: list[Judged]) -> list[Headline]:
    """For a reproduction."""
    paper = Counter(each.verdict for each in judged if not each.claim.ours)
    total = sum(paper.values())
    counts = (
        (DEPENDS, "depend on a reading"),
        (FAILS, "do not"),
        (UNDECIDED, "undecided"),
        (MISSING, "not run"),
    )
    rest = ", ".join(f"{paper[name]} {words}" for name, words in counts if paper[name] or name == FAILS)
    counted = f"of the paper’s {total} claims hold; {rest}"
    return [Headline(str(paper[HOLDS]), counted), *_violations(rows), *_regrets(rows)]


def quick_headlines(rows: pl.DataFrame) -> list[Headline]:
    """For the default setting."""
    return [*_violations(rows), *_regrets(rows)]


def _violations(rows: pl.DataFrame) -> list[Headline]:
    import polars as pl

    cards = []
    for policy in ("certified", "converged", "paper"):
        trials = per_trial(rows).filter(pl.col("policy") == policy)
        if trials.is_empty():
            continue
        bad = trials.filter(pl.col("violations") > 0).height
        most = share_interval(bad, trials.height)[2]
        words = (
            f"trials with a violation: {COMPETITORS[policy].label}, over all settings run "
            f"(at most {number(100 * most, 2)} % at 95 %)"
        )
        cards.append(Headline(f"{bad} of {trials.height:,}", words))
    return cards


def _regrets(rows: pl.DataFrame) -> list[Headline]:
    import polars as pl

    here = per_trial(rows).filter(pl.col("point") == DEFAULT.name)
    means = dict(here.group_by("policy").agg(pl.col("regret").mean()).iter_rows())
    return [
        Headline(number(means[name]), f"regret at the default setting: {COMPETITORS[name].label}")
        for name in ("certified", "converged", "paper", "thompson")
        if name in means
    ]


def remarks(rows: pl.DataFrame, record: dict[str, Any]) -> list[str]:
    """What a reader must know before the figures: who played fewer trials, whose fits did not converge."""
    import polars as pl

    notes = []
    most = max((n for counts in record["trials"].values() for n in counts.values()), default=0)
    counted = [pair for counts in record["trials"].values() for pair in counts.items()]
    fewer = Counter(name for name, n in counted if n < most and name in COMPETITORS)
    if fewer:
        names = ", ".join(COMPETITORS[name].label for name, _ in fewer.most_common())
        notes.append(
            f"Not everyone plays all {most} trials at every point, because of what a trial costs: {names}. "
            "The tables under the figures give the number."
        )
    complaints = per_trial(rows).group_by("policy").agg(pl.col("warnings").sum(), n=pl.len())
    for policy, count, n in complaints.sort("policy").iter_rows():
        if count:
            notes.append(
                f"{COMPETITORS[policy].label}: {count} warnings in {n} trials, mostly fits that did not "
                "reach their stopping rule."
            )
    if not any(name.startswith(MOVIELENS) for name in record["trials"]):
        notes.append("MovieLens was not at hand; `banister data movielens-100k` fetches it, then run again.")
    return notes
