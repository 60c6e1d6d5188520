"""Decisions and rewards as one Parquet table, for those who want to look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from banister.errors import DataFileError, InputError
from banister.extras import LOGS, need
from banister.online.ledger import Ledger

_ROWS = """
SELECT d.id, d.time, t.label AS task, d.version AS model_version, d.action, d.baseline, d.certified, d.reason,
       d.bound AS lower_bound, d.floor, d.low AS baseline_low, d.high AS baseline_high,
       d.std AS baseline_reward_std, d.n_actions, d.digest, r.value AS reward, r.time AS reward_time
FROM decisions d JOIN tasks t ON t.code = d.task LEFT JOIN rewards r ON r.id = d.id ORDER BY d.id
"""
_NAMES = (
    "id", "time", "task", "model_version", "action", "baseline", "certified", "reason", "lower_bound",
    "floor", "baseline_low", "baseline_high", "baseline_reward_std", "n_actions", "digest", "reward",
    "reward_time",
)  # fmt: skip


def export(ledger: Ledger, path: Path) -> int:
    """Write the table; the number of rows."""
    need(LOGS)
    import polars as pl

    if path.suffix != ".parquet":
        raise InputError(f"path={str(path)!r} must end in .parquet.")
    kinds: dict[str, Any] = dict.fromkeys(_NAMES, pl.Float64)
    kinds |= dict.fromkeys(("id", "model_version", "action", "baseline", "n_actions", "digest"), pl.Int64)
    kinds |= {"task": pl.String, "reason": pl.String, "certified": pl.Int64}
    frame = pl.DataFrame(ledger.rows(_ROWS), schema=kinds, orient="row")
    frame = frame.with_columns(pl.col("certified").cast(pl.Boolean))
    try:
        frame.write_parquet(path)
    except OSError as cause:
        raise DataFileError(f"{path} cannot be written ({cause}).") from None
    return len(frame)
