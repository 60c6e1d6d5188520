"""The routes of version 1: what each takes, gives, needs and does."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from banister.data import Float
from banister.errors import BanisterError, ServiceError, UnknownDecisionError
from banister.online.decision import Decision
from banister.serve import schema
from banister.serve.events import recent
from banister.serve.explain import explained, past
from banister.serve.gate import Handler, kind_of
from banister.serve.metrics import CONTENT_TYPE
from banister.serve.packing import PACKED, pack, unpack
from banister.serve.service import Service
from banister.serve.tokens import Role

JSON = "application/json"
_LONGEST_ID = 19  # digits of the largest id that a store can hold


@dataclass(frozen=True)
class Route:
    """A route.

    Attributes:
        method, path: where; role: who may; None: everyone.
        handler: what it does; its docstring's first line is the summary.
        takes, gives: models of body and answer; asks: of the query; kind: the answer's media type.
        packed: whether numbers may follow the body's JSON, and then also the answer's.
    """

    method: Literal["GET", "POST"]
    path: str
    role: Role | None
    handler: Handler
    takes: type[BaseModel] | None = None
    gives: Any = None
    asks: type[BaseModel] | None = None
    kind: str = JSON
    packed: bool = False

    @property
    def kinds(self) -> tuple[str, ...]:
        """Media types that it takes."""
        return (JSON, PACKED) if self.packed else (JSON,)


def answer(value: Any, status: int = 200) -> Response:
    """JSON."""
    return Response(schema.to_bytes(value), status, media_type=JSON)


def _keyed(request: Request, given: Any) -> Any:
    """The body with the key of its `Idempotency-Key` header; both must agree if both are there."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return given
    if given.key not in (None, key):
        raise ServiceError.of(
            422, f"The header says key {key[:80]!r}, the body {given.key[:80]!r}; give one."
        )
    try:
        return type(given).model_validate({**dict(given), "key": key})
    except ValidationError as reason:
        raise schema.refusal(reason) from None


async def decide(service: Service, request: Request, body: bytearray) -> Response:
    """Decide one request."""
    line, numbers = _opened(request, body)
    given = _keyed(request, schema.read(schema.DecisionRequest, line))
    made = await service.desk.decide(given, numbers)
    if kind_of(request) == PACKED:
        return _packed(schema.line(made), [made])
    return answer(schema.decision(made))


async def decide_many(service: Service, request: Request, body: bytearray) -> Response:
    """Decide many requests, in order."""
    line, numbers = _opened(request, body)
    given = schema.read(schema.DecisionBatch, line)
    _check_size(service, len(given.requests))
    made = await service.desk.decide_many(given, numbers)
    if kind_of(request) == PACKED:
        return _packed({"decisions": [schema.line(d) for d in made]}, made)
    return answer({"decisions": [schema.decision(d) for d in made]})


def _opened(request: Request, body: bytearray) -> tuple[bytes | bytearray, Float]:
    """A body's JSON, and the numbers that follow it."""
    return unpack(body) if kind_of(request) == PACKED else (body, np.zeros(0))


def _packed(value: Any, made: list[Decision]) -> Response:
    """JSON, followed by the features of decisions."""
    rows = [np.concatenate([d.features for d in made])] if made else []
    return Response(pack(schema.to_bytes(value), rows), media_type=PACKED)


async def reward(service: Service, request: Request, body: bytearray) -> Response:
    """Take in the reward of a decision."""
    given = _keyed(request, schema.read(schema.RewardRequest, body))
    return answer({"id": given.id, "outcome": await service.desk.reward(given)})


async def reward_many(service: Service, _: Request, body: bytearray) -> Response:
    """Take in many rewards."""
    given = schema.read(schema.RewardBatch, body).rewards
    _check_size(service, len(given))
    return answer({"outcomes": await service.desk.reward_many(given)})


def _check_size(service: Service, size: int) -> None:
    most = service.settings.max_batch
    if size > most:
        raise ServiceError.of(413, f"A batch may have {most} entries and has {size}; send it in parts.")


async def retract(service: Service, _: Request, body: bytearray) -> Response:
    """Take a wrong reward back."""
    given = schema.read(schema.RetractionRequest, body)
    outcome = await service.desk.short(lambda: service.bandit.retract(given.id, given.why))
    return answer({"id": given.id, "outcome": outcome})


async def refit(service: Service, _: Request, body: bytearray) -> Response:
    """Fit everything seen so far; decisions go on meanwhile."""
    given = schema.read(schema.RefitRequest, body or bytearray(b"{}"))
    return answer({"model_version": await service.desk.heavy(lambda: service.bandit.refit(wait=given.wait))})


async def audit(service: Service, _: Request, body: bytearray) -> Response:
    """Is the ledger what was written, and does each decision follow from its model?"""
    given = schema.read(schema.AuditRequest, body or bytearray(b"{}"))
    found = await service.desk.heavy(lambda: service.bandit.audit(given.receipt))
    return answer({**asdict(found), "passed": found.passed})


async def receipt(service: Service, _: Request, __: bytearray) -> Response:
    """What the ledger holds now, with one hash of everything; keep it elsewhere for an audit."""
    return answer((await service.desk.short(service.bandit.receipt)).to_dict())


async def status(service: Service, _: Request, __: bytearray) -> Response:
    """Totals, the fleet's gain, and gates by reason."""
    return answer(await service.board.summary())


async def tasks(service: Service, request: Request, _: bytearray) -> Response:
    """Where tasks stand, searched, sorted, a page at a time."""
    try:
        query = schema.TasksQuery.model_validate(dict(request.query_params))
    except ValidationError as reason:
        raise schema.refusal(reason) from None
    return answer(await service.board.tasks(query))


async def task(service: Service, request: Request, _: bytearray) -> Response:
    """One task: where it stands, its last decisions, and what happened to it."""
    label = request.path_params["task"]
    before = await service.desk.long(lambda: past(service.bandit, label))
    known = {t.task: t for t in (await service.board.status()).tasks}
    return answer({**before, "status": known.get(label)})


async def why(service: Service, request: Request, _: bytearray) -> Response:
    """Why this decision: from its features to its bound."""
    number = request.path_params["id"]
    if not (number.isascii() and number.isdecimal() and len(number) <= _LONGEST_ID):
        raise UnknownDecisionError(f"No decision has id {number[:80]!r}; ids are whole numbers from 1.")
    return answer(await service.desk.long(lambda: explained(service.bandit, int(number))))


async def happenings(service: Service, _: Request, __: bytearray) -> Response:
    """The last refits and alarms, newest first."""
    return answer({"events": await service.desk.long(lambda: _recent(service))})


def _recent(service: Service) -> list[dict[str, Any]]:
    with service.bandit._view() as (ledger, _):
        return recent(ledger)


async def trail(service: Service, _: Request, __: bytearray) -> Response:
    """The fleet's gain and the share that left the baseline over time, since this process began."""
    await service.board.status()
    return answer({"points": service.board.trail})


async def stream(service: Service, _: Request, __: bytearray) -> Response:
    """Refits, alarms and totals as they happen (server-sent events)."""
    return StreamingResponse(service.hub.listen(), media_type="text/event-stream")


async def metrics(service: Service, _: Request, __: bytearray) -> Response:
    """Everything that is counted, for Prometheus."""
    await service.board.status()
    return Response(service.metrics.text(), media_type=CONTENT_TYPE)


async def healthy(_: Service, __: Request, ___: bytearray) -> Response:
    """The process answers."""
    return answer({"status": "alive"})


async def ready(service: Service, _: Request, __: bytearray) -> Response:
    """The store can be used, and the service is not about to stop."""
    if service.stopping:
        raise ServiceError.of(503, "The service is stopping.")
    try:
        await service.desk.short(service.bandit.receipt)
    except BanisterError as reason:
        raise ServiceError.of(503, str(reason)) from None
    return answer({"status": "ready"})


ROUTES = (
    Route(
        "POST", "/v1/decisions", "decide", decide, schema.DecisionRequest, schema.DecisionAnswer, packed=True
    ),
    Route(
        "POST",
        "/v1/decisions:batch",
        "decide",
        decide_many,
        schema.DecisionBatch,
        schema.Decisions,
        packed=True,
    ),
    Route("GET", "/v1/decisions/{id}", "read", why),
    Route("POST", "/v1/rewards", "reward", reward, schema.RewardRequest, schema.Outcome),
    Route("POST", "/v1/rewards:batch", "reward", reward_many, schema.RewardBatch, schema.Outcomes),
    Route("POST", "/v1/retractions", "admin", retract, schema.RetractionRequest, schema.Outcome),
    Route("POST", "/v1/refits", "admin", refit, schema.RefitRequest, schema.Version),
    Route("POST", "/v1/audits", "admin", audit, schema.AuditRequest),
    Route("GET", "/v1/receipt", "read", receipt),
    Route("GET", "/v1/status", "read", status, gives=schema.TotalsAnswer),
    Route("GET", "/v1/tasks", "read", tasks, gives=schema.Tasks, asks=schema.TasksQuery),
    Route("GET", "/v1/tasks/{task:path}", "read", task),
    Route("GET", "/v1/happenings", "read", happenings),
    Route("GET", "/v1/trail", "read", trail),
    Route("GET", "/v1/events", "read", stream, kind="text/event-stream"),
    Route("GET", "/metrics", "read", metrics, kind="text/plain"),
    Route("GET", "/healthz", None, healthy),
    Route("GET", "/readyz", None, ready),
)
