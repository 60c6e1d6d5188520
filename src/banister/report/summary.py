"""From result rows to what figures and tables show: one value per trial, then a mean with its interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from banister.report.intervals import mean_interval
from banister.report.panel import Panel

if TYPE_CHECKING:
    import polars as pl

_SUMMED = (
    *("regret", "violations", "literal_violations", "cumulative_violations"),
    *("decisions", "seconds"),
)
TRIAL = ("point", "policy", "trial")


def per_trial(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per (point, policy, trial): sums over the epochs, and the error after the last one, in %."""
    import polars as pl

    last = pl.col("epoch").arg_max()
    return (
        rows.filter(pl.col("decisions").is_not_null())
        .group_by(TRIAL)
        .agg(
            pl.col(
                "regret", "violations", "literal_violations", "cumulative_violations", "decisions", "seconds"
            ).sum(),
            error=100.0 * pl.col("error").get(last),
            certified=100.0 * (pl.col("certified") * pl.col("decisions")).sum() / pl.col("decisions").sum(),
            shortfall=pl.col("relative_shortfall").max(),
            warnings=pl.col("warnings").max(),
        )
        .sort(TRIAL)
    )


def over_time(rows: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """Per trial and epoch (or iteration): the cumulative regret, or the subspace distance as it is."""
    import polars as pl

    one = rows.filter(pl.col("point") == panel.points[0].name).sort("policy", "trial", "epoch")
    value = pl.col(panel.measure)
    if panel.kind == "epochs":
        value = value.cum_sum().over("policy", "trial")
    return one.select("policy", "trial", x=pl.col("epoch").cast(pl.Float64), value=value)


def panel_values(rows: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """What a panel shows, trial by trial: policy, trial, x, value, and decisions below the floor in total."""
    import polars as pl

    if panel.kind in ("epochs", "iterations"):
        found = over_time(rows, panel).with_columns(in_total=pl.lit(None, dtype=pl.Float64))
    else:
        xs = panel.xs or (0.0,) * len(panel.points)
        place = pl.DataFrame(
            {"point": [point.name for point in panel.points], "x": [float(x) for x in xs]},
            schema={"point": pl.String, "x": pl.Float64},
        )
        found = (
            per_trial(rows)
            .join(place, on="point")
            .select(
                "policy",
                "trial",
                "x",
                value=_number(panel.measure),
                in_total=_number("cumulative_violations"),
            )
        )
    return _equal_trials(found.filter(pl.col("policy").is_in(panel.policies)))


def _equal_trials(values: pl.DataFrame) -> pl.DataFrame:
    """The trials that every policy of a panel has played at every x, so that none is shown on other draws."""
    import polars as pl

    cells = values.select("policy", "x").unique().height
    return values.filter(pl.struct("policy", "x").n_unique().over("trial") == cells)


def _number(name: str) -> pl.Expr:
    import polars as pl

    return pl.col(name).cast(pl.Float64)


def panel_table(rows: pl.DataFrame, panel: Panel) -> pl.DataFrame:
    """The numbers behind a panel: policy, x, trials, mean, low, high (95 % interval over trials), and in how
    many decisions a trial the task's total was below its floor (null where a panel follows time)."""
    import polars as pl

    records = []
    groups = panel_values(rows, panel).group_by("policy", "x", maintain_order=True)
    for (policy, x), group in groups:
        values = group["value"].drop_nulls().drop_nans().to_numpy()
        if len(values):
            mean, low, high = mean_interval(values)
            records.append((policy, x, len(values), mean, low, high, group["in_total"].mean()))
    table = pl.DataFrame(records, schema=_schema(), orient="row")
    order = {name: i for i, name in enumerate(panel.policies)}
    return table.sort(pl.col("policy").replace_strict(order, return_dtype=pl.Int64), "x")


def _schema() -> dict[str, type[pl.DataType]]:
    import polars as pl

    numbers = dict.fromkeys(("mean", "low", "high"), pl.Float64)
    numbers |= {"in_total": pl.Float64}
    return {"policy": pl.String, "x": pl.Float64, "trials": pl.Int64, **numbers}
