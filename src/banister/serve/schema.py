"""What goes over the wire: requests as they must be, and answers as the library's own types make them.

Answers are built from the fields of `Decision`, `Status` and the rest, so that a field which the library
gains is in the answer and in the OpenAPI document without a line here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_json

from banister.data import Float
from banister.errors import ServiceError
from banister.online.decision import Decision
from banister.online.status import Status, TaskStatus
from banister.serve.packing import shaped

Body = TypeVar("Body", bound=BaseModel)
_WORDS = {"missing": "missing", "extra_forbidden": "no field of this request"}
_MOST_SAID = 3  # mistakes of one body that are spelled out
_LONGEST_KEY = 255
Key = Annotated[str, Field(min_length=1, max_length=_LONGEST_KEY)]
Size = Annotated[int, Field(ge=1)]
Raw = str | float | int | bool | None


class _Given(BaseModel):
    """A body: types are not guessed, and a field that is not known is a mistake."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class DecisionRequest(_Given):
    """What may be chosen, as features of every action or a raw context, and the baseline among it.

    See `SafeBandit.decide` for what each field means. In place of `actions` there may be their `shape`,
    [K, d]; then their numbers follow the line, see `packing`.
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
    actions: list[list[float]] | None = None
    shape: tuple[Size, Size] | None = None
    baseline: int | str
    context: dict[str, Raw] | None = None
    offered: list[str | dict[str, Raw]] | None = None
    baseline_reward: float | tuple[float, float] | None = None
    baseline_reward_std: float = 0.0
    key: Key | None = None

    def arguments(self, actions: Any) -> dict[str, Any]:
        """What `SafeBandit.decide` is called with; `actions` are its own, see `action_sets`."""
        own = {name: getattr(self, name) for name in _ARGUMENTS}
        return {**own, "actions": actions}


_ARGUMENTS = [name for name in DecisionRequest.model_fields if name not in ("actions", "shape")]


class DecisionBatch(_Given):
    """Many requests, decided in order, in one transaction: all or none.

    `actions` (or their `shape`) are for every request that has neither its own nor a context.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "actions": [[1.0, 0.2], [0.4, 0.9]],
                    "requests": [{"task": "store-17", "baseline": 1}, {"task": "store-18", "baseline": 0}],
                }
            ]
        }
    )
    requests: list[DecisionRequest]
    actions: list[list[float]] | None = None
    shape: tuple[Size, Size] | None = None


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


def action_sets(
    requests: Sequence[DecisionRequest], numbers: Float, common: DecisionBatch | None = None
) -> Any:
    """The actions of each request, None for those that have none; (m, K, d) if all are packed and alike.

    Numbers of `common` actions come before those of the requests.
    """
    own, numbers = (None, numbers) if common is None else _common(common, numbers)
    packed = shaped(numbers, [r.shape for r in requests if r.shape is not None])
    if len(packed) == len(requests) and all(r.actions is None for r in requests):
        return packed
    rest = iter(packed)
    sets = [_matrix(r.actions) if r.shape is None else _packed(r, next(rest)) for r in requests]
    return sets if own is None else [own if _bare(r) else a for r, a in zip(requests, sets, strict=True)]


def _bare(request: DecisionRequest) -> bool:
    return request.actions is None and request.shape is None and request.context is None


def _common(batch: DecisionBatch, numbers: Float) -> tuple[Any, Float]:
    """A batch's own actions, and the numbers after them."""
    if batch.shape is None:
        return _matrix(batch.actions), numbers
    size = batch.shape[0] * batch.shape[1]
    return _packed(batch, shaped(numbers[:size], [batch.shape])[0]), numbers[size:]


def _packed(given: DecisionRequest | DecisionBatch, own: Float) -> Float:
    if given.actions is not None:
        raise ServiceError.of(422, "A request has actions and a shape; give one of the two.")
    return own


def _matrix(rows: list[list[float]] | None) -> Any:
    """(K, d) float64; rows of several lengths are left to the library's own error."""
    if rows and all(len(row) == len(rows[0]) for row in rows):
        return np.array(rows, dtype=np.float64)
    return rows


def read(kind: type[Body], body: bytes | bytearray) -> Body:
    """A body, or an error that says what is wrong with it."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as reason:
        raise refusal(reason) from None


def refusal(reason: ValidationError) -> ServiceError:
    """Mistakes in words, with their places."""
    mistakes = reason.errors(include_url=False, include_input=False)
    said = "; ".join(f"{_place(m['loc'])}{_WORDS.get(m['type'], m['msg'])}" for m in mistakes[:_MOST_SAID])
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
    own = made._asdict()
    own["features"] = made.features.tolist()
    own["probabilities"] = None if made.probabilities is None else made.probabilities.tolist()
    return own


def line(made: Decision) -> dict[str, Any]:
    """A decision without its features, which follow the line where numbers are packed."""
    own = made._asdict()
    del own["features"]
    own["probabilities"] = None if made.probabilities is None else made.probabilities.tolist()
    return own


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
