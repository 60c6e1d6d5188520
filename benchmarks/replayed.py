"""What a change of the learner did to the study: a run's first trials beside the same trials as published.

    banister reproduce --policies certified --out RUN      # stop it when it has played enough
    python benchmarks/replayed.py RUN [--policy certified]

The same seeds give the same requests and the same noise, so that a difference is the learner's.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import polars as pl

from banister.report.numbers import number
from banister.simulation.store import Store
from banister.studies.publish import read_published

PUBLISHED = Path(__file__).resolve().parents[1] / "docs" / "reproduction" / "results.parquet"


def trials(rows: pl.DataFrame, policy: str) -> pl.DataFrame:
    """One row a trial: its regret and whether a decision was below its floor."""
    kept = rows.filter(pl.col("policy") == policy).group_by("point", "trial")
    return kept.agg(pl.col("regret").sum(), below=pl.col("violations").sum() > 0)


def replayed(now: pl.DataFrame, then: pl.DataFrame) -> pl.DataFrame:
    """By point: trials that both have, mean regret of each, trials with a violation of each."""
    both = now.join(then, on=["point", "trial"], suffix="_then")
    return (
        both.group_by("point")
        .agg(
            pl.len().alias("trials"),
            pl.col("regret", "regret_then").mean(),
            pl.col("below", "below_then").sum(),
        )
        .with_columns(ratio=pl.col("regret") / pl.col("regret_then"))
        .sort("point")
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--policy", default="certified")
    options = parser.parse_args()
    now, then = Store(options.run).rows(), read_published(PUBLISHED)
    table = replayed(trials(now, options.policy), trials(then, options.policy))
    print("| point | trials | regret | as published | ratio | trials with a violation | as published |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in table.iter_rows(named=True):
        means = " | ".join(number(row[name]) for name in ("regret", "regret_then", "ratio"))
        print(f"| {row['point']} | {row['trials']} | {means} | {row['below']} | {row['below_then']} |")


if __name__ == "__main__":
    main()
