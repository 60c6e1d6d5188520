"""What goes over the wire: requests as they must be, and answers as the library's own types make them.

Answers are built from the fields of `Decision`, `Status` and the rest, so that a field which the library
gains is in the answer and in the OpenAPI document without a line here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_json

from banister.data import Float
from banister.errors import ServiceError
from banister.online.decision import Decision
from banister.online.status import Status, TaskStatus
from banister.serve.packing import unpack

Body = TypeVar("Body", bound=BaseModel)
_MOST_SAID = 3  # mistakes of one body that are spelled out
_LONGEST_KEY = 255
Key = Annotated[str, Field(min_length=1, max_length=_LONGEST_KEY)]
Raw = str | float | int | bool | None


class _Given(BaseModel):
    """A body: types are not guessed, and a field that is not known is a mistake."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Packed(_Given):
    """A matrix as base64 of little-endian float64: a fifth of the time to read, and exact to the bit."""

    model_config = ConfigDict(val_json_bytes="base64")  # decoded while the JSON is read
    shape: tuple[int, int]
    float64: bytes

    def array(self) -> Float:
        """(K, d)."""
        return unpack(self.shape, self.float64)


class DecisionRequest(_Given):
    """What may be chosen, as features of every action or a raw context, and the baseline among it.

    See `SafeBandit.decide` for what each field means.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "task": "store-17",
                    "actions": [[1.0, 0.2], [0.4, 0.9]],
                    "baseline": 1,
                    "baseline_reward": 0.42,
                },
                {"task": "store-17", "context": {"age": 41, "device": "ios"}, "baseline": "bundle"},
            ]
        }
    )
    task: str
    actions: list[list[float]] | Packed | None = None
    baseline: int | str
    context: dict[str, Raw] | None = None
    offered: list[str | dict[str, Raw]] | None = None
    baseline_reward: float | tuple[float, float] | None = None
    baseline_reward_std: float = 0.0
    key: Key | None = None

    def arguments(self) -> dict[str, Any]:
        """What `SafeBandit.decide` is called with."""
        values = {name: getattr(self, name) for name in DecisionRequest.model_fields}
        if self.actions is not None:
            values["actions"] = matrix(self.actions)
        return values


class DecisionBatch(_Given):
    """Many requests, decided in order; without contexts in one transaction, all or none."""

    requests: list[DecisionRequest]


class RewardRequest(_Given):
    """The reward of a decision."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"id": 1, "reward": 0.61}]})
    id: int
    reward: float
    key: Key | None = None


class RewardBatch(_Given):
    """Many rewards, in one transaction, all or none."""

    rewards: list[RewardRequest]


class RetractionRequest(_Given):
    """A reward that was wrong, and why."""

    id: int
    why: str


class RefitRequest(_Given):
    """Whether to wait for the fit."""

    wait: bool = True


class AuditRequest(_Given):
    """A receipt that was kept elsewhere, if there is one."""

    receipt: dict[str, Any] | None = None


class TasksQuery(BaseModel):
    """Which tasks to show, and in what order."""

    model_config = ConfigDict(extra="forbid")
    search: str = ""
    gate: str = ""
    sort: str = "task"
    order: Literal["up", "down"] = "up"
    offset: int = Field(0, ge=0)
    limit: int = Field(100, ge=1, le=1000)


class Outcome(BaseModel):
    """What became of a reward: "accepted", or why it was ignored."""

    id: int
    outcome: str


class Outcomes(BaseModel):
    """What became of rewards, in order."""

    outcomes: list[str]


class Version(BaseModel):
    """The model that serves."""

    model_version: int


def matrix(rows: list[list[float]] | Packed) -> Any:
    """(K, d) float64; rows of several lengths are left to the library's own error."""
    if isinstance(rows, Packed):
        return rows.array()
    if rows and all(len(row) == len(rows[0]) for row in rows):
        return np.array(rows, dtype=np.float64)
    return rows


def matrices(sets: list[Any]) -> Any:
    """(m, K, d) where all sets are packed and of one shape, and so are checked at once; else one by one."""
    if not sets or not all(isinstance(s, Packed) and s.shape == sets[0].shape for s in sets):
        return [matrix(s) for s in sets]
    rows, columns = sets[0].shape
    whole = unpack((len(sets) * rows, columns), b"".join(s.float64 for s in sets))
    return whole.reshape(len(sets), rows, columns)


def read(kind: type[Body], body: bytes) -> Body:
    """A body, or an error that says what is wrong with it."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as reason:
        raise refusal(reason) from None


def refusal(reason: ValidationError) -> ServiceError:
    """Mistakes in words, with their places."""
    mistakes = reason.errors(include_url=False, include_input=False)
    said = "; ".join(f"{_place(m['loc'])}{m['msg']}" for m in mistakes[:_MOST_SAID])
    more = f"; and {len(mistakes) - _MOST_SAID} more" if len(mistakes) > _MOST_SAID else ""
    unreadable = mistakes[0]["type"] == "json_invalid"
    return ServiceError.of(400 if unreadable else 422, f"{said}{more}.")


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(map(str, loc)) + ": " if loc else ""


def to_bytes(value: Any) -> bytes:
    """JSON; numbers that JSON has no word for become null."""
    return to_json(value, inf_nan_mode="null")


def decision(made: Decision) -> dict[str, Any]:
    """A decision as JSON can hold it."""
    return made.to_dict()


def totals(status: Status) -> dict[str, Any]:
    """A status without its tasks."""
    own = {f.name: getattr(status, f.name) for f in fields(status) if f.name != "tasks"}
    return {**own, "left": status.left, "n_tasks": len(status.tasks)}


def _of_type(name: str, hints: dict[str, Any], doc: str | None) -> type[BaseModel]:
    """A model with these fields: arrays are lists, and any number may be null."""
    made: dict[str, Any] = {}
    for field, kind in hints.items():
        kind = {Float: list[float], Float | None: list[float] | None}.get(kind, kind)
        made[field] = ((kind | None) if kind is float else kind, ...)
    return create_model(name, __doc__=(doc or "").split("\n")[0], **made)


DecisionAnswer = _of_type("Decision", get_type_hints(Decision), Decision.__doc__)
TaskAnswer = _of_type("TaskStatus", get_type_hints(TaskStatus), TaskStatus.__doc__)
_TOTALS = {f.name: get_type_hints(Status)[f.name] for f in fields(Status) if f.name != "tasks"}
TotalsAnswer = _of_type("Status", {**_TOTALS, "left": float, "n_tasks": int}, Status.__doc__)


class Decisions(BaseModel):
    """Decisions, in the order of their requests."""

    decisions: list[DecisionAnswer]  # type: ignore[valid-type]


class Tasks(BaseModel):
    """A page of tasks; `total` is how many there are in all."""

    total: int
    tasks: list[TaskAnswer]  # type: ignore[valid-type]
