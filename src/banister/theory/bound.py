"""What a bound returns: its value, the constants behind it, and whether its hypotheses hold.

The paper leaves its constants `C` and `c` unstated. They are arguments here, never hidden: whatever was used
comes back with the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Bound:
    """One number (or array of numbers) that a result of the paper gives.

    Attributes:
        value: the bound; a numpy scalar for scalar arguments, otherwise an array.
        source: the paper's label, and "corrected" where we depart from the printed form.
        constants: the constants used where the paper states none, by name.
        conditions: the result's hypotheses and whether each holds, by name.
        probability: least probability with which the bound holds; 0 where the statement is empty, None where
            the result states none.

    Examples:
        >>> bound = Bound(0.25, "Lemma x", constants={"C": 1.0}, conditions={"delta <= 0.1": True})
        >>> bound.holds, float(bound)
        (True, 0.25)
        >>> print(bound)
        Lemma x: 0.25 (C=1; hypotheses hold)
    """

    value: Any
    source: str
    constants: Mapping[str, float] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    probability: Any = None

    @property
    def holds(self) -> bool:
        """Whether every hypothesis holds, everywhere."""
        return all(bool(np.all(ok)) for ok in self.conditions.values())

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        parts = [f"{name}={value:g}" for name, value in self.constants.items()]
        broken = [name for name, ok in self.conditions.items() if not np.all(ok)]
        said = [", ".join(parts)] if parts else []
        said += (
            ["does not hold: " + "; ".join(broken)] if broken else ["hypotheses hold"] * bool(self.conditions)
        )
        tail = f" ({'; '.join(said)})" if said else ""
        value = f"{float(self.value):.4g}" if np.ndim(self.value) == 0 else str(self.value)
        return f"{self.source}: {value}{tail}"

    def as_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return {
            "value": np.asarray(self.value).tolist(),
            "source": self.source,
            "constants": dict(self.constants),
            "conditions": {name: np.asarray(ok).tolist() for name, ok in self.conditions.items()},
            "probability": None if self.probability is None else np.asarray(self.probability).tolist(),
        }


@dataclass(frozen=True, eq=False)
class SampleSize:
    """How many rows a theorem asks for, in one epoch.

    Attributes:
        total: rows over all tasks.
        per_task: rows of each task; both conditions must hold.
        tasks: T, to turn one into the other.
        source: the paper's label.
        constants: the constants used where the paper states none.
    """

    total: Any
    per_task: Any
    tasks: Any
    source: str
    constants: Mapping[str, float]

    @property
    def rows_per_task(self) -> Any:
        """Whole rows each task needs for both conditions, with equal traffic."""
        return np.ceil(np.maximum(self.per_task, self.total / self.tasks))

    def as_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return {
            "total": np.asarray(self.total).tolist(),
            "per_task": np.asarray(self.per_task).tolist(),
            "rows_per_task": np.asarray(self.rows_per_task).tolist(),
            "source": self.source,
            "constants": dict(self.constants),
        }


def at_least_zero(probability: Any) -> Any:
    """A stated probability, 0 where the statement is empty."""
    return np.maximum(0.0, probability)
