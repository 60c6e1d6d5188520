"""Errors as problem documents (RFC 9457), which carry the library's own message."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from banister.errors import (
    BanisterError,
    DataFileError,
    InputError,
    ModelFileError,
    ServiceError,
    StoreError,
    UnknownDecisionError,
    UnknownTaskError,
)

# The first that fits; a library error that is none of these is the server's own fault.
_STATUS: tuple[tuple[type[BanisterError], int], ...] = (
    (InputError, 422),
    (UnknownTaskError, 404),
    (UnknownDecisionError, 404),
    (StoreError, 503),
    (DataFileError, 503),
    (ModelFileError, 503),
)
_TITLES = {
    400: "The request cannot be read", 401: "A token is needed", 403: "This token may not do that",
    404: "Not found", 405: "Another method is needed", 408: "The request came too slowly",
    411: "A length is needed", 413: "The request is too large", 415: "Another kind of body is needed",
    421: "This name is not served here", 422: "The request cannot be used", 429: "Too many requests",
    500: "A fault of the server", 503: "The store cannot be used",
}  # fmt: skip


class Problem(BaseModel):
    """A problem document.

    Attributes:
        type: names the kind of problem, for programs.
        title: says it for people; status: of the response.
        detail: what was wrong, where, and what to do.
        request: found in the server's log too.
    """

    type: str
    title: str
    status: int
    detail: str
    request: str


def status_of(error: Exception) -> int:
    """The status that an error is answered with.

    Examples:
        >>> from banister.errors import ServiceError, ShapeError
        >>> status_of(ShapeError("…")), status_of(ServiceError.of(413, "…")), status_of(ZeroDivisionError())
        (422, 413, 500)
    """
    if isinstance(error, ServiceError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def response_of(error: Exception, request: str) -> Response:
    """The problem document of an error; one that nobody foresaw tells nothing of the inside."""
    status = status_of(error)
    known = isinstance(error, BanisterError)
    detail = str(error) if known else f"This is a fault of the server; its log has more under {request}."
    headers = dict(error.headers) if isinstance(error, ServiceError) else {}
    if status == 503:
        headers.setdefault("retry-after", "1")
    return document(status, _type(error, status), detail, request, headers)


def document(
    status: int, kind: str, detail: str, request: str, headers: dict[str, str] | None = None
) -> Response:
    """A problem document as a response."""
    title = _TITLES.get(status, "The request was refused")
    body: dict[str, Any] = {
        "type": kind,
        "title": title,
        "status": status,
        "detail": detail,
        "request": request,
    }
    return Response(
        json.dumps(body, ensure_ascii=True), status, headers, media_type="application/problem+json"
    )


def _type(error: Exception, status: int) -> str:
    """`urn:banister:shape` for a ShapeError; the status where the service itself refuses."""
    if isinstance(error, BanisterError) and not isinstance(error, ServiceError):
        words = re.sub(r"(?<!^)(?=[A-Z])", "-", type(error).__name__.removesuffix("Error")).lower()
        return f"urn:banister:{words}"
    return f"urn:banister:status-{status}"
