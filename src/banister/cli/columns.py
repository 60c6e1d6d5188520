"""Options that name the columns of a raw log, for every command that reads one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from banister.errors import InputError

ARM = "Column that names what was played: the log is raw, its arms have names."
CONTEXT = "Raw columns of the context, with commas; numbers, categories, dates, gaps."
CATEGORICAL = "Those of them that are categories although they hold numbers."

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

    columns = {"context": split(context), "categorical": split(categorical)}
    return Arms.of_log(logs, arm=arm, **columns, **options)
