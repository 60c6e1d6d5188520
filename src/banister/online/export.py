"""Decisions and rewards as a table, with arms by their names, for those who want to look or to evaluate.

What off-policy tools ask for stands in columns of its own: what was played (`arm`, its place `arm_index`),
the probability with which it was (`propensity`), what the policy in place would have played
(`baseline_arm`), the `reward`, and the encoded `context`. A file that ends in .vw is written for Vowpal
Wabbit instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from banister.errors import DataFileError, InputError
from banister.extras import LOGS, need
from banister.features.arms import Arms
from banister.features.base import Features
from banister.online.ledger import Ledger
from banister.online.record import DecisionRecord

# Column of the table: field of the decision's record.
_FIELDS = {
    "id": "id", "time": "time", "model_version": "version", "action": "action", "baseline": "baseline",
    "certified": "certified", "reason": "reason", "lower_bound": "bound", "floor": "floor",
    "baseline_low": "low", "baseline_high": "high", "baseline_reward_std": "std",
    "propensity": "probability", "promise": "promise", "limited_by": "limited_by", "n_actions": "n_actions",
    "digest": "digest",
}  # fmt: skip
_WHOLE = ("id", "model_version", "action", "baseline", "n_actions", "digest", "arm_index")
_TEXT = ("task", "reason", "promise", "limited_by", "arm", "baseline_arm")
_MIXED = -1  # in place of an action's index: a mixture, which is no arm


def export(ledger: Ledger, path: Path, features: Features | None = None) -> int:
    """Write the table; the number of rows.

    Args:
        ledger: to read.
        path: ends in .parquet, or in .vw for Vowpal Wabbit (`--cb`), which takes rewarded decisions of arms.
        features: that made the rows; arms have names and contexts.
    """
    if path.suffix not in (".parquet", ".vw"):
        raise InputError(f"path={str(path)!r} must end in .parquet, or in .vw for Vowpal Wabbit.")
    arms = features if isinstance(features, Arms) and features.learned else None
    if path.suffix == ".vw":
        return _write_vw(ledger, path, arms)
    need(LOGS)
    import polars as pl

    columns = _columns(ledger, arms)
    kinds: dict[str, Any] = dict.fromkeys(columns, pl.Float64)
    kinds |= {name: pl.Int64 for name in _WHOLE if name in columns}
    kinds |= {name: pl.String for name in _TEXT if name in columns}
    kinds |= {"certified": pl.Boolean, "retracted": pl.Boolean}
    kinds |= {"context": pl.List(pl.Float64)} if arms is not None else {}
    numbers = [name for name, kind in kinds.items() if kind == pl.Float64]
    frame = pl.DataFrame(columns, schema=kinds).with_columns(pl.col(numbers).fill_nan(None))
    try:
        frame.write_parquet(path)
    except OSError as cause:
        raise DataFileError(f"{path} cannot be written ({cause}).") from None
    return len(frame)


def _columns(ledger: Ledger, arms: Arms | None) -> dict[str, list[Any]]:
    labels, gone = ledger.tasks(), {r.id for r in ledger.retractions()}
    rewards = {r.id: (r.value, r.time) for r in ledger.rewards()}
    columns: dict[str, list[Any]] = {"task": [], **{name: [] for name in _FIELDS}}
    columns |= {"reward": [], "reward_time": [], "retracted": []}
    columns |= {} if arms is None else {"arm": [], "arm_index": [], "baseline_arm": [], "context": []}
    for record in ledger.decisions():
        columns["task"].append(labels[record.task])
        for name, field in _FIELDS.items():
            columns[name].append(getattr(record, field))
        value, when = rewards.get(record.id, (None, None))
        columns["reward"].append(value)
        columns["reward_time"].append(when)
        columns["retracted"].append(record.id in gone)
        for name, told in ({} if arms is None else _named(record, arms)).items():
            columns[name].append(told)
    return columns


def _named(record: DecisionRecord, arms: Arms) -> dict[str, Any]:
    """What was played and what would have been, by name; a mixture of arms has none."""
    rows = np.stack([record.played, record.baseline_vector])
    played, usual = arms.places(rows).tolist()
    mixed = record.action == _MIXED
    return {
        "arm": None if mixed else arms.names[played],
        "arm_index": None if mixed else played,
        "baseline_arm": arms.names[usual],
        "context": arms.contexts(rows)[1].tolist(),
    }


def _write_vw(ledger: Ledger, path: Path, arms: Arms | None) -> int:
    if arms is None:
        raise InputError("Vowpal Wabbit's format is for named arms; this bandit has none. Write a .parquet.")
    lines = list(_vw_lines(ledger, arms))
    try:
        path.write_text("".join(lines), encoding="utf-8")
    except OSError as cause:
        raise DataFileError(f"{path} cannot be written ({cause}).") from None
    return len(lines)


def _vw_lines(ledger: Ledger, arms: Arms) -> Iterator[str]:
    """`arm:cost:probability |task label |context name:value …`; arms count from 1, the cost is −reward."""
    labels, gone = ledger.tasks(), {r.id for r in ledger.retractions()}
    rewards = {r.id: r.value for r in ledger.rewards()}
    names = [_word(name) for name in arms.context.labels]
    for record in ledger.decisions():
        if record.id not in rewards or record.id in gone or record.action == _MIXED:
            continue
        told = _named(record, arms)
        pairs = zip(names, told["context"][1:], strict=False)
        shown = " ".join(f"{name}:{value!r}" for name, value in pairs if value)
        mark = f"{told['arm_index'] + 1}:{-rewards[record.id]!r}:{record.probability!r}"
        yield f"{mark} |task {_word(labels[record.task])} |context {shown}\n"


def _word(text: str) -> str:
    """A name that the format can hold: blanks, colons and bars have a meaning there."""
    return "".join("_" if c.isspace() or c in ":|" else c for c in text)
