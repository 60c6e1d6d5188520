"""Decisions and rewards as one Parquet table, for those who want to look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from banister.errors import DataFileError, InputError
from banister.extras import LOGS, need
from banister.online.ledger import Ledger

# Column of the table: field of the decision's record.
_FIELDS = {
    "id": "id", "time": "time", "model_version": "version", "action": "action", "baseline": "baseline",
    "certified": "certified", "reason": "reason", "lower_bound": "bound", "floor": "floor",
    "baseline_low": "low", "baseline_high": "high", "baseline_reward_std": "std",
    "probability": "probability", "promise": "promise", "limited_by": "limited_by", "n_actions": "n_actions",
    "digest": "digest",
}  # fmt: skip
_WHOLE = ("id", "model_version", "action", "baseline", "n_actions", "digest")
_TEXT = ("task", "reason", "promise", "limited_by")


def export(ledger: Ledger, path: Path) -> int:
    """Write the table; the number of rows."""
    need(LOGS)
    import polars as pl

    if path.suffix != ".parquet":
        raise InputError(f"path={str(path)!r} must end in .parquet.")
    columns = _columns(ledger)
    kinds: dict[str, Any] = dict.fromkeys(columns, pl.Float64)
    kinds |= dict.fromkeys(_WHOLE, pl.Int64) | dict.fromkeys(_TEXT, pl.String)
    kinds |= {"certified": pl.Boolean, "retracted": pl.Boolean}
    frame = pl.DataFrame(columns, schema=kinds, nan_to_null=True).fill_nan(None)
    try:
        frame.write_parquet(path)
    except OSError as cause:
        raise DataFileError(f"{path} cannot be written ({cause}).") from None
    return len(frame)


def _columns(ledger: Ledger) -> dict[str, list[Any]]:
    labels, gone = ledger.tasks(), {r.id for r in ledger.retractions()}
    rewards = {r.id: (r.value, r.time) for r in ledger.rewards()}
    columns: dict[str, list[Any]] = {"task": [], **{name: [] for name in _FIELDS}}
    columns |= {"reward": [], "reward_time": [], "retracted": []}
    for record in ledger.decisions():
        columns["task"].append(labels[record.task])
        for name, field in _FIELDS.items():
            columns[name].append(getattr(record, field))
        value, when = rewards.get(record.id, (None, None))
        columns["reward"].append(value)
        columns["reward_time"].append(when)
        columns["retracted"].append(record.id in gone)
    return columns
