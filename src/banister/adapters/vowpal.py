"""Vowpal Wabbit's logs: its text format for contextual bandits with features of actions (`--cb_adf`).

```
shared |store s17 |user age:0.41
| price:0.3 new
0:-1.5:0.8 | price:0.7

shared |store s18 |user age:0.22
...
```

An example ends with an empty line. The line `action:cost:probability` marks what was played; the reward is
minus the cost. A feature without a value counts 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from banister.errors import DataFileError

Sparse = dict[str, float]


class Example(NamedTuple):
    """One decision: whose, what was on offer, which of it was played, at which cost and probability."""

    task: str
    actions: list[Sparse]
    played: int
    cost: float
    probability: float


def read_vw(path: str | Path, *, task: str) -> dict[str, list[Any]]:
    """Columns that `SafeBandit.warm_start` and `dry_run` take.

    Features are named `namespace.feature` and become columns in alphabetical order; those of the shared line
    are part of every action's row.

    Args:
        path: of the log.
        task: the namespace of the shared line whose only feature is the task's label.

    Returns:
        `task`, `reward`, `features` (what was played), `actions` (all on offer), `propensity`, and `names`
        of the features, the same list in each row.

    Examples:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "log.vw"
        >>> _ = file.write_text("shared |store s17\\n| price:0.3\\n0:-1.5:0.8 | price:0.7\\n")
        >>> log = read_vw(file, task="store")
        >>> log["task"], log["reward"], log["features"], log["propensity"]
        (['s17'], [1.5], [[0.7]], [0.8])
    """
    examples = list(_examples(Path(path), task))
    names = sorted({name for example in examples for row in example.actions for name in row})
    actions = [[[row.get(name, 0.0) for name in names] for row in e.actions] for e in examples]
    return {
        "task": [e.task for e in examples],
        "reward": [-e.cost for e in examples],
        "features": [rows[e.played] for rows, e in zip(actions, examples, strict=True)],
        "actions": actions,
        "propensity": [e.probability for e in examples],
        "names": [names] * len(examples),
    }


def _examples(path: Path, task: str) -> Iterator[Example]:
    if not path.is_file():
        raise DataFileError(f"{path} does not exist.")
    block: list[tuple[int, str]] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        if line.strip():
            block.append((number, line))
        elif block:
            yield _example(block, task, path)
            block = []


def _example(block: list[tuple[int, str]], task: str, path: Path) -> Example:
    number, first = block[0]
    if not first.startswith("shared"):
        raise DataFileError(
            f"{path}, line {number}: an example begins with a `shared` line that names its task."
        )
    shared = _features(first, number, path)
    label = [name.removeprefix(f"{task}.") for name in shared if name.startswith(f"{task}.")]
    if len(label) != 1:
        raise DataFileError(
            f"{path}, line {number}: namespace {task!r} must hold one feature, the task's label; it holds "
            f"{len(label)}."
        )
    common = {name: value for name, value in shared.items() if not name.startswith(f"{task}.")}
    rows = [{**common, **_features(line, n, path)} for n, line in block[1:]]
    marks = [(i, mark) for i, (n, line) in enumerate(block[1:]) if (mark := _mark(line, n, path))]
    if len(marks) != 1:
        raise DataFileError(f"{path}, line {number}: {len(marks)} actions are marked as played; mark one.")
    played, (cost, probability) = marks[0]
    return Example(label[0], rows, played, cost, probability)


def _mark(line: str, number: int, path: Path) -> tuple[float, float] | None:
    """Cost and probability before the first bar, if the line was played."""
    parts = line.split("|", 1)[0].split()
    if not parts:
        return None
    fields = parts[0].split(":")
    if len(fields) != 3:
        raise DataFileError(f"{path}, line {number}: {parts[0]!r} is not action:cost:probability.")
    return _number(fields[1], number, path), _number(fields[2], number, path)


def _features(line: str, number: int, path: Path) -> Sparse:
    found: Sparse = {}
    for part in line.split("|")[1:]:
        words = part.split()
        space = words.pop(0).split(":")[0] + "." if words and not part.startswith(" ") else ""
        for word in words:
            name, _, value = word.partition(":")
            found[space + name] = _number(value, number, path) if value else 1.0
    return found


def _number(text: str, number: int, path: Path) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise DataFileError(f"{path}, line {number}: {text!r} is not a finite number.")
    return value
