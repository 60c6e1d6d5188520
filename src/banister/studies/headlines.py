"""The few numbers that a page opens with, and the remarks that must not be missed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from banister.report.intervals import share_interval
from banister.report.numbers import number
from banister.report.page import Headline
from banister.report.summary import per_trial
from banister.simulation.point import MOVIELENS, RATED
from banister.studies.claims import Judged
from banister.studies.competitors import COMPETITORS
from banister.studies.panels import DEFAULT, PANELS
from banister.studies.verdicts import DEPENDS, FAILS, HOLDS, MISSING, UNDECIDED
from banister.studies.workload import share

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
        modelled = ~pl.col("point").str.starts_with(RATED)
        trials = per_trial(rows).filter((pl.col("policy") == policy) & modelled)
        if trials.is_empty():
            continue
        bad = trials.filter(pl.col("violations") > 0).height
        most = share_interval(bad, trials.height)[2]
        words = (
            f"trials with a violation: {COMPETITORS[policy].label}, all settings but real ratings "
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


def _played(rows: pl.DataFrame) -> list[str]:
    """How many trials stand behind the numbers: of the paper's panels, and of ours."""
    import polars as pl

    counts = per_trial(rows).group_by("point", "policy").agg(n=pl.col("trial").n_unique())
    full = {
        (point.name, name)
        for panel in PANELS.values()
        if share(panel.id) == 1.0
        for point in panel.points
        for name in panel.policies
    }
    paper: list[int] = []
    ours: list[int] = []
    for point, policy, n in counts.iter_rows():
        (paper if (point, policy) in full else ours).append(n)
    parts = [(paper, "in the paper’s panels"), (ours, "in what is beyond them")]
    said = ", ".join(f"{_span(numbers)} {words}" for numbers, words in parts if numbers)
    return [f"Trials of a policy at a point: {said}. The tables under the figures give each number."]


def _span(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def remarks(rows: pl.DataFrame, record: dict[str, Any]) -> list[str]:
    """What a reader must know before the figures: who played how many trials, whose fits did not converge."""
    import polars as pl

    notes = _played(rows)
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
