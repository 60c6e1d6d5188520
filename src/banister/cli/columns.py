"""Options that name the columns of a raw log, for every command that reads one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from banister.errors import InputError

ARM = "Column that names what was played: the log is raw, its arms have names."
CONTEXT = "Raw columns of the context, with commas; numbers, categories, dates, gaps."
CATEGORICAL = "Those of them that are categories although they hold numbers."

_FEW = 3  # rows below which an arm may be a slip of the pen

Arm = Annotated[str | None, typer.Option(help=ARM)]
Context = Annotated[str | None, typer.Option(help=CONTEXT)]
Categorical = Annotated[str | None, typer.Option(help=CATEGORICAL)]


def split(names: str | None) -> list[str]:
    """Names with commas between them."""
    return [name.strip() for name in (names or "").split(",") if name.strip()]


def arms_of(logs: Path, arm: str | None, context: str | None, categorical: str | None, **options: Any) -> Any:
    """What makes features of a raw log; None for a log of ready-made ones."""
    if arm is None:
        if context is not None or categorical is not None:
            raise InputError("--context needs --arm, the column that names what was played.")
        return None
    from banister.features.arms import Arms
    from banister.features.frames import read_frame

    frame = read_frame(logs)
    made = Arms.of_log(frame, arm=arm, context=split(context), categorical=split(categorical), **options)
    for note in _rare(frame[arm], made.names):
        typer.echo(f"note: {note}", err=True)
    return made


def _rare(played: Any, names: list[str]) -> list[str]:
    """Arms that hardly a row has: every value of the column becomes an arm, a typing error too."""
    texts = played.cast(str)
    few = [name for name in names if (texts == name).sum() < _FEW]
    return [
        f"the arm {name!r} was played in {(texts == name).sum()} of {len(texts):,} rows, first at row "
        f"{(texts == name).arg_max()}; if it is a typing error, mend the log."
        for name in (few if len(texts) >= _FEW * len(names) else [])
    ]
