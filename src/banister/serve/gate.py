"""Every request passes here: who asks, how often, how much; and how it is answered if something is wrong."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from banister.errors import ServiceError
from banister.serve.limits import read_body
from banister.serve.problems import response_of
from banister.serve.service import Service
from banister.serve.tokens import Role

Handler = Callable[[Service, Request, bytearray], Awaitable[Response]]

_HERE = {"localhost", "127.0.0.1", "[::1]"}
_SECURITY = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
_log = logging.getLogger("banister.serve")


class Gate:
    """A route's handler behind its checks."""

    def __init__(
        self, service: Service, name: str, role: Role | None, handler: Handler, kinds: tuple[str, ...]
    ) -> None:
        self._service, self._name, self._role, self._handler = service, name, role, handler
        self._kinds = kinds

    async def __call__(self, request: Request) -> Response:
        """Check, handle, count; any error becomes a problem document."""
        begin, caller = time.perf_counter(), "-"
        try:
            if self._role is not None:
                caller = admit(self._service, request, self._role)
                self._service.rate.check(caller)
            response = await self._handler(self._service, request, await self._body(request))
        except Exception as error:
            response = refused(self._service, request, caller, error)
        response.raw_headers.extend(_SECURITY)
        seconds = time.perf_counter() - begin
        self._service.metrics.requests.labels(self._name, str(response.status_code)).observe(seconds)
        return response

    async def _body(self, request: Request) -> bytearray:
        if request.method != "POST":
            return bytearray()
        kind = kind_of(request)
        if kind not in self._kinds:
            told = f"is {kind!r}" if kind else "is missing"
            raise ServiceError.of(415, f"content-type {told}; send {' or '.join(self._kinds)}.")
        settings = self._service.settings
        return await read_body(request, settings.max_body, settings.body_timeout)


def kind_of(request: Request) -> str:
    """The media type of a body."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def admit(service: Service, request: Request, role: Role) -> str:
    """Who asks, for logs and limits; an error if they may not."""
    if not service.tokens:
        _check_local(request)
        return request.client.host if request.client else "-"
    header = request.headers.get("authorization")
    token = service.tokens.bearer(header.encode("latin-1") if header is not None else None)
    if token is None:
        raise ServiceError.of(401, "Send `Authorization: Bearer <token>`.", {"www-authenticate": "Bearer"})
    if not token.may(role):
        raise ServiceError.of(
            403, f"Token {token.name!r} has the roles {', '.join(sorted(token.roles))}; this needs {role!r}."
        )
    return token.name


def _check_local(request: Request) -> None:
    """Without tokens, pages of other sites must not reach this service through its user's browser."""
    host = request.headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name.lower() not in _HERE:
        raise ServiceError.of(
            421, f"host is {host!r}; without tokens only {', '.join(sorted(_HERE))} may ask."
        )
    origin = request.headers.get("origin")
    if origin is not None and origin != f"{request.url.scheme}://{host}":
        raise ServiceError.of(
            403, f"origin is {origin!r}; without tokens only this service's own page may ask."
        )


def refused(service: Service, request: Request, caller: str, error: Exception) -> Response:
    """The answer to a request that failed; it is logged under the name that the answer carries."""
    name = secrets.token_hex(6)
    response = response_of(error, name)
    service.metrics.refused.labels(str(response.status_code)).inc()
    where = f"{request.client.host}:{request.client.port}" if request.client else "-"
    fault = response.status_code == 500
    _log.log(
        logging.ERROR if fault else logging.WARNING,
        "%s refused %d: %s %r by %s (%s): %s", name, response.status_code, request.method,
        request.url.path[:200], caller[:80], where, str(error)[:500], exc_info=error if fault else None,
    )  # fmt: skip
    return response
